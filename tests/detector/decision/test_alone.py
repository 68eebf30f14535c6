"""What one channel says alone: which rows are enough, which part it names, and when it is a drift."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hwsonde_detector.decision.episodes import ENOUGH_MS
from hwsonde_detector.decision.model import EntityModel, fit_model
from hwsonde_detector.explain.attribution import by_subsystem
from hwsonde_detector.scoring import Judged, judge_rows
from hwsonde_detector.types import Channel, Entity, Floats, Frame, Subsystem
from tests.detector.worker.hosts import SETTINGS

ROWS = 480
DECADES = -np.log10(SETTINGS.episodes.risk)
HOST = Entity((("cluster", "lab"), ("node", "n1")))
CHANNELS = (
    Channel("drops", Subsystem.NETWORK, floor=1.0, flow=True),
    Channel("level", Subsystem.MEMORY, floor=1.0),
    # Use, which swings with the work: of a weight at which nothing is told of it alone.
    *(Channel(f"use_{number}", Subsystem.CPU, floor=1.0, weight=0.3, flow=True) for number in range(4)),
)
DROPS, LEVEL, USE = 0, 1, slice(2, 6)


def healthy(rows: int, seed: int = 5) -> Floats:
    return np.random.default_rng(seed).normal(10, 2, (rows, len(CHANNELS)))


def times(rows: int, interval_ms: int) -> np.ndarray:
    return np.arange(rows, dtype=np.int64) * interval_ms


def learned(values: Floats, interval_ms: int = 1000) -> EntityModel:
    model = fit_model(values, times(len(values), interval_ms), interval_ms, CHANNELS, SETTINGS)
    assert model is not None
    return model


def judged(model: EntityModel, values: Floats, interval_ms: int = 1000) -> Judged:
    """All rows are new."""
    frame = Frame(HOST, CHANNELS, times(len(values), interval_ms), values)
    return judge_rows(model, frame, len(values), interval_ms, SETTINGS)


@pytest.mark.parametrize("interval_ms", [1000, ENOUGH_MS - 1, ENOUGH_MS, 15_000])
@pytest.mark.parametrize("channel", [DROPS, LEVEL])
def test_one_row_is_enough_of_a_counter_where_rows_are_long(interval_ms: int, channel: int) -> None:
    """A counter's row sums up all that happened since the one before; a gauge's tells of one moment."""
    model = learned(healthy(ROWS), interval_ms)
    values = healthy(20, seed=6)
    values[-1, channel] = 1000.0
    alone = judged(model, values, interval_ms).judgement.alone
    assert (alone[-1] > DECADES) == (channel == DROPS and interval_ms >= ENOUGH_MS)
    values[-2, channel] = 1000.0
    assert judged(model, values, interval_ms).judgement.alone[-1] > DECADES, "two rows of three are enough of any"


@pytest.mark.parametrize(
    ("rows", "interval_ms", "speaks"), [(240, 1000, False), (480, 1000, True), (120, 15_000, True)]
)
def test_a_few_minutes_of_healthy_time_are_too_few(rows: int, interval_ms: int, *, speaks: bool) -> None:
    settings = replace(SETTINGS, detectors=replace(SETTINGS.detectors, alone_after_ms=480_000))
    model = fit_model(healthy(rows), times(rows, interval_ms), interval_ms, CHANNELS, settings)
    assert model is not None
    values = healthy(20, seed=6)
    values[-3:, DROPS] = 1000.0
    frame = Frame(HOST, CHANNELS, times(len(values), interval_ms), values)
    found = judge_rows(model, frame, len(values), interval_ms, settings).judgement
    assert (found.alone[-1] > DECADES) == speaks
    assert found.voted[-1] > DECADES, "those that vote see it as well"


def test_more_than_memory_can_hold_is_not_waited_for() -> None:
    learning = replace(SETTINGS.learning, memory_rows=200)
    settings = replace(SETTINGS, learning=learning, detectors=replace(SETTINGS.detectors, alone_after_ms=86_400_000))
    model = fit_model(healthy(200), times(200, 1000), 1000, CHANNELS, settings)
    assert model is not None
    values = healthy(20, seed=6)
    values[-3:, DROPS] = 1000.0
    frame = Frame(HOST, CHANNELS, times(20, 1000), values)
    assert judge_rows(model, frame, 20, 1000, settings).judgement.alone[-1] > DECADES


def shares(found: Judged) -> dict[Subsystem, float]:
    return by_subsystem(found.strengths[-1], CHANNELS)


def with_a_burst() -> Floats:
    """Healthy but for one burst of a neighbour, as any learned hour may have; the channel's own tail reaches as far as it did."""
    values = healthy(ROWS)
    values[108:113, DROPS] = 60.0
    return values


