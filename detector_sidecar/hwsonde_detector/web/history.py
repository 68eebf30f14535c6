"""Scores of the recent past of each host, in rings of bounded size, thinned for a chart."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from hwsonde_detector.types import Entity, Floats, Outputs, Score, Subsystem, Times

SUBSYSTEMS = tuple(Subsystem)
MOST_POINTS = 600
Small: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Track:
    """Scores over time.

    ``times`` int64 (n), ascending, ms; ``fused`` (n); ``parts`` (n, 9) by subsystem in the order of `SUBSYSTEMS`.
    """

    times: Times
    fused: Floats
    parts: Floats


class Ring:
    """The newest windows of one host.

    Parameters
    ----------
    size
        How many; about 50 bytes each.
    """

    def __init__(self, size: int) -> None:
        self._times: Times = np.zeros(size, np.int64)
        self._fused: Small = np.zeros(size, np.float32)
        self._parts: Small = np.zeros((size, len(SUBSYSTEMS)), np.float32)
        self._count = 0

    def add(self, score: Score) -> None:
        """Append one window; one that is not later than the last is seen already."""
        if self._count and score.end_ms <= self._times[(self._count - 1) % len(self._times)]:
            return
        at = self._count % len(self._times)
        self._times[at] = score.end_ms
        self._fused[at] = score.fused
        self._parts[at] = [score.subsystems.get(subsystem, 0.0) for subsystem in SUBSYSTEMS]
        self._count += 1

    def track(self) -> Track:
        """A copy in order of time."""
        size = len(self._times)
        order = np.arange(max(0, self._count - size), self._count) % size
        return Track(self._times[order], self._fused[order].astype(np.float64), self._parts[order].astype(np.float64))


@dataclass(slots=True)
class History:
    """Rings of all hosts; written by the loop, read by any thread.

    ``size`` is the number of windows kept of each host: an hour at a scrape a second.
    """

    size: int = 3600
    _rings: dict[Entity, Ring] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, outputs: Outputs) -> None:
        """Append what one step said."""
        with self._lock:
            for entity in outputs.gone:
                self._rings.pop(entity, None)
            for report in outputs.reports:
                if report.scores:
                    ring = self._rings.setdefault(report.entity, Ring(self.size))
                    for score in report.scores:
                        ring.add(score)

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._rings.clear()

    def track(self, entity: Entity) -> Track:
        """Everything kept of a host; empty if nothing is."""
        with self._lock:
            ring = self._rings.get(entity)
            return ring.track() if ring is not None else Ring(1).track()


def within(track: Track, start_ms: int, end_ms: int) -> Track:
    """The windows that end in a stretch of time, both ends among it."""
    part = slice(*track.times.searchsorted([start_ms, end_ms + 1]).tolist())
    return Track(track.times[part], track.fused[part], track.parts[part])


def thin(track: Track, points: int = MOST_POINTS) -> Track:
    """At most ``points`` windows: of each run of neighbours the one with the largest score, so that no peak is lost."""
    count = len(track.times)
    if count <= points:
        return track
    # Runs end at fixed places counted from the newest window, and differ in length by at most one.
    edges = np.linspace(0, count, points + 1).astype(np.int64)
    finite = np.nan_to_num(track.fused, nan=-1.0)
    keep = np.array([start + int(np.argmax(finite[start:end])) for start, end in pairwise(edges.tolist())])
    return Track(track.times[keep], track.fused[keep], track.parts[keep])
