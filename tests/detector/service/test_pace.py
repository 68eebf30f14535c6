"""When is read, what is asked for, and what time it is: pure parts of the loop."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector.service.pace import Cursor, Pace, Slowest, SourceClock, Timeline
from hwsonde_detector.types import SampleBatch, Series


def batch(*times: int) -> SampleBatch:
    return SampleBatch((Series("m", ()),), np.array([0, len(times)]), np.array(times, np.int64), np.zeros(len(times)))


def test_the_next_tick_comes_just_after_the_next_scrape() -> None:
    pace = Pace()
    pace.observe(10_437, 1000, 10_560)
    assert pace.plan(10_600) == (11_557, 0)


def test_a_sample_that_came_late_moves_the_aim() -> None:
    pace = Pace()
    pace.observe(10_000, 1000, 10_120)
    pace.plan(10_130)
    pace.observe(10_000, 1000, 11_120)
    due, skipped = pace.plan(11_125)
    assert (due, skipped) == (11_225, 0)
    pace.observe(11_000, 1000, 11_225)
    assert pace.plan(11_230) == (12_225, 0)


def test_a_silent_target_is_asked_once_an_interval_and_the_aim_stays() -> None:
    pace = Pace()
    pace.observe(10_000, 1000, 10_120)
    now, asked = 10_125, []
    for _ in range(20):
        due, skipped = pace.plan(now)
        now = round(due)
        asked.append(now)
        assert skipped == 0
        pace.observe(10_000, 1000, now)
        now += 5
    gaps = np.diff(asked[-8:])
    assert np.abs(gaps - 1000).max() < 10
    assert pace.margin_ms == Pace.MARGIN_MS


def test_late_ticks_are_skipped_and_counted_never_queued() -> None:
    pace = Pace()
    pace.observe(10_000, 1000, 10_120)
    assert pace.plan(10_130) == (11_120, 0)
    pace.observe(11_000, 1000, 11_120)
    assert pace.plan(14_500) == (15_120, 3)
    fixed = Pace(fixed_ms=5000)
    assert fixed.plan(100_000) == (105_000, 0)
    assert fixed.plan(105_010) == (110_000, 0)
    assert fixed.plan(121_000) == (125_000, 2)


def test_a_rest_is_not_lateness() -> None:
    pace = Pace(fixed_ms=1000)
    pace.plan(0)
    pace.rest()
    assert pace.plan(60_000)[1] == 0


@given(st.integers(0, 10**7), st.integers(100, 60_000), st.integers(0, 10**7))
def test_the_next_tick_is_always_later_and_within_an_interval(newest: int, interval: int, passed: int) -> None:
    pace = Pace()
    pace.observe(newest, interval, newest + 120)
    now = newest + passed
    due, skipped = pace.plan(now)
    assert now < due <= max(now, newest + pace.margin_ms) + interval + 1
    assert skipped == 0


def test_live_reads_overlap_so_that_a_slow_target_is_not_missed() -> None:
    cursor = Cursor(100_000, 600_000)
    assert cursor.span(101_120, 1000) == (98_000, 101_120)
    cursor.advance(batch(101_000), 98_000, 101_120, behind=False)
    assert cursor.span(102_120, 1000) == (99_000, 102_120)


@pytest.mark.parametrize(("slow", "late"), [(15_000, 4_000), (15_000, 14_900), (60_000, 40_000), (2_000, 1_900)])
def test_a_target_that_is_scraped_seldom_and_stored_late_is_read_whole(slow: int, late: int) -> None:
    start, length = 1_000_000, 600_000
    stored = [(at + 517, at + 437) for at in range(start, start + length, 1000)]
    stored += [(at + 300 + late, at + 300) for at in range(start, start + length, slow)]
    cursor, seen, spans = Cursor(start, 600_000), set[int](), list[int]()
    for now in range(start + 560, start + length, 1000):
        since, until = cursor.span(now, 1000, slow)
        times = [time for at, time in stored if at <= now and since < time <= until]
        cursor.advance(batch(*sorted(times)), since, until, behind=until < now)
        seen.update(times)
        spans.append(until - since)
    assert {time for at, time in stored if at <= start + length - slow} <= seen
    # A bounded multiple of what the targets that are scraped every second need.
    assert np.mean(spans) < 10_000


def several(*series: tuple[int, ...]) -> SampleBatch:
    times = [time for one in series for time in one]
    offsets = np.cumsum([0, *map(len, series)])
    return SampleBatch(
        tuple(Series("m", (("n", str(number)),)) for number in range(len(series))),
        offsets,
        np.array(times, np.int64),
        np.zeros(len(times)),
    )


def test_the_longest_interval_is_told_from_what_is_read_and_forgotten_in_time() -> None:
    slowest = Slowest()
    slowest.observe(SampleBatch.empty(), 0)
    slowest.observe(several((5000,), (7000,)), 10_000)
    assert slowest.interval_ms == 0
    # Neither a missed scrape nor a series of one sample counts.
    slowest.observe(several((1000, 2000, 9000), (100,), (400, 15_399, 30_400), (30_000,)), 31_000)
    assert slowest.interval_ms == 14_999
    slowest.observe(several((31_000, 32_000), (31_500,)), 33_000)
    slowest.observe(several((31_000, 32_000), (31_500, 46_000)), 600_000)
    assert slowest.interval_ms == 14_500
    slowest.observe(several((1_200_000, 1_201_000)), 1_199_000)
    assert slowest.interval_ms == 14_500
    slowest.observe(several((1_200_000, 1_201_000)), 1_201_000)
    assert slowest.interval_ms == 1000


@given(st.lists(st.lists(st.integers(0, 10**6), max_size=6, unique=True).map(sorted), max_size=6))
def test_the_longest_interval_is_that_of_the_slowest_series(series: list[list[int]]) -> None:
    slowest = Slowest()
    slowest.observe(several(*map(tuple, series)), 1)
    assert slowest.interval_ms == max((min(np.diff(one)) for one in series if len(one) > 1), default=0)


def test_reads_that_fail_are_made_up_for_by_the_next_wide_one() -> None:
    cursor = Cursor(1_000_000, 600_000)
    cursor.advance(batch(1_000_000), *cursor.span(1_000_100, 1000, 15_000), behind=False)
    assert cursor.span(1_002_500, 1000, 15_000)[0] == 998_000
    for now in (1_003_000, 1_005_000, 1_030_000):
        assert cursor.span(now, 1000, 15_000)[0] == 984_000
    cursor.advance(batch(1_029_900), 984_000, 1_030_000, behind=False)
    assert cursor.span(1_031_000, 1000, 15_000)[0] == 1_027_900


def test_an_interval_that_cannot_be_is_not_read_back_over() -> None:
    cursor = Cursor(10_000_000, 600_000, _stretch_ms=600_000.0)
    assert cursor.span(10_000_000, 1000, 3_600_000)[0] == 10_000_000 - Cursor.WIDEST_MS - 1000


def test_reads_shorter_than_the_interval_end_too() -> None:
    cursor, now = Cursor(0, 5000), 100_000
    for _ in range(60):
        since, until = cursor.span(now, 15_000, 15_000)
        assert until - since <= 5000
        cursor.advance(SampleBatch.empty(), since, until, behind=until < now)
        if until == now:
            return
    pytest.fail("the past is read for ever")


def test_a_long_gap_is_read_in_bounded_parts_without_a_hole() -> None:
    cursor = Cursor(0, 600_000, samples=1000)
    now, spans = 3_600_000, []
    for _ in range(1000):
        since, until = cursor.span(now, 1000)
        spans.append((since, until))
        cursor.advance(batch(*range(max(since, 0) + 1, until + 1, 100)), since, until, behind=until < now)
        if until == now:
            break
    assert spans[-1][1] == now
    assert all(later[0] <= earlier[1] for earlier, later in pairwise(spans))
    assert max(until - since for since, until in spans[1:]) <= 110_000


def test_an_empty_past_is_skipped_fast() -> None:
    cursor = Cursor(0, 600_000)
    count = 0
    while True:
        count += 1
        since, until = cursor.span(3_600_000, 1000)
        cursor.advance(SampleBatch.empty(), since, until, behind=until < 3_600_000)
        if until == 3_600_000:
            break
    assert count <= 8


def test_a_failed_read_asks_for_less_and_old_gaps_are_given_up() -> None:
    cursor = Cursor(0, 600_000)
    since, until = cursor.span(3_600_000, 1000)
    cursor.shrink()
    assert cursor.span(3_600_000, 1000)[1] - since == (until - since) // 2
    cursor.forget_before(3_000_000)
    assert cursor.span(3_600_000, 1000)[0] == 2_998_000


def test_the_time_of_reading_never_goes_back() -> None:
    line = Timeline()
    assert line.now_ms(1_000_000, 10.0) == (1_000_000, 0)
    line.observe(999_900, 10.0)
    assert line.now_ms(1_001_000, 11.0) == (1_001_000, 0)
    time, jump = line.now_ms(400_000, 12.0)
    assert (time, jump) == (1_001_900, 602_000)
    assert line.now_ms(401_000, 13.0) == (1_002_900, 0)
    # Bounded: when the clock has caught up, what is new then lies within one read.
    assert line.now_ms(700_000, 2000.0) == (999_900 + 240_000, 0)
    assert line.now_ms(2_000_000, 2001.0) == (2_000_000, 0)


def test_a_sample_of_the_future_moves_neither_the_time_nor_the_position() -> None:
    line = Timeline()
    line.now_ms(1_000_000, 10.0)
    line.observe(4_600_000, 10.0)
    assert line.now_ms(1_001_000, 11.0) == (1_001_000, 0)
    cursor = Cursor(100_000, 600_000)
    cursor.advance(batch(4_600_000), 98_000, 101_000, behind=False)
    assert cursor.span(102_000, 1000) == (99_000, 102_000)


def test_a_small_correction_of_the_clock_is_no_jump() -> None:
    line = Timeline()
    line.now_ms(1_000_000, 10.0)
    assert line.now_ms(1_000_300, 11.0) == (1_000_300, 0)
    assert line.now_ms(999_900, 11.1)[1] == 0


def test_the_sources_clock_is_known_once_samples_come_in_step() -> None:
    clock = SourceClock()
    assert clock.now_ms(5.0) is None
    clock.observe(100_000, 10.0, 4000.0)
    assert clock.now_ms(10.0) is None
    clock.observe(100_000, 11.0, 4000.0)
    assert clock.now_ms(11.0) is None
    clock.observe(101_500, 11.2, 4000.0)
    assert clock.now_ms(12.2) == 102_500
    # It goes on while samples fail to come, so that they grow old.
    clock.observe(101_500, 40.0, 4000.0)
    assert clock.now_ms(41.2) == 131_500
    clock.rest()
    assert clock.now_ms(42.0) is None


def test_a_past_that_is_filled_up_in_leaps_is_no_clock() -> None:
    clock = SourceClock()
    for turn in range(4):
        clock.observe(100_000 + 60_000 * turn, 10.0 + turn, 4000.0)
        assert clock.now_ms(10.0 + turn) is None
