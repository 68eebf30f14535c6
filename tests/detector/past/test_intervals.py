"""Intervals against published values and against the distributions themselves."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chi2

from hwsonde_detector.past.intervals import Share, poisson_bounds, share


@pytest.mark.parametrize(
    ("count", "low", "high"),
    # Tables of exact confidence limits of a Poisson mean, as in any handbook.
    [(0, 0.0, 3.689), (1, 0.0253, 5.572), (2, 0.242, 7.225), (5, 1.623, 11.668), (10, 4.795, 18.390), (50, 37.111, 65.919), (100, 81.364, 121.627)],
)  # fmt: skip
def test_exact_poisson_limits(count, low, high):
    found = poisson_bounds(count)
    assert found == pytest.approx((low, high), abs=6e-4)


@given(st.integers(0, 20_000))
def test_poisson_limits_by_the_chi_squared_distribution(count):
    low, high = poisson_bounds(count)
    assert low == pytest.approx(chi2.ppf(0.025, 2 * count) / 2 if count else 0.0, rel=1e-9)
    assert high == pytest.approx(chi2.ppf(0.975, 2 * count + 2) / 2, rel=1e-9)


@pytest.mark.parametrize(
    ("count", "total", "low", "high"),
    # E. B. Wilson's interval without correction: worked examples.
    [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (1, 29, 0.0061, 0.1718)],
)  # fmt: skip
def test_wilsons_interval(count, total, low, high):
    found = share(count, total)
    assert (found.low, found.high) == pytest.approx((low, high), abs=6e-5)
    assert found.value == count / total


@given(st.integers(1, 5000).flatmap(lambda total: st.tuples(st.integers(0, total), st.just(total))))
def test_the_bounds_of_a_share_are_where_the_score_test_turns(case):
    count, total = case
    found = share(count, total)
    assert 0 <= found.low <= count / total <= found.high <= 1
    for bound in (found.low, found.high):
        if 0 < bound < 1:
            distance = abs(count / total - bound) / math.sqrt(bound * (1 - bound) / total)
            assert distance == pytest.approx(1.959964, rel=1e-4)


def test_nothing_is_known_of_nothing():
    assert share(0, 0) == Share(0, 0, None, 0.0, 1.0)


@pytest.mark.parametrize("wrong", [lambda: share(2, 1), lambda: share(-1, 1), lambda: poisson_bounds(-1)])
def test_impossible_counts(wrong):
    with pytest.raises(ValueError, match="cannot be"):
        wrong()
