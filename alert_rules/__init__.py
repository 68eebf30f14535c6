"""Prometheus rules and the Alertmanager configuration, as one source for both timing profiles."""
