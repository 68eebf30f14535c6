"""What is kept of a scored past: numbers of windows, sums of episodes, faults as long as they lasted."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from hwsonde_detector.explain.findings import tallies
from hwsonde_detector.past.kept import PEAK_MS, WINDOW_BYTES, Evidence, FaultLog, Track
from hwsonde_detector.past.run import score_records
from hwsonde_detector.types import DataFault, DataQuality, Device, FaultEvidence, FaultKind, Subsystem
from tests.detector.explain.planted import SECOND, T0, channel, fault, host, quiet, score
from tests.detector.past.history import FAULT_FROM, START_MS, History
from tests.detector.worker.hosts import PLAN

N1, N2 = host("n1"), host("n2")
PSI, IO = channel("psi", Subsystem.MEMORY), channel("io", Subsystem.STORAGE)
EPISODE, SICK = fault(N1, T0 + 20 * SECOND, 40, {PSI: 0.7, IO: 0.3})


def test_a_window_costs_what_is_said():
    track = Track(N1)
    track.take(quiet(N1, 1000))
    windows = track.windows()
    size = sum(one.nbytes for one in (windows.ends_ms, windows.fused, windows.calibrated, windows.coverage))
    assert size == WINDOW_BYTES * 1000
    assert [one.end_ms for one in windows] == [one.end_ms for one in quiet(N1, 1000)]
    assert len(Track(N1).windows()) == 0


def test_of_others_the_loudest_of_a_minute_is_kept():
    begin = T0 // PEAK_MS * PEAK_MS
    heights = {1: 0.4, 2: 0.9, 3: 0.9, 59: 0.1, 60: 0.2, 61: 0.3, 200: 5.0}
    track = Track(N1, PEAK_MS)
    track.take([score(N1, begin + second * SECOND, height) for second, height in heights.items()])
    track.take([score(N1, begin + 201_000, 9.0, calibrated=False), score(N1, begin + 202_000, math.nan)])
    kept = [((one.end_ms - begin) // SECOND, one.fused) for one in track.windows()]
    assert kept == [(2, 0.9), (61, 0.3), (200, 5.0)]
    assert track.windows().worst(begin + 30_000, begin + 31_000) == 0.9


@pytest.mark.parametrize("size", [1, 7, 60])
@pytest.mark.parametrize("told_after", [0, 5, 30])
def test_sums_are_those_of_the_windows(size, told_after):
    """However the windows come, and however late the episode is told of."""
    windows = [*quiet(N1, 19), *SICK, *quiet(N1, 20, 0.8, start_ms=T0 + 59 * SECOND)]
    evidence = Evidence()
    for begin in range(0, len(windows), size):
        part = windows[begin : begin + size]
        open_one = part[-1].end_ms >= EPISODE.onset_ms + told_after * SECOND
        closed = part[-1].end_ms >= (EPISODE.end_ms or 0)
        evidence.take(part, [EPISODE if closed else replace(EPISODE, end_ms=None)] if open_one else [])
    expected = tallies(EPISODE, windows)
    assert tallies(EPISODE, (), evidence.found[EPISODE.identity]) == expected
    assert [one.best.channel for one in expected] == [PSI, IO]


def test_an_episode_without_a_loud_window_has_what_it_carries():
    evidence = Evidence()
    evidence.take(quiet(N1, 60), [EPISODE])
    assert evidence.found == {}
    assert [one.best.channel for one in tallies(EPISODE, quiet(N1, 60))] == [PSI, IO]


def lost(at_s: int, since_s: int, score_of: float = 1.5, kind: FaultKind = FaultKind.MISSING) -> DataQuality:
    found = FaultEvidence(Device("gpu", "3"), score_of, T0 + since_s * SECOND)
    return DataQuality(T0 + at_s * SECOND, (DataFault(kind, score_of, (found,), 1),))


def test_a_fault_is_one_while_it_lasts():
    log = FaultLog()
    for at in (40, 50, 60):
        log.take(N1, lost(at, 10))
    log.take(N1, lost(70, 10, 0.9))
    log.take(N1, lost(900, 880))
    log.take(N2, lost(50, 10, kind=FaultKind.SLOW))
    log.take(N2, DataQuality(T0 + 60 * SECOND))
    spans = [((one.since_ms - T0) // SECOND, (one.last_ms - T0) // SECOND) for one in log.faults()]
    assert spans == [(10, 60), (880, 900)]
    log = FaultLog()
    log.take(N1, lost(40, 10))
    log.take(N1, lost(300, 290))
    assert [one.since_ms for one in log.faults()] == [T0 + 10 * SECOND], "it flaps"


@pytest.mark.slow
def test_hosts_that_nobody_asked_for_are_scored_and_not_kept():
    ticks = History(600).ticks()
    span = (START_MS + 200_000, START_MS + 590_000)
    whole = score_records(ticks, PLAN, *span)
    only = score_records(ticks, PLAN, *span, wanted=lambda entity: dict(entity.labels)["node"] == "n2")
    (n1, n2) = sorted(whole.scores)
    assert list(only.scores[n2]) == list(whole.scores[n2])
    assert len(only.scores[n1]) == 7
    assert len(whole.scores[n1]) == 390
    assert max(only.scores[n1].fused) == max(whole.scores[n1].fused)
    # Its episode is known, to be told of beside another one; what it was seen on is not.
    assert only.episodes == whole.episodes
    assert {one.entity for one in only.episodes} == {n1}
    assert only.gathered == {}
    assert len(whole.gathered) == 1


@pytest.mark.slow
def test_what_is_told_behind_the_end_is_known_where_it_began_before_it():
    ticks = History(600).ticks()
    end_ms = START_MS + (FAULT_FROM + 1) * 1000
    run = score_records(ticks, PLAN, START_MS + 200_000, end_ms)
    (episode,) = run.episodes
    assert episode.onset_ms <= end_ms < episode.start_ms
    assert all(window.end_ms <= end_ms for window in run.scores[episode.entity])
    assert run.gathered[episode.identity].newest_ms <= end_ms
    before = score_records(ticks, PLAN, START_MS + 200_000, START_MS + (FAULT_FROM - 5) * 1000)
    assert before.episodes == ()
