"""hwsonde-exporter: publishes what this host's hardware does, for Prometheus to scrape."""

__version__ = "0.1.0"
