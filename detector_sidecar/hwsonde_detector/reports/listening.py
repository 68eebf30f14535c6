"""When each host was heard, as records go by: its newest sample, long silences, and whether it was asked meanwhile. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from heapq import heappush, heappushpop

import numpy as np

from hwsonde_detector.explain.silence import SILENT_MS, Gap, Heard, Hearing
from hwsonde_detector.signals.entities import Split
from hwsonde_detector.signals.health import SCRAPE_SERIES
from hwsonde_detector.types import Entity, SampleBatch, Times

# Of each host the longest ones are kept.
_MOST_GAPS = 100
_UP = "up"
_NEVER, _LAST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


@dataclass(slots=True)
class _Host:
    """As `Heard`; ``gaps`` is a heap of length, beginning, end and whether it was asked meanwhile."""

    last_ms: int | None = None
    asked_ms: int | None = None
    vain_ms: int | None = None
    gaps: list[tuple[int, int, int, bool]] = field(default_factory=list)

    def asked(self, times: Times, vain: Times) -> None:
        """Take when it was asked, and when in vain."""
        self.asked_ms = max(int(times.max()), self.asked_ms or 0)
        if vain.size:
            self.vain_ms = max(int(vain.max()), self.vain_ms or 0)

    def heard(self, first_ms: int, last_ms: int) -> None:
        """Take the first and the newest sample of a batch."""
        before = self.last_ms
        if before is not None and first_ms - before >= SILENT_MS:
            gap = (first_ms - before, before, first_ms, self.vain_ms is not None and self.vain_ms > before)
            (heappush if len(self.gaps) < _MOST_GAPS else heappushpop)(self.gaps, gap)
        self.last_ms = max(last_ms, before) if before is not None else last_ms

    def result(self) -> Heard:
        """What is known of it."""
        gaps = sorted((begin, end, vain) for _, begin, end, vain in self.gaps)
        return Heard(self.last_ms, tuple(Gap(*one) for one in gaps), self.asked_ms, self.vain_ms)


class Listener:
    """Follows all hosts.

    What Prometheus itself stores of a scrape says nothing of the host but that it was asked.
    """

    def __init__(self) -> None:
        self.newest_ms: int | None = None
        self._hosts: dict[Entity, _Host] = {}
        self._entities: list[Entity] = []
        self._owner = np.zeros(0, np.int64)
        self._ups: list[tuple[int, Entity]] = []

    def expect(self, split: Split) -> None:
        """Learn which series belong to which host."""
        self._entities = [entity for entity, _, _ in split.parts]
        self._owner = np.full(len(split.series), -1, np.int64)
        self._ups = []
        for place, (entity, numbers, own) in enumerate(split.parts):
            for number, series in zip(numbers.tolist(), own, strict=True):
                if series.name not in SCRAPE_SERIES:
                    self._owner[number] = place
                elif series.name == _UP:
                    self._ups.append((number, entity))

    def take(self, batch: SampleBatch) -> None:
        """See one batch of the series that are expected."""
        if not batch.times.size:
            return
        self.newest_ms = max(int(batch.times.max()), self.newest_ms or 0)
        for number, entity in self._ups:
            own = slice(int(batch.offsets[number]), int(batch.offsets[number + 1]))
            times = batch.times[own]
            if times.size:
                self._host(entity).asked(times, times[batch.values[own] == 0.0])
        given = np.flatnonzero((np.diff(batch.offsets) > 0) & (self._owner >= 0))
        owners = self._owner[given]
        first = np.full(len(self._entities), _LAST)
        last = np.full(len(self._entities), _NEVER)
        np.minimum.at(first, owners, batch.times[batch.offsets[given]])
        np.maximum.at(last, owners, batch.times[batch.offsets[given + 1] - 1])
        for place in np.unique(owners).tolist():
            self._host(self._entities[place]).heard(int(first[place]), int(last[place]))

    def hearing(self, until_ms: int) -> Hearing:
        """What was heard, up to a time up to which everything was read."""
        return Hearing({entity: host.result() for entity, host in self._hosts.items()}, self.newest_ms, until_ms)

    def _host(self, entity: Entity) -> _Host:
        if entity not in self._hosts:
            self._hosts[entity] = _Host()
        return self._hosts[entity]
