"""A host whose trouble becomes its new normal while it is still unlike its peers: one page, until it is like them again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest

from hwsonde_detector.explain.unlike import unlike
from hwsonde_detector.host import HostState
from hwsonde_detector.hushing import Told
from hwsonde_detector.replay import lines
from hwsonde_detector.settings import EpisodeSettings, RegimeSettings
from hwsonde_detector.signals.channels import ChannelState
from hwsonde_detector.types import Episode, EpisodeEvent, Hushed, Outputs, Phase, SampleBatch, Scope
from hwsonde_detector.types.guidance import UNGUIDED, Guidance, Matcher, Normal
from hwsonde_detector.worker import WorkerState, _uncount, restore, snapshot, step
from tests.detector.worker.fleets import LEARNED, PLAN, SETTINGS, START_MS, Fleet, entity, opened, play, raised, told
from tests.detector.worker.scenes import event

ILL = 3
BEGIN, END, SECONDS = LEARNED + 10, LEARNED + 130, LEARNED + 160
# What lasts for two of the job's phases is normal.
LASTING = replace(PLAN, settings=replace(SETTINGS, regimes=RegimeSettings(rebase_rows=74)))
Ticks = list[tuple[SampleBatch, int]]


@pytest.fixture(scope="module")
def ticks() -> Ticks:
    return Fleet(hosts=5, seconds=SECONDS).ticks(
        raised((ILL,), ("network_0", "network_1", "network_2"), BEGIN, END, 60.0)
    )


@pytest.fixture(scope="module")
def learned(ticks: Ticks) -> WorkerState:
    state, outputs = play(ticks[:LEARNED], plan=LASTING)
    assert not told(outputs)
    return state


@pytest.fixture(scope="module")
def outputs(ticks: Ticks, learned: WorkerState) -> list[Outputs]:
    return play(ticks[LEARNED:], learned, LASTING)[1]


def events(outputs: Iterable[Outputs]) -> list[bytes]:
    return [line for output in outputs for line in lines(output, 0) if b'"kind":"event"' in line]


def becomes_normal(state: WorkerState, ticks: Ticks) -> int:
    """Number of the tick behind which the host itself calls its trouble normal."""
    for number, (batch, now_ms) in enumerate(ticks[LEARNED:], LEARNED):
        before = state.hosts[entity(ILL)].episode
        state, _ = step(state, batch, now_ms, LASTING)
        if before is not None and state.hosts[entity(ILL)].episode is None:
            return number
    raise AssertionError("it never does")


@pytest.fixture(scope="module")
def normal_at(ticks: Ticks, learned: WorkerState) -> int:
    number = becomes_normal(restore(*snapshot(learned), LASTING), ticks)
    assert BEGIN + 74 <= number < END - 10
    return number


def second(at_ms: int) -> int:
    return (at_ms - START_MS) // 1000


def test_it_pages_once_and_the_page_stays_until_it_is_like_its_peers(outputs: list[Outputs], normal_at: int) -> None:
    assert opened(outputs) == [ILL]
    (first,), (last,) = told(outputs), told(outputs, Phase.CLOSED)
    assert BEGIN <= second(first.at_ms) < BEGIN + 8
    assert END < second(last.at_ms) < END + 20
    assert last.episode.identity == first.episode.identity
    (changed,) = [one for one in told(outputs, Phase.CHANGED) if "unlike" in one.episode.title]
    assert second(changed.at_ms) == normal_at
    assert changed.episode.title == f"{first.episode.title}; still unlike its 4 peers"
    assert {part.channel.name for part in changed.episode.top[:3]} == {"network_0", "network_1", "network_2"}
    for output in outputs[BEGIN + 8 - LEARNED : END - LEARNED]:
        (shown,) = [report.open_episodes for report in output.reports if report.entity == entity(ILL)]
        assert [(one.identity, one.scope, one.subsystem) for one in shown] == [
            (first.episode.identity, Scope.HOST, "network")
        ]


def test_its_channels_are_those_that_differ_in_the_newest_slot(
    ticks: Ticks, learned: WorkerState, normal_at: int
) -> None:
    state, _ = play(ticks[LEARNED : normal_at + 1], learned, LASTING)
    (group,) = state.fleet.groups.values()
    assert group.newest is not None
    assert second(group.newest.end_ms) == normal_at + 1
    assert state.fleet.telling.peers[entity(ILL)].top == unlike(entity(ILL), group.newest)


def test_a_step_of_many_rows_hears_them_in_their_order(
    ticks: Ticks, learned: WorkerState, outputs: list[Outputs], normal_at: int
) -> None:
    state, before = play(ticks[LEARNED : normal_at - 2], learned, LASTING)
    rest = ticks[normal_at - 2 :]
    series, count = rest[0][0].series, len(rest)
    times, values = (np.stack([getattr(batch, name) for batch, _ in rest], 1) for name in ("times", "values"))
    offsets = count * np.arange(len(series) + 1, dtype=np.int64)
    _, last = play([(SampleBatch(series, offsets, times.ravel(), values.ravel()), rest[-1][1])], state, LASTING)
    found, wanted = (
        [
            (event.phase, event.at_ms, event.episode.identity, event.episode.title)
            for output in said
            for event in output.events
        ]
        for said in (before + last, outputs)
    )
    assert found == wanted


def test_without_peers_its_own_past_ends_the_page(ticks: Ticks, learned: WorkerState, normal_at: int) -> None:
    alone = replace(LASTING, settings=replace(LASTING.settings, peers=replace(SETTINGS.peers, enabled=False)))
    outputs = play(ticks[LEARNED:], learned, alone)[1]
    closed = told(outputs, Phase.CLOSED)[0]
    assert (second(closed.at_ms), closed.episode.because) == (normal_at, "new normal")


@pytest.mark.slow
def test_a_restart_at_any_time_changes_nothing(
    ticks: Ticks, learned: WorkerState, outputs: list[Outputs], normal_at: int
) -> None:
    for at in (normal_at - 1, normal_at, normal_at + 1, normal_at + 10, END + 5):
        state, first = play(ticks[LEARNED:at], learned, LASTING)
        # The service reads some overlap again.
        _, then = play(ticks[at - 3 :], restore(*snapshot(state), LASTING), LASTING)
        assert events(first + then) == events(outputs), f"before row {at}"


def silenced(ticks: Ticks, state: WorkerState, first: int, last: int) -> tuple[WorkerState, list[Outputs]]:
    """What is said where the host counts as normal from one second up to another."""
    quiet = Guidance(
        normal=(
            Normal((Matcher("node", f"n{ILL}"),), START_MS + 1000 * first, START_MS + 1000 * last, "silence", "one"),
        )
    )
    state, said = restore(*snapshot(state), LASTING), []
    for number, (batch, now_ms) in enumerate(ticks[LEARNED:], LEARNED):
        state, output = step(state, batch, now_ms, LASTING, quiet if first <= number < last else UNGUIDED)
        said.append(output)
    return state, said


def hushed(outputs: Iterable[Outputs]) -> list[tuple[Phase, Episode]]:
    return [(one.event.phase, one.event.episode) for output in outputs for one in output.hushed]


def test_what_counts_as_normal_from_beginning_to_end_is_never_told(ticks: Ticks, learned: WorkerState) -> None:
    state, outputs = silenced(ticks, learned, BEGIN, SECONDS)
    assert not any(output.events for output in outputs)
    phases = [phase for phase, _ in hushed(outputs)]
    assert (phases[0], phases[-1], phases.count(Phase.OPENED)) == (Phase.OPENED, Phase.CLOSED, 1)
    assert state.hosts[entity(ILL)].watch.pages == 0
    assert state.hushing.waiting == {}


def test_it_is_told_when_the_silence_ends_though_its_own_past_is_quiet(
    ticks: Ticks, learned: WorkerState, normal_at: int
) -> None:
    _, outputs = silenced(ticks, learned, BEGIN, normal_at + 10)
    (first,), (last,) = told(outputs), told(outputs, Phase.CLOSED)
    assert normal_at + 10 <= second(first.at_ms) <= normal_at + 11
    assert first.episode.title.endswith("; still unlike its 4 peers")
    assert (END < second(last.at_ms) < END + 20, last.episode.identity) == (True, first.episode.identity)


def test_what_only_peers_keep_open_while_it_counts_as_normal_raises_no_level() -> None:
    host = HostState(entity(ILL), ChannelState(entity(ILL)))
    host.threshold.start = host.threshold.value = 3.0
    state = WorkerState({host.entity: host})
    grown = replace(event(ILL, 10_000, Phase.CHANGED).episode, entity=host.entity)
    told = Told([], [], [Hushed(EpisodeEvent(Phase.CHANGED, 10_000, grown), "", "one")])
    host.feedback.closed(grown.identity, host.threshold)
    host.episode = grown
    _uncount(state, told)
    assert host.threshold.value == pytest.approx(3.2), "its own past says so still"
    host.episode = None
    _uncount(state, told)
    assert host.threshold.value == pytest.approx(3.0)


def test_a_group_that_becomes_too_small_differs_from_nobody(ticks: Ticks) -> None:
    plan = replace(PLAN, settings=replace(SETTINGS, episodes=EpisodeSettings(settle_rows=5, gone_after_ms=5_000)))
    # One host leaves while another one is ill from its first day; of the three that are left none is compared.
    fleet = Fleet(hosts=4, seconds=120, leaves={1: 90})
    made = fleet.ticks(raised((ILL,), ("network_0", "network_1", "network_2"), 0, 120, 80.0))
    state, outputs = play(made, plan=plan)
    assert opened(outputs) == [ILL]
    (closed,) = told(outputs, Phase.CLOSED)
    assert (closed.episode.entity, 90 <= second(closed.at_ms) <= 100) == (entity(ILL), True)
    (group,) = state.fleet.groups.values()
    assert not group.cells.names
    assert not group.members[entity(ILL)].persistence.open
