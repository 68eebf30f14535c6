from __future__ import annotations

import numpy as np
import pytest

from hwsonde_detector.detectors.mahalanobis import Mahalanobis
from hwsonde_detector.types import Floats
from tests.detector.detectors import naive


def correlated(n: int, d: int, seed: int = 0) -> Floats:
    """Rows that vary mostly in three directions."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)) @ rng.normal(size=(3, d)) + 0.3 * rng.normal(size=(n, d)) + 5


@pytest.mark.parametrize(("n", "d"), [(200, 8), (30, 8), (12, 20), (5, 40), (2, 3)])
@pytest.mark.parametrize("kept", [0.5, 0.95, 1.0])
def test_equals_the_full_covariance_version(n: int, d: int, kept: float) -> None:
    training, asked = correlated(n, d), correlated(15, d, seed=1) * 1.5
    detector = Mahalanobis(variance_kept=kept).fit(training)
    expected = naive.full_covariance_distance(training, asked, kept, ridge=0.5, floor=0.1, knee=2.0)
    assert detector.score(asked) == pytest.approx(expected, rel=1e-7)


def test_breaking_a_correlation_is_worse_than_going_further_along_it() -> None:
    detector = Mahalanobis(knee=1e9).fit(correlated(500, 6))
    along = detector.centre_ + 3 * detector.scale_ * detector.directions_[:, 0] * np.sqrt(6)
    across_z = np.linalg.svd(detector.directions_.T)[2][-1]
    across = detector.centre_ + 3 * detector.scale_ * across_z * np.sqrt(6)
    score = detector.score(np.array([along, across]))
    assert score[1] > 2 * score[0]


def test_a_deviation_outside_of_the_subspace_counts() -> None:
    training = correlated(300, 8)
    detector = Mahalanobis(variance_kept=0.5, knee=1e9).fit(training)
    outside = np.linalg.svd(detector.directions_.T)[2][-1]
    row = detector.centre_ + 30 * detector.scale_ * outside
    assert abs((30 * outside) @ detector.directions_).max() < 1e-9
    assert detector.score(row[None])[0] > 5 * np.median(detector.score(training))


def test_out_of_sample_scores_stay_near_those_of_training_when_rows_are_few() -> None:
    rng = np.random.default_rng(5)
    detector = Mahalanobis().fit(rng.normal(size=(30, 200)))
    fresh = detector.score(rng.normal(size=(50, 200)))
    assert np.median(fresh) < 2.0
    # Without the ridge the same rows are many times further away: directions never seen are divided by almost nothing.
    bold = Mahalanobis(variance_kept=1.0, ridge=1e-6).fit(rng.normal(size=(30, 200)))
    assert np.median(bold.score(rng.normal(size=(50, 200)))) > 100


def test_the_column_that_moved_contributes_most() -> None:
    detector = Mahalanobis().fit(correlated(400, 10))
    rows = np.tile(detector.centre_, (10, 1))
    rows[np.arange(10), np.arange(10)] += 12 * detector.scale_
    assert (detector.contributions(rows).argmax(axis=1) == np.arange(10)).all()


def test_the_centre_scores_nothing_and_contributes_nothing() -> None:
    detector = Mahalanobis().fit(correlated(50, 4))
    assert detector.score(detector.centre_[None]) == pytest.approx([0.0])
    assert (detector.contributions(detector.centre_[None]) == 0).all()


def test_scores_are_those_of_normal_rows_near_one() -> None:
    rng = np.random.default_rng(9)
    score = Mahalanobis().fit(rng.normal(size=(2000, 10))).score(rng.normal(size=(500, 10)))
    assert 0.7 < np.median(score) < 1.1
