import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwsonde_exporter.moments import CompensatedSum, Moments
from tests.exporter.core.naive import naive_extremes

VALUES = st.floats(0, 1e6, allow_nan=False)


def snapshot(moments: Moments) -> tuple[int, float, float]:
    return moments.count, moments.total.value, moments.squares.value


def mean_and_variance(
    before: tuple[int, float, float], after: tuple[int, float, float], reference: float
) -> tuple[float, float]:
    """What a reader of two scrapes computes."""
    count, total, squares = (b - a for a, b in zip(before, after, strict=True))
    mean = total / count
    return mean, squares / count - (mean - reference) ** 2


@given(st.lists(VALUES, max_size=60), st.lists(VALUES, min_size=1, max_size=60), st.floats(0, 1000))
@settings(deadline=None)
def test_differences_of_two_snapshots_give_mean_and_variance(
    before: list[float], between: list[float], reference: float
) -> None:
    moments = Moments(reference)
    for tick, value in enumerate(before):
        moments.observe(value, tick // 10)
    first = snapshot(moments)
    for tick, value in enumerate(between, len(before)):
        moments.observe(value, tick // 10)
    mean, variance = mean_and_variance(first, snapshot(moments), reference)
    scale = max(1.0, *before, *between, reference)
    assert mean == pytest.approx(np.mean(between), abs=1e-12 * scale * (1 + len(before)))
    assert variance == pytest.approx(np.var(between), abs=1e-12 * scale**2 * (1 + len(before)))


def seasoned(reference: float, mean: float, deviation: float, seconds: float) -> Moments:
    """Moments that have observed ten times a second for so long."""
    moments = Moments(reference)
    count = seconds * 10
    moments.count = int(count)
    moments.total = CompensatedSum()
    moments.total.small = count * mean + 0.1
    moments.total.fold()
    moments.squares.small = count * (deviation**2 + (mean - reference) ** 2) + 0.1
    moments.squares.fold()
    return moments


YEAR = 365.25 * 86400


@pytest.mark.parametrize(
    ("name", "reference", "mean", "deviation", "window", "uptime"),
    [
        # A ratio near its reference: longer than any host lives.
        ("busy ratio, 1 s", 0.5, 0.6, 0.1, 1, 10 * YEAR),
        ("busy ratio, 15 s", 0.5, 0.6, 0.1, 15, 100 * YEAR),
        # 100 Gbit/s that waver by 10 %, far from a reference of 0.
        ("bytes a second, 15 s", 0.0, 12.5e9, 1.25e9, 15, 2 * YEAR),
        # Page faults: 50,000 a second, spread as wide as their mean.
        ("faults a second, 1 s", 0.0, 5e4, 5e4, 1, 2 * YEAR),
    ],
)
def test_how_long_the_variance_stays_exact(
    name: str, reference: float, mean: float, deviation: float, window: int, uptime: float
) -> None:
    """The stated uptime keeps the variance between two scrapes exact to 1e-6, relative."""
    generator = np.random.default_rng(7)
    moments = seasoned(reference, mean, deviation, uptime)
    for start in range(5):
        values = np.abs(generator.normal(mean, deviation, window * 10))
        before = snapshot(moments)
        for tick, value in enumerate(values):
            moments.observe(float(value), start * window + tick // 10)
        got_mean, got_variance = mean_and_variance(before, snapshot(moments), reference)
        assert got_variance == pytest.approx(np.var(values), rel=1e-6), name
        assert got_mean == pytest.approx(np.mean(values), rel=1e-6), name


def test_a_plain_sum_would_not_do() -> None:
    """After 20 years a plain sum of a small quantity has lost digits that the compensated one keeps."""
    plain, kept = 2.0**53, CompensatedSum()
    kept.small = 2.0**53
    kept.fold()
    for _ in range(1000):
        plain += 0.3
        kept.small += 0.3
        kept.fold()
    assert plain == 2.0**53
    assert kept.value - 2.0**53 == pytest.approx(300, abs=2)


@given(st.lists(st.floats(0, 1e12) | st.floats(0, 1e-6), min_size=1, max_size=80), st.integers(1, 7))
def test_the_sum_never_decreases_and_is_exact_to_the_last_digits(values: list[float], fold_every: int) -> None:
    total, previous = CompensatedSum(), 0.0
    for place, value in enumerate(values):
        total.small += value
        assert total.value >= previous
        previous = total.value
        if place % fold_every == 0:
            total.fold()
            assert total.value == previous
    assert total.value == pytest.approx(math.fsum(values), rel=1e-14, abs=1e-300)


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), max_size=60),
    st.integers(0, 40),
)
def test_extremes_are_those_of_the_trailing_window(steps: list[tuple[int, int]], later: int) -> None:
    moments, second, seen = Moments(0.0, window=60), 0, []
    for step, value in steps:
        second += step
        moments.observe(float(value), second)
        seen.append((second, float(value)))
        assert moments.extremes(second) == naive_extremes(seen, second, 60)
    assert moments.extremes(second + later) == naive_extremes(seen, second + later, 60)


def test_extremes_vanish_when_nothing_was_observed_for_the_window() -> None:
    moments = Moments(0.0, window=60)
    assert moments.extremes(5) is None
    moments.observe(3.0, 5)
    assert moments.extremes(64) == (3.0, 3.0)
    assert moments.extremes(65) is None
