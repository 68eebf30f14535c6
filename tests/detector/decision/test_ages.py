"""Blocks that are remembered for long: bounded, ascending, of accepted rows only, and as unlike each other as can be had."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector.decision.ages import BLOCK_ROWS, Ages, Axis, _crowded, block_rows, training_rows
from hwsonde_detector.decision.learning import Memory
from hwsonde_detector.decision.scaling import fit_scale
from hwsonde_detector.types import Channel, Entity, Frame, Subsystem

ENTITY = Entity((("node", "n1"),))
A, B, C = (Channel(name, Subsystem.CPU) for name in "abc")
AXIS = Axis(fit_scale(np.random.default_rng(0).normal(0, 1, (500, 2)), (A, B)), (A, B))
DAY = 86_400_000


def frame(values: np.ndarray, first: int, channels: tuple[Channel, ...] = (A, B)) -> Frame:
    return Frame(ENTITY, channels, 1000 * np.arange(first, first + len(values), dtype=np.int64), values)


def offered(values: np.ndarray, cuts: list[int], *, limit: int, most: int, forget_ms: int = DAY) -> tuple[Memory, Ages]:
    memory, ages, accepted = Memory(), Ages(), 0
    for begin, end in zip([0, *cuts], [*cuts, len(values)], strict=True):
        memory.append(frame(values[begin:end], begin), limit)
        accepted += end - begin
        ages.offer(memory, accepted, 1000, AXIS, (3, most, forget_ms))
    return memory, ages


def naive_crowding(means: np.ndarray) -> list[float]:
    fourth = []
    for i, mean in enumerate(means):
        others = sorted(float(((mean - other) ** 2).sum()) for j, other in enumerate(means) if j != i)
        fourth.append(others[min(4, len(others)) - 1])
    return fourth


@given(st.integers(2, 9), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_the_block_with_most_of_its_like_goes(blocks: int, channels: int, seed: int) -> None:
    means = np.random.default_rng(seed).normal(0, 2, (blocks, channels))
    crowding = naive_crowding(means)
    assert crowding[_crowded(means)] == pytest.approx(min(crowding))


@given(st.lists(st.integers(1, 40), max_size=12), st.integers(2, 5), st.integers(0, 99))
def test_blocks_are_bounded_ascending_and_of_accepted_rows(steps: list[int], blocks: int, seed: int) -> None:
    count = sum(steps) + 1
    values = np.random.default_rng(seed).normal(0, 1, (count, 2)).astype(np.float32)
    cuts = np.cumsum(steps).tolist()
    most = blocks * BLOCK_ROWS
    _, ages = offered(values, cuts, limit=60, most=most)
    assert ages.rows <= most
    assert (np.diff(ages.times.ravel()) > 0).all()
    for times, rows in zip(ages.times, ages.values, strict=True):
        np.testing.assert_array_equal(rows, values[times // 1000])
    # However the rows came, as long as none left the newest ones unseen.
    _, again = offered(values, list(range(1, count)), limit=60, most=most)
    np.testing.assert_array_equal(again.times, ages.times)


def test_what_happens_rarely_stays_and_what_happens_always_is_thinned() -> None:
    channels = tuple(Channel(f"c{index:02d}", Subsystem.CPU) for index in range(40))
    values = np.random.default_rng(1).normal(0, 1, (2400, 40))
    axis = Axis(fit_scale(values, channels), channels)
    values[120:168, :8] += 40
    memory, ages = Memory(), Ages()
    for begin in range(0, 2400, 12):
        memory.append(frame(values[begin : begin + 12], begin, channels), 100)
        ages.offer(memory, begin + 12, 1000, axis, (3, 10 * BLOCK_ROWS, DAY))
    rare = (ages.values[:, :, 0] > 20).all(axis=1)
    assert len(rare) == 10
    # Four blocks of 200, of which by chance none would be left.
    assert rare.sum() == 4
    assert ages.times[~rare].max() > 1000 * 2000


def test_old_blocks_are_forgotten() -> None:
    values = np.random.default_rng(1).normal(0, 1, (600, 2))
    _, ages = offered(values, list(range(12, 600, 12)), limit=100, most=20 * BLOCK_ROWS, forget_ms=100_000)
    assert ages.times.min() >= 1000 * (599 - 12 - 100 - BLOCK_ROWS)


def test_rows_that_left_the_newest_ones_unseen_are_passed_over() -> None:
    values = np.random.default_rng(1).normal(0, 1, (500, 2))
    memory, ages = offered(values, [], limit=100, most=50 * BLOCK_ROWS)
    assert ages.times.min() >= int(memory.times[0])
    assert ages.seen == 500 // BLOCK_ROWS * BLOCK_ROWS


def test_a_block_with_a_gap_in_each_window_teaches_nothing() -> None:
    memory, ages = Memory(), Ages()
    times = np.arange(24, dtype=np.int64) * 5000
    memory.append(Frame(ENTITY, (A, B), times, np.zeros((24, 2))), 100)
    ages.offer(memory, 24, 1000, AXIS, (3, 240, DAY))
    assert ages.rows == 0
    assert ages.seen == 24


def test_channels_come_and_go() -> None:
    memory, ages = Memory(), Ages()
    memory.append(frame(np.ones((12, 2)), 0), 24)
    ages.offer(memory, 12, 1000, AXIS, (3, 240, DAY))
    memory.append(frame(np.full((24, 2), 2.0), 12, (B, C)), 24)
    ages.offer(memory, 36, 1000, AXIS, (3, 240, DAY))
    assert ages.channels == memory.channels
    place = ages.channels.index(B)
    np.testing.assert_array_equal(ages.values[:, 0, place], [1, 2, 2])


def test_what_is_missed_is_remembered_until_it_is_back_or_too_old() -> None:
    values = np.random.default_rng(1).normal(0, 1, (4000, 2))
    plain, missing = Axis(AXIS.scale, AXIS.channels), Axis(fit_scale(values[:, :1], (A,)), (A,), ("b",))

    def remembered(axis: Axis, forget_ms: int = DAY) -> Ages:
        memory, ages = Memory(), Ages()
        for begin in range(0, 4000, 12):
            channels = (A, B) if begin < 600 else (A,)
            memory.append(frame(values[begin : begin + 12, : len(channels)], begin, channels), 100)
            ages.offer(memory, begin + 12, 1000, AXIS if begin < 600 else axis, (3, 20 * BLOCK_ROWS, forget_ms))
        return ages

    ages = remembered(missing)
    assert ages.channels == (A, B)
    assert ages.known() == {"a", "b"}
    knows = np.isfinite(ages.values[:, :, 1]).all(axis=1)
    # Neither pushes the other out.
    assert 5 <= knows.sum() <= 15
    assert ages.rows == 20 * BLOCK_ROWS
    memory = Memory()
    memory.append(frame(values[:100], 4000), 100)
    channels, _, rows = training_rows(memory, ages)
    assert channels == (A, B)
    assert np.isfinite(rows[:, 1]).sum() == 100 + knows.sum() * BLOCK_ROWS
    assert remembered(plain).channels == (A,)
    assert remembered(missing, forget_ms=1_000_000).known() == {"a"}


def test_windows_of_another_width_begin_anew() -> None:
    memory, ages = Memory(), Ages()
    memory.append(frame(np.ones((90, 2)), 0), 100)
    ages.offer(memory, 30, 1000, AXIS, (3, 240, DAY))
    ages.offer(memory, 90, 1000, AXIS, (10, 240, DAY))
    assert ages.times.shape[1] == block_rows(10) == 30
    _, values = ages.before(None, (A, B))
    assert values.shape == (*ages.times.shape, 2)


def test_training_rows_deal_old_blocks_out_among_the_newest_rows() -> None:
    values = np.random.default_rng(1).normal(0, 1, (600, 2))
    memory, ages = offered(values, list(range(12, 600, 12)), limit=100, most=24 * BLOCK_ROWS)
    channels, times, rows = training_rows(memory, ages)
    assert channels == (A, B)
    assert rows.shape == (len(times), 2)
    assert times[-1] == memory.times[-1]
    assert len(set(times.tolist())) == len(times), "no row counts twice"
    old = times < memory.times[0]
    assert set(times[old].tolist()) <= set(ages.times.ravel().tolist())
    assert set(memory.times.tolist()) <= set(times.tolist())
    # Each quarter has some of them.
    assert all(part.any() for part in np.array_split(old, 4))
    np.testing.assert_array_equal(rows, values.astype(np.float32)[times // 1000])


def test_training_rows_of_a_regime_that_has_only_blocks() -> None:
    _, ages = offered(np.ones((60, 2)), [30], limit=100, most=240)
    channels, times, rows = training_rows(Memory(), ages)
    assert (channels, len(times), rows.shape) == ((A, B), 60, (60, 2))
    channels, times, rows = training_rows(Memory(), Ages())
    assert (channels, len(times), rows.shape) == ((), 0, (0, 0))
