import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hwsonde_detector.settings import FEATURES
from hwsonde_detector.signals.windows import full_windows, transform, window_features
from hwsonde_detector.types import Channel, Subsystem
from tests.detector.signals import naive

NUMBERS = st.one_of(st.floats(-1e6, 1e6), st.sampled_from([math.nan, math.inf, -math.inf, 0.0, 1e12]))


@given(
    arrays(np.float64, st.tuples(st.integers(0, 12), st.integers(0, 4)), elements=NUMBERS),
    st.integers(1, 5),
    st.lists(st.sampled_from(FEATURES), min_size=1, max_size=7, unique=True),
)
def test_features_equal_the_naive_twin(values, rows, features):
    before = values.copy()
    result = window_features(values, rows, tuple(features))
    count = max(len(values) - rows + 1, 0)
    assert result.shape == (count, values.shape[1] * len(features))
    expected = (
        np.array(naive.window_features(values.tolist(), rows, features)).reshape(result.shape) if count else result
    )
    np.testing.assert_allclose(result, expected, rtol=1e-9, atol=1e-5)
    np.testing.assert_array_equal(values, before)


def test_many_rows_equal_the_naive_twin():
    values = np.random.default_rng(2).normal(size=(400, 300))
    values[200, 7] = np.nan
    result = window_features(values, 4, FEATURES)
    chosen = [0, 7, 299]
    expected = np.array(naive.window_features(values[:, chosen].tolist(), 4, FEATURES))
    columns = [channel * len(FEATURES) + place for channel in chosen for place in range(len(FEATURES))]
    np.testing.assert_allclose(result[:, columns], expected, rtol=1e-9, atol=1e-12)


def test_columns_go_channel_by_channel():
    values = np.array([[1.0, 10.0], [3.0, 10.0], [5.0, 40.0]])
    result = window_features(values, 3, ("mean", "slope", "difference"))
    np.testing.assert_allclose(result, [[3.0, 2.0, 2.0, 20.0, 15.0, 30.0]])


def test_a_large_steady_value_has_no_deviation_and_no_slope():
    values = np.full((4, 1), 1e15 + 0.5)
    np.testing.assert_array_equal(window_features(values, 3, ("deviation", "slope", "difference")), np.zeros((2, 3)))


def test_a_small_ripple_on_a_large_value_keeps_its_digits():
    values = 1e9 + np.array([[0.0], [3.0], [0.0]])
    np.testing.assert_allclose(window_features(values, 3, ("deviation",)), [[math.sqrt(2)]])


def test_one_gap_hides_every_window_that_covers_it():
    values = np.arange(6.0)[:, None].repeat(2, axis=1)
    values[2, 1] = np.nan
    known = np.isfinite(window_features(values, 2, FEATURES)).reshape(5, 2, len(FEATURES)).all(axis=2)
    assert known[:, 0].all()
    assert known[:, 1].tolist() == [True, False, False, True, True]


def test_too_few_rows_give_no_window():
    assert window_features(np.zeros((2, 3)), 3, ("mean", "energy")).shape == (0, 6)
    assert full_windows(np.array([1000, 2000]), 1000, 3).shape == (0,)


@pytest.mark.parametrize(("rows", "features"), [(0, ("mean",)), (3, ("mean", "median"))])
def test_wrong_questions_are_refused(rows, features):
    with pytest.raises(ValueError, match="at least 1 row"):
        window_features(np.zeros((4, 1)), rows, features)


@given(st.lists(st.integers(-2000, 4000), max_size=12), st.sampled_from([200, 1000]), st.integers(1, 5))
def test_full_windows_equal_the_naive_twin(steps, interval, rows):
    times = np.cumsum(np.array([0, *steps], np.int64))
    assert full_windows(times, interval, rows).tolist() == naive.full_windows(times.tolist(), interval, rows)


def test_late_by_half_an_interval_is_still_full():
    assert full_windows(np.array([0, 1000, 2500, 4001]), 1000, 2).tolist() == [True, True, False]


def test_transform():
    channels = [
        Channel("a", Subsystem.CPU, floor=0.1),
        Channel("b", Subsystem.NETWORK, floor=100.0, logarithmic=True),
    ]
    values = np.array([[0.5, 0.0], [np.nan, 100.0], [-2.0, -1e12]])
    result = transform(values, channels)
    np.testing.assert_allclose(result[:, 0], values[:, 0])
    np.testing.assert_allclose(result[:, 1], [0.0, math.asinh(1), -math.asinh(1e10)])
    assert transform(np.zeros((0, 2)), channels).shape == (0, 2)
    plain = values[:, :1].copy()
    assert transform(plain, channels[:1]) is not plain
