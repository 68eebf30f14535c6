"""Hosts that are compared with each other: who is named, who is not, and how far an episode is said to reach."""

from __future__ import annotations

import pytest

from hwsonde_detector.replay import lines
from hwsonde_detector.standings import Telling
from hwsonde_detector.types import Device, Outputs, Phase, Scope
from hwsonde_detector.worker import WorkerState, restore, snapshot
from tests.detector.worker.fleets import (
    CAUSES,
    LEARNED,
    PLAN,
    USE,
    Fleet,
    both,
    entity,
    opened,
    patient,
    play,
    raised,
    reports,
    told,
)

BEGIN, END = 160, 190
WAITING = ("cpu_0", "cpu_1", "cpu_2", "memory_0")
EVERYBODY = range(1, 9)
# One card is slow, and everybody waits for it.
SLOW_CARD = both(
    raised((3,), ("network_0", "network_1", "network_2"), BEGIN, END, 60.0),
    raised(EVERYBODY, WAITING, BEGIN, END, 40.0),
)


@pytest.fixture(scope="module")
def learned() -> WorkerState:
    return play(Fleet(seconds=LEARNED).ticks())[0]


def after(state: WorkerState, fault, **changes) -> list[Outputs]:
    return play(Fleet(**changes).ticks(fault, since=LEARNED), state)[1]


def test_a_quiet_job_pages_nobody_and_has_a_score_among_its_peers(learned: WorkerState) -> None:
    outputs = after(learned, lambda values: None)
    assert not told(outputs)
    for host in EVERYBODY:
        values = [score.members["peers"] for report in reports(outputs, host) for score in report.scores]
        assert len(values) > 60
        assert max(values) < 1.0


def test_the_host_with_the_slow_card_is_named_and_those_that_wait_for_it_are_not(learned: WorkerState) -> None:
    outputs = after(learned, SLOW_CARD)
    assert opened(outputs) == [3]
    (event,) = told(outputs)
    assert event.episode.scope is Scope.HOST
    assert 0 <= (event.at_ms - entity_start(BEGIN)) / 1000 <= 8
    assert [event.episode.entity for event in told(outputs, Phase.CLOSED)] == [entity(3)]
    for host in (1, 2, 4, 8):
        mine = reports(outputs, host)
        assert any(score.fused > 1 for report in mine for score in report.scores), "it does deviate from its own past"
        assert not any(report.open_episodes for report in mine)
        assert {report.follows for report in mine} == {None, entity(3)}
    assert max(score.members["peers"] for report in reports(outputs, 3) for score in report.scores) > 1


def entity_start(second: int) -> int:
    return 1_800_000_000_000 + 1000 * second


def test_without_peers_everybody_that_deviates_is_told(learned: WorkerState) -> None:
    # The same fault, when hosts are not compared: what the comparison is for.
    outputs = play(Fleet().ticks(SLOW_CARD, since=LEARNED), learned, patient(PLAN, enabled=False))[1]
    assert sorted(opened(outputs)) == list(EVERYBODY)
    assert {event.episode.scope for event in told(outputs)} == {Scope.HOST}


def test_what_all_hosts_do_is_told_once_as_the_jobs(learned: WorkerState) -> None:
    outputs = after(learned, raised(EVERYBODY, WAITING, BEGIN, END, 40.0))
    (event,) = told(outputs)
    assert event.episode.scope is Scope.JOB
    assert event.episode.title.startswith("lab: ")
    assert " of 8 hosts at once; lab/n" in event.episode.title
    speaker = event.episode.entity
    assert [event.episode.entity for event in told(outputs, Phase.CLOSED)] == [speaker]
    follows = {host: {report.follows for report in reports(outputs, host)} for host in EVERYBODY}
    assert all(found == {None, speaker} for host, found in follows.items() if entity(host) != speaker)


def test_the_network_of_all_hosts_without_a_job_is_the_fabric(learned: WorkerState) -> None:
    outputs = after(learned, raised(EVERYBODY, ("network_0", "network_1", "network_2"), BEGIN, END, 40.0))
    assert [event.episode.scope for event in told(outputs)] == [Scope.FABRIC]


@pytest.mark.slow
def test_two_jobs_at_once_are_the_fabric_and_one_alone_is_a_job() -> None:
    jobs = {host: "17" if host <= 4 else "18" for host in EVERYBODY}
    state, _ = play(Fleet(seconds=LEARNED, jobs=jobs).ticks())
    assert len(state.fleet.groups) == 2
    outputs = after(state, raised(EVERYBODY, WAITING, BEGIN, END, 40.0), jobs=jobs)
    assert {event.episode.scope for event in told(outputs)} == {Scope.FABRIC}
    assert len(told(outputs)) == 1
    outputs = after(state, raised((5, 6, 7, 8), WAITING, BEGIN, END, 40.0), jobs=jobs)
    (event,) = told(outputs)
    assert (event.episode.scope, event.episode.title[:3]) == (Scope.JOB, "18:")


