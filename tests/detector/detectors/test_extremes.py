"""Mean surprise of the loudest channels, against a slow and obvious twin."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwsonde_detector.detectors.extremes import Extremes
from hwsonde_detector.detectors.tails import ColumnTails, fit_columns
from hwsonde_detector.detectors.zscore import ZScore


def naive_surprise(value: float, centre: float, usual: float, excess: float) -> float:
    if math.isnan(value):
        return 0.0
    distance = abs(value - centre)
    if distance <= usual:
        return 1.7 * distance / usual
    decades = 1.7 + 0.4343 * (distance - usual) / excess
    return decades if decades <= 6 else 6 * (1 + math.log(decades / 6))


def naive_score(row: list[float], tails: ColumnTails, group: int, loudest: int) -> float:
    each = [naive_surprise(*item) for item in zip(row, tails.centre, tails.usual, tails.excess, strict=True)]
    channels = sorted((max(each[start : start + group]) for start in range(0, len(each), group)), reverse=True)
    return sum(channels[:loudest]) / min(loudest, len(channels))


@given(
    st.integers(1, 3),
    st.integers(1, 5),
    st.lists(st.floats(-1e6, 1e6) | st.just(math.nan), min_size=15, max_size=15),
)
@settings(max_examples=100)
def test_score_equals_its_naive_twin(group: int, loudest: int, row: list[float]) -> None:
    rows = np.random.default_rng(5).standard_t(3, (200, 5 * group))
    detector = Extremes(group=group, loudest=loudest).fit(rows)
    found = detector.score(np.array([row[: 5 * group]]))[0]
    assert found == pytest.approx(naive_score(row[: 5 * group], detector.tails_, group, loudest), rel=1e-12)


def test_few_far_channels_are_heard_where_averages_drown_them() -> None:
    rng = np.random.default_rng(1)
    train, test = rng.normal(size=(400, 300)), rng.normal(size=(200, 300))
    fault = test.copy()
    fault[:, :4] += 8

    def separation(detector: Extremes | ZScore) -> float:
        detector.fit(train)
        quiet = detector.score(test)
        return float((detector.score(fault).min() - quiet.mean()) / quiet.std())

    assert separation(Extremes()) > 3 * separation(ZScore())


def test_a_column_that_bursts_now_and_then_may_burst_again() -> None:
    rng = np.random.default_rng(2)
    rows = rng.normal(size=(500, 2))
    rows[::40, 0] += 30
    tails = fit_columns(rows, 1.0)
    known, new = tails.surprise(np.array([[30.0, 30.0]]))[0]
    assert known < 3
    assert new > 10


def test_one_wild_channel_counts_once_however_many_features_show_it() -> None:
    rows = np.random.default_rng(3).normal(size=(300, 9))
    wild = np.zeros((1, 9))
    wild[0, :3] = 50.0
    assert Extremes(group=3).fit(rows).score(wild) < 0.4 * Extremes(group=1).fit(rows).score(wild)
    parts = Extremes(group=3).fit(rows).contributions(wild)
    assert np.count_nonzero(parts[0, :3]) == 1


def test_columns_that_cannot_be_grouped_are_refused() -> None:
    with pytest.raises(ValueError, match="groups of 2"):
        Extremes(group=2).fit(np.zeros((5, 3)))
    with pytest.raises(ValueError, match="rows of 3 columns"):
        Extremes().fit(np.zeros((5, 3))).score(np.zeros((1, 2)))


def test_columns_without_a_value_are_centred_on_nothing() -> None:
    tails = fit_columns(np.full((4, 1), np.nan), 1.0)
    assert tails.centre[0] == 0
    assert tails.surprise(np.array([[np.nan]]))[0, 0] == 0
    assert np.array_equal(ColumnTails.of(tails.array()).array(), tails.array())
