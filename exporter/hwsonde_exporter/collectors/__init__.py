"""One module a source of metrics; each registers itself."""
