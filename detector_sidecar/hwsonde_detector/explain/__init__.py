"""From decisions to sentences: attribution, titles. No input or output."""
