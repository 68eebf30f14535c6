from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hwsonde_detector.decision.fusion import alone_decades, fuse, k_of_n, spoken_alone
from hwsonde_detector.settings import DetectorSettings
from hwsonde_detector.types import Floats
from tests.detector.decision import naive_calibration as naive

SCORES = hnp.arrays(
    np.float64,
    st.tuples(st.integers(0, 12), st.integers(1, 5)),
    elements=st.one_of(st.floats(0, 100), st.sampled_from([np.nan, np.inf])),
)


@given(SCORES, st.integers(1, 7))
def test_equals_the_naive_version(scores: Floats, k: int) -> None:
    assert np.array_equal(k_of_n(scores, k), [naive.k_th_largest(row, k) for row in scores], equal_nan=True)


@given(SCORES, st.integers(1, 5), st.randoms())
def test_order_of_members_does_not_matter(scores: Floats, k: int, random: Random) -> None:
    order = list(range(scores.shape[1]))
    random.shuffle(order)
    assert np.array_equal(k_of_n(scores[:, order], k), k_of_n(scores, k), equal_nan=True)


def test_two_of_three_pass_one_exactly_when_two_do() -> None:
    scores = np.array([[1.1, 1.2, 0.1], [1.1, 0.9, 0.1]])
    assert (k_of_n(scores, 2) >= 1).tolist() == [True, False]


def test_input_is_not_changed() -> None:
    scores = np.array([[3.0, 1.0, 2.0]])
    k_of_n(scores, 2)
    assert scores.tolist() == [[3.0, 1.0, 2.0]]


@pytest.mark.parametrize(("scores", "k"), [(np.ones((2, 3)), 0), (np.ones((2, 0)), 1), (np.ones(3), 1)])
def test_impossible_agreement_is_refused(scores: Floats, k: int) -> None:
    with pytest.raises(ValueError, match="k-of-n needs"):
        k_of_n(scores, k)


MEMBERS = ("zscore", "extremes", "bounds")


def test_who_speaks_alone_does_not_vote_and_needs_nobody() -> None:
    rows = np.array([[1.0, 4.0, 0.0], [4.0, 1.0, 5.0], [4.0, 3.5, 1.0]])
    settings = DetectorSettings(MEMBERS, agreement=2, alone=("bounds",))
    assert fuse(rows, MEMBERS, settings).tolist() == [1.0, 5.0, 3.5]
    assert spoken_alone(rows, MEMBERS, settings).tolist() == [0.0, 5.0, 1.0]
    assert fuse(rows, MEMBERS, DetectorSettings(MEMBERS, fusion="mean", alone=("bounds",))).tolist() == [2.5, 5.0, 3.75]
    # With nobody else, it is all there is.
    assert fuse(rows[:, 2:], ("bounds",), settings).tolist() == [0.0, 5.0, 1.0]
    voting = DetectorSettings(MEMBERS, agreement=2, alone=())
    assert fuse(rows, MEMBERS, voting).tolist() == [1.0, 4.0, 3.5]
    assert spoken_alone(rows, MEMBERS, voting).tolist() == [0.0, 0.0, 0.0]
    # A former regime's model may lack it.
    assert fuse(rows[:, :2], MEMBERS[:2], settings).tolist() == [1.0, 1.0, 3.5]


def test_ratios_count_as_decades_from_what_healthy_time_reaches_on() -> None:
    found = alone_decades(np.array([0.2, 1.0, 1.5, 2.0, 3.0, 1e12]), 2.0, 1e-3)
    assert found[:5] == pytest.approx([0.0, 0.0, 1.5, 3.0, 6.0])
    assert 6.0 < found[5] < 40.0, "beyond six decades there is more or less broken, not more or less rare"
    with pytest.raises(ValueError, match="must lie above 1"):
        alone_decades(np.ones(1), 1.0, 1e-3)
