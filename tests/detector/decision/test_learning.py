"""What is remembered of an entity's healthy time."""

from __future__ import annotations

import warnings

import numpy as np

from hwsonde_detector.decision.learning import Memory
from hwsonde_detector.types import Channel, Entity, Frame, Subsystem

ENTITY = Entity((("node", "n1"),))
CHANNEL = Channel("cpu_seconds", Subsystem.CPU)


def remembered(values: list[float]) -> list[float]:
    memory = Memory()
    column = np.array(values)[:, None]
    memory.append(Frame(ENTITY, (CHANNEL,), 1000 * np.arange(len(values), dtype=np.int64), column), 100)
    return memory.values[:, 0].tolist()


def test_what_is_too_large_to_keep_is_missing_and_nothing_else_is() -> None:
    largest = float(np.finfo(np.float32).max)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept = remembered([1.0, 1e39, -1e300, np.inf, -np.inf, np.nan, largest, -largest, 1e-40, 2.0])
    np.testing.assert_array_equal(
        kept, [1.0, np.nan, np.nan, np.nan, np.nan, np.nan, largest, -largest, np.float32(1e-40), 2.0]
    )


def test_what_is_offered_is_left_as_it_was() -> None:
    values = np.array([[1e39], [1.0]])
    Memory().append(Frame(ENTITY, (CHANNEL,), np.array([0, 1000], np.int64), values), 100)
    np.testing.assert_array_equal(values, [[1e39], [1.0]])
