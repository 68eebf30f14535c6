"""Incidents: episodes that were told of, kept with what explains them, shown as pages, files and figures."""
