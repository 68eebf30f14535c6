"""Hosts of one job that are scraped at moments of their own, and a fault that all of them have: what is told, and whether it is seen."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from hwsonde_detector.plan import Plan
from hwsonde_detector.published import Published
from hwsonde_detector.replay import lines
from hwsonde_detector.service.hosts import Hosts
from hwsonde_detector.settings import DetectorSettings, EpisodeSettings
from hwsonde_detector.types import Outputs, Phase, SampleBatch, Scope
from hwsonde_detector.types.guidance import Guidance, Matcher, Normal
from hwsonde_detector.worker import WorkerState, restore, snapshot, step
from hwsonde_detector.writers.exposition import exposition
from tests.detector.worker.fleets import LEARNED, PLAN, SETTINGS, START_MS, Fleet, both, entity, play, raised, told

BEGIN = LEARNED + 10
WAITING = ("cpu_0", "cpu_1", "memory_0")
# Two rows of one channel are enough, as at scrapes of many seconds; nor is there patience after a start.
SHARP = Plan(
    replace(
        SETTINGS,
        detectors=DetectorSettings(members=("zscore", "mahalanobis", "bounds"), alone_after_ms=0),
        episodes=EpisodeSettings(settle_rows=0),
    ),
    PLAN.profiles,
)
# Four rows open an episode, and one quiet one ends it.
BRIEF = Plan(
    replace(
        SETTINGS,
        window=replace(SETTINGS.window, rows=2),
        episodes=EpisodeSettings(settle_rows=5, clear_windows=1, alone_windows=0),
    ),
    PLAN.profiles,
)


def fleet(interval_ms: int, seconds: int) -> Fleet:
    """The first host is scraped last in each interval."""
    phases = {1: interval_ms * 3 // 4, 2: 50, 3: interval_ms // 4, 4: interval_ms // 2}
    return Fleet(hosts=4, seconds=seconds, interval_ms=interval_ms, phases=phases)


def ticks(interval_ms: int, rows: int, by: float, *, between: bool) -> list[tuple[SampleBatch, int]]:
    """A fault of all hosts that begins at a full interval, or ``between`` the scrapes of the last and the others."""
    late = {host: BEGIN + (between and host != 1) for host in (1, 2, 3, 4)}
    fault = both(*(raised((host,), WAITING, begin, begin + rows, by) for host, begin in late.items()))
    return fleet(interval_ms, LEARNED + 45).ticks(fault)


def events(outputs: Iterable[Outputs]) -> list[bytes]:
    return [line for output in outputs for line in lines(output, 0) if b'"kind":"event"' in line]


@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize("interval_ms", [1000, pytest.param(15_000, id="15 s", marks=pytest.mark.slow)])
def test_one_common_fault_is_told_once_whoever_is_scraped_first(interval_ms: int, between: bool) -> None:
    made = ticks(interval_ms, 15, 300.0, between=between)
    learned, before = play(made[:LEARNED], plan=SHARP)
    assert not events(before)
    state, outputs = play(made[LEARNED:], learned, SHARP)
    (opened,) = told(outputs)
    assert 0 <= opened.at_ms - START_MS - interval_ms * BEGIN <= 7 * interval_ms
    assert [event.episode.identity for event in told(outputs, Phase.CLOSED)] == [opened.episode.identity]
    # One page of one host, also in the rate of pages.
    pages = {host: state.hosts[entity(host)].watch.pages for host in (1, 2, 3, 4)}
    assert sum(pages.values()) == 1
    assert pages[int(str(opened.episode.entity)[-1])] == 1
    if interval_ms == 1000:
        assert opened.episode.scope is Scope.JOB
        return
    # The first was told before the others were known to have it.
    assert opened.episode.scope is Scope.HOST
    (changed,) = told(outputs, Phase.CHANGED)
    assert changed.at_ms >= opened.at_ms
    assert changed.episode.title == f"4 of 4 hosts alike at once: {opened.episode.title}"
    # Restarts while the first is told, the others are held, and they follow it.
    for at in range(BEGIN + 2, BEGIN + 9):
        state, first = play(made[LEARNED:at], learned, SHARP)
        # The service reads some overlap again.
        again, second = play(made[at - 3 :], restore(*snapshot(state), SHARP), SHARP)
        assert events(first + second) == events(outputs), f"a restart before row {at} changes nothing"
        assert {host: again.hosts[entity(host)].watch.pages for host in (1, 2, 3, 4)} == pages


def test_the_rest_is_told_where_the_first_counts_as_normal() -> None:
    made = ticks(15_000, 15, 300.0, between=False)
    state, _ = play(made[:LEARNED], plan=SHARP)
    quiet = Guidance(normal=(Normal((Matcher("node", "n2"),), 0, 2**60, "silence", "silence 1"),))
    outputs = []
    for batch, now_ms in made[LEARNED:]:
        state, one = step(state, batch, now_ms, SHARP, quiet)
        outputs.append(one)
    (opened,) = told(outputs)
    assert opened.episode.scope is Scope.JOB
    assert opened.episode.entity != entity(2)
    assert {hushed.event.episode.entity for output in outputs for hushed in output.hushed} == {entity(2)}
    pages = {one: host.watch.pages for one, host in state.hosts.items()}
    assert pages == {entity(host): int(entity(host) == opened.episode.entity) for host in (1, 2, 3, 4)}


def test_a_held_fault_of_a_group_that_falls_silent_is_told_before_its_hosts_are_gone() -> None:
    interval_ms = 60_000
    made = ticks(interval_ms, 4, 100.0, between=False)
    state, outputs = play(made[: BEGIN + 4], plan=BRIEF)
    assert len(state.fleet.telling.held) == 4
    assert not events(outputs)
    now_ms, outputs = made[BEGIN + 3][1], []
    while not any(output.gone for output in outputs):
        now_ms += interval_ms
        state, one = step(state, SampleBatch.empty(), now_ms, BRIEF)
        outputs.append(one)
        assert len(outputs) < 10
    at = next(place for place, output in enumerate(outputs) if output.events)
    assert [event.phase for event in outputs[at].events] == [Phase.OPENED]
    assert [len(report.open_episodes) for report in outputs[at].reports] == [0, 1, 0, 0]
    assert at < len(outputs) - 1


@pytest.mark.parametrize("restart", [False, True])
def test_a_short_common_fault_is_seen_by_the_scrape_of_the_detector(restart: bool) -> None:
    interval_ms = 60_000
    hosts, state, shown, said = Hosts(), WorkerState(), [], []
    for batch, now_ms in ticks(interval_ms, 4, 100.0, between=False):
        # A scrape that is late is looked for again, a second later.
        for at_ms, one in ((now_ms, batch), (now_ms + 1000, SampleBatch.empty())):
            state, outputs = step(state, one, at_ms, BRIEF)
            hosts.take(outputs, at_ms / 1000, interval_ms)
            said += [(event.phase, at_ms) for event in outputs.events]
            published = Published(at_ms / 1000, at_ms, START_MS, interval_ms, hosts=hosts.published(interval_ms))
            text = exposition(published, at_ms / 1000, at_ms).decode()
            shown += [(line, at_ms) for line in text.splitlines() if line.startswith("hwsonde_incident_active{")]
            if restart and outputs.events:
                state = restore(*snapshot(state), BRIEF)
    (opened, begin_ms), (closed, end_ms) = said
    assert (opened, closed) == (Phase.OPENED, Phase.CLOSED)
    assert end_ms - begin_ms >= interval_ms, "a scrape every minute falls into it"
    assert len({line for line, _ in shown}) == 1
    assert 'scope="job"' in shown[0][0]
    assert [at_ms for _, at_ms in shown] == [begin_ms, begin_ms + 1000]
    assert {host.episode for host in state.hosts.values()} == {None}
    assert len(hosts.past()) == 1
