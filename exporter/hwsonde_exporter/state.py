"""What is known of a collector: the plain record that the exporter's own metrics and the landing page are made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class State:
    """A collector's state at one moment.

    Attributes
    ----------
    name, help, period
        As the collector declares them.
    available
        Whether it can work here, as the latest probe found.
    reason, detail
        Why not: one of `hwsonde_exporter.errors.Reason` and a sentence; both empty while it can.
    success
        Whether the latest run succeeded; None before the first run and while the collector is not available.
    problem
        What went wrong in the latest run; empty after a success.
    last_success
        Unix time in seconds of the latest success: when the values that are published were read. None before the first.
    duration
        Seconds that the latest finished run took; None before the first.
    hanging
        Seconds for which a run has been overdue; None while none is.
    series
        Number of series that the latest success gave.
    errors
        Runs that failed, by reason.
    dropped
        Samples that were not published, by reason.
    rejected
        Readings of devices that were left out because they cannot be true.
    """

    name: str
    help: str
    period: float | None
    available: bool
    reason: str = ""
    detail: str = ""
    success: bool | None = None
    problem: str = ""
    last_success: float | None = None
    duration: float | None = None
    hanging: float | None = None
    series: int = 0
    errors: Mapping[str, int] = field(default_factory=dict)
    dropped: Mapping[str, int] = field(default_factory=dict)
    rejected: int = 0
