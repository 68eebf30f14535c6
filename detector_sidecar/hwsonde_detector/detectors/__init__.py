"""One file a detector, under one contract (`base`). No input or output."""
