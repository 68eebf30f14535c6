from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector.decision.trend import Trend
from hwsonde_detector.settings import DetectorSettings

SMOOTH = DetectorSettings(rise=0.5, fall=0.25)


def test_without_smoothing_the_level_is_the_newest_row() -> None:
    trend = Trend()
    assert [trend.take(value, DetectorSettings()) for value in (1.0, 5.0, 0.0)] == [1.0, 5.0, 0.0]


def test_a_rise_is_followed_at_once_and_a_fall_slowly() -> None:
    trend = Trend()
    assert [trend.take(value, SMOOTH) for value in (4.0, 4.0, 0.0)] == [2.0, 3.0, 2.25]


def test_a_row_that_was_not_judged_changes_nothing() -> None:
    trend = Trend(level=2.0, mean=1.0, strange=True)
    assert math.isnan(trend.take(float("nan"), SMOOTH))
    assert trend == Trend(level=2.0, mean=1.0, strange=True)


def test_a_spike_is_strange_and_what_follows_it_soon_is_not() -> None:
    trend = Trend()
    strange = []
    for value in (0.4, 100.0, 0.4, 0.4):
        trend.take(value, SMOOTH)
        strange.append(trend.strange)
    assert strange == [False, True, False, False]


def test_a_long_stretch_of_middling_surprise_is_strange() -> None:
    trend = Trend()
    for _ in range(40):
        trend.take(1.9, SMOOTH)
    assert trend.strange


@given(st.lists(st.floats(0, 70), min_size=1), st.floats(0.01, 1), st.floats(0.01, 1))
def test_the_level_stays_within_what_was_seen(values: list[float], rise: float, fall: float) -> None:
    trend = Trend()
    settings = DetectorSettings(rise=rise, fall=fall)
    for value in values:
        level = trend.take(value, settings)
        assert -1e-9 <= level <= max(values) + 1e-9
    assert level == pytest.approx(trend.level)
