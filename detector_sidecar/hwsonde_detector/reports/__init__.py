"""Root-cause reports as files: what is read for them, how they look, where they are written."""
