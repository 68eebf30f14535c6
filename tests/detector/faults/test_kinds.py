"""Every other kind of data fault: it fires, it does not fire, it heals."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import numpy as np
import pytest

from hwsonde_detector.types import Device, FaultKind, Phase
from hwsonde_detector.worker import WorkerState
from tests.detector.faults.machine import (
    START_MS,
    Fault,
    Values,
    fault_of,
    gpu,
    of,
    peak,
    peaks,
    play,
    qualities,
    series,
    ticks,
    told,
)

LEARNED = 200
CELSIUS = series("x_gpu_celsius", sensor="gpu", **gpu("3"))


@pytest.fixture(scope="module")
def learned() -> WorkerState:
    return play(ticks(range(LEARNED)))[0]


@pytest.fixture
def state(learned: WorkerState) -> WorkerState:
    return copy.deepcopy(learned)


def during(seconds: range | set[int], fault: Fault) -> Fault:
    return lambda second, values: fault(second, values) if second in seconds else values


def failed(second: int, values: Values) -> Values | None:
    return None


def setting(celsius: float) -> Fault:
    """Give the GPU another temperature."""
    changed = {CELSIUS: celsius}
    return lambda second, known: known | changed


def healed(outputs: list, kind: FaultKind) -> None:
    assert fault_of(qualities(outputs)[-1], kind).score < 0.7
    assert [event.phase for event in told(outputs)] == [Phase.OPENED, Phase.CLOSED]


# --- gaps


def test_scrapes_that_fail_again_and_again_are_a_gap_and_heal(state: WorkerState) -> None:
    _, outputs = play(ticks(range(LEARNED, 640), during(set(range(210, 240, 2)), failed)), state)
    opened = told(outputs)[0].episode
    assert opened.kind is FaultKind.GAP
    assert opened.title == "n17: 13 scrapes lost since 08:03:30Z"
    healed(outputs, FaultKind.GAP)


def test_one_gap_is_none(state: WorkerState) -> None:
    _, outputs = play(ticks(range(LEARNED, 300), during(range(210, 240), failed)), state)
    assert 0.3 < peak(outputs, FaultKind.GAP) < 0.5
    assert not told(outputs)


def test_a_reboot_is_none(state: WorkerState) -> None:
    def fault(second: int, values: Values) -> Values | None:
        return None if second < 290 else values | {series("x_start_seconds"): START_MS / 1000 + 289}

    _, outputs = play(ticks(range(LEARNED, 400), during(range(210, 999), fault)), state)
    assert 0.5 < peak(outputs, FaultKind.GAP) < 1.0
    assert fault_of(qualities(outputs)[-1], FaultKind.GAP).score == 0.0
    assert peak(outputs, FaultKind.RESET) == 0.0
    assert not told(outputs)


def test_starts_of_the_exporter_in_a_row_are_none(state: WorkerState) -> None:
    def fault(second: int, values: Values) -> Values | None:
        start = second // 30 * 30 + 3
        return None if second % 30 < 3 else values | {series("x_start_seconds"): START_MS / 1000 + start}

    _, outputs = play(ticks(range(LEARNED, 500), during(range(210, 450), fault)), state)
    assert peaks(outputs).keys() <= {"gap"}
    assert peak(outputs, FaultKind.GAP) < 0.1


def test_a_server_that_did_not_ask_is_no_gap_of_the_host(state: WorkerState) -> None:
    given = [
        tick for second, tick in zip(range(LEARNED, 400), ticks(range(LEARNED, 400)), strict=True) if second % 20 > 8
    ]
    _, outputs = play(given, state)
    assert peak(outputs, FaultKind.GAP) == 0.0


def test_without_up_only_several_gaps_count() -> None:
    once = [tick for second, tick in enumerate(ticks(range(300), told=False)) if not 200 <= second < 240]
    assert 0.3 < peak(play(once)[1], FaultKind.GAP) < 0.5
    often = [tick for second, tick in enumerate(ticks(range(300), told=False)) if second < 200 or second % 10 > 4]
    assert peak(play(often)[1], FaultKind.GAP) >= 1.0


def test_uneven_scrapes_are_told(state: WorkerState) -> None:

    given = []
    for number, (batch, now) in enumerate(ticks(range(LEARNED, 320))):
        shift = number * number * 37 % 900
        given.append((replace(batch, times=batch.times + shift), now + shift))
    _, outputs = play(given, state)
    assert 0.12 < peak(outputs, FaultKind.GAP) < 1.0


# --- impossible values


@pytest.mark.parametrize("value", [4294967295.0, -1.0, math.nan, math.inf])
def test_values_that_cannot_be_are_named_and_heal(state: WorkerState, value: float) -> None:
    _, outputs = play(ticks(range(LEARNED, 330), during(range(210, 230), setting(celsius=value))), state)
    opened = told(outputs)[0].episode
    assert opened.kind is FaultKind.IMPOSSIBLE
    assert opened.evidence[0].device == Device("gpu", "3 (GPU-3)")
    assert opened.title == (
        "n17 gpu 3 (GPU-3): x_gpu_celsius{gpu=3,sensor=gpu,uuid=GPU-3} had 10 values that cannot be since 08:03:30Z (9 s)"
    )
    healed(outputs, FaultKind.IMPOSSIBLE)
    assert peak(outputs, FaultKind.MISSING) == 0.0


def test_a_glitch_now_and_then_is_no_fault(state: WorkerState) -> None:
    _, outputs = play(ticks(range(LEARNED, 500), during(set(range(210, 500, 20)), setting(celsius=9999.0))), state)
    assert 0.0 < peak(outputs, FaultKind.IMPOSSIBLE) < 1.0


def test_what_never_was_right_is_no_news() -> None:
    _, outputs = play(ticks(range(300), setting(celsius=math.nan)))
    assert peak(outputs, FaultKind.IMPOSSIBLE) == 0.0


# --- resets


def dropping(seconds: list[int], *names: str, **labels: str) -> Fault:
    """Counters that begin anew at these seconds."""

    def fault(second: int, values: Values) -> Values:
        last = max((begin for begin in seconds if begin <= second), default=None)
        chosen = of(values, *names, **labels) if last is not None else []
        return values | {one: values[one] * (second - last) / max(second, 1) for one in chosen if last is not None}

    return fault


def test_counters_that_begin_anew_again_and_again_are_a_storm_and_heal(state: WorkerState) -> None:
    fault = dropping([210, 240, 270, 300], "x_nic_bytes_total", device="eth1")
    _, outputs = play(ticks(range(LEARNED, 700), fault), state)
    opened = told(outputs)[0].episode
    assert opened.kind is FaultKind.RESET
    assert opened.title == "n17 nic eth1: counters began anew 4 times in 90 s without a restart"
    healed(outputs, FaultKind.RESET)


def test_one_reset_is_no_storm(state: WorkerState) -> None:
    _, outputs = play(ticks(range(LEARNED, 300), dropping([210], device="eth1")), state)
    assert peak(outputs, FaultKind.RESET) == pytest.approx(1 / 3)
    assert not told(outputs)


def test_counters_of_jobs_begin_anew_with_every_job(state: WorkerState) -> None:
    fault = dropping([210, 220, 230, 240, 250], "x_workload_seconds_total")
    _, outputs = play(ticks(range(LEARNED, 300), fault), state)
    assert peaks(outputs) == {}


def test_a_counter_that_is_corrected_by_a_little_was_not_reset(state: WorkerState) -> None:
    def fault(second: int, values: Values) -> Values:
        return values | {series("x_pages_total"): second * 11.0 - 15.0 * (second % 2)}

    _, outputs = play(ticks(range(LEARNED, 300), fault), state)
    assert peak(outputs, FaultKind.RESET) == 0.0


# --- gauges that stand still


def test_a_frozen_sensor_is_named_and_thaws(state: WorkerState) -> None:
    _, outputs = play(ticks(range(LEARNED, 330), during(range(210, 290), setting(celsius=66.125))), state)
    opened = told(outputs)[0].episode
    assert opened.kind is FaultKind.STUCK
    assert opened.title.startswith(
        "n17 gpu 3 (GPU-3): x_gpu_celsius{gpu=3,sensor=gpu,uuid=GPU-3} has repeated 66.125 for 60 s (60 readings) while "
    )
    assert opened.evidence[0].usual == 17
    healed(outputs, FaultKind.STUCK)


def test_a_gpu_that_has_nothing_to_do_rests_as_a_whole(state: WorkerState) -> None:
    def idle(second: int, values: Values) -> Values:
        resting = of(values, "x_gpu_celsius", "x_gpu_watts", gpu="3")
        return values | dict.fromkeys(resting, 33.5) | dict.fromkeys(of(values, "x_gpu_active_ratio", gpu="3"), 0.0)

    _, outputs = play(ticks(range(LEARNED, 500), during(range(210, 999), idle)), state)
    assert peak(outputs, FaultKind.STUCK) == 0.0


def test_a_gauge_that_never_moved_may_rest(state: WorkerState) -> None:
    _, outputs = play(ticks(range(LEARNED, 600)), state)
    assert peak(outputs, FaultKind.STUCK) == 0.0


def test_a_gauge_that_rests_for_long_now_and_then_may_do_so_again() -> None:
    """Twenty seconds of rest after twenty of work, all along; then four times as long."""

    def fault(second: int, values: Values) -> Values:
        resting = second % 40 < 20 if second < 400 else second < 480
        return values | ({CELSIUS: 55.25} if resting else {})

    _, outputs = play(ticks(range(520), fault))
    assert peak(outputs, FaultKind.STUCK) < 1.0


def test_a_sensor_of_whole_degrees_is_compared_with_its_own_part_only() -> None:
    other = series("x_gpu_celsius", sensor="memory", **gpu("3"))

    def coarse(second: int, values: Values) -> Values:
        known = dict.fromkeys((CELSIUS, other), 60.0 + second % 2)
        return values | (known if second < 300 else known | {CELSIUS: 61.0})

    # The memory of the same GPU still moves: that one is frozen, though it takes three times as long to be sure.
    _, outputs = play(ticks(range(560), coarse))
    assert peak(outputs, FaultKind.STUCK) >= 1.0

    def steady(second: int, values: Values) -> Values:
        return coarse(second, values) | ({other: 61.0} if second >= 300 else {})

    _, outputs = play(ticks(range(560), steady))
    assert peak(outputs, FaultKind.STUCK) == 0.0


# --- slow reading


def test_a_collector_that_takes_long_is_named_and_heals(state: WorkerState) -> None:
    fault = during(
        range(210, 240), lambda second, values: values | {series("x_collector_seconds", collector="gpu"): 3.2}
    )
    _, outputs = play(ticks(range(LEARNED, 330), fault), state)
    opened = told(outputs)[0].episode
    assert opened.kind is FaultKind.SLOW
    assert opened.title == "n17 collector gpu takes 3.2 s, usually 0.011 s, since 08:03:30Z"
    healed(outputs, FaultKind.SLOW)


@pytest.mark.parametrize("seconds", [0.05, 0.2])
def test_what_is_still_quick_is_not_slow(state: WorkerState, seconds: float) -> None:
    slow = {series("x_collector_seconds", collector="gpu"): seconds}
    _, outputs = play(ticks(range(LEARNED, 300), lambda second, values: values | slow), state)
    assert peak(outputs, FaultKind.SLOW) == 0.0


def test_a_short_delay_is_not_slow(state: WorkerState) -> None:
    slow = {series("x_collector_seconds", collector="gpu"): 5.0}
    _, outputs = play(ticks(range(LEARNED, 300), during(range(210, 220), lambda second, values: values | slow)), state)
    assert 0.0 < peak(outputs, FaultKind.SLOW) < 1.0


def test_scrapes_that_take_long_are_named(state: WorkerState) -> None:

    given = []
    for second, (batch, now) in zip(range(LEARNED, 280), ticks(range(LEARNED, 280)), strict=True):
        place = [one.name for one in batch.series].index("scrape_duration_seconds")
        values = np.where((np.arange(len(batch.values)) == place) & (second >= 210), 0.8, batch.values)
        given.append((replace(batch, values=values), now))
    _, outputs = play(given, state)
    assert told(outputs)[0].episode.title == "n17: a scrape takes 0.8 s, usually 0.03 s, since 08:03:30Z"


# --- clocks


def clock(ahead: float) -> Fault:
    def fault(second: int, values: Values) -> Values:
        return values | {one: values[one] + ahead for one in of(values, "x_collector_time_seconds")}

    return fault


@pytest.mark.parametrize(("ahead", "words"), [(4.0, "4 s ahead of"), (-7.0, "7 s behind"), (3600.0, "3600 s ahead of")])
def test_a_clock_that_is_off_is_told_and_heals(state: WorkerState, ahead: float, words: str) -> None:
    _, outputs = play(ticks(range(LEARNED, 700), during(range(210, 250), clock(ahead))), state)
    opened = told(outputs)[0].episode
    assert opened.kind is FaultKind.SKEW
    assert words in opened.title
    assert 228 <= (opened.start_ms - START_MS) // 1000 <= 231
    healed(outputs, FaultKind.SKEW)


def test_a_clock_that_is_off_by_little_is_none(state: WorkerState) -> None:
    _, outputs = play(ticks(range(LEARNED, 300), clock(0.9)), state)
    assert peak(outputs, FaultKind.SKEW) < 0.5


def test_a_clock_that_is_set_again_and_again_is_told(state: WorkerState) -> None:
    fault = during(set(range(210, 400, 20)), clock(1.5))
    _, outputs = play(ticks(range(LEARNED, 300), fault), state)
    assert told(outputs)[0].episode.kind is FaultKind.SKEW
    assert "times" in told(outputs)[0].episode.title


# --- together


def test_the_worst_kind_names_the_episode_and_changes_are_told(state: WorkerState) -> None:
    def fault(second: int, values: Values) -> Values:
        values = values | {series("x_collector_seconds", collector="gpu"): 3.2}
        return {one: value for one, value in values.items() if second < 240 or dict(one.labels).get("gpu") != "3"}

    _, outputs = play(ticks(range(LEARNED, 300), during(range(210, 999), fault)), state)
    opened, changed = told(outputs)
    assert (opened.phase, opened.episode.kind) == (Phase.OPENED, FaultKind.SLOW)
    assert (changed.phase, changed.episode.kind) == (Phase.CHANGED, FaultKind.MISSING)
    assert changed.episode.identity == opened.episode.identity
    assert changed.episode.peak >= 1.25 * 1.0
