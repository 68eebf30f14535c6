"""What counts as normal pages nobody until that ends; a replay gives the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hwsonde_detector.engines.local import LocalEngine
from hwsonde_detector.hushing import Hushing, counts_as_normal, hush
from hwsonde_detector.replay import lines, replay
from hwsonde_detector.sources.archive import ArchiveRecorder, ArchiveSource
from hwsonde_detector.sources.base import Read
from hwsonde_detector.types import Outputs, Phase
from hwsonde_detector.types.guidance import (
    UNGUIDED,
    Guidance,
    Marked,
    Matcher,
    Normal,
    guidance_document,
    read_guidance,
)
from hwsonde_detector.worker import restore, snapshot
from tests.detector.incidents.made import HOSTS, SICK, episode, step
from tests.detector.sources.test_replay import raw_of
from tests.detector.worker.hosts import ENTITY, PLAN, START_MS, batches, rates

BEGIN, END, SECONDS = 150, 190, 215
QUIET = (Matcher("node", "n1"),)


def at(second: int) -> int:
    return START_MS + 1000 * second


def fault(name: str, second: int, value: float) -> float:
    return value * 6 if second >= BEGIN and name.startswith("storage") else value


@pytest.fixture(scope="module")
def ticks():
    return batches(rates(SECONDS, fault=fault))


def silence(first: int, last: int, matchers=QUIET) -> Guidance:
    return Guidance(normal=(Normal(matchers, at(first), at(last), "silence", "silence 1"),))


def test_a_silence_makes_a_recorded_fault_normal_and_it_pages_when_the_silence_ends(ticks, tmp_path) -> None:
    engine, said, seen = LocalEngine(PLAN), [], []
    with ArchiveRecorder(tmp_path / "a") as recorder:
        recorder.record_start(None, {})
        for batch, now_ms in ticks:
            told = silence(100, END)
            told = told if told.normal[0].start_ms <= now_ms < told.normal[0].end_ms else UNGUIDED
            recorder.record_guidance(told)
            recorder.record(now_ms, Read(batch, (), raw_of(batch)))
            outputs = engine.step(batch, now_ms, told)
            seen.append((now_ms, outputs))
            said += lines(outputs, now_ms)
    opened = [(now_ms, one) for now_ms, outputs in seen for one in outputs.events if one.phase is Phase.OPENED]
    hushed = [(now_ms, one) for now_ms, outputs in seen for one in outputs.hushed]
    assert hushed[0][1].event.phase is Phase.OPENED
    assert at(BEGIN) <= hushed[0][0] < at(END)
    assert hushed[0][1].reason == "silence 1"
    (first,) = opened
    assert at(END) <= first[0] <= at(END) + 2000, "it pages as soon as the silence is over"
    assert first[1].episode.identity == hushed[0][1].event.episode.identity
    for now_ms, outputs in seen:
        (report,) = outputs.reports
        open_now = [one.identity for one in report.open_episodes]
        assert not (open_now and now_ms < at(END))
        if now_ms not in (hushed[0][0], first[0]):
            assert report.learning.pages == (1 if now_ms > first[0] else 0)
        if hushed[0][0] <= now_ms < at(END):
            assert report.normal[0][1] == "silence 1"
    assert b"".join(replay(ArchiveSource(tmp_path / "a").records(), PLAN)) == b"".join(said)
    assert any(b'"kind":"normal"' in line for line in said)


def test_a_start_within_a_silence_is_replayed_as_it_was(ticks, tmp_path) -> None:
    engine, again, said, opened = LocalEngine(PLAN), LocalEngine(PLAN), [], []
    for batch, now_ms in ticks[:170]:
        engine.step(batch, now_ms, silence(100, END))
    again.restore(*engine.snapshot())
    with ArchiveRecorder(tmp_path / "a") as recorder:
        recorder.record_start(*engine.snapshot())
        for number, (batch, now_ms) in enumerate(ticks[168:]):
            # Alertmanager answers some seconds after the start.
            holds = silence(100, END) if now_ms < at(END) else UNGUIDED
            guidance = Guidance(unsure=True) if number < 6 else holds
            recorder.record_guidance(guidance)
            recorder.record(now_ms, Read(batch, (), raw_of(batch)))
            outputs = again.step(batch, now_ms, guidance)
            opened += [now_ms for one in outputs.events if one.phase is Phase.OPENED]
            said += lines(outputs, now_ms)
    (first,) = opened
    assert first >= at(END)
    assert b"".join(replay(ArchiveSource(tmp_path / "a").records(), PLAN)) == b"".join(said)


def test_a_silence_outlasts_a_restart(ticks) -> None:
    engine = LocalEngine(PLAN)
    for batch, now_ms in ticks[:170]:
        engine.step(batch, now_ms, silence(100, END))
    again = LocalEngine(PLAN)
    again.restore(*engine.snapshot())
    told = [one for batch, now_ms in ticks[168:] for one in again.step(batch, now_ms, silence(100, END)).events]
    assert [one.phase for one in told][:1] == [Phase.OPENED]
    assert told[0].at_ms >= at(END)


def test_other_hosts_silences_change_nothing(ticks) -> None:
    engine = LocalEngine(PLAN)
    told = [
        one
        for batch, now_ms in ticks
        for one in engine.step(batch, now_ms, silence(100, 900, (Matcher("node", "n2"),))).events
    ]
    assert [one.phase for one in told][:1] == [Phase.OPENED]
    assert told[0].at_ms < at(END)


def test_a_mark_moves_the_level_of_its_host_and_is_saved() -> None:
    from hwsonde_detector.host import HostState
    from hwsonde_detector.signals.channels import ChannelState
    from hwsonde_detector.types import SampleBatch
    from hwsonde_detector.worker import WorkerState
    from hwsonde_detector.worker import step as work

    state = WorkerState()
    host = state.hosts[ENTITY] = HostState(ENTITY, ChannelState(ENTITY), last_row_ms=at(0))
    host.threshold.start = host.threshold.value = 4.0
    marks = Guidance(marks=(Marked(ENTITY, "x", "noise"), Marked(SICK, "of nobody", "noise")))
    state, _ = work(state, SampleBatch.empty(), at(1), PLAN, marks)
    assert host.threshold.value == pytest.approx(4.2)
    again = restore(*snapshot(state), PLAN)
    assert again.hosts[ENTITY].feedback == host.feedback
    state, _ = work(again, SampleBatch.empty(), at(2), PLAN, Guidance(marks=(Marked(ENTITY, "x", "useful"),)))
    assert state.hosts[ENTITY].threshold.value == pytest.approx(4.0)


def told(hushing: Hushing, outputs: Outputs, now_ms: int, *, quiet: bool):
    normal = (Normal((Matcher("node", "node1[0-9]", regex=True),), 0, 2**60, "maintenance", "m"),) if quiet else ()
    return hush(hushing, Guidance(normal=tuple(normal)), outputs.reports, outputs.events, now_ms)


@pytest.mark.parametrize(
    ("waiting", "guidance", "normal"),
    [
        ({}, Guidance(), False),
        ({}, silence(0, 10), False),
        ({}, silence(0, 10, (Matcher("node", "node1.*", regex=True),)), True),
        ({}, silence(11, 20, (Matcher("node", "node1.*", regex=True),)), False),
        ({episode(0).identity: "silence 1"}, Guidance(unsure=True), True),
        ({"of another": "silence 1"}, Guidance(), False),
    ],
)
def test_an_episode_counts_as_normal_by_what_holds_now_or_did(waiting, guidance, normal) -> None:
    assert counts_as_normal(Hushing(waiting), guidance, episode(0), at(5)) is normal


def test_one_that_was_told_before_is_closed_and_told_again_if_it_lasts() -> None:
    hushing, one = Hushing(), episode(0)
    assert told(hushing, step(1000, open_one=one), 1000, quiet=False).reports[0].open_episodes == (one,)
    begins = told(hushing, step(2000, open_one=one), 2000, quiet=True)
    assert [(event.phase, event.episode.because) for event in begins.events] == [(Phase.CLOSED, "counts as normal: m")]
    assert [hushed.event.phase for hushed in begins.hushed] == [Phase.OPENED]
    assert begins.reports[0].open_episodes == ()
    assert told(hushing, step(3000, open_one=one), 3000, quiet=True).events == []
    ends = told(hushing, step(4000, open_one=one), 4000, quiet=False)
    assert [event.phase for event in ends.events] == [Phase.OPENED]
    assert ends.reports[0].open_episodes == (one,)
    assert hushing.waiting == {}


def test_who_was_normal_before_a_start_stays_so_until_somebody_says_what_holds() -> None:
    hushing, one = Hushing({episode(0).identity: "silence 1"}), episode(0)
    outputs = step(1000, open_one=one)
    unsure = hush(hushing, Guidance(unsure=True), outputs.reports, outputs.events, 1000)
    assert unsure.events == []
    assert unsure.reports[0].open_episodes == ()
    assert unsure.reports[0].normal == ((one, "silence 1"),)
    sure = hush(hushing, Guidance(), outputs.reports, outputs.events, 2000)
    assert [event.phase for event in sure.events] == [Phase.OPENED]
    assert read_guidance(guidance_document(Guidance(unsure=True))) == Guidance(unsure=True)


def test_one_that_closes_inside_is_never_told_and_leaves_nothing() -> None:
    from hwsonde_detector.types import EpisodeEvent

    hushing, one = Hushing(), episode(0)
    opens = step(1000, open_one=one, events=(EpisodeEvent(Phase.OPENED, 1000, one),))
    first = told(hushing, opens, 1000, quiet=True)
    assert (first.events, [hushed.kind for hushed in first.hushed]) == ([], ["maintenance"])
    ended = replace(one, end_ms=2000)
    last = told(hushing, step(2000, events=(EpisodeEvent(Phase.CLOSED, 2000, ended),)), 2000, quiet=True)
    assert (last.events, [hushed.event.phase for hushed in last.hushed]) == ([], [Phase.CLOSED])
    assert hushing.waiting == {}
    opens = told(hushing, opens, 3000, quiet=True)
    told(hushing, step(4000), 4000, quiet=True)
    assert hushing.waiting == {}, "one that is open no more and was not told of is forgotten"
    assert len(HOSTS) == len(first.reports)


@pytest.mark.parametrize(
    ("matcher", "value", "holds"),
    [
        (Matcher("node", "n1"), "n1", True),
        (Matcher("node", "n1", equal=False), "n1", False),
        (Matcher("node", "n1[0-9]?", regex=True), "n17", True),
        (Matcher("node", "n1", regex=True), "n17", False),
        (Matcher("node", "n1.*", regex=True, equal=False), "n2", True),
        (Matcher("node", ""), "", True),
    ],
)
def test_matchers_hold_as_alertmanagers_do(matcher: Matcher, value: str, holds: bool) -> None:
    assert matcher.holds(value) is holds


def test_guidance_comes_back_from_its_document() -> None:
    one = Guidance((Marked(ENTITY, "x", "noise"),), silence(1, 2).normal)
    assert read_guidance(guidance_document(one)) == one
    assert not UNGUIDED
