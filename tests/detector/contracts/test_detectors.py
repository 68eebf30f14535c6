"""One suite over all detectors: what the contract in ``detectors/base.py`` promises."""

from __future__ import annotations

import numpy as np
import pytest

from hwsonde_detector.detectors.base import Detector
from hwsonde_detector.detectors.table import MEMBERS, make
from hwsonde_detector.errors import ConfigError
from hwsonde_detector.settings import DetectorSettings
from hwsonde_detector.types import Floats

SETTINGS = DetectorSettings(trees=25)
# The forest's random numbers fall on other columns in another order; the others are exactly symmetric.
SYMMETRIC = sorted(set(MEMBERS) - {"isolation_forest"})


@pytest.fixture(params=sorted(MEMBERS))
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def sample(n: int = 80, d: int = 6, seed: int = 0) -> Floats:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(n, 2)) @ rng.normal(size=(2, d)) + 0.5 * rng.normal(size=(n, d))


def check_answer(detector: Detector, rows: Floats) -> tuple[Floats, Floats]:
    """Shape, finiteness, sign and sum of scores and contributions."""
    score, parts = detector.score(rows), detector.contributions(rows)
    assert score.shape == (len(rows),)
    assert score.dtype == np.float64
    assert np.isfinite(score).all()
    assert (score >= 0).all()
    assert parts.shape == np.shape(rows)
    assert np.isfinite(parts).all()
    assert (parts >= 0).all()
    total = parts.sum(axis=1)
    assert (np.isclose(total, score, rtol=1e-9, atol=0) | (total == 0)).all()
    return score, parts


def test_every_shipped_member_is_in_the_table() -> None:
    assert set(DetectorSettings().members) <= set(MEMBERS)
    assert {make(name, SETTINGS).name for name in MEMBERS} == {
        "zscore", "mahalanobis", "isolation_forest", "extremes", "ridge", "mixture", "bounds",
    }  # fmt: skip


def test_an_unknown_name_is_refused_with_what_is_allowed() -> None:
    with pytest.raises(
        ConfigError, match="'zscorr' is not known; allowed: zscore, mahalanobis, isolation_forest, extremes"
    ):
        make("zscorr", SETTINGS)


def test_fit_gives_itself(name: str) -> None:
    detector = make(name, SETTINGS)
    assert detector.fit(sample()) is detector


def test_ordinary_rows(name: str) -> None:
    score, parts = check_answer(make(name, SETTINGS).fit(sample()), sample(seed=1) * 3)
    assert (parts.sum(axis=1)[score > np.median(score)] > 0).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite(name: str, bad: float) -> None:
    training, asked = sample(), sample(10, seed=1)
    training[::7, 2] = bad
    training[:, 4] = bad
    asked[3, :] = bad
    asked[5, 1] = bad
    _, parts = check_answer(make(name, SETTINGS).fit(training), asked)
    assert parts[5, 1] == 0
    assert (parts[3] == 0).all()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_an_unknown_value_does_not_raise_the_score_above_that_of_a_deviating_one(name: str, bad: float) -> None:
    detector = make(name, SETTINGS).fit(sample())
    rows = sample(1, seed=2).repeat(2, axis=0)
    rows[0, 0], rows[1, 0] = bad, 50.0
    score = detector.score(rows)
    assert score[0] < score[1]


def test_training_without_any_known_value(name: str) -> None:
    check_answer(make(name, SETTINGS).fit(np.full((5, 3), np.nan)), sample(4, 3))


def test_constant_columns(name: str) -> None:
    training = sample()
    training[:, 1] = 7.25
    asked = sample(10, seed=1)
    asked[0, 1] = 8.0
    check_answer(make(name, SETTINGS).fit(training), asked)


def test_only_constant_columns(name: str) -> None:
    check_answer(make(name, SETTINGS).fit(np.full((30, 3), 0.1)), sample(5, 3))


@pytest.mark.parametrize("n", [1, 2, 3])
def test_hardly_any_row(name: str, n: int) -> None:
    check_answer(make(name, SETTINGS).fit(sample(n)), sample(10, seed=1))


def test_one_column(name: str) -> None:
    check_answer(make(name, SETTINGS).fit(sample(50, 1)), sample(10, 1, seed=1))


def test_more_columns_than_rows(name: str) -> None:
    check_answer(make(name, SETTINGS).fit(sample(8, 40)), sample(10, 40, seed=1))


def test_no_rows_asked(name: str) -> None:
    check_answer(make(name, SETTINGS).fit(sample()), np.zeros((0, 6)))


@pytest.mark.parametrize("size", [1e12, 1e-12, 1e300])
def test_huge_and_tiny_values(name: str, size: float) -> None:
    check_answer(make(name, SETTINGS).fit(sample()), sample(10, seed=1) * size)
    check_answer(make(name, SETTINGS).fit(sample() * size), sample(10, seed=1))
    check_answer(make(name, SETTINGS).fit(sample() * size), sample(10, seed=1) * size)


