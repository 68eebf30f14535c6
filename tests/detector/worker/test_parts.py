"""The parts between detectors and episodes, each against a slow and obvious twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwsonde_detector.decision.episodes import Persistence
from hwsonde_detector.decision.learning import Memory, Progress, align
from hwsonde_detector.decision.model import fit_model, judge
from hwsonde_detector.decision.scaling import fit_scale, untransform
from hwsonde_detector.hoststate import persistence_document, read_persistence
from hwsonde_detector.settings import EpisodeSettings, LearningSettings
from hwsonde_detector.signals.windows import transform
from hwsonde_detector.types import Channel, Device, Frame, Subsystem
from tests.detector.worker.hosts import ENTITY, SETTINGS

A = Channel("a", Subsystem.CPU, floor=0.1)
B = Channel("b", Subsystem.STORAGE, Device("disk", "vda"), floor=1000.0, logarithmic=True, unit="bytes/s")
C = Channel("c", Subsystem.STORAGE, Device("disk", "vdb"), floor=1.0, weight=0.3)


# --- memory


@st.composite
def appends(draw: st.DrawFn) -> tuple[int, list[tuple[tuple[str, ...], list[float]]]]:
    limit = draw(st.integers(1, 6))
    names = st.lists(st.sampled_from("abcd"), min_size=1, max_size=4, unique=True).map(
        lambda chosen: tuple(sorted(chosen))
    )
    block = st.tuples(names, st.lists(st.floats(-1e3, 1e3, width=32) | st.just(float("nan")), min_size=0, max_size=5))
    return limit, draw(st.lists(block, max_size=12))


@given(appends())
@settings(max_examples=200, deadline=None)
def test_memory_keeps_the_newest_rows(case: tuple[int, list[tuple[tuple[str, ...], list[float]]]]) -> None:
    limit, blocks = case
    memory, rows, now = Memory(), [], 0
    for names, values in blocks:
        channels = tuple(Channel(name, Subsystem.CPU) for name in names)
        times = np.arange(now, now + len(values), dtype=np.int64)
        now += len(values)
        memory.append(
            Frame(
                ENTITY, channels, times, np.array([[value] * len(names) for value in values]).reshape(-1, len(names))
            ),
            limit,
        )
        rows = (rows + [dict.fromkeys(names, value) for value in values])[-limit:]
    assert memory.times.tolist() == list(range(now - len(rows), now))
    for index, channel in enumerate(memory.channels):
        expected = [np.float32(row.get(channel.name, np.nan)) for row in rows]
        np.testing.assert_array_equal(memory.values[:, index], expected)
    seen = {name for row in rows for name, value in row.items() if not np.isnan(value)}
    assert seen <= {channel.name for channel in memory.channels}
    assert [channel.name for channel in memory.channels] == sorted({channel.name for channel in memory.channels})


def test_memory_forgets_a_device_that_is_gone_for_long() -> None:
    memory = Memory()
    for second in range(40):
        channels = (A, B) if second < 5 else (A,)
        memory.append(Frame(ENTITY, channels, np.array([second]), np.ones((1, len(channels)))), 10)
    assert memory.channels == (A,)


def test_align_moves_columns_by_name() -> None:
    moved = align(np.array([[1.0, 2.0]]), (A, B), (B, C, A))
    np.testing.assert_array_equal(moved, [[2.0, np.nan, 1.0]])


def test_fits_are_due_at_stated_rows() -> None:
    rules = LearningSettings(first_rows=60, calibrated_rows=240, refit_growth=0.5, refit_rows=600)
    progress, fits = Progress(), []
    for row in range(1, 3000):
        progress.accepted += 1
        if progress.rows_to_fit(rules) == 0:
            progress.fitted = progress.accepted
            fits.append(row)
    assert fits == [60, 90, 135, 202, 240, 360, 540, 810, 1215, 1815, 2415]
    assert Progress(accepted=240, fitted=239).calibrated(rules) is False
    assert Progress(accepted=240, fitted=240).calibrated(rules) is True


# --- persistence


def naive_persistence(scores: list[tuple[float, float]], rules: EpisodeSettings) -> list[str]:
    """Of fused scores, and of what a member says alone."""
    said, opened, last, lone = [], False, [], []
    quiet = 0
    for score, alone in scores:
        last = [*last, score >= rules.raise_at][-rules.raise_of :]
        lone = [*lone, alone >= rules.raise_at]
        by_one = rules.alone_windows > 0 and len(lone) >= rules.alone_windows and all(lone[-rules.alone_windows :])
        if opened:
            # Between clear_at and raise_at a window counts half.
            quiet = quiet + (2 if score < rules.clear_at else 1) if score < rules.raise_at else 0
            if quiet >= 2 * rules.clear_windows:
                opened, last, lone = False, [], []
                said.append("closes")
                continue
        elif sum(last) >= rules.raise_windows or by_one:
            opened, quiet = True, 0
            said.append("opens")
            continue
        said.append("")
    return said


SCORES = st.sampled_from([0.1, 0.69, 0.7, 0.99, 1.0, 2.5, 2.6, 5.0])


@pytest.mark.parametrize(
    ("step_ms", "score", "windows"),
    [
        (1000, 0.1, 10),
        (1000, 0.9, 20),
        (14_997, 0.1, 4),
        (15_003, 0.1, 4),
        (15_000, 0.9, 8),
        (3_600_000, 0.1, 2),
        (0, 0.1, 10),
    ],
)
def test_an_episode_of_slow_scrapes_ends_after_a_minute_of_quiet_but_not_with_one_window(
    step_ms: int, score: float, windows: int
) -> None:
    rules = EpisodeSettings(clear_windows=10, clear_after_ms=60_000)
    state = Persistence(open=True)
    said = [state.observe(score, at, rules, lasting=True, calibrated=True, step_ms=step_ms)[1] for at in range(windows)]
    assert said == [False] * (windows - 1) + [True]
    # Asked for at one scrape a second, so many windows are so many.
    long = EpisodeSettings(clear_windows=300, clear_after_ms=60_000)
    state = Persistence(open=True)
    assert not any(state.observe(0.1, at, long, lasting=True, calibrated=True, step_ms=1000)[1] for at in range(299))
    patient = EpisodeSettings(clear_windows=10, clear_after_ms=0)
    state = Persistence(open=True)
    assert not any(
        state.observe(0.1, at, patient, lasting=True, calibrated=True, step_ms=step_ms)[1] for at in range(9)
    )


@given(st.lists(st.tuples(SCORES, SCORES), max_size=80), st.sampled_from([0, 1, 2, 3]))
def test_persistence_equals_its_naive_twin(scores: list[tuple[float, float]], alone_windows: int) -> None:
    rules = EpisodeSettings(raise_windows=3, raise_of=4, clear_windows=5, alone_windows=alone_windows)
    pairs = [(max(fused, alone), alone) for fused, alone in scores]
    state, said = Persistence(), []
    for index, (fused, alone) in enumerate(pairs):
        opens, closes = state.observe(fused, index, rules, lasting=True, calibrated=True, alone=alone, step_ms=1000)
        said.append("opens" if opens else "closes" if closes else "")
    assert said == naive_persistence(pairs, rules)


def test_what_a_member_says_alone_needs_no_lasting_row_of_others() -> None:
    state, rules = Persistence(), EpisodeSettings(alone_windows=2)
    said = [state.observe(2.0, index, rules, lasting=False, calibrated=True, alone=2.0)[0] for index in range(3)]
    assert said == [False, True, False]


def test_an_episode_ends_though_something_slight_goes_on() -> None:
    rules = EpisodeSettings(clear_windows=10)
    state = Persistence(open=True)
    said = [state.observe(0.9, index, rules, lasting=True, calibrated=True)[1] for index in range(20)]
    assert said == [False] * 19 + [True]


@pytest.mark.parametrize(
    ("lasting", "calibrated", "settled_ms"), [(False, True, 0), (True, False, 0), (True, True, 10_000)]
)
def test_nothing_opens_while_a_condition_is_missing(lasting: bool, calibrated: bool, settled_ms: int) -> None:
    state = Persistence()
    state.settle(settled_ms)
    # By agreement; what is said alone asks for no lasting row.
    alone = 0.0 if not lasting else 9.0
    assert not any(
        state.observe(9.0, index, EpisodeSettings(), lasting=lasting, calibrated=calibrated, alone=alone)[0]
        for index in range(50)
    )


def test_what_wandered_off_is_held_until_something_begins_and_what_began_is_not() -> None:
    state = Persistence()
    assert not state.hold(loud=False, sudden=False)
    assert state.hold(loud=True, sudden=False), "a drift"
    assert not state.hold(loud=True, sudden=True), "something begins on top of it"
    assert not state.hold(loud=True, sudden=False), "and goes on"
    state.hold(loud=False, sudden=False)
    assert state.hold(loud=True, sudden=False)
    state.open = True
    assert not state.hold(loud=True, sudden=False), "what others have told of stays open by it"


def test_windows_with_an_unknown_one_between_them_are_not_in_a_row() -> None:
    state, rules = Persistence(), EpisodeSettings(raise_windows=5, alone_windows=2)
    loud = (2.0, float("nan"), 2.0, 0.1, 2.0)
    said = [
        state.observe(score, at, rules, lasting=True, calibrated=True, alone=score)[0] for at, score in enumerate(loud)
    ]
    assert not any(said)
    assert state.observe(2.0, 9, rules, lasting=True, calibrated=True, alone=2.0)[0]


@pytest.mark.parametrize(
    ("step_ms", "alone", "windows"),
    [(0, 9.0, 3), (1000, 9.0, 3), (9999, 9.0, 3), (10_000, 2.0, 1), (15_000, 9.0, 1), (15_000, 1.99, 3)],
)
def test_a_long_row_that_is_loud_needs_no_second_one(step_ms: int, alone: float, windows: int) -> None:
    def opens(rules: EpisodeSettings, alone: float) -> list[bool]:
        state = Persistence()
        return [
            state.observe(9.0, at, rules, lasting=False, calibrated=True, alone=alone, step_ms=step_ms)[0]
            for at in range(windows)
        ]

    assert opens(EpisodeSettings(alone_windows=3), alone) == [False] * (windows - 1) + [True]
    assert not any(opens(EpisodeSettings(alone_windows=0), alone))
    assert not any(opens(EpisodeSettings(alone_windows=3), 0.9))


def test_near_says_one_loud_window_ahead_of_an_episode() -> None:
    rules = EpisodeSettings(raise_windows=4, raise_of=5, alone_windows=2)
    state = Persistence()
    assert not state.near(rules)
    assert not state.near(rules, 1)
    assert state.near(rules, 1, alone=True), "the next such window would open one"
    for index in range(2):
        state.observe(2.0, index, rules, lasting=True, calibrated=True)
    assert state.near(rules, 1)
    assert not state.near(rules)
    state.observe(2.0, 2, rules, lasting=True, calibrated=True)
    assert state.near(rules)
    lone = Persistence()
    lone.observe(2.0, 0, rules, lasting=True, calibrated=True, alone=2.0)
    assert lone.near(rules)


def test_a_persistence_outlives_a_restart_and_is_read_from_older_states() -> None:
    state = Persistence()
    state.observe(2.0, 0, EpisodeSettings(), lasting=True, calibrated=True, alone=2.0)
    document = persistence_document(state)
    assert read_persistence(document) == state
    assert state.alone == 1
    del document["alone"]
    assert read_persistence(document).alone == 0


def test_unknown_score_changes_nothing() -> None:
    state = Persistence(open=True)
    assert state.observe(float("nan"), 0, EpisodeSettings(), lasting=True, calibrated=True) == (False, False)
    assert not state.recent


# --- scale


def test_scale_of_quiet_bursty_and_constant_channels() -> None:
    rng = np.random.default_rng(0)
    channels = (
        Channel("normal", Subsystem.CPU, floor=0.01),
        Channel("bursts", Subsystem.STORAGE, floor=10.0, logarithmic=True),
        Channel("constant", Subsystem.CPU, floor=0.5),
    )
    bursts = np.where(np.arange(1000) % 20 == 0, 1e6, 0.0)
    values = np.column_stack([rng.normal(5, 2, 1000), bursts, np.full(1000, 3.0)])
    scale = fit_scale(values, channels)
    assert scale.spread[0] == pytest.approx(2, rel=0.1)
    assert scale.spread[2] == 0.5
    known_burst = scale.standardise(np.array([[5.0, 1e6, 3.0]]), channels)[0]
    assert abs(known_burst[1]) < 5, "a burst that training has seen again and again is not far off"
    assert scale.standardise(np.array([[5.0, 0.0, 4.0]]), channels)[0][2] == pytest.approx(2)


def test_scale_survives_columns_without_values() -> None:
    scale = fit_scale(np.full((10, 2), np.nan), (A, B))
    assert np.isfinite([scale.centre, scale.spread, scale.band]).all()
    assert (scale.spread > 0).all()


@given(st.floats(-1e12, 1e12))
def test_untransform_undoes_transform(value: float) -> None:
    for channel in (A, B):
        moved = transform(np.array([[value]]), (channel,))
        assert untransform(moved, channel)[0, 0] == pytest.approx(value, rel=1e-6, abs=1e-6 * channel.floor)


# --- models


def model_of(values: np.ndarray, channels: tuple[Channel, ...]):
    return fit_model(values, np.arange(len(values), dtype=np.int64) * 1000, 1000, channels, SETTINGS)


def test_no_full_window_gives_no_model() -> None:
    values = np.random.default_rng(0).normal(5, 1, (50, 1))
    assert fit_model(values, np.arange(50, dtype=np.int64) * 5000, 1000, (A,), SETTINGS) is None


@pytest.fixture(scope="module")
def trained():
    rng = np.random.default_rng(3)
    channels = (A, B, C)
    values = np.column_stack([rng.normal(1, 0.2, 200), rng.lognormal(8, 0.3, 200), rng.normal(50, 2, 200)])
    model = model_of(values, channels)
    assert model is not None
    return model


def test_judge_leaves_unknown_channels_out(trained) -> None:
    values = np.tile([1.0, np.exp(8), 50.0], (6, 1))
    values[:, 1] = np.nan
    judged = judge(trained, values, np.arange(6, dtype=np.int64) * 1000, 1000, SETTINGS)
    assert judged.coverage == pytest.approx(np.full(4, 2 / 3))
    assert (judged.surprises[:, 1] == 0).all()
    assert np.isnan(judged.deviations[:, 1]).all()
    assert np.isfinite(judged.fused).all()
