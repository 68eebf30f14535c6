"""What the worker really says becomes an incident with causes, values from before the onset and coverage."""

from __future__ import annotations

from hwsonde_detector.engines.local import LocalEngine
from tests.detector.worker.hosts import PLAN, batches, rates, second_of

from .made import book

SICK = ("memory_1", "memory_3")


def fault(name: str, second: int, value: float) -> float:
    return value * 3 if name in SICK and second >= 150 else value


def test_an_incident_follows_the_worker() -> None:
    made, history, clock = book()
    engine = LocalEngine(PLAN)
    for batch, now_ms in batches(rates(175, fault=fault)):
        outputs = engine.step(batch, now_ms)
        history.take(outputs)
        made.take(outputs)
        clock.now = now_ms
    (entry,) = made.entries()
    assert entry.end_ms is None
    assert second_of(entry.onset_ms) in range(149, 154)
    document = made.document(entry.id)
    first = document["causes"][0]
    assert first["subsystem"] == "memory"
    assert {one["channel"] for one in first["channels"][:2]} == set(SICK)
    chart = first["channels"][0]["chart"]
    assert chart["times"][0] < entry.onset_ms - 40_000
    assert chart["values"][-1] > 2 * chart["values"][0]
    assert set(first["moved"][0]["channels"]) == set(SICK)
    assert document["coverage"]["windows"] == 1.0
    assert not document["heard_late"]