def test_the_same_rows_give_the_same_answer(name: str) -> None:
    first, second = (make(name, SETTINGS).fit(sample()) for _ in range(2))
    asked = sample(20, seed=1)
    assert (first.score(asked) == second.score(asked)).all()
    assert (first.contributions(asked) == second.contributions(asked)).all()
    for key, array in first.arrays().items():
        assert (array == second.arrays()[key]).all()


def test_the_global_random_state_is_neither_used_nor_moved(name: str) -> None:
    np.random.seed(1)  # noqa: NPY002 the legacy global state is what is being checked
    first = make(name, SETTINGS).fit(sample()).score(sample(5, seed=1))
    after = np.random.random()  # noqa: NPY002
    np.random.seed(1)  # noqa: NPY002
    assert after == np.random.random()  # noqa: NPY002
    np.random.seed(2)  # noqa: NPY002
    assert (make(name, SETTINGS).fit(sample()).score(sample(5, seed=1)) == first).all()


def test_input_is_not_changed(name: str) -> None:
    training, asked = sample(), sample(10, seed=1)
    training[3, 3] = asked[2, 2] = np.nan
    training_before, asked_before = training.copy(), asked.copy()
    training.flags.writeable = asked.flags.writeable = False
    detector = make(name, SETTINGS).fit(training)
    detector.score(asked)
    detector.contributions(asked)
    assert np.array_equal(training, training_before, equal_nan=True)
    assert np.array_equal(asked, asked_before, equal_nan=True)


def test_later_changes_of_the_training_rows_do_not_reach_the_model(name: str) -> None:
    training = sample()
    detector = make(name, SETTINGS).fit(training)
    before = detector.score(sample(5, seed=1))
    training[:] = 0
    assert (detector.score(sample(5, seed=1)) == before).all()


def test_memory_order_and_kind_do_not_matter(name: str) -> None:
    detector = make(name, SETTINGS).fit(np.asfortranarray(sample()))
    asked = sample(10, seed=1)
    plain = make(name, SETTINGS).fit(sample())
    assert detector.score(np.asfortranarray(asked)) == pytest.approx(plain.score(asked), rel=1e-9)
    assert detector.score(asked[::2]) == pytest.approx(plain.score(asked)[::2], rel=1e-9)
    check_answer(detector, asked.astype(np.float32))


@pytest.mark.parametrize("n", [1, 80])
def test_what_is_saved_and_restored_answers_bit_for_bit(name: str, n: int) -> None:
    detector = make(name, SETTINGS).fit(sample(n))
    kept = {key: array.copy() for key, array in detector.arrays().items()}
    assert not any(array.dtype.hasobject for array in kept.values())
    again = make(name, SETTINGS).restore(kept)
    for array in kept.values():
        array[...] = 0  # the restored model keeps copies of its own
    asked = sample(20, seed=1)
    assert (again.score(asked) == detector.score(asked)).all()
    assert (again.contributions(asked) == detector.contributions(asked)).all()
    assert all((again.arrays()[key] == array).all() for key, array in detector.arrays().items())


def test_a_missing_array_is_one_clear_line(name: str) -> None:
    arrays = make(name, SETTINGS).fit(sample()).arrays()
    for key in arrays:
        with pytest.raises(ValueError, match=f"{key} is missing or of another shape"):
            make(name, SETTINGS).restore({other: array for other, array in arrays.items() if other != key})


@pytest.mark.parametrize("name", SYMMETRIC)
def test_another_order_of_columns_reorders_contributions(name: str) -> None:
    order = np.random.default_rng(5).permutation(6)
    training, asked = sample(), sample(20, seed=1) * 3
    plain = make(name, SETTINGS).fit(training)
    moved = make(name, SETTINGS).fit(training[:, order])
    assert moved.score(asked[:, order]) == pytest.approx(plain.score(asked), rel=1e-9)
    assert moved.contributions(asked[:, order]) == pytest.approx(
        plain.contributions(asked)[:, order], rel=1e-6, abs=1e-9
    )


def test_another_order_of_columns_names_the_same_column(name: str) -> None:
    order = np.random.default_rng(5).permutation(6)
    training = sample(200)
    asked = np.median(training, axis=0)[None, :].repeat(6, axis=0)
    asked[np.arange(6), np.arange(6)] += 12.0
    moved = make(name, DetectorSettings()).fit(training[:, order]).contributions(asked[:, order])
    assert (order[moved.argmax(axis=1)] == np.arange(6)).all()


def test_the_seed_matters_only_where_chance_does() -> None:
    asked = sample(20, seed=1)
    first, second = (
        make("isolation_forest", DetectorSettings(trees=25, seed=seed)).fit(sample()).score(asked) for seed in (1, 2)
    )
    assert (first != second).any()


def test_a_row_far_out_scores_above_every_training_row(name: str) -> None:
    training = sample()
    row = np.median(training, axis=0) + 20.0
    detector = make(name, DetectorSettings()).fit(training)
    assert detector.score(row[None])[0] > detector.score(training).max()
