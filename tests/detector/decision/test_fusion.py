from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hwsonde_detector.decision.fusion import k_of_n
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
