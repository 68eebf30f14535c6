"""Hosts that fall silent, come back, and are heard of seldom."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hwsonde_detector.engines.local import LocalEngine
from hwsonde_detector.plan import Plan
from hwsonde_detector.types import Entity, Phase, SampleBatch
from hwsonde_detector.worker import FORGET_MS, KEPT_LEAST, WorkerState, restore, snapshot, step
from tests.detector.worker.hosts import (
    ENTITY,
    PLAN,
    START_MS,
    batches,
    burst,
    events,
    phases,
    play,
    rates,
    scores,
    second_of,
)
from tests.detector.worker.many import Ticks, alone, entity, many, merged, renamed

HOUR = 3_600_000
NAMES = ("cpu_0", "memory_0")
SHORT = alone(Plan(replace(PLAN.settings, episodes=replace(PLAN.settings.episodes, gone_after_ms=5000)), PLAN.profiles))


def listen(state: WorkerState, until_ms: int, plan: Plan = PLAN) -> list[Entity]:
    """Ticks without any sample, an hour apart, from the last one on; gives who is told as gone."""
    gone = []
    assert state.now_ms is not None
    for now in range(state.now_ms + HOUR, until_ms + 1, HOUR):
        gone += step(state, SampleBatch.empty(), now, plan)[1].gone
    return gone


def test_silent_host_goes_away_and_closes_its_episode() -> None:
    state, _ = play(batches(rates(330, fault=burst(("cpu_1", "cpu_2"), 300, 330))))
    state, output = step(state, SampleBatch.empty(), START_MS + 330_000, PLAN)
    assert [report.entity for report in output.reports] == [ENTITY]
    state, output = step(state, SampleBatch.empty(), START_MS + 700_000, PLAN)
    assert output.gone == (ENTITY,)
    assert [event.phase for event in output.events] == [Phase.CLOSED]
    assert step(state, SampleBatch.empty(), START_MS + 701_000, PLAN)[1].gone == ()
    listen(state, START_MS + 330_000 + FORGET_MS)
    assert state.hosts, "its models stay"
    listen(state, START_MS + 330_000 + FORGET_MS + 2 * HOUR)
    assert not state.hosts


@pytest.mark.parametrize("restarted", [False, True])
def test_a_host_that_comes_back_still_ill_is_told_again(*, restarted: bool) -> None:
    away = 600
    state, _ = play(batches(rates(330, fault=burst(("cpu_1", "cpu_2"), 300, 330))))
    state, output = step(state, SampleBatch.empty(), START_MS + 1000 * (330 + away), PLAN)
    assert output.gone == (ENTITY,)
    if restarted:
        document, arrays = snapshot(state)
        # As versions wrote it that kept the episode open for good.
        document["hosts"][0]["persistence"]["open"] = True
        state = restore(document, arrays, PLAN)
    ill = batches(rates(60, fault=burst(("cpu_1", "cpu_2"), 0, 60)))
    later = 1000 * (330 + away)
    outputs = []
    for batch, now in ill:
        state, output = step(state, replace(batch, times=batch.times + later), now + later, PLAN)
        outputs.append(output)
    assert phases(outputs) == [Phase.OPENED]


def test_what_was_said_of_an_episode_counts_when_its_host_goes_away() -> None:
    state, outputs = play(batches(rates(330, fault=burst(("cpu_1", "cpu_2"), 300, 330))))
    (opened,) = events(outputs)[:1]
    host = state.hosts[ENTITY]
    host.feedback.mark(opened.episode.identity, "noise", host.threshold, busy=True)
    assert host.feedback.waiting
    step(state, SampleBatch.empty(), START_MS + 700_000, PLAN)
    assert not host.feedback.waiting


def test_the_first_row_waits_however_many_ticks_come_before_the_second() -> None:
    """A scrape every 15 s, and a tick every second."""
    made = batches(rates(3))
    state = WorkerState()
    for number, (batch, _) in enumerate(made):
        spread = replace(batch, times=START_MS + 15_000 * number + 0 * batch.times)
        state, _ = step(state, spread, START_MS + 15_000 * number + 150, PLAN)
        for tick in range(1, 10):
            state, _ = step(state, SampleBatch.empty(), START_MS + 15_000 * number + 1000 * tick, PLAN)
    memory = state.hosts[ENTITY].memory
    assert memory.times.tolist() == [START_MS, START_MS + 15_000, START_MS + 30_000]


@pytest.mark.parametrize("minutes", [6, 30, 720])
def test_models_outlive_a_long_silence(minutes: int) -> None:
    state, _ = play(batches(rates(200)))
    away = minutes * 60_000
    state = restore(*snapshot(state), PLAN)
    # The service catches up in stretches of ten minutes, most of them empty.
    for now in range(START_MS + 200_000, START_MS + 200_000 + away, 600_000):
        state, _ = step(state, SampleBatch.empty(), now, PLAN)
    back = [
        (replace(batch, times=batch.times + 200_000 + away), now + 200_000 + away) for batch, now in batches(rates(60))
    ]
    state, outputs = play(back, state=state)
    got = scores(outputs)
    assert all(score.calibrated for score in got)
    assert len(got) > 50
    assert second_of(got[0].end_ms) - 200 - away // 1000 <= 5
    assert not events(outputs)


def silent(seconds: int, plan: Plan = PLAN) -> WorkerState:
    """A host that was learned, and has been silent for so long."""
    state, _ = play(batches(rates(200)), plan)
    return step(state, SampleBatch.empty(), START_MS + 1000 * (199 + seconds) + 150, plan)[0]


def test_a_silence_goes_on_over_restarts_and_not_while_nobody_listens() -> None:
    state = silent(180)
    later = START_MS + 40 * 24 * HOUR
    state = restore(*snapshot(state), PLAN)
    state, output = step(state, SampleBatch.empty(), later, PLAN)
    assert [report.entity for report in output.reports] == [ENTITY]
    state, output = step(state, SampleBatch.empty(), later + 119_000, PLAN)
    assert output.gone == ()
    state, output = step(state, SampleBatch.empty(), later + 121_000, PLAN)
    assert output.gone == (ENTITY,)
    assert state.hosts


def test_a_host_that_is_gone_stays_so_over_a_restart() -> None:
    state = silent(400)
    assert state.hosts[ENTITY].absent
    state = restore(*snapshot(state), PLAN)
    for now in (500_000, 501_000):
        state, output = step(state, SampleBatch.empty(), START_MS + now, PLAN)
        assert (output.reports, output.gone, output.events) == ((), (), ())
    back = [(replace(batch, times=batch.times + HOUR), now + HOUR) for batch, now in batches(rates(60))]
    state, outputs = play(back, state=state)
    assert [report.entity for report in outputs[0].reports] == [ENTITY]
    assert len(scores(outputs)) > 50


def test_a_host_is_forgotten_however_often_the_detector_is_restarted() -> None:
    state, days = silent(400), 0
    while state.hosts and days < 20:
        now = START_MS + HOUR * 24 * days + 500_000
        state = restore(*snapshot(state), PLAN)
        step(state, SampleBatch.empty(), now, PLAN)
        listen(state, now + 24 * HOUR)
        days += 1
    assert days == 7


def test_a_source_that_was_away_for_weeks_makes_nobody_forgotten() -> None:
    state = silent(400)
    step(state, SampleBatch.empty(), START_MS + 3 * FORGET_MS, PLAN)
    assert state.hosts
    assert state.hosts[ENTITY].silent_ms < 2 * HOUR


def test_states_that_do_not_tell_of_silence_tell_by_the_rows_of_others() -> None:
    both = many([1, 2], lambda number: batches(rates(120, seed=number, names=NAMES)))
    state, _ = play(both[:100], SHORT)
    rest = many([2], lambda number: batches(rates(120, seed=number, names=NAMES)))[100:]
    state, outputs = play(rest, SHORT, state)
    assert entity(1) in [one for output in outputs for one in output.gone]
    document, arrays = snapshot(state)
    for part in document["hosts"]:
        # Nor of what a model left out, nor of when an episode was looked at last.
        assert part.pop("silent_ms") >= 0
        assert part["model"].pop("missing") == []
        assert part["regimes"].pop("looked") == 0
    del document["crowd"]
    again = restore(document, arrays, SHORT)
    assert {one: (host.silent_ms, host.absent) for one, host in again.hosts.items()} == {
        entity(1): (20_000, True),
        entity(2): (0, False),
    }
    again, output = step(again, SampleBatch.empty(), START_MS + 121_000, SHORT)
    assert [report.entity for report in output.reports] == [entity(2)]


def churn(hosts: int, seconds: int = 4) -> Ticks:
    """One host that stays, and others that come one after the other and live for a few scrapes each."""
    stays = batches(rates(seconds * hosts, names=NAMES))
    lives = {number: batches(rates(seconds * hosts, seed=number, names=NAMES)) for number in range(1, hosts + 1)}
    return [
        (
            merged([renamed(batch, 0), renamed(lives[place // seconds + 1][place][0], place // seconds + 1)]),
            now,
        )
        for place, (batch, now) in enumerate(stays)
    ]


def test_names_that_come_and_go_do_not_pile_up(caplog: pytest.LogCaptureFixture) -> None:
    hosts = 40
    engine, dropped, gone = LocalEngine(SHORT), [], []
    caplog.set_level("INFO", "hwsonde_detector.engine")
    for batch, now in churn(hosts):
        output = engine.step(batch, now)
        dropped += output.crowded_out
        gone += output.gone
    # So many were here at once: a host stays for a while when it has said its last.
    most = 4
    kept = sorted(engine.entities())
    assert len(kept) == most + KEPT_LEAST
    assert kept == [entity(0), *(entity(number) for number in range(hosts + 2 - most - KEPT_LEAST, hosts + 1))]
    assert dropped == [entity(number) for number in range(1, hosts + 2 - most - KEPT_LEAST)]
    assert set(dropped) <= set(gone)
    (line,) = [record.getMessage() for record in caplog.records]
    assert line.startswith("more hosts came and went than are kept")
    assert line.endswith("first of lab/n01")


def test_a_fleet_that_is_switched_off_as_a_whole_is_remembered() -> None:
    count = 2 * KEPT_LEAST
    made = many(range(count), lambda number: batches(rates(12, seed=number, names=NAMES)))
    state, _ = play(made, SHORT)
    gone = listen(state, START_MS + 3 * 24 * HOUR, SHORT)
    assert len(gone) == len(state.hosts) == count
    state = restore(*snapshot(state), SHORT)
    step(state, SampleBatch.empty(), START_MS + 4 * 24 * HOUR, SHORT)
    assert len(state.hosts) == count
    # The rooms that they leave are no longer kept for them.
    listen(state, START_MS + 12 * 24 * HOUR, SHORT)
    assert not state.hosts
    assert state.crowd.hosts == 0


def test_what_is_known_of_a_forgotten_host_beside_its_models_goes_too() -> None:
    state, _ = play(many([1], lambda number: batches(rates(12, seed=number, names=NAMES))), PLAN)
    assert entity(1) in state.fleet.labels
    listen(state, START_MS + FORGET_MS + 3 * HOUR)
    assert not state.hosts
    assert not state.fleet.labels
