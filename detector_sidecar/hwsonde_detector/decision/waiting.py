"""Whose turn to make models comes first. Pure."""

from __future__ import annotations

from hwsonde_detector.decision.presence import misfits
from hwsonde_detector.decision.regime import Host
from hwsonde_detector.decision.regimes import due
from hwsonde_detector.settings import Settings


def waiting(host: Host, settings: Settings) -> tuple[bool, int]:
    """Sort key of a host before a step: who waits more urgently comes first.

    First come those of whom something wrong may be said, or nothing can be, until their model is another one: a regime has begun or returned,
    most of the channels are gone, or nobody judges an open episode. Then those whose fit has been due for the longest time.
    """
    interval_ms = host.interval_ms or 0
    urgent = due(host, settings) or misfits(host, interval_ms, settings)
    urgent |= host.model is None and host.episode is not None
    return not urgent, -host.progress.overdue(settings.learning) * interval_ms
