"""Several hosts of the made-up kind at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

import numpy as np

from hwsonde_detector.plan import Plan
from hwsonde_detector.types import Entity, SampleBatch, Series
from tests.detector.worker.hosts import START_MS

Ticks = Sequence[tuple[SampleBatch, int]]


def entity(number: int) -> Entity:
    return Entity((("cluster", "lab"), ("node", f"n{number:02d}")))


def alone(plan: Plan) -> Plan:
    """The plan without comparing hosts."""
    return replace(plan, settings=replace(plan.settings, peers=replace(plan.settings.peers, enabled=False)))


def renamed(batch: SampleBatch, number: int) -> SampleBatch:
    """The batch of one host as that of another."""
    new = {"node": f"n{number:02d}", "instance": f"n{number:02d}:9880"}
    series = tuple(
        Series(one.name, tuple((name, new.get(name, value)) for name, value in one.labels)) for one in batch.series
    )
    return replace(batch, series=series)


def merged(batches: Iterable[SampleBatch]) -> SampleBatch:
    """One batch of several that share no series."""
    rows = sorted(
        (
            (one, batch.times[begin:end], batch.values[begin:end])
            for batch in batches
            for one, begin, end in zip(batch.series, batch.offsets[:-1], batch.offsets[1:], strict=True)
        ),
        key=lambda row: row[0],
    )
    if not rows:
        return SampleBatch.empty()
    return SampleBatch(
        tuple(row[0] for row in rows),
        np.cumsum([0, *(len(row[1]) for row in rows)]).astype(np.int64),
        np.concatenate([row[1] for row in rows]),
        np.concatenate([row[2] for row in rows]),
    )


def many(hosts: Iterable[int], made: Callable[[int], Ticks]) -> Ticks:
    """Ticks of hosts with these numbers, each with samples of its own; all have as many ticks."""
    numbers = list(hosts)
    parts = [made(number) for number in numbers]
    return [
        (
            merged(renamed(batch, number) for number, (batch, _) in zip(numbers, tick, strict=True)),
            max(now for _, now in tick),
        )
        for tick in zip(*parts, strict=True)
    ]


def spread(made: Ticks, times: int) -> Ticks:
    """The same ticks, so many times as far apart."""
    return [
        (replace(batch, times=START_MS + times * (batch.times - START_MS)), START_MS + times * (now - START_MS))
        for batch, now in made
    ]
