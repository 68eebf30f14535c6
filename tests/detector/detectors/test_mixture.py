from __future__ import annotations

import numpy as np
import pytest

from hwsonde_detector.detectors.mixture import Mixture
from hwsonde_detector.types import Floats


def phases(n: int = 600, d: int = 6, seed: int = 0) -> Floats:
    """Three phases of a job, each with a centre of its own."""
    rng = np.random.default_rng(seed)
    centres = np.array([[0.0] * d, [8.0] * (d // 2) + [0.0] * (d - d // 2), [0.0] * (d // 2) + [8.0] * (d - d // 2)])
    return centres[np.arange(n) // 20 % 3] + rng.normal(size=(n, d))


def test_phases_are_found() -> None:
    assert len(Mixture().fit(phases()).means_) >= 3


def test_between_the_phases_is_worse_than_in_them() -> None:
    detector = Mixture().fit(phases())
    fresh = detector.score(phases(seed=1))
    between = detector.score(np.full((1, 6), 4.0))[0]
    assert between > np.quantile(fresh, 0.99)


def test_one_cluster_is_a_plain_distance() -> None:
    rng = np.random.default_rng(2)
    training = rng.normal(size=(20, 2))  # too few rows for more than one direction and cluster
    detector = Mixture().fit(training)
    assert len(detector.means_) == 1
    assert detector.score(detector.centre_[None])[0] < detector.score(detector.centre_[None] + 5)[0]


def test_what_lies_outside_of_the_directions_counts() -> None:
    rng = np.random.default_rng(3)
    training = rng.normal(size=(300, 1)) @ rng.normal(size=(1, 30)) + 0.05 * rng.normal(size=(300, 30))
    detector = Mixture(knee=1e9).fit(training)
    outside = np.linalg.svd(detector.directions_.T)[2][-1] * detector.scale_ * 10
    assert detector.score((detector.centre_ + outside)[None])[0] > 3 * np.median(detector.score(training))


def test_the_column_that_moved_contributes_most() -> None:
    detector = Mixture().fit(phases())
    rows = np.tile(phases()[:1], (6, 1))
    rows[np.arange(6), np.arange(6)] += 40
    assert (detector.contributions(rows).argmax(axis=1) == np.arange(6)).all()


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_the_unit_of_the_rows_matters_only_through_the_floor(scale: float) -> None:
    detector = Mixture(floor=0.3 * scale).fit(phases() * scale)
    plain = Mixture().fit(phases())
    assert detector.score(phases(seed=1) * scale) == pytest.approx(plain.score(phases(seed=1)), rel=1e-6)
