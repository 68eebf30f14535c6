"""All members by name: which detector, and which stream of the rows it sees; made from the settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hwsonde_detector.detectors.base import Detector
from hwsonde_detector.detectors.bounds import Bounds, Lone
from hwsonde_detector.detectors.extremes import Extremes
from hwsonde_detector.detectors.isolation_forest import IsolationForest
from hwsonde_detector.detectors.mahalanobis import Mahalanobis
from hwsonde_detector.detectors.mixture import Mixture
from hwsonde_detector.detectors.ridge import Ridge
from hwsonde_detector.detectors.zscore import ZScore
from hwsonde_detector.errors import ConfigError
from hwsonde_detector.settings import DetectorSettings
from hwsonde_detector.signals.streams import Stream


@dataclass(frozen=True, slots=True)
class Member:
    """A detector on a stream; ``make`` takes the settings, the number of columns of a channel, and what is known of channels told of alone."""

    stream: Stream
    make: Callable[[DetectorSettings, int, Lone | None], Detector]


# Smallest usual distance of a change and of a deviation within a window, in spreads of the channel: less is noise of the sensor.
_CHANGE_FLOOR = 0.5
_UNREST_FLOOR = 0.1
# What was seen in so many stretches of the learned time is usual. What happened once or twice is not: a fault that was learned would hide the next.
_SEEN = 3

MEMBERS: dict[str, Member] = {
    "zscore": Member(Stream.WINDOW, lambda settings, _, __: ZScore(knee=settings.knee)),
    "mahalanobis": Member(
        Stream.WINDOW,
        lambda settings, _, __: Mahalanobis(
            variance_kept=settings.variance_kept, knee=settings.knee, residual=settings.residual
        ),
    ),
    "isolation_forest": Member(
        Stream.WINDOW,
        lambda settings, _, __: IsolationForest(trees=settings.trees, tree_rows=settings.tree_rows, seed=settings.seed),
    ),
    "extremes": Member(Stream.WINDOW, lambda _, group, __: Extremes(group=group)),
    "bounds": Member(Stream.ROWS, lambda _, group, lone: Bounds(group=group, seen=_SEEN, lone=lone)),
    "level": Member(Stream.LEVEL, lambda _, group, __: Extremes(group=group)),
    "change": Member(Stream.CHANGE, lambda _, group, __: Extremes(group=group, floor=_CHANGE_FLOOR)),
    "unrest": Member(Stream.UNREST, lambda settings, _, __: ZScore(floor=_UNREST_FLOOR, knee=settings.knee)),
    "course": Member(Stream.COURSE, lambda _, group, __: Ridge(group=group)),
    "jumps": Member(Stream.JUMPS, lambda _, group, __: Ridge(group=group)),
    "mixture": Member(Stream.LEVEL, lambda settings, _, __: Mixture(seed=settings.seed)),
}


def member(name: str) -> Member:
    """Give the member of this name.

    Raises
    ------
    ConfigError
        If there is none.
    """
    found = MEMBERS.get(name)
    if found is None:
        raise ConfigError(f"detectors: {name!r} is not known; allowed: {', '.join(MEMBERS)}")
    return found


def make(name: str, settings: DetectorSettings, group: int = 1, lone: Lone | None = None) -> Detector:
    """An unfitted detector for rows in which each channel has ``group`` neighbouring columns; ``lone`` is for what needs nobody to agree.

    Raises
    ------
    ConfigError
        If no member has the name.
    """
    return member(name).make(settings, group, lone)
