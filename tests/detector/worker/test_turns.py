"""Hosts that want their models at the same row: how many get them in a step, who waits, and what those do meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from hwsonde_detector.decision import refits
from hwsonde_detector.decision.model import EntityModel
from hwsonde_detector.plan import Plan
from hwsonde_detector.settings import LearningSettings
from hwsonde_detector.types import Entity, Outputs, Phase
from hwsonde_detector.worker import WorkerState, restore, snapshot, step
from tests.detector.worker.hosts import PROFILE, SETTINGS, batches, events, play, rates, scores, second_of
from tests.detector.worker.jobs import JOB_SETTINGS, REGIMES, changes, plan_for, ticks, used_by
from tests.detector.worker.many import Ticks, alone, entity, many, spread

LEARNING = LearningSettings(first_rows=20, calibrated_rows=60, memory_rows=600)
NAMES = ("cpu_0", "cpu_1", "memory_0", "network_0")
SMALL = alone(Plan(replace(SETTINGS, learning=LEARNING), (PROFILE,)))


def hosts(count: int, seconds: int, size: int = 1) -> Ticks:
    return many(range(1, count + 1), lambda number: batches(rates(seconds, seed=number, names=NAMES), size=size))


class Told:
    """What a run says, and which hosts had another model behind each step, with the rows that they had learned by then."""

    def __init__(self, made: Ticks, plan: Plan, state: WorkerState | None = None) -> None:
        self.state = state or WorkerState()
        self.outputs: list[Outputs] = []
        self.made: list[dict[Entity, int]] = []
        for batch, now in made:
            before = self.models()
            self.state, output = step(self.state, batch, now, plan)
            self.outputs.append(output)
            new = {one: model for one, model in self.models().items() if model is not before.get(one)}
            self.made.append({one: self.state.hosts[one].progress.fitted for one in new})

    def models(self) -> dict[Entity, EntityModel]:
        return {one: host.model for one, host in self.state.hosts.items() if host.model is not None}

    def rows_of(self, one: Entity) -> list[int]:
        return [made[one] for made in self.made if one in made]


def test_hosts_that_were_started_together_make_their_models_one_after_the_other() -> None:
    told = Told(hosts(6, 150), SMALL)
    assert max(map(len, told.made)) == 1
    assert [told.rows_of(entity(number))[0] for number in range(1, 7)] == [20, 21, 22, 23, 24, 25]
    # As many times as they would have alone, a few rows later.
    assert {len(told.rows_of(entity(number))) for number in range(1, 7)} == {6}
    for number in range(1, 7):
        own = [score for score in scores(told.outputs) if score.entity == entity(number)]
        # Who waits is judged by the model that it has.
        assert np.diff([second_of(score.end_ms) for score in own]).tolist() == [1] * (len(own) - 1)
        assert len(own) == 150 - told.rows_of(entity(number))[0]
    for output in told.outputs:
        assert [report.entity for report in output.reports] == sorted(report.entity for report in output.reports)


@pytest.mark.slow
def test_nobody_makes_another_model_while_somebody_waits_for_the_first() -> None:
    told = Told(hosts(14, 60), SMALL)
    assert [len(told.rows_of(entity(number))) >= 1 for number in range(1, 15)] == [True] * 14
    order = [one for made in told.made for one in made]
    assert order[:14] == [entity(number) for number in range(1, 15)]
    assert told.rows_of(entity(14))[0] == 33
    # It was due at 30 rows.
    assert told.rows_of(entity(1))[1] == 34


@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("size", [1, 7, 150])
def test_a_few_hosts_make_their_models_at_the_stated_rows_in_whatever_steps(
    count: int, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits = []

    def counted(values, *more):  # type: ignore[no-untyped-def]
        fits.append(len(values))
        return fit_model(values, *more)

    fit_model = refits.fit_model
    monkeypatch.setattr(refits, "fit_model", counted)
    state, _ = play(hosts(count, 150, size), SMALL)
    assert sorted(fits) == sorted(count * [20, 30, 45, 60, 90, 135])
    assert {host.progress.fitted for host in state.hosts.values()} == {135}


def test_hosts_that_are_gone_take_nothing_from_who_is_there() -> None:
    state, _ = play(hosts(9, 19), SMALL)
    later = many([8, 9], lambda number: batches(rates(25, seed=number, names=NAMES)))
    told = Told(later[19:], SMALL, state)
    assert (told.rows_of(entity(8)), told.rows_of(entity(9))) == ([20], [21])


def test_a_step_that_catches_up_gives_more_turns_and_the_rest_waits_for_the_next() -> None:
    told = Told(hosts(8, 80, 20), SMALL)
    # Twenty rows stand for five steps; in the last one no more than three are due.
    assert [len(made) for made in told.made] == [5, 5, 5, 3]
    assert {one for made in told.made[:2] for one in made} == {entity(number) for number in range(1, 9)}


def test_where_nobody_waits_for_it_a_step_makes_the_models_of_all() -> None:
    state = WorkerState()
    for batch, now in hosts(8, 25):
        state, _ = step(state, batch, now, SMALL, unhurried=True)
    assert {host.progress.fitted for host in state.hosts.values()} == {20}


def test_slower_scrapes_leave_time_for_more() -> None:
    told = Told(spread(hosts(9, 40), 15), SMALL)
    assert [len(made) for made in told.made if made][:2] == [7, 2]


@pytest.mark.slow
def test_the_same_ticks_give_the_same_bytes() -> None:
    made = hosts(5, 70)
    first, second = (snapshot(play(made, SMALL)[0]) for _ in range(2))
    assert first[0] == second[0]
    assert all(np.array_equal(first[1][name], second[1][name], equal_nan=True) for name in first[1])


def test_who_waits_goes_on_waiting_after_a_restart() -> None:
    made = hosts(6, 40)
    whole = Told(made, SMALL)
    told = Told(made[:23], SMALL)
    again = Told(made[20:], SMALL, restore(*snapshot(told.state), SMALL))
    rows = [[*told.rows_of(one), *again.rows_of(one)] for one in map(entity, range(1, 7))]
    assert rows == [whole.rows_of(entity(number)) for number in range(1, 7)]


@pytest.mark.slow
def test_models_of_other_settings_are_made_one_after_the_other() -> None:
    made = hosts(5, 110)
    state, _ = play(made[:100], SMALL)
    other = replace(SMALL, settings=replace(SMALL.settings, detectors=replace(SETTINGS.detectors, trees=6)))
    told = Told(made[97:], other, restore(*snapshot(state), other))
    assert [len(one) for one in told.made if one][:5] == [1] * 5
    assert len(told.models()) == 5


def counts(outputs: Iterable[Outputs]) -> Counter[str]:
    return Counter(change for change, _ in changes(outputs))


def job_plan() -> Plan:
    detectors = replace(JOB_SETTINGS.detectors, members=("zscore", "mahalanobis", "extremes"), alone=())
    return alone(plan_for(replace(JOB_SETTINGS, detectors=detectors)))


@pytest.mark.slow
def test_a_job_that_begins_and_ends_on_all_hosts_at_once_is_learned_in_turns() -> None:
    spans, count = [(150, 420)], 5

    def made(number: int) -> Ticks:
        return ticks(480, used_by(spans), {"job:1": spans})

    told = Told(many(range(1, count + 1), made), job_plan())
    assert not events(told.outputs)
    assert counts(told.outputs) == {"learned": count, "returned": count}
    for output in told.outputs:
        assert sum(bool(report.changes) for report in output.reports) <= 1
    # All of them are the same host: each waits for those before it.
    learned = [second for change, second in changes(told.outputs) if change == "learned"]
    first = 150 + REGIMES.learn_rows - 1
    assert learned == [first + place for place in range(count)]


@pytest.mark.slow
def test_a_shift_that_lasts_on_all_hosts_is_the_new_normal_of_one_after_the_other() -> None:
    count = 5
    made = many(range(1, count + 1), lambda number: ticks(380, used_by([(150, 380)]), {}))
    told = Told(made, job_plan())
    closed = [event for event in events(told.outputs) if event.phase is Phase.CLOSED]
    assert {event.episode.because for event in closed} == {"new normal"}
    first = second_of(closed[0].at_ms)
    assert first >= 150 + REGIMES.rebase_rows
    assert [second_of(event.at_ms) for event in closed] == [first + place for place in range(count)]


def test_every_host_is_a_sign_of_life() -> None:
    beats = []
    state, _ = play(hosts(3, 5), SMALL)
    batch, now = hosts(3, 6)[5]
    step(state, batch, now, SMALL, alive=lambda: beats.append(len(beats)))
    assert beats == [0, 1, 2]
