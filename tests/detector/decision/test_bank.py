"""Former regimes: what is kept of them, and who is recognised."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hwsonde_detector.decision.ages import Ages
from hwsonde_detector.decision.bank import (
    Former,
    best,
    compare,
    fault_score,
    judge_newest,
    keep,
    light,
    newest_loudness,
    rest,
)
from hwsonde_detector.decision.model import EntityModel, fit_model
from hwsonde_detector.settings import DetectorSettings, Settings
from hwsonde_detector.types import Channel, Entity, Frame, Subsystem

ENTITY = Entity((("node", "n1"),))
CHANNELS = tuple(Channel(f"c{index:02d}", Subsystem.CPU, floor=0.1) for index in range(30))
SETTINGS = Settings(detectors=DetectorSettings(trees=20))


def rows(level: float, count: int = 200, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(level, 1, (count, len(CHANNELS)))


def model(level: float) -> EntityModel:
    made = fit_model(rows(level), 1000 * np.arange(200, dtype=np.int64), 1000, CHANNELS, SETTINGS)
    assert made is not None
    return made


def frame(level: float, count: int = 10) -> Frame:
    return Frame(ENTITY, CHANNELS, 1000 * np.arange(count, dtype=np.int64), rows(level, count, seed=5))


def former(level: float, busy: bool | None = None, used_ms: int = 0) -> Former:
    return Former(Ages(), light(model(level)), busy, 0, used_ms)


def size(one: EntityModel) -> int:
    return sum(array.nbytes for detector in one.detectors.values() for array in detector.arrays().values())


def test_what_is_kept_is_small_and_judges_as_before() -> None:
    whole = model(0)
    small = light(whole)
    assert 0 < len(small.detectors) < len(whole.detectors)
    assert size(small) < 0.2 * size(whole)
    one, other = (judge_newest(made, frame(3), 1, 1000, SETTINGS) for made in (whole, small))
    names = list(whole.detectors)
    for place, name in enumerate(small.detectors):
        assert other.members[0, place] == one.members[0, names.index(name)]


def test_a_regime_is_quiet_on_its_own_rows_and_loud_on_others() -> None:
    small = light(model(0))
    assert newest_loudness(small, frame(0), 1000, SETTINGS) < SETTINGS.episodes.clear_at
    assert newest_loudness(small, frame(8), 1000, SETTINGS) > 1


def test_what_is_not_known_is_not_quiet() -> None:
    small, made = light(model(0)), frame(0)
    few = Frame(ENTITY, CHANNELS[:10], made.times, made.values[:, :10])
    assert np.isnan(newest_loudness(small, few, 1000, SETTINGS))
    late = replace(made, times=np.append(made.times[:-1], made.times[-1] + 60_000))
    assert np.isnan(newest_loudness(small, late, 1000, SETTINGS))
    assert np.isnan(newest_loudness(small, frame(0, 1), 1000, SETTINGS))


def test_the_regime_that_knows_the_rows_is_found() -> None:
    bank = [former(0), former(8), former(20)]
    for _ in range(3):
        assert compare(bank, frame(8), 1000, SETTINGS, busy=False)
    assert [one.quiet for one in bank] == [0, 3, 0]
    assert best(bank, 3) is bank[1]
    assert best(bank, 4) is None
    assert not compare(bank, frame(50), 1000, SETTINGS, busy=False)
    assert best(bank, 1) is None
    compare(bank, frame(0), 1000, SETTINGS, busy=False)
    rest(bank)
    assert [one.quiet for one in bank] == [0, 0, 0]


@pytest.mark.parametrize(
    ("learned", "now", "asked"), [(True, False, False), (False, True, False), (True, True, True), (None, True, True)]
)
def test_idle_and_busy_regimes_are_not_mistaken(learned: bool | None, now: bool, asked: bool) -> None:
    assert compare([former(0, learned)], frame(0), 1000, SETTINGS, busy=now) is asked


def test_a_barred_regime_is_not_asked_for_a_while() -> None:
    bank = [former(0)]
    bank[0].barred = 3
    asked = [compare(bank, frame(0), 1000, SETTINGS, busy=False) for _ in range(4)]
    assert asked == [False, False, True, True]


def test_of_several_the_quietest_counts() -> None:
    bank = [former(0), former(0.5)]
    for _ in range(3):
        compare(bank, frame(0), 1000, SETTINGS, busy=False)
    chosen = best(bank, 3)
    assert chosen is not None
    assert chosen.loudness == min(one.loudness for one in bank if one.quiet == 3)


def test_of_too_many_the_one_not_used_for_longest_goes() -> None:
    template = former(0)
    made = [replace(template, used_ms=used) for used in (5, 1, 9, 3)]
    bank: list[Former] = []
    for one in made:
        keep(bank, one, 2)
    assert [one.used_ms for one in bank] == [5, 9] or [one.used_ms for one in bank] == [9, 3]
    assert 1 not in [one.used_ms for one in bank]
    keep(bank, made[0], 0)
    assert not bank


def test_a_fault_score_is_one_at_the_risk_and_takes_its_number_off() -> None:
    surprises = np.array([9.0, 3.0, 0.0])
    assert fault_score(surprises, np.array([False, True, False]), 1e-3) == pytest.approx(1)
    assert fault_score(surprises, np.array([False, True, True]), 1e-3) == pytest.approx((3 - np.log10(2)) / 3)
    assert fault_score(surprises, np.zeros(3, np.bool_), 1e-3) == 0
    assert fault_score(np.zeros(3), np.ones(3, np.bool_), 1e-3) == 0
