"""What of the comparison of hosts outlasts a restart: whatever a host is learning at that moment, and other settings, but no other channels."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hwsonde_detector.plan import Plan
from hwsonde_detector.settings import DetectorSettings
from hwsonde_detector.signals.profiles.rules import Formula, Part, Reading, Rule
from hwsonde_detector.types import Outputs, Phase, SampleBatch, Series, Subsystem
from hwsonde_detector.worker import WorkerState, restore, snapshot
from tests.detector.worker.fleets import PROFILE, SETTINGS, Fleet, entity, opened, play, raised, reports, told
from tests.detector.worker.jobs import MARK

ILL, BUSY = 3, 5
BEGINS, STOPS, SECONDS = 160, 175, 190
# What a job shows of itself, where it runs.
LOAD = Rule(
    "load", Formula.PLAIN, (Part("m_load", Reading.VALUE),), ("workload",), Subsystem.CPU, floor=0.5, unit="units"
)
RULES = (*PROFILE.rules, MARK, LOAD)


def plan(rules: tuple[Rule, ...] = RULES, **settings: object) -> Plan:
    return Plan(replace(SETTINGS, **settings), (replace(PROFILE, rules=rules),))  # type: ignore[arg-type]


JOBS = plan()


def with_job(batch: SampleBatch, fleet: Fleet) -> SampleBatch:
    """The batch with the series of a job that runs on one host."""
    found = {
        one: (at_ms, value)
        for one, at_ms, value in zip(batch.series, batch.times.tolist(), batch.values.tolist(), strict=True)
    }
    labels = fleet.labels(BUSY, workload="x")
    at_ms = next(at_ms for one, (at_ms, _) in found.items() if ("node", f"n{BUSY}") in one.labels)
    found |= {Series("jobs", labels): (at_ms, 1.0), Series("m_load", labels): (at_ms, 7.0)}
    series = tuple(sorted(found))
    return SampleBatch(
        series,
        np.arange(len(series) + 1, dtype=np.int64),
        np.array([found[one][0] for one in series], np.int64),
        np.array([found[one][1] for one in series]),
    )


@pytest.fixture(scope="module")
def ticks() -> list[tuple[SampleBatch, int]]:
    """One host is ill from its first day; on another one a job begins."""
    fleet = Fleet(hosts=5, seconds=SECONDS)
    made = fleet.ticks(raised((ILL,), ("network_0", "network_1", "network_2"), 0, SECONDS, 80.0))
    return [
        (with_job(batch, fleet) if second >= BEGINS else batch, now_ms) for second, (batch, now_ms) in enumerate(made)
    ]


@pytest.fixture(scope="module")
def settling(ticks: list[tuple[SampleBatch, int]]) -> WorkerState:
    """The job is being learned, and a page is open that only peers told."""
    state, outputs = play(ticks[:STOPS], plan=JOBS)
    assert opened(outputs) == [ILL]
    assert not told(outputs, Phase.CLOSED)
    busy, (group,) = state.hosts[entity(BUSY)], state.fleet.groups.values()
    assert busy.regimes.settling is not None
    assert "load{workload=x}" not in {channel.name for channel in busy.memory.channels}
    assert "load{workload=x}" in {
        channel.name for channel in group.cells.channels[group.cells.members.index(busy.entity)]
    }
    return state


def saved(state: WorkerState) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    document, arrays = snapshot(state)
    return json.loads(json.dumps(document)), arrays


def values(outputs: list[Outputs], host: int) -> dict[int, float]:
    return {score.end_ms: score.members["peers"] for report in reports(outputs, host) for score in report.scores}


def test_a_restart_while_one_host_learns_a_job_keeps_its_group_and_the_page(ticks, settling) -> None:
    again = restore(*saved(settling), JOBS)
    (before,), (after,) = settling.fleet.groups.values(), again.fleet.groups.values()
    assert after.cells.names == before.cells.names
    assert after.cells.channels == before.cells.channels
    assert np.array_equal(after.history.rows, before.history.rows, equal_nan=True)
    assert after.members[entity(ILL)].persistence.open
    _, going = play(ticks[STOPS:], settling, JOBS)
    # The service reads some overlap again.
    _, restarted = play(ticks[STOPS - 3 :], again, JOBS)
    assert not any(output.events for output in (*going, *restarted))
    assert [len(report.open_episodes) for report in reports(restarted, ILL)] == [1] * (SECONDS - STOPS + 3)
    for host in (ILL, BUSY):
        assert len(values(going, host)) == SECONDS - STOPS
        assert values(restarted, host) == values(going, host)


def test_a_state_that_describes_no_channel_is_read_by_what_is_kept_of_the_change(ticks, settling) -> None:
    document, arrays = saved(settling)
    for group in document["fleet"]["groups"]:
        for member in group["members"]:
            del member["described"]
    again = restore(document, arrays, JOBS)
    (before,), (after,) = settling.fleet.groups.values(), again.fleet.groups.values()
    assert after.cells.names == before.cells.names
    _, outputs = play(ticks[STOPS - 3 :], again, JOBS)
    assert not any(output.events for output in outputs)


def test_a_state_with_a_channel_that_nobody_describes_begins_its_group_anew(ticks, settling) -> None:
    document, arrays = saved(settling)
    for group in document["fleet"]["groups"]:
        for member in group["members"]:
            member["described"] = []
    busy = sorted(settling.hosts).index(entity(BUSY))
    document["hosts"][busy]["regimes"]["pending"] = []
    arrays[f"{busy}/regimes.pending.values"] = arrays[f"{busy}/regimes.pending.values"][:, :0]
    again = restore(document, arrays, JOBS)
    (group,) = again.fleet.groups.values()
    assert not group.members
    _, outputs = play(ticks[STOPS - 3 :], again, JOBS)
    assert [event.episode.entity for event in told(outputs, Phase.CLOSED)] == [entity(ILL)]


def test_what_the_host_has_learned_is_described_once(settling) -> None:
    document, _ = saved(settling)
    (group,) = document["fleet"]["groups"]
    described = {
        str(entity(number)): [channel["name"] for channel in member["described"]]
        for number, member in enumerate(group["members"], 1)
    }
    assert described == {str(entity(number)): ["load{workload=x}"] * (number == BUSY) for number in range(1, 6)}


CHANGED = replace(RULES[0], floor=2.0)


@pytest.mark.parametrize(
    ("other", "kept"),
    [
        (plan(learning=replace(SETTINGS.learning, memory_rows=500)), True),
        (plan(detectors=DetectorSettings(members=("zscore", "extremes"))), True),
        (plan((replace(RULES[0], title="what people call it now"), *RULES[1:])), True),
        (plan((CHANGED, *RULES[1:])), False),
        (plan(RULES[1:]), False),
    ],
    ids=["learning", "detectors", "words", "another floor", "a rule less"],
)
def test_groups_outlast_other_settings_and_no_other_channels(ticks, settling, other: Plan, kept: bool) -> None:
    again = restore(*saved(settling), other)
    assert (bool(again.fleet.groups), bool(again.fleet.home)) == (kept, kept)
    state, outputs = play(ticks[STOPS - 3 :], again, other)
    closed = [event.episode.entity for event in told(outputs, Phase.CLOSED)]
    assert closed == ([] if kept else [entity(ILL)])
    assert entity(ILL) in state.fleet.telling.peers or not kept
    assert (max(values(outputs[3:], ILL).values()) >= 1.0) is kept, "a group that begins anew judges nobody yet"
