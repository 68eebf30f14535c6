from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector.config import parse_config
from hwsonde_detector.decision.thresholds import DAY_MS, Threshold, peaks, starting_level
from hwsonde_detector.decision.trend import Trend
from hwsonde_detector.settings import EpisodeSettings

MINUTE = 60_000
RULES = EpisodeSettings(budget=20.0)


def healthy(days: float, interval_ms: int = MINUTE, seed: int = 0) -> np.ndarray:
    """Decades of surprise as they should be: exponential."""
    return np.random.default_rng(seed).exponential(1 / np.log(10), int(days * DAY_MS / interval_ms))


def test_without_a_budget_the_risk_alone_counts() -> None:
    threshold = Threshold()
    rules = EpisodeSettings(budget=0.0, risk=1e-3)
    threshold.learn(healthy(5), MINUTE, RULES)
    assert threshold.level(rules) == pytest.approx(3.0)


def test_before_the_start_the_risk_counts() -> None:
    assert Threshold().level(RULES) == pytest.approx(3.0)


def test_healthy_time_passes_its_level_about_as_often_as_the_budget_says() -> None:
    """A hundred healthy host-days at one row a minute, smoothed as the preset for such rows does, and a budget of 100 pages in them."""
    smoothing = parse_config(b"preset: slow", "f.yaml").settings().detectors

    def smooth(seed: int) -> np.ndarray:
        trend = Trend()
        return np.array([trend.take(float(value), smoothing) for value in healthy(10, seed=seed)])

    level = starting_level(smooth(0), MINUTE, 100.0)
    passed = sum(len([p for p in peaks(smooth(seed)) if p >= level]) for seed in range(1, 11))
    # These rows know nothing of each other; those of real hosts hang together, and begin fewer pages.
    assert 25 < passed < 400


def test_a_smaller_budget_asks_for_more() -> None:
    levels = [starting_level(healthy(10), MINUTE, budget) for budget in (1000.0, 100.0, 20.0, 5.0)]
    assert levels == sorted(levels)
    assert levels[0] < levels[-1]


def test_more_rows_a_day_ask_for_more() -> None:
    assert starting_level(np.zeros(0), 1000, 20.0) > starting_level(np.zeros(0), 300_000, 20.0)


def test_a_host_with_high_peaks_gets_a_higher_level() -> None:
    quiet = healthy(10)
    loud = quiet.copy()
    loud[::700] = 5.0
    assert starting_level(loud, MINUTE, 20.0) > starting_level(quiet, MINUTE, 20.0) + 0.3


@given(st.lists(st.floats(0, 60), max_size=50), st.sampled_from([1000, 15_000, 300_000]), st.floats(0.1, 1e5))
def test_a_level_is_always_a_number_within_bounds(values: list[float], interval: int, budget: float) -> None:
    assert 1.4 <= starting_level(np.array(values), interval, budget) <= 6.0


def test_an_episode_raises_and_quiet_time_lowers_within_bounds() -> None:
    threshold = Threshold()
    threshold.learn(healthy(10), MINUTE, RULES)
    start = threshold.level(RULES)
    threshold.rise()
    assert threshold.level(RULES) == pytest.approx(start + 0.2)
    # The budget of 20 in 100 days grants one page in five days: so long it takes to come down again.
    threshold.quiet(5 * DAY_MS, RULES)
    assert threshold.level(RULES) == pytest.approx(start)
    for _ in range(50):
        threshold.rise()
    assert threshold.level(RULES) == pytest.approx(min(start + 2.0, 8.0))
    threshold.quiet(10_000 * DAY_MS, RULES)
    assert threshold.level(RULES) == pytest.approx(max(start - 1.0, 1.4))


def test_nothing_moves_before_the_start() -> None:
    threshold = Threshold()
    threshold.rise()
    threshold.quiet(DAY_MS, RULES)
    assert threshold == Threshold()


def test_peaks_within_ten_rows_are_one() -> None:
    values = np.zeros(300)
    values[[50, 55, 100, 111, 200]] = [3.0, 4.0, 2.0, 5.0, 1.0]
    values += np.linspace(0, 1e-6, 300)
    assert [round(float(peak)) for peak in peaks(values)[:4]] == [5, 4, 2, 1]
    assert len(peaks(np.zeros(0))) == 0
