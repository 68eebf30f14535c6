"""How long hosts were watched, by day."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector.incidents.watchtime import DAY_MS, Day, WatchedDays, WatchTime, read_days
from hwsonde_detector.types import Entity, EntityReport, Outputs
from tests.detector.incidents.made import HOSTS, LEARNING, score

MIDNIGHT = 20_000 * DAY_MS
HOUR = 3_600_000


def step(*ends_ms: int, host: Entity = HOSTS[0], interval_ms: int | None = 1000, calibrated: bool = True) -> Outputs:
    scores = tuple(replace(score(host, end_ms, 0.5), calibrated=calibrated) for end_ms in ends_ms)
    return Outputs((EntityReport(host, scores, LEARNING, interval_ms),), ())


def kept(*steps: Outputs, keep_ms: int = 90 * DAY_MS, rows: int = 1, shadow: bool = False) -> WatchTime:
    made = WatchTime(keep_ms)
    for one in steps:
        made.take(one, rows, shadow=shadow)
    return made


def test_windows_add_up_day_by_day() -> None:
    made = kept(
        step(MIDNIGHT - 1000, MIDNIGHT, MIDNIGHT + 1000), step(MIDNIGHT + 400, host=HOSTS[1], interval_ms=15_000)
    )
    assert made.saved() == [
        [MIDNIGHT - 2000, MIDNIGHT, 2000, 0],
        [MIDNIGHT, MIDNIGHT + 1000, 16_000, 0],
    ]


def test_a_window_stands_for_as_many_rows_as_lie_between_two() -> None:
    assert kept(step(MIDNIGHT + HOUR), rows=5).saved() == [[MIDNIGHT + HOUR - 5000, MIDNIGHT + HOUR, 5000, 0]]


def test_time_in_shadow_mode_is_not_time_in_which_somebody_is_paged() -> None:
    made = kept(step(MIDNIGHT + HOUR))
    made.take(step(MIDNIGHT + 2 * HOUR), 1, shadow=True)
    assert made.saved() == [[MIDNIGHT + HOUR - 1000, MIDNIGHT + 2 * HOUR, 1000, 1000]]


@pytest.mark.parametrize("outputs", [step(MIDNIGHT, calibrated=False), step(MIDNIGHT, interval_ms=None), step()])
def test_what_does_not_count_is_not_watched(outputs: Outputs) -> None:
    assert kept(outputs).saved() == []


def test_what_is_scored_again_counts_once() -> None:
    made = kept(step(MIDNIGHT + 1000, MIDNIGHT + 2000), step(MIDNIGHT + 1000, MIDNIGHT + 2000, MIDNIGHT + 3000))
    assert [live for _, _, live, _ in made.saved()] == [3000]
    again = WatchTime(90 * DAY_MS)
    again.restore(json.loads(json.dumps(made.saved())))
    again.take(step(MIDNIGHT + 2000, MIDNIGHT + 3000, MIDNIGHT + 4000), 1, shadow=False)
    assert again.saved() == [[MIDNIGHT, MIDNIGHT + 4000, 4000, 0]]


def test_a_host_that_went_away_goes_on_when_it_is_back() -> None:
    made = kept(step(MIDNIGHT + 1000), Outputs((), (), (HOSTS[0],)), step(MIDNIGHT + HOUR))
    assert made.saved()[0][2] == 2000
    assert len(made._newest) == 1


def test_days_are_kept_for_as_long_as_incidents() -> None:
    made = kept(*(step(MIDNIGHT + place * DAY_MS + 1000) for place in range(10)), keep_ms=3 * DAY_MS + 1)
    assert [first for first, *_ in made.saved()] == [MIDNIGHT + place * DAY_MS for place in range(5, 10)]


def test_a_clock_that_was_wrong_for_a_moment_costs_one_day() -> None:
    steps = [step(MIDNIGHT + place * DAY_MS + 1000) for place in range(4)]
    made = kept(*steps, step(MIDNIGHT + 5000 * DAY_MS), keep_ms=3 * DAY_MS)
    assert [first for first, *_ in made.saved()][:3] == [MIDNIGHT + place * DAY_MS for place in (1, 2, 3)]


@given(st.lists(st.integers(1, 5 * 86_400), max_size=60, unique=True), st.lists(st.integers(0, 5 * 86_400), max_size=4))
def test_parts_of_a_range_add_up_to_the_whole(seconds: list[int], cuts: list[int]) -> None:
    made = kept(*(step(MIDNIGHT + 1000 * second) for second in sorted(seconds)))
    watched = WatchedDays(read_days(made.saved()))
    whole = watched.live_ms(MIDNIGHT - DAY_MS, MIDNIGHT + 6 * DAY_MS)
    assert whole == 1000 * len(seconds)
    edges = [MIDNIGHT - DAY_MS, *(MIDNIGHT + 1000 * cut for cut in sorted(cuts)), MIDNIGHT + 6 * DAY_MS]
    parts = [watched.live_ms(begin, end) for begin, end in pairwise(edges)]
    assert sum(parts) == pytest.approx(whole)


def test_a_day_that_is_cut_counts_by_its_length() -> None:
    watched = WatchedDays((Day(MIDNIGHT, MIDNIGHT + DAY_MS, 3 * DAY_MS, DAY_MS),), 3)
    assert watched.live_ms(MIDNIGHT + 6 * HOUR, MIDNIGHT + 9 * HOUR) == 9 * HOUR
    assert watched.shadow_ms(MIDNIGHT + 6 * HOUR, MIDNIGHT + 9 * HOUR) == 3 * HOUR
    assert watched.live_ms(MIDNIGHT + DAY_MS, MIDNIGHT + 2 * DAY_MS) == 0
    assert (watched.from_ms, WatchedDays().from_ms) == (MIDNIGHT, None)
    assert Day(5, 5, 7).share(0, 10) == 0


@pytest.mark.parametrize("part", [[[1, 2, 3]], [[1, 2, 3, "x"]], 7])
def test_what_is_of_another_kind_is_refused(part: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        read_days(part)  # type: ignore[arg-type]
