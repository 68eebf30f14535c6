from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import IsolationForest as Reference

from hwsonde_detector.detectors.isolation_forest import IsolationForest, mean_path
from hwsonde_detector.types import Floats
from tests.detector.detectors import naive


def reference(rows: Floats, trees: int = 25, seed: int = 1, tree_rows: int = 256) -> Reference:
    used = min(tree_rows, len(rows))
    return Reference(n_estimators=trees, max_samples=used, random_state=seed, n_jobs=1).fit(rows.astype(np.float32))


@pytest.mark.parametrize("n", [1, 2, 3, 5, 17, 255, 256, 257, 600])
@pytest.mark.parametrize("d", [1, 4])
def test_equals_scikit_learn(n: int, d: int) -> None:
    rng = np.random.default_rng(n)
    rows = np.round(rng.normal(size=(n, d)), 1)  # ties, so that some leaves hold several rows
    asked = rng.normal(size=(50, d)) * 3
    score = IsolationForest(trees=25).fit(rows).score(asked)
    assert score == pytest.approx(-reference(rows).score_samples(asked.astype(np.float32)), abs=1e-6)


def test_values_on_a_threshold_go_the_same_way() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(300, 3))
    forest = reference(rows)
    cuts = np.concatenate([grown.tree_.threshold[grown.tree_.children_left >= 0] for grown in forest.estimators_])
    near = np.float32(cuts[:400])
    asked = np.stack([near, np.nextafter(near, np.float32(9)), np.nextafter(near, np.float32(-9))], axis=1)
    score = IsolationForest(trees=25).fit(rows).score(asked.astype(np.float64))
    assert score == pytest.approx(-forest.score_samples(asked), abs=1e-6)


def test_contributions_equal_the_naive_walk() -> None:
    rng = np.random.default_rng(4)
    rows, asked = rng.normal(size=(120, 5)), rng.normal(size=(12, 5)) * 2
    detector = IsolationForest(trees=25).fit(rows)
    saved = naive.isolation_contributions([grown.tree_ for grown in reference(rows).estimators_], asked, 120)
    expected = saved / saved.sum(axis=1, keepdims=True) * detector.score(asked)[:, None]
    assert detector.contributions(asked) == pytest.approx(expected, abs=1e-5)


def test_many_rows_score_as_each_alone() -> None:
    rng = np.random.default_rng(6)
    detector = IsolationForest(trees=10, tree_rows=64).fit(rng.normal(size=(200, 3)))
    rows = rng.normal(size=(2500, 3))
    some = [0, 1023, 1024, 2499]
    assert [detector.score(rows[i : i + 1])[0] for i in some] == detector.score(rows)[some].tolist()
    for i in some:
        assert (detector.contributions(rows[i : i + 1])[0] == detector.contributions(rows)[i]).all()


@pytest.mark.parametrize("column", range(6))
def test_the_column_that_moved_contributes_most(column: int) -> None:
    rows = np.random.default_rng(8).normal(size=(500, 6))
    row = np.zeros((1, 6))
    row[0, column] = 8.0
    assert IsolationForest().fit(rows).contributions(row)[0].argmax() == column


def test_an_unknown_value_contributes_nothing() -> None:
    rows = np.random.default_rng(8).normal(size=(100, 3))
    parts = IsolationForest(trees=20).fit(rows).contributions(np.array([[np.nan, 9.0, 0.0]]))
    assert parts[0, 0] == 0
    assert parts[0, 1] > 0


def test_constant_training_finds_every_row_ordinary() -> None:
    detector = IsolationForest(trees=10).fit(np.ones((50, 2)))
    assert detector.score(np.array([[1.0, 1.0], [9.0, -9.0]])) == pytest.approx([0.5, 0.5])


def test_no_rows_give_no_scores() -> None:
    detector = IsolationForest(trees=10).fit(np.random.default_rng(0).normal(size=(20, 2)))
    assert detector.score(np.zeros((0, 2))).shape == (0,)
    assert detector.contributions(np.zeros((0, 2))).shape == (0, 2)


@pytest.mark.parametrize("m", [0, 1, 2, 3, 256])
def test_mean_path(m: int) -> None:
    assert mean_path(np.array([m]))[0] == pytest.approx(naive.c(m))
