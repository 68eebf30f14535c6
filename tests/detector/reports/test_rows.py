"""Values that are shown are those that were judged."""

from __future__ import annotations

import pytest

from hwsonde_detector.explain.analysis import Charted
from hwsonde_detector.reports.rows import collect_rows
from hwsonde_detector.types import Entity
from tests.detector.worker.hosts import ENTITY, PLAN, START_MS, batches, rates

SECONDS = 120
ELSEWHERE = Entity((("cluster", "lab"), ("node", "n9")))


def wanted(rank: int, names, start: int, end: int, entity: Entity = ENTITY) -> Charted:
    return Charted(rank, entity, frozenset(names), START_MS + 1000 * start, START_MS + 1000 * end)


@pytest.mark.parametrize("size", [1, 7, 120])
def test_rows_are_the_rates_however_they_are_read(size):
    made = rates(SECONDS)
    asked = [
        wanted(0, ["cpu_0", "storage_3"], 50, 60),
        wanted(2, ["cpu_0"], 0, 10),
        wanted(1, ["none"], 0, 9),
        wanted(0, ["cpu_0"], 0, 9, ELSEWHERE),
    ]
    found = collect_rows(batches(made, size=size), PLAN, asked)
    # A channel that nobody has, and a host that nobody heard, have no points.
    assert set(found) == {(0, ENTITY, "cpu_0"), (0, ENTITY, "storage_3"), (2, ENTITY, "cpu_0")}
    points = found[0, ENTITY, "storage_3"]
    assert points.times == tuple(START_MS + 1000 * second for second in range(50, 61))
    assert points.values == pytest.approx(made["storage_3"][50:61], rel=1e-5)
    assert points.step_ms == 1000
    # The first scrape gives no rate.
    assert found[2, ENTITY, "cpu_0"].times[0] == START_MS + 1000


def test_a_gap_stays_a_gap():
    found = collect_rows(batches(rates(SECONDS), skip=frozenset(range(30, 40))), PLAN, [wanted(0, ["cpu_1"], 20, 50)])
    times = found[0, ENTITY, "cpu_1"].times
    assert not [at_ms for at_ms in times if START_MS + 30_000 <= at_ms < START_MS + 40_000]
    assert times[-1] == START_MS + 50_000


def test_nothing_is_wanted():
    assert collect_rows(batches(rates(5)), PLAN, []) == {}
