"""hwsonde-detector: reads ranges back from Prometheus, scores windows, explains them, writes scores."""

__version__ = "0.1.0"
