"""Intervals against known values."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.faults.intervals import poisson, wilson


@pytest.mark.parametrize(
    ("hits", "trials", "low", "high"),
    [(8, 10, 0.4902, 0.9433), (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (81, 263, 0.2553, 0.3662), (0, 0, 0.0, 1.0)],
)
def test_wilson_has_the_known_values(hits: int, trials: int, low: float, high: float) -> None:
    assert wilson(hits, trials) == pytest.approx((low, high), abs=1e-4)


@pytest.mark.parametrize(
    ("events", "low", "high"),
    [(0, 0.0, 3.6889), (1, 0.0253, 5.5716), (2, 0.2422, 7.2247), (10, 4.7954, 18.3904), (100, 81.364, 121.627)],
)
def test_the_poisson_interval_has_the_known_values(events: int, low: float, high: float) -> None:
    assert poisson(events) == pytest.approx((low, high), rel=1e-4, abs=1e-4)


@settings(deadline=None)
@given(st.integers(0, 300))
def test_the_poisson_interval_holds_the_count_and_grows_with_it(events: int) -> None:
    low, high = poisson(events)
    assert low <= events <= high
    more = poisson(events + 1)
    assert more[0] > low
    assert more[1] > high


@given(st.integers(0, 200), st.integers(1, 200))
def test_wilsons_interval_holds_the_share(hits: int, trials: int) -> None:
    hits = min(hits, trials)
    low, high = wilson(hits, trials)
    assert 0 <= low <= hits / trials <= high <= 1
