"""Cutting and joining batches against plain lists."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector.past.batches import cut, join
from hwsonde_detector.types import SampleBatch, Series

Plain = dict[Series, list[tuple[int, float]]]

NAMES = [Series(name, (("node", node),)) for name in ("a", "b") for node in ("x", "y")]
PLAIN = st.dictionaries(
    st.sampled_from(NAMES), st.lists(st.integers(0, 40), min_size=1, max_size=12, unique=True).map(sorted)
).map(lambda found: {one: [(ms, ms * 0.5) for ms in times] for one, times in found.items()})


def batch_of(plain: Plain) -> SampleBatch:
    series = tuple(sorted(plain))
    samples = [sample for one in series for sample in plain[one]]
    offsets = np.concatenate([[0], np.cumsum([len(plain[one]) for one in series])]).astype(np.int64)
    return SampleBatch(
        series, offsets, np.array([ms for ms, _ in samples], np.int64), np.array([v for _, v in samples], np.float64)
    )


def plain_of(batch: SampleBatch) -> Plain:
    assert batch.offsets.dtype == batch.times.dtype == np.int64
    assert list(batch.series) == sorted(set(batch.series))
    assert len(batch.offsets) == len(batch.series) + 1
    assert batch.offsets[-1] == batch.times.size == batch.values.size
    return {
        one: list(zip(batch.times[part].tolist(), batch.values[part].tolist(), strict=True))
        for one, part in zip(batch.series, [slice(*ends) for ends in pairwise(batch.offsets.tolist())], strict=True)
    }


def within(plain: Plain, low: int, high: int) -> Plain:
    kept = {one: [sample for sample in samples if low < sample[0] <= high] for one, samples in plain.items()}
    return {one: samples for one, samples in kept.items() if samples}


@given(PLAIN, st.lists(st.integers(-2, 45), min_size=2, max_size=6, unique=True).map(sorted))
def test_parts_hold_what_lies_between_two_edges(plain, edges):
    parts = cut(batch_of(plain), np.array(edges, np.int64))
    assert [plain_of(part) for part in parts] == [within(plain, low, high) for low, high in pairwise(edges)]


@given(PLAIN, st.integers(-1, 41))
def test_joining_what_was_cut_gives_the_whole(plain, edge):
    batch = batch_of(plain)
    first, second = cut(batch, np.array([-1, edge, 100] if edge > -1 else [-2, -1, 100], np.int64))
    assert plain_of(join(first, second)) == plain


def test_series_that_stay_are_the_same_object():
    batch = batch_of({one: [(1, 1.0), (2, 2.0)] for one in NAMES})
    first, second = cut(batch, np.array([0, 1, 2], np.int64))
    # Whoever compares identities of series, as the worker does, need not look at each.
    assert first.series is second.series is batch.series
    assert join(first, second).series is batch.series


def test_nothing():
    empty = SampleBatch.empty()
    some = batch_of({NAMES[0]: [(1, 1.0)]})
    assert [plain_of(part) for part in cut(empty, np.array([0, 1, 2], np.int64))] == [{}, {}]
    assert join(empty, some) is join(some, empty) is some
    assert plain_of(join(empty, empty)) == {}
