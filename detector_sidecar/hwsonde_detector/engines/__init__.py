"""Who runs workers."""
