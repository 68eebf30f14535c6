"""Rings and thinning."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector.types import EntityReport, Learning, Outputs
from hwsonde_detector.web.history import SUBSYSTEMS, History, Ring, Track, thin, within

from .data import entity, score

LEARNING = Learning(1, 1, None, frozen=False, channels=1, channels_judged=1)


def track(values: list[float]) -> Track:
    count = len(values)
    return Track(np.arange(count, dtype=np.int64), np.array(values), np.zeros((count, len(SUBSYSTEMS))))


@given(st.lists(st.integers(1, 50), max_size=60), st.integers(1, 12))
def test_a_ring_keeps_the_newest_windows_in_order_and_none_twice(steps: list[int], size: int) -> None:
    ring, naive = Ring(size), []
    for end in np.cumsum(steps).tolist():
        for again in (end, end, end - 1):
            ring.add(score(entity("n"), again, again / 7))
        naive.append(end)
    got = ring.track()
    assert got.times.tolist() == naive[-size:]
    assert np.allclose(got.fused, np.array(naive[-size:]) / 7)
    assert np.allclose(got.parts.sum(axis=1), got.fused, rtol=1e-5)


@given(st.lists(st.floats(0, 10) | st.just(float("nan")), max_size=400), st.integers(1, 50))
def test_thinning_is_bounded_ordered_and_keeps_the_peak(values: list[float], points: int) -> None:
    thinned = thin(track(values), points)
    assert len(thinned.times) == min(len(values), points)
    assert (np.diff(thinned.times) > 0).all()
    assert np.array_equal(thinned.fused, np.array(values)[thinned.times], equal_nan=True)
    if not all(np.isnan(values)):
        assert np.nanmax(thinned.fused) == np.nanmax(values)


@given(st.lists(st.integers(0, 50), max_size=60), st.integers(0, 60), st.integers(0, 60))
def test_a_range_holds_what_ends_in_it(times: list[int], start: int, end: int) -> None:
    times = sorted(times)
    whole = track([time / 7 for time in times])
    found = within(Track(np.array(times, dtype=np.int64), whole.fused, whole.parts), start, max(start, end))
    naive = [time for time in times if start <= time <= max(start, end)]
    assert found.times.tolist() == naive
    assert found.fused.tolist() == [time / 7 for time in naive]
    assert found.parts.shape == (len(naive), len(SUBSYSTEMS))


def test_a_host_that_is_gone_takes_its_history_along() -> None:
    history, host = History(size=10), entity("n")
    history.take(Outputs((EntityReport(host, (score(host, 5, 1.0),), LEARNING, 1000),)))
    assert history.track(host).times.tolist() == [5]
    history.take(Outputs(gone=(host,)))
    assert not history.track(host).times.size
