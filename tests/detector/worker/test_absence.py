"""Hosts that fall silent, come back, and are heard of seldom."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hwsonde_detector.types import Phase, SampleBatch
from hwsonde_detector.worker import FORGET_MS, WorkerState, restore, snapshot, step
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


def test_silent_host_goes_away_and_closes_its_episode() -> None:
    state, _ = play(batches(rates(330, fault=burst(("cpu_1", "cpu_2"), 300, 330))))
    state, output = step(state, SampleBatch.empty(), START_MS + 330_000, PLAN)
    assert [report.entity for report in output.reports] == [ENTITY]
    state, output = step(state, SampleBatch.empty(), START_MS + 700_000, PLAN)
    assert output.gone == (ENTITY,)
    assert [event.phase for event in output.events] == [Phase.CLOSED]
    assert step(state, SampleBatch.empty(), START_MS + 701_000, PLAN)[1].gone == ()
    assert state.hosts, "its models stay"
    step(state, SampleBatch.empty(), START_MS + FORGET_MS + 701_000, PLAN)
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
