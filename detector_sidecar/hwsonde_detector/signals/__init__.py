"""From series to numbers: entities, channels, windows, pruning. No input or output."""
