from __future__ import annotations

import numpy as np
import pytest

from hwsonde_detector.detectors.ridge import Ridge
from hwsonde_detector.types import Floats


def correlated(n: int, d: int, seed: int = 0) -> Floats:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 3)) @ rng.normal(size=(3, d)) + 0.3 * rng.normal(size=(n, d)) + 5


def naive_distance(training: Floats, asked: Floats, ridge: float, floor: float) -> list[float]:
    """One block, no knee: by solving a system a row."""
    centre, scale = training.mean(axis=0), np.maximum(training.std(axis=0), floor)
    z = (training - centre) / scale
    n, d = z.shape
    covariance = sum(np.outer(row, row) for row in z) / n + ridge * (1 + d / n) * np.eye(d)
    return [float(np.sqrt(row @ np.linalg.solve(covariance, row) / d)) for row in (asked - centre) / scale]


@pytest.mark.parametrize(("n", "d"), [(200, 8), (30, 8), (12, 20), (2, 3)])
def test_equals_the_plain_version(n: int, d: int) -> None:
    training, asked = correlated(n, d), correlated(15, d, seed=1)
    score = Ridge(knee=1e9).fit(training).score(asked)
    assert score == pytest.approx(naive_distance(training, asked, 0.1, 0.1), rel=1e-4)


def test_blocks_are_judged_apart_and_the_three_largest_count() -> None:
    rng = np.random.default_rng(1)
    training = rng.normal(size=(400, 10))
    row = rng.normal(size=(1, 10))
    row[0, 4:6] += 8.0
    apart = [Ridge().fit(training[:, 2 * i : 2 * i + 2]).score(row[:, 2 * i : 2 * i + 2])[0] for i in range(5)]
    largest = np.sort(apart)[-3:]
    assert Ridge(block=2).fit(training).score(row)[0] == pytest.approx(np.sqrt((largest**2).mean()), rel=1e-6)


def test_a_fault_of_one_block_is_not_averaged_away() -> None:
    rng = np.random.default_rng(2)
    training = rng.normal(size=(300, 400))
    row = np.zeros((1, 400))
    row[0, 100:104] = 12.0
    assert Ridge(block=40).fit(training).score(row)[0] > 1.2 * Ridge(block=400).fit(training).score(row)[0]


def test_channels_stay_whole() -> None:
    detector = Ridge(group=5, block=3).fit(np.random.default_rng(3).normal(size=(50, 35)))
    assert (detector.borders_ % 5 == 0).all()
    assert (np.diff(detector.borders_) <= 15).all()
    assert detector.borders_[[0, -1]].tolist() == [0, 35]


def test_columns_that_cannot_be_grouped_are_refused() -> None:
    with pytest.raises(ValueError, match="groups of 5"):
        Ridge(group=5).fit(np.zeros((10, 7)))


def test_contributions_name_the_column_in_the_block_that_decides() -> None:
    detector = Ridge(block=4).fit(np.random.default_rng(4).normal(size=(300, 40)))
    row = np.zeros((1, 40))
    row[0, 17] = 10.0
    assert detector.contributions(row)[0].argmax() == 17


def test_an_unusual_course_is_found_though_every_value_is_usual() -> None:
    """A value that swings slowly; one that jumps between its usual extremes within three rows is new."""
    t = np.arange(600.0)
    swing = np.sin(t / 20)[:, None]
    course = np.hstack([swing[2:], swing[1:-1], swing[:-2]])
    detector = Ridge().fit(course)
    usual, jumping = detector.score(np.array([[0.9, 0.89, 0.88], [0.9, -0.9, 0.9]]))
    assert jumping > 3 * usual
