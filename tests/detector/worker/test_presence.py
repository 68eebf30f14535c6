"""Devices that vanish for good, with most of what the model looks at, and come back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hwsonde_detector.decision.presence import another, gone, gone_rows
from hwsonde_detector.decision.refits import refit
from hwsonde_detector.host import HostState
from hwsonde_detector.plan import Plan
from hwsonde_detector.settings import LearningSettings, Settings
from hwsonde_detector.types import DataFaultEvent, FaultKind, Frame, Outputs, Phase, SampleBatch
from hwsonde_detector.worker import WorkerState, restore, snapshot
from tests.detector.faults import machine
from tests.detector.worker.hosts import (
    CHANNELS,
    ENTITY,
    PLAN,
    PROFILE,
    SETTINGS,
    START_MS,
    Fault,
    batches,
    burst,
    events,
    healthy,
    phases,
    play,
    rates,
    scores,
    second_of,
)
from tests.detector.worker.many import spread

STAY, GO = CHANNELS[:6], CHANNELS[6:]
# Rows until it is noticed, and until a window lies wholly behind that.
NOTICED = SETTINGS.learning.first_rows
WIDTH = SETTINGS.window.rows
Ticks = list[tuple[SampleBatch, int]]


def vanishing(seconds: int, begin: int, end: int, fault: Fault = healthy) -> Ticks:
    """The made-up host, of which most channels are gone between two seconds."""
    made = rates(seconds, fault=fault)
    whole, few = batches(made), batches({name: made[name] for name in STAY})
    return [few[second] if begin <= second < end else whole[second] for second in range(seconds)]


def seconds_of(outputs: list[Outputs]) -> list[int]:
    return [second_of(score.end_ms) for score in scores(outputs)]


def coverage(outputs: list[Outputs]) -> dict[int, float]:
    windows = [report.window for output in outputs for report in output.reports if report.window is not None]
    return {second_of(end_ms): share for end_ms, share in windows}


def test_what_is_left_of_a_host_is_judged_when_most_of_it_is_gone_for_good() -> None:
    begin = 300
    state, outputs = play(vanishing(420, begin, 10_000, burst(("cpu_1", "cpu_2"), 380, 410)))
    blind = [second for second in range(begin, 420) if second not in seconds_of(outputs)]
    assert begin <= min(blind) < begin + WIDTH
    assert max(blind) - min(blind) == NOTICED - 1
    shares = coverage(outputs)
    # It is told all the time how much there is to judge by.
    assert sorted(shares) == list(range(min(shares), 420))
    assert all(shares[second] < 0.5 for second in blind)
    assert all(shares[second] == 1.0 for second in range(max(blind) + 1, 420))
    host = state.hosts[ENTITY]
    assert host.model is not None
    assert set(host.model.missing) == set(GO)
    assert {channel.name for channel in host.model.channels} == set(STAY)
    assert all(score.calibrated for score in scores(outputs)[-10:])
    opened = events(outputs)[0]
    assert 380 <= second_of(opened.at_ms) <= 386
    assert {part.channel.name for part in opened.episode.top[:2]} == {"cpu_1", "cpu_2"}


def test_what_is_back_is_judged_by_what_was_learned_of_it() -> None:
    begin, end, fault = 300, 450, burst(("storage_1", "storage_3"), 540, 570)
    state, outputs = play(vanishing(600, begin, end, fault))
    host = state.hosts[ENTITY]
    assert host.model is not None
    assert host.model.missing == ()
    assert {channel.name for channel in host.model.channels} == set(CHANNELS)
    opened = events(outputs)[0]
    assert phases(outputs) == [Phase.OPENED, Phase.CLOSED]
    assert 540 <= second_of(opened.at_ms) <= 546
    assert {part.channel.name for part in opened.episode.top[:2]} == {"storage_1", "storage_3"}
    # Not a window is missed while they come back.
    assert [second for second in range(begin + WIDTH + NOTICED, 600) if second not in seconds_of(outputs)] == []
    # As soon as they were there for long enough.
    judged = {
        second_of(report.scores[-1].end_ms): report.learning.channels_judged
        for output in outputs
        for report in output.reports
        if report.scores
    }
    assert judged[end + NOTICED - 5] <= len(STAY)
    assert judged[end + NOTICED + 5] == len(CHANNELS)


@pytest.mark.slow
def test_what_was_away_for_longer_than_rows_are_remembered_comes_back_as_what_it_was() -> None:
    learning = replace(SETTINGS.learning, memory_rows=150, refit_rows=60)
    plan = Plan(replace(SETTINGS, learning=learning), (PROFILE,))
    # Longer than anything is expected of a series that was silent.
    made = vanishing(1400, 300, 1200)
    state, outputs = play(made[:1190], plan)
    host = state.hosts[ENTITY]
    assert {channel.name for channel in host.memory.channels} == set(STAY)
    assert host.model is not None
    assert set(host.model.missing) == set(GO)
    assert set(GO) <= host.regimes.ages.known()
    state = restore(*snapshot(state), plan)
    state, more = play(made[1180:], plan, state)
    assert not events([*outputs, *more])
    back = {report.learning.channels_judged for output in more for report in output.reports if report.scores}
    assert back == {len(STAY), len(CHANNELS)}
    again = state.hosts[ENTITY].model
    assert again is not None
    assert again.missing == ()
    # Of more rows than have come since.
    seen = np.isfinite(state.hosts[ENTITY].regimes.ages.values[:, :, -1]).sum()
    assert seen > 100


def test_an_open_episode_outlasts_what_vanishes_under_it() -> None:
    fault = burst(("cpu_1", "cpu_2", "storage_1", "storage_2"), 290, 380)
    _, outputs = play(vanishing(420, 300, 10_000, fault))
    (opened, closed) = (event for event in events(outputs) if event.phase is not Phase.CHANGED)
    assert second_of(opened.at_ms) < 300
    assert (closed.phase, closed.episode.because) == (Phase.CLOSED, "")
    assert 380 < second_of(closed.at_ms) <= 380 + SETTINGS.episodes.clear_windows + 2 * WIDTH
    open_at = {
        second_of(report.window[0]): bool(report.open_episodes)
        for output in outputs
        for report in output.reports
        if report.window is not None
    }
    assert all(open_at[second] for second in range(300, 380))


@pytest.mark.slow
def test_a_mere_gap_or_few_channels_change_nothing() -> None:
    made = vanishing(460, 300, 300 + NOTICED - 1 - WIDTH)
    state, outputs = play(made)
    assert state.hosts[ENTITY].model is not None
    assert state.hosts[ENTITY].model.missing == ()
    assert not events(outputs)
    whole = rates(460)
    most = batches({name: whole[name] for name in CHANNELS[:12]})
    state, outputs = play([*batches(whole)[:300], *most[300:]])
    host = state.hosts[ENTITY]
    assert host.model is not None
    assert (host.misfit, host.model.missing, len(host.model.channels)) == (0, (), len(CHANNELS))
    assert len(scores(outputs)) > 410


def test_at_slow_scrapes_it_takes_minutes_and_not_a_quarter_of_an_hour() -> None:
    begin = 300
    _, outputs = play(spread(vanishing(360, begin, 10_000), 15))
    rows = [second // 15 for second in seconds_of(outputs)]
    blind = [row for row in range(begin, 360) if row not in rows]
    assert len(blind) == 20


@pytest.mark.parametrize(
    ("interval_ms", "first", "rows"),
    [
        (1000, 60, 60),
        (1000, 400, 300),
        (5000, 60, 60),
        (15_000, 60, 20),
        (60_000, 60, 20),
        (60_000, 10, 10),
        (100, 60, 60),
    ],
)
def test_how_long_a_channel_must_be_away(interval_ms: int, first: int, rows: int) -> None:
    assert gone_rows(interval_ms, Settings(learning=LearningSettings(first_rows=first))) == rows


@pytest.fixture(scope="module")
def learned() -> WorkerState:
    return play(batches(rates(200)))[0]


def host_with(learned: WorkerState, known: dict[str, int]) -> HostState:
    """The learned host, whose newest rows know each channel that is named in so many of them, and the others in all."""
    host = restore(*snapshot(learned), PLAN).hosts[ENTITY]
    channels = host.memory.channels
    values = np.ones((60, len(channels)))
    for place, channel in enumerate(channels):
        rows = known.get(channel.name, 60)
        values[: 60 - rows, place] = np.nan
    times = START_MS + 1000 * np.arange(200, 260, dtype=np.int64)
    host.recent = Frame(ENTITY, channels, times, values)
    return host


def test_a_channel_that_any_row_knows_is_not_gone(learned: WorkerState) -> None:
    host = host_with(learned, dict.fromkeys(GO, 1))
    assert gone(host, CHANNELS, 1000, SETTINGS) == (frozenset(), frozenset())
    assert not another(host, 1000, SETTINGS)
    host.misfit, before = NOTICED, host.model
    refit(host, 1000, SETTINGS, learned=False)
    # No other model would do better; it is seen again after as long.
    assert (host.model, host.misfit, host.turn.taken) == (before, 0, False)


def test_what_is_gone_is_left_out_where_most_is_and_what_was_left_out_until_it_is_back(learned: WorkerState) -> None:
    host = host_with(learned, dict.fromkeys(GO, 0))
    assert gone(host, CHANNELS, 1000, SETTINGS) == (frozenset(), frozenset(GO))
    assert another(host, 1000, SETTINGS)
    host.misfit = NOTICED
    assert gone(host, CHANNELS, 1000, SETTINGS) == (frozenset(GO), frozenset())
    refit(host, 1000, SETTINGS, learned=False)
    assert host.turn.taken
    assert host.misfit == 0
    assert host.model is not None
    assert set(host.model.missing) == set(GO)
    back = host_with(learned, dict.fromkeys(GO[1:], 0))
    back.model = host.model
    assert another(back, 1000, SETTINGS)
    assert gone(back, CHANNELS, 1000, SETTINGS) == (frozenset(GO[1:]), frozenset())
    # After a start there are too few rows to tell, and what was left out stays so.
    assert back.recent is not None
    back.recent = Frame(ENTITY, back.recent.channels, back.recent.times[-3:], back.recent.values[-3:])
    assert gone(back, CHANNELS, 1000, SETTINGS) == (frozenset(GO[1:]), frozenset())
    assert not another(back, 1000, SETTINGS)
    back.recent = None
    assert gone(back, CHANNELS, 1000, SETTINGS) == (frozenset(GO), frozenset())


def test_what_vanishes_with_a_driver_is_told_as_a_data_fault() -> None:
    settings = replace(machine.SETTINGS, learning=SETTINGS.learning, detectors=SETTINGS.detectors)

    def off(second: int, values: machine.Values) -> machine.Values:
        gpus = [one for one in values if "gpu" in dict(one.labels)]
        return machine.without(values, gpus) if second >= 300 else values

    state, outputs = machine.play(machine.ticks(range(420), off), plan=Plan(settings, (machine.PROFILE,)))
    host = state.hosts[machine.ENTITY]
    assert host.model is not None
    assert {channel.device.kind for channel in host.model.channels if channel.device} == {"disk", "nic"}
    judged = [score for output in outputs for report in output.reports for score in report.scores]
    assert machine.second_of(judged[-1].end_ms) == 419
    opened: list[DataFaultEvent] = [event for event in machine.told(outputs) if event.phase is Phase.OPENED]
    assert [event.episode.kind for event in opened] == [FaultKind.MISSING]
    assert 300 <= machine.second_of(opened[0].at_ms) <= 320
