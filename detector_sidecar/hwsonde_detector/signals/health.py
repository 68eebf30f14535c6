"""What scrapers and exporters tell of their own health, and parts of a host that have no channel: the newest sample by key.

These series make no channels and no rows, so that nothing of them reaches an anomaly score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from hwsonde_detector.signals.entities import label_of, target_of
from hwsonde_detector.signals.layout import Indices
from hwsonde_detector.signals.paces import FORGET_MS, NEVER
from hwsonde_detector.signals.profiles.rules import BY_COLLECTOR, HealthRole, Profile
from hwsonde_detector.types import Floats, SampleBatch, Series, Times

# What Prometheus itself stores of each scrape, of one that failed too. They do not say that a host is heard.
SCRAPE_SERIES = frozenset({"up", "scrape_duration_seconds", "scrape_samples_scraped"})


def speaks(series: Sequence[Series]) -> bool:
    """Whether any of these series comes from a target itself, and not only from who scraped it in vain."""
    return any(one.name not in SCRAPE_SERIES for one in series)


class HealthKey(NamedTuple):
    """What a value speaks of.

    ``name`` is the collector, or a part's name; ``kind`` the class of the part; both are empty where the target as a whole is meant.
    """

    job: str
    instance: str
    role: HealthRole
    name: str = ""
    kind: str = ""

    @property
    def target(self) -> tuple[str, str]:
        """The scrape target."""
        return self.job, self.instance


class Heard(NamedTuple):
    """New samples of one series that says whether scrapes succeeded, oldest first."""

    target: tuple[str, str]
    times: Times
    values: Floats


class _Reader(NamedTuple):
    role: HealthRole
    label: str = ""
    kind: str = ""


class HealthState:
    """Newest sample of each key. Not kept over a restart: the next scrapes bring it back.

    Attributes
    ----------
    keys
        k keys; the same tuple while none came or went, so that whoever indexes them may keep the indices.
    times, values
        int64 and float64 (k): newest sample, `NEVER` and NaN before the first.
    """

    def __init__(self) -> None:
        self.keys: tuple[HealthKey, ...] = ()
        self.times: Times = np.zeros(0, np.int64)
        self.values: Floats = np.zeros(0)
        self._given: list[Series] = []
        self._profiles: tuple[Profile, ...] = ()
        self._readers: Mapping[str, _Reader] = {}
        self._series: tuple[Series, ...] | None = None
        self._numbers: Indices = np.zeros(0, np.int64)
        self._slots: Indices = np.zeros(0, np.int64)
        self._ups: tuple[tuple[int, int], ...] = ()

    def label(self, slot: int, name: str) -> str:
        """Value of a label of the series that gave the newest sample of a key; empty where it is missing."""
        return label_of(self._given[slot], name)

    def follow(self, batch: SampleBatch, profiles: tuple[Profile, ...]) -> tuple[Heard, ...]:
        """Take a host's samples; give the new ones that say whether scrapes succeeded.

        Parameters
        ----------
        batch
            Samples of this host; series of no interest and samples seen before are passed over.
        profiles
            Which series are meant.
        """
        if self._profiles != profiles:
            self._profiles, self._readers, self._series = profiles, _readers(profiles), None
        if self._series is not batch.series and self._series != batch.series:
            self._reroute(batch.series)
        heard = []
        for number, slot in self._ups:
            own = slice(int(batch.offsets[number]), int(batch.offsets[number + 1]))
            new = batch.times[own] > self.times[slot]
            if new.any():
                heard.append(Heard(self.keys[slot].target, batch.times[own][new], batch.values[own][new]))
        self._take(batch)
        return tuple(heard)

    def _take(self, batch: SampleBatch) -> None:
        ends = batch.offsets[self._numbers + 1]
        given = np.flatnonzero(ends > batch.offsets[self._numbers])
        last = ends[given] - 1
        times = batch.times[last]
        newer = times > self.times[self._slots[given]]
        if not newer.any():
            return
        # Of two series with one key, as when a reason has changed, the newer sample is written last.
        order = np.flatnonzero(newer)[np.argsort(times[newer], kind="stable")]
        slots = self._slots[given[order]]
        self.times[slots] = times[order]
        self.values[slots] = batch.values[last[order]]
        for slot, number in zip(slots.tolist(), self._numbers[given[order]].tolist(), strict=True):
            self._given[slot] = batch.series[number]

    def _reroute(self, series: tuple[Series, ...]) -> None:
        """Find the keys of a batch's series; keys that have been silent for long are left out."""
        found = [
            (number, _key(one, reader)) for number, one in enumerate(series) if (reader := self._readers.get(one.name))
        ]
        self._forget()
        slots = {key: slot for slot, key in enumerate(self.keys)}
        for number, key in found:
            if key not in slots:
                slots[key] = len(slots)
                self._given.append(series[number])
        new = tuple(slots)[len(self.keys) :]
        if new:
            self.keys += new
            self.times = np.append(self.times, np.full(len(new), NEVER))
            self.values = np.append(self.values, np.full(len(new), np.nan))
        self._series = series
        self._numbers = np.array([number for number, _ in found], np.int64)
        self._slots = np.array([slots[key] for _, key in found], np.int64)
        self._ups = tuple((number, slots[key]) for number, key in found if key.role is HealthRole.UP)

    def _forget(self) -> None:
        newest = int(self.times.max(initial=NEVER))
        if newest == NEVER:
            return
        kept = np.flatnonzero(self.times >= newest - FORGET_MS).tolist()
        if len(kept) < len(self.keys):
            self.keys = tuple(self.keys[slot] for slot in kept)
            self._given = [self._given[slot] for slot in kept]
            self.times, self.values = self.times[kept], self.values[kept]


def _readers(profiles: tuple[Profile, ...]) -> dict[str, _Reader]:
    found: dict[str, _Reader] = {}
    for profile in profiles:
        for role, metric in profile.health.names:
            found.setdefault(metric, _Reader(role, "collector" if role in BY_COLLECTOR else ""))
        for part in profile.health.parts:
            found.setdefault(part.metric, _Reader(HealthRole.PART, part.label, part.kind))
    return found


def _key(one: Series, reader: _Reader) -> HealthKey:
    name = label_of(one, reader.label) if reader.label else ""
    return HealthKey(*target_of(one), reader.role, name, reader.kind)
