"""The local engine is the worker, kept between steps."""

from __future__ import annotations

import numpy as np
import pytest

from hwsonde_detector.config import load_profiles
from hwsonde_detector.engines.local import LocalEngine
from hwsonde_detector.errors import StateError
from hwsonde_detector.plan import Plan
from hwsonde_detector.settings import Settings
from hwsonde_detector.types import SampleBatch, Series
from hwsonde_detector.worker import WorkerState, step

PLAN = Plan(Settings(entity_labels=("node",)), load_profiles(("hwsonde",)))


def batch(start: int, count: int) -> SampleBatch:
    names = ("hwsonde_load1", "hwsonde_memory_available_bytes", "hwsonde_memory_free_bytes")
    series = tuple(Series(name, (("node", "n1"),)) for name in sorted(names))
    times = np.tile(np.arange(start, start + count, dtype=np.int64) * 1000, len(series))
    values = 1e9 + np.random.default_rng(start).random(len(times)) * 1e6
    return SampleBatch(series, np.arange(len(series) + 1, dtype=np.int64) * count, times, values)


def test_it_gives_what_the_worker_gives_and_goes_on_from_a_snapshot() -> None:
    engine, state = LocalEngine(PLAN), WorkerState()
    for start in (0, 30, 60):
        state, expected = step(state, batch(start, 30), start * 1000 + 30_000, PLAN)
        outputs = engine.step(batch(start, 30), start * 1000 + 30_000)
        assert [report.learning for report in outputs.reports] == [report.learning for report in expected.reports]
    assert engine.last_row_ms() == 89_000
    again = LocalEngine(PLAN)
    again.restore(*engine.snapshot())
    assert again.last_row_ms() == 89_000


@pytest.mark.parametrize("document", [{}, {"hosts": [{}]}, {"hosts": 3}, {"hosts": [None]}])
def test_a_state_that_does_not_fit_changes_nothing(document: dict[str, object]) -> None:
    engine = LocalEngine(PLAN)
    engine.step(batch(0, 30), 30_000)
    before = engine.last_row_ms()
    with pytest.raises(StateError, match="do not fit"):
        engine.restore(document, {})
    assert engine.last_row_ms() == before is not None