def test_one_host_that_deviates_alone_is_told_at_once(learned: WorkerState) -> None:
    fault = raised((6,), ("storage_0", "storage_1"), BEGIN, END, 60.0)
    compared = told(after(learned, fault))
    alone = told(play(Fleet().ticks(fault, since=LEARNED), learned, patient(PLAN, enabled=False))[1])
    assert [event.episode.entity for event in compared] == [entity(6)]
    assert compared[0].at_ms <= alone[0].at_ms + 1000
    assert compared[0].episode.scope is Scope.HOST


@pytest.mark.parametrize("hosts", [1, pytest.param(8, marks=pytest.mark.slow)])
def test_one_gpu_that_is_hotter_is_named(hosts: int) -> None:
    fleet = Fleet(seconds=LEARNED, hosts=hosts, gpus=8)
    state, quiet = play(fleet.ticks())
    assert not told(quiet)
    culprit = min(3, hosts)
    outputs = after(state, raised((culprit,), ("heat/3", "clock/3"), BEGIN, END, 40.0), hosts=hosts, gpus=8)
    (event,) = told(outputs)
    assert event.episode.entity == entity(culprit)
    assert (event.episode.scope, event.episode.device) == (Scope.DEVICE, Device("gpu", "3"))
    assert [event.episode.device for event in told(outputs, Phase.CLOSED)] == [Device("gpu", "3")]


@pytest.mark.slow
def test_one_gpu_in_each_of_eight_hosts() -> None:
    state, _ = play(Fleet(seconds=LEARNED, gpus=1).ticks())
    outputs = after(state, raised((5,), ("heat/0", "clock/0"), BEGIN, END, 40.0), gpus=1)
    (event,) = told(outputs)
    assert (event.episode.entity, event.episode.device) == (entity(5), Device("gpu", "0"))


@pytest.mark.slow
def test_a_host_that_always_differs_in_what_it_does_never_pages() -> None:
    server = raised((7,), USE, 0, 400, 80.0)
    _, outputs = play(Fleet(seconds=400).ticks(server))
    assert not told(outputs)


@pytest.mark.slow
def test_a_role_keeps_a_different_host_out_of_the_comparison() -> None:
    server = raised((7,), (*USE, *CAUSES), 0, 120, 80.0)
    fleet = Fleet(seconds=120, roles={7: "server"})
    state, outputs = play(fleet.ticks(server))
    assert not told(outputs)
    assert sorted(len(group.members) for group in state.fleet.groups.values()) == [1, 7]


def test_a_host_that_was_ill_from_the_start_is_found_before_its_own_model_counts() -> None:
    ill = raised((3,), ("network_0", "network_1", "network_2"), 0, 200, 80.0)
    _, outputs = play(Fleet(seconds=80).ticks(ill))
    (event,) = told(outputs)
    assert event.episode.entity == entity(3)
    assert event.episode.subsystem == "network"
    assert event.episode.title.endswith("; its 7 peers do not show it")
    assert {part.channel.name for part in event.episode.top[:3]} == {"network_0", "network_1", "network_2"}
    for part in event.episode.top[:3]:
        assert part.value > part.upper, "the band is where the others lie"
    newest = reports(outputs, 3)[-1]
    assert newest.open_episodes[0].identity == event.episode.identity
    assert not newest.scores[-1].calibrated


def test_when_hosts_are_compared_no_more_what_their_peers_told_is_over() -> None:
    ticks = Fleet(seconds=120).ticks(raised((3,), ("network_0", "network_1", "network_2"), 0, 200, 80.0))
    state, outputs = play(ticks[:80])
    assert opened(outputs) == [3]
    state, outputs = play(ticks[80:85], state, patient(PLAN, enabled=False))
    assert [event.episode.entity for event in told(outputs[:1], Phase.CLOSED)] == [entity(3)]
    assert not any(output.events for output in outputs[1:])
    assert not any(report.open_episodes for report in reports(outputs, 3))
    assert state.fleet.telling == Telling()
    # Once they are compared again it is told anew.
    assert opened(play(ticks[85:], state)[1]) == [3]


def test_when_hosts_are_compared_no_more_who_followed_another_is_told(learned: WorkerState) -> None:
    ticks = Fleet(seconds=210).ticks(SLOW_CARD, since=LEARNED)
    state, outputs = play(ticks[:25], learned)
    assert opened(outputs) == [3]
    waiting = sorted(number for number in EVERYBODY if state.hosts[entity(number)].episode is not None and number != 3)
    assert len(waiting) > 4
    assert {state.hosts[entity(number)].watch.pages for number in waiting} == {0}
    # The state on disk may be of a time at which they were compared.
    plan = patient(PLAN, enabled=False)
    for former in (state, restore(*snapshot(state), plan)):
        after_it, outputs = play(ticks[25:], former, plan)
        assert opened(outputs[:1]) == waiting
        assert [len(reports(outputs[:1], number)[0].open_episodes) for number in waiting] == [1] * len(waiting)
        closed = [event.episode.entity for event in told(outputs, Phase.CLOSED)]
        assert sorted(closed) == sorted(
            {entity(number) for number in (3, *waiting)} | {entity(n) for n in opened(outputs)}
        )
        assert {after_it.hosts[entity(number)].watch.pages for number in waiting} == {1}


