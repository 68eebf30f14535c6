from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hwsonde_detector.detectors.zscore import ZScore
from hwsonde_detector.types import Floats
from tests.detector.detectors import naive


@pytest.fixture
def rows() -> Floats:
    return np.random.default_rng(3).normal(2.0, 3.0, size=(40, 5))


def test_equals_the_naive_version_with_unknown_values(rows: Floats) -> None:
    training = rows.copy()
    training[3, 1], training[7, 2], training[:, 4] = np.nan, np.inf, 1.5
    asked = rows[:10] * 4
    asked[0, 0], asked[1, 3] = np.nan, -np.inf
    expected = naive.mean_abs_z(training, asked, floor=0.3, knee=2.0)
    assert (np.abs(asked - 2.0) / 3.0 > 2.0).any()
    assert ZScore(knee=2.0).fit(training).score(asked) == pytest.approx(expected, rel=1e-12)


def test_first_change_of_a_constant_column_is_judged_against_the_floor(rows: Floats) -> None:
    training = rows.copy()
    training[:, 0] = 4.0
    detector = ZScore(floor=0.25).fit(training)
    row = detector.centre_[None, :].copy()
    row[0, 0] += 1.0
    assert detector.score(row) == pytest.approx([4.0 / 5])


def test_a_column_of_the_score_does_not_move_when_another_is_added(rows: Floats) -> None:
    narrow = ZScore().fit(rows[:, :4]).contributions(rows[:, :4])
    wide = ZScore().fit(rows).contributions(rows)
    assert wide[:, :4] * 5 == pytest.approx(narrow * 4)


def test_no_row_to_learn_from_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one row"):
        ZScore().fit(np.zeros((0, 3)))


def test_rows_of_another_width_are_refused(rows: Floats) -> None:
    with pytest.raises(ValueError, match="5 columns expected"):
        ZScore().fit(rows).score(rows[:, :4])


@pytest.mark.parametrize("change", [{"scale": np.zeros((2, 2))}, {"scale": np.zeros(5, np.float32)}, {"scale": None}])
def test_a_kept_model_of_another_shape_is_refused(rows: Floats, change: dict[str, Any]) -> None:
    arrays = {**ZScore().fit(rows).arrays(), **change}
    arrays = {name: array for name, array in arrays.items() if array is not None}
    with pytest.raises(ValueError, match="scale is missing or of another shape"):
        ZScore().restore(arrays)


def test_one_wild_column_does_not_outweigh_a_fault_that_moves_many() -> None:
    detector = ZScore().fit(np.random.default_rng(3).normal(size=(400, 300)))
    wild, fault = np.zeros((2, 300))
    wild[0], fault[:30] = 300.0, 10.0
    score = detector.score(np.array([wild, fault]))
    assert score[1] > 3 * score[0]
