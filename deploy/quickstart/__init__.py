"""The first minute: starts exporter, Prometheus, detector and Alertmanager on loopback, and shows that they work.

Not part of the installed distribution: `run` starts it as ``python -m quickstart``.
"""