def test_what_speaks_alone_names_the_part_in_the_place_of_what_stirs() -> None:
    model = learned(with_a_burst())
    values = healthy(20, seed=6)
    values[-3:, USE] = 20.0
    stirred = judged(model, values)
    assert stirred.judgement.alone[-1] == 0
    assert max(shares(stirred), key=shares(stirred).__getitem__) is Subsystem.CPU
    values[-3:, DROPS] = 55.0
    found = judged(model, values)
    assert found.judgement.alone[-1] > DECADES
    assert found.judgement.surprises[-1][DROPS] < found.judgement.surprises[-1][USE].min(), (
        "by its own tail it is usual"
    )
    assert max(shares(found), key=shares(found).__getitem__) is Subsystem.NETWORK


def test_what_is_said_alone_below_the_threshold_names_nothing() -> None:
    model = learned(with_a_burst())
    values = healthy(20, seed=6)
    values[-3:, USE] = 20.0
    quiet = judged(model, values)
    bound = float(model.detectors["bounds"].arrays()["bounds"][0][DROPS])
    # Beyond the bound, and not twice as far.
    values[-3:, DROPS] = model.scale.centre[DROPS] + 1.5 * bound * model.scale.spread[DROPS]
    found = judged(model, values)
    assert 0 < found.judgement.alone[-1] < DECADES
    assert found.strengths[-1][USE] == pytest.approx(quiet.strengths[-1][USE])
    assert shares(found)[Subsystem.CPU] > shares(found)[Subsystem.NETWORK]


def wandering(rows: int) -> Floats:
    """A level that has gone to twice its bounds and beyond in as many rows."""
    values = healthy(rows, seed=6)
    values[:, LEVEL] = np.linspace(10, 60, rows)
    return values


def test_what_wanders_for_minutes_is_no_beginning() -> None:
    model = learned(healthy(ROWS))
    slow, fast = judged(model, wandering(400)), judged(model, wandering(60))
    assert slow.judgement.alone[-1] > DECADES
    assert not slow.sudden[-1]
    assert fast.judgement.alone[-1] > DECADES
    assert fast.sudden[-1], "in one minute it went all the way"


def test_a_step_is_a_beginning_also_beside_what_wanders() -> None:
    model = learned(healthy(ROWS))
    values = wandering(400)
    values[-3:, DROPS] = 60.0
    assert judged(model, values).sudden[-1]


def test_what_lasts_is_no_beginning_any_more() -> None:
    """Whoever asks must remember that it began: `Persistence.drifts`."""
    model = learned(healthy(ROWS))
    values = healthy(200, seed=6)
    values[-100:, LEVEL] = 60.0
    found = judged(model, values).sudden
    assert found[100 - SETTINGS.window.rows + 2]
    assert not found[-1]


def test_with_too_little_before_it_all_is_sudden() -> None:
    model = learned(healthy(ROWS))
    values = healthy(6, seed=6)
    values[:, LEVEL] = 60.0
    found = judged(model, values)
    assert (found.judgement.alone > 0).all()
    assert found.sudden.all()


def test_of_the_first_values_of_a_channel_nothing_is_learned() -> None:
    """It has come ten rows ago, with a level of its own, and goes on as healthy as it is."""
    values = healthy(ROWS)
    values[:-10, DROPS] = np.nan
    values[-10:, DROPS] = 5.0
    model = learned(values)
    assert CHANNELS[DROPS].name not in {channel.name for channel in model.channels}
    assert len(model.channels) == len(CHANNELS) - 1
    found = judged(model, healthy(20, seed=6))
    assert found.judgement.alone.max() < DECADES
    assert np.isfinite(found.judgement.fused).all()


@pytest.mark.parametrize(("known", "speaks"), [(100, False), (300, True)])
def test_a_channel_of_less_than_half_of_the_learned_time_does_not_speak_alone(known: int, *, speaks: bool) -> None:
    """Its bounds would be those of the few stretches that know it, and nothing in all the others."""
    values = healthy(ROWS)
    values[:-known, DROPS] = np.nan
    model = learned(values)
    later = healthy(20, seed=6)
    later[-3:, DROPS] = 60.0
    found = judged(model, later).judgement
    assert (found.alone[-1] > DECADES) == speaks
    assert found.surprises[-1][DROPS] > 3, "those that must agree see it"
