"""The board of one host: how anomalous it is, where, and what the raw numbers of that part say."""

from __future__ import annotations

from grafana.boards import anomaly, hardware, health, moments
from grafana.boards.frame import NODE, Board

BOARD = Board(
    name="host",
    text="One host as hwsonde sees it: score, parts, channels, and the raw numbers below.",
    choices=(NODE,),
    rows=(
        ("Anomaly", anomaly.panels()),
        ("CPU", hardware.cpu()),
        ("Memory", hardware.memory()),
        ("Network", hardware.network()),
        ("Storage", hardware.storage()),
        ("Pressure: time that tasks lost by waiting for a resource", hardware.pressure()),
        ("Between the scrapes: ten observations a second, as mean, deviation and extremes", moments.panels()),
        ("What the detector has to judge by", health.detector()),
        ("The exporter itself", health.exporter()),
    ),
)
