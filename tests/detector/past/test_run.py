"""The past is judged as the service would have judged it."""

from __future__ import annotations

import pytest

from hwsonde_detector.engines.local import LocalEngine
from hwsonde_detector.explain.findings import tallies
from hwsonde_detector.past.run import PastRun, score_records
from hwsonde_detector.types import Subsystem
from tests.detector.worker.hosts import ENTITY, PLAN, START_MS, batches, rates

FAULT_FROM, FAULT_TO, SECONDS = 200, 225, 260
RANGE = (START_MS + 150_000, START_MS + 250_000)


def fault(name: str, second: int, value: float) -> float:
    return value * 6 if FAULT_FROM <= second < FAULT_TO and name.startswith("storage") else value


def numbers(scores):
    return [(one.entity, one.end_ms, one.fused, one.calibrated, one.coverage) for one in scores]


@pytest.fixture(scope="module")
def ticks():
    return batches(rates(SECONDS, fault=fault))


@pytest.fixture(scope="module")
def run(ticks) -> PastRun:
    return score_records(ticks, PLAN, *RANGE)


def test_it_says_what_the_service_said(ticks, run):
    engine = LocalEngine(PLAN)
    scores, opened, closed = [], [], []
    for batch, now_ms in ticks:
        outputs = engine.step(batch, now_ms)
        scores += [score for report in outputs.reports for score in report.scores]
        for event in outputs.events:
            {"opened": opened, "closed": closed}.get(str(event.phase), []).append(event.episode)
    expected = [score for score in scores if RANGE[0] < score.end_ms <= RANGE[1]]
    assert list(run.scores) == [ENTITY]
    assert numbers(run.scores[ENTITY]) == numbers(expected)
    assert len(expected) == 100
    assert [one.identity for one in run.episodes] == [one.identity for one in opened]
    (episode,) = run.episodes
    assert episode == closed[0]
    # What its windows said was added up as they came; adding them up afterwards gives the same.
    assert tallies(episode, (), run.gathered[episode.identity]) == tallies(episode, expected)
    assert len(tallies(episode, expected)) >= 5
    assert episode.subsystem is Subsystem.STORAGE
    assert START_MS + FAULT_FROM * 1000 <= episode.start_ms <= START_MS + (FAULT_FROM + 8) * 1000
    assert (run.start_ms, run.end_ms) == RANGE
    assert dict(run.intervals_ms) == {ENTITY: 1000}


def test_what_comes_later_changes_nothing(ticks, run):
    short = score_records((pair for pair in ticks if pair[1] <= RANGE[0] + 60_000), PLAN, *RANGE)
    assert numbers(short.scores[ENTITY]) == numbers(run.scores[ENTITY])[: len(short.scores[ENTITY])]
    assert len(short.scores[ENTITY]) == 59


def test_an_episode_that_is_still_open_has_no_end_and_its_newest_peak(ticks, run):
    half = [pair for pair in ticks if pair[1] <= START_MS + (FAULT_FROM + 15) * 1000]
    (episode,) = score_records(half, PLAN, *RANGE).episodes
    assert episode.end_ms is None
    peaks = [score.fused for score in run.scores[ENTITY] if episode.start_ms <= score.end_ms < half[-1][1]]
    assert episode.peak == max(peaks)


@pytest.mark.parametrize(
    ("first", "last", "count"),
    [(0, 199, 0), (0, 230, 1), (210, 220, 1), (245, 250, 0)],
    ids=["before", "begin", "within", "after"],
)
def test_episodes_that_touch_the_range(ticks, first, last, count):
    within = [pair for pair in ticks if pair[1] <= START_MS + (last + 1) * 1000]
    found = score_records(within, PLAN, START_MS + first * 1000, START_MS + last * 1000)
    assert len(found.episodes) == count


def test_windows_that_could_not_be_judged_are_counted():
    run = score_records(batches(rates(SECONDS), skip=frozenset(range(180, 200))), PLAN, *RANGE)
    # The two windows that reach over the gap, and the next one, whose first row has no rates yet.
    assert dict(run.skipped[ENTITY]) == {"coverage": 1, "not_full": 2}
    assert len(run.scores[ENTITY]) == 77


def test_progress_is_told(ticks):
    told: list[int] = []
    score_records(ticks[:5], PLAN, *RANGE, told.append)
    assert told == [now_ms for _, now_ms in ticks[:5]]


def test_nothing_at_all():
    assert score_records([], PLAN, 0, 10) == PastRun(0, 10, {}, (), {}, {})
    learned_only = score_records(batches(rates(100)), PLAN, START_MS + 200_000, START_MS + 300_000)
    assert (dict(learned_only.scores), learned_only.episodes) == ({}, ())