@pytest.mark.slow
def test_a_host_that_is_ill_from_its_first_day_in_an_old_group(learned: WorkerState) -> None:
    fleet = Fleet(hosts=9, begins={9: LEARNED})
    ill = raised((9,), ("storage_0", "storage_1", "storage_2"), 0, 220, 80.0)
    outputs = play(fleet.ticks(ill, since=LEARNED), learned)[1]
    assert opened(outputs) == [9]
    healthy = play(fleet.ticks(lambda values: None, since=LEARNED), learned)[1]
    assert not told(healthy)


def test_fewer_than_four_are_not_compared() -> None:
    state, outputs = play(Fleet(hosts=3, seconds=LEARNED).ticks())
    outputs += after(state, raised((3,), ("network_0", "network_1"), BEGIN, END, 60.0), hosts=3)
    assert opened(outputs) == [3]
    assert not any("peers" in score.members for report in reports(outputs, 3) for score in report.scores)
    assert not any(group.cells.names for group in state.fleet.groups.values())


def test_a_host_that_leaves_stops_nobody(learned: WorkerState) -> None:
    fault = raised((3,), ("network_0", "network_1", "network_2"), BEGIN, END, 60.0)
    outputs = after(learned, fault, leaves={8: LEARNED + 2})
    assert opened(outputs) == [3]
    values = {score.end_ms: score.members["peers"] for report in reports(outputs[20:40], 3) for score in report.scores}
    assert len(set(values.values())) > 15, "it is compared anew in every slot"


def test_two_culprits_are_both_told(learned: WorkerState) -> None:
    fault = both(
        raised((3,), ("network_0", "network_1", "network_2"), BEGIN, END, 60.0),
        raised((6,), ("storage_0", "storage_1", "storage_2"), BEGIN, END, 60.0),
        raised(EVERYBODY, WAITING, BEGIN, END, 40.0),
    )
    assert sorted(opened(after(learned, fault))) == [3, 6]


@pytest.mark.slow
def test_two_runs_say_the_same(learned: WorkerState) -> None:
    first, second = ([line for output in after(learned, SLOW_CARD) for line in lines(output, 0)] for _ in range(2))
    assert first == second


@pytest.mark.slow
@pytest.mark.parametrize("second", [120, 163, 175])
def test_a_restart_in_the_middle_changes_nothing(learned: WorkerState, second: int) -> None:
    fleet = Fleet()
    ticks = fleet.ticks(SLOW_CARD)
    begin = 0 if second < LEARNED else LEARNED
    state, before = play(ticks[begin:second], learned if begin else None)
    _, kept = play(ticks[second:], state)
    # The service reads some overlap again.
    _, again = play(ticks[second - 3 :], restore(*snapshot(state), PLAN))
    assert opened(before + again) == [3]
    assert [event.episode.entity for event in told(again, Phase.CLOSED)] == [entity(3)]
    for host in EVERYBODY:
        ours, theirs = (
            {
                score.end_ms: (score.fused, score.members["peers"])
                for report in reports(outputs, host)
                for score in report.scores
            }
            for outputs in (kept, again)
        )
        assert ours == theirs


def test_a_damaged_state_of_the_fleet_is_refused(learned: WorkerState) -> None:
    document, arrays = snapshot(learned)
    history = next(name for name in arrays if name.startswith("fleet/") and name.endswith("/history"))
    with pytest.raises((KeyError, ValueError)):
        restore(document, {name: value for name, value in arrays.items() if name != history}, PLAN)
    with pytest.raises(ValueError, match="history of peers"):
        restore(document, {**arrays, history: arrays[history][:, :-1]}, PLAN)


def test_a_state_without_a_fleet_keeps_its_open_episodes(learned: WorkerState) -> None:
    fault = raised((6,), ("storage_0", "storage_1"), BEGIN, END, 60.0)
    ticks = Fleet().ticks(fault)
    state, before = play(ticks[LEARNED:175], learned)
    assert opened(before) == [6]
    document, arrays = snapshot(state)
    del document["fleet"]
    old = {name: value for name, value in arrays.items() if not name.startswith("fleet/")}
    _, outputs = play(ticks[172:], restore(document, old, PLAN))
    assert [len(report.open_episodes) for report in reports(outputs[3:6], 6)] == [1, 1, 1]
    assert [event.episode.entity for event in told(outputs, Phase.CLOSED)] == [entity(6)]


def test_other_words_make_other_groups(learned: WorkerState) -> None:
    plan = patient(PLAN, by=("node",))
    state, _ = play(Fleet().ticks(since=LEARNED)[:3], learned, plan)
    assert sorted(len(group.members) for group in state.fleet.groups.values()) == [1] * 8
    state = restore(*snapshot(learned), plan)
    assert not state.fleet.groups
    assert len(state.hosts) == 8
