"""What is kept of a stretch of the past while it is scored: four numbers of a window, and what episodes were seen on. Pure.

A month has millions of windows a host, and what a window says of its channels is a hundred times as large as its score. Nobody reads that but of
windows of an episode, and of these only the sums. So the sums are made as windows come, and the windows themselves become arrays.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from hwsonde_detector.explain.findings import Gathered, loud
from hwsonde_detector.explain.vanished import SeenFault, seen_in
from hwsonde_detector.explain.windows import Windows
from hwsonde_detector.types import DataQuality, Entity, Episode, FaultKind, Score

_Kind = TypeVar("_Kind", bound=np.generic)

WINDOW_BYTES = 25
"""What a window costs that is kept."""

PEAK_MS = 60_000
"""Of a host that is only compared with, the loudest window of each such stretch is kept."""

# Windows that may turn out to belong to an episode that is told of only later.
_WAITING = 600
# A fault that was away for less is the same one.
_SAME_MS = 600_000


class Track:
    """Windows of one host, as arrays that grow.

    Parameters
    ----------
    entity
        The host.
    grain_ms
        0: all are kept. Otherwise the loudest judged one of each stretch of so many milliseconds.
    """

    def __init__(self, entity: Entity, grain_ms: int = 0) -> None:
        self._entity = entity
        self._grain_ms = grain_ms
        self._ends, self._fused, self._calibrated, self._coverage = array("q"), array("d"), array("b"), array("d")

    def take(self, scores: Iterable[Score]) -> None:
        """Add windows, ascending."""
        for score in scores:
            if self._grain_ms and self._is_passed_over(score):
                continue
            self._ends.append(score.end_ms)
            self._fused.append(score.fused)
            self._calibrated.append(score.calibrated)
            self._coverage.append(score.coverage)

    def windows(self) -> Windows:
        """All that was kept."""
        return Windows(
            self._entity,
            _as_array(self._ends, np.int64),
            _as_array(self._fused, np.float64),
            _as_array(self._calibrated, np.bool_),
            _as_array(self._coverage, np.float64),
            self._grain_ms,
        )

    def _is_passed_over(self, score: Score) -> bool:
        """Whether a window is no peak; a peak takes the place of the one before it in the same stretch."""
        if not score.calibrated or not isfinite(score.fused):
            return True
        if not self._ends or self._ends[-1] // self._grain_ms != score.end_ms // self._grain_ms:
            return False
        if score.fused <= self._fused[-1]:
            return True
        for one in (self._ends, self._fused, self._calibrated, self._coverage):
            one.pop()
        return False


def _as_array(values: array[int] | array[float], kind: type[_Kind]) -> NDArray[_Kind]:
    # An empty buffer is refused.
    return np.frombuffer(values, kind) if len(values) else np.zeros(0, kind)


@dataclass(slots=True)
class Evidence:
    """What the episodes of one host were seen on; ``found`` by identity."""

    found: dict[str, Gathered] = field(default_factory=dict)
    _waiting: deque[Score] = field(default_factory=lambda: deque(maxlen=_WAITING))

    def take(self, scores: Iterable[Score], episodes: Iterable[Episode]) -> None:
        """Add what one step said.

        Parameters
        ----------
        scores
            New windows, ascending.
        episodes
            Those that the step told of, or that are open.
        """
        self._waiting.extend(_slim(score) for score in scores if loud(score))
        for episode in episodes:
            gathered = self.found.get(episode.identity)
            since_ms = gathered.newest_ms + 1 if gathered is not None else episode.onset_ms
            for score in self._later(max(since_ms, episode.onset_ms)):
                if episode.end_ms is not None and score.end_ms > episode.end_ms:
                    break
                if gathered is None:
                    gathered = self.found[episode.identity] = Gathered()
                gathered.take(score)

    def _later(self, since_ms: int) -> Sequence[Score]:
        """Waiting windows from then on, ascending."""
        found: list[Score] = []
        for score in reversed(self._waiting):
            if score.end_ms < since_ms:
                break
            found.append(score)
        return found[::-1]


def _slim(score: Score) -> Score:
    return replace(score, members={}, subsystems={}, devices=())


@dataclass(slots=True)
class FaultLog:
    """Data faults that say that something was not seen: each once, for as long as it lasted."""

    _open: dict[tuple[Entity, FaultKind, object, str], SeenFault] = field(default_factory=dict)
    _over: list[SeenFault] = field(default_factory=list)

    def take(self, entity: Entity, quality: DataQuality) -> None:
        """Add what one step said of a host."""
        for seen in seen_in(entity, quality):
            key = (entity, seen.kind, seen.evidence.device, seen.evidence.name)
            before = self._open.get(key)
            if before is not None and seen.since_ms - before.last_ms > _SAME_MS:
                self._over.append(before)
                before = None
            since_ms = seen.since_ms if before is None else min(before.since_ms, seen.since_ms)
            self._open[key] = replace(seen, since_ms=since_ms)

    def faults(self) -> tuple[SeenFault, ...]:
        """All of them, by host and beginning."""
        return tuple(
            sorted(
                (*self._over, *self._open.values()),
                key=lambda one: (one.entity, one.since_ms, one.kind, one.evidence.device, one.evidence.name),
            )
        )
