"""Parts of one host through time: what they always did is quiet, what one of them never did is not, however still all were before."""

from __future__ import annotations

import numpy as np
import pytest

from hwsonde_detector.decision.peering import ODD_AT, Member, PeerGroup, advance, pace, take
from hwsonde_detector.settings import Settings
from hwsonde_detector.types import Channel, Device, Entity, Floats, Frame, Subsystem

HOST = Entity((("node", "n0"),))
GPUS, ROWS, AFTER = 4, 400, 60
SETTINGS = Settings()


def channels() -> tuple[Channel, ...]:
    """Of each GPU whether it answers, and a clock and a power that say what it is used for."""
    return tuple(
        Channel(f"{name}{{gpu={gpu}}}", Subsystem.GPU, Device("gpu", str(gpu)), floor=floor, weight=weight)
        for name, floor, weight in (("gpu_up", 0.2, 1.0), ("gpu_clock", 20.0, 0.3), ("gpu_power", 10.0, 0.3))
        for gpu in range(GPUS)
    )


def still(rows: int) -> Floats:
    """Values (rows, 12) of GPUs that idle, each with a power of its own."""
    wave = np.sin(np.arange(rows) / 3.0)[:, None]
    up, clock = np.ones((rows, GPUS)), np.full((rows, GPUS), 1980.0)
    power = np.array([70.0, 71.0, 72.0, 73.0]) + 0.2 * wave
    return np.hstack([up, clock, power])


def values(rows: Floats) -> list[float]:
    """What the host was worth in each slot of a second."""
    group = PeerGroup({HOST: Member()})
    pace(group, 1000)
    found = []
    for number, row in enumerate(rows):
        take(group, HOST, Frame(HOST, channels(), np.array([number * 1000]), row[None, :]))
        found += [slot.values[HOST] for slot in advance(group, SETTINGS, lambda _host, _at: False, {})]
    return found


def changed(column: int, by: float) -> list[float]:
    """Values after one column changed for good, behind rows that were as still as can be."""
    rows = still(ROWS + AFTER)
    rows[ROWS:, column] += by
    found = values(rows)
    assert len(found) == len(rows)
    assert max(found[:ROWS]) < ODD_AT
    return found[ROWS:]


@pytest.mark.parametrize("column", [4, 8, 11])
def test_a_little_more_use_of_one_part_is_not_odd_because_all_was_still(column: int) -> None:
    assert max(changed(column, 25.0)) < ODD_AT


def test_a_part_that_fails_is_odd_at_once_and_stays_so() -> None:
    assert min(changed(2, -1.0)) >= 1.0
