"""What two sources tell is counted once: compared with a naive twin that tries every pairing."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hwsonde_exporter.nvml.merge import Key, Merger, Source

KEY = Key("0000:3b:00", 79)
NVML, KMSG = Source.NVML, Source.KMSG
WINDOW = 5.0


def total(merger: Merger, key: Key = KEY) -> int:
    counts = merger.counts()
    return counts[key].total if key in counts else 0


def add(merger: Merger, source: Source, when: float, count: int = 1, key: Key = KEY) -> int:
    return merger.add(source, key, (when, when), count)


@pytest.mark.parametrize("order", [(NVML, KMSG), (KMSG, NVML)])
@pytest.mark.parametrize("apart", [0.0, 0.5, 4.9])
def test_one_event_that_both_tell_counts_once(order: tuple[Source, Source], apart: float) -> None:
    merger = Merger()
    assert add(merger, order[0], 100.0) == 1
    assert add(merger, order[1], 100.0 + apart) == 0
    assert total(merger) == 1


def test_two_events_of_one_source_count_twice() -> None:
    merger = Merger()
    add(merger, NVML, 100.0)
    add(merger, NVML, 100.1)
    assert total(merger) == 2


def test_events_far_apart_count_twice() -> None:
    merger = Merger()
    add(merger, NVML, 100.0)
    add(merger, KMSG, 106.0)
    assert total(merger) == 2


def test_other_gpus_and_other_codes_are_other_events() -> None:
    merger = Merger()
    add(merger, NVML, 100.0)
    assert add(merger, KMSG, 100.0, key=Key("0000:5d:00", 79)) == 1
    assert add(merger, KMSG, 100.0, key=Key("0000:3b:00", 48)) == 1


@pytest.mark.parametrize(("told", "logged"), [(7, 7), (7, 3), (3, 7), (0, 7), (7, 0)])
def test_a_burst_counts_as_the_one_who_tells_more(told: int, logged: int) -> None:
    for first in (NVML, KMSG):
        merger = Merger()
        for source, count in ((first, told), (first.other, logged)):
            if count:
                add(merger, source, 100.0, count)
        assert total(merger) == max(told, logged)


def test_a_line_that_was_read_late_finds_its_twin() -> None:
    """The exporter slept for half a minute: when in that time the line was written nobody knows."""
    merger = Merger()
    add(merger, NVML, 100.0)
    assert merger.add(KMSG, KEY, (99.0, 130.0)) == 0


def test_a_report_does_not_wait_for_ever() -> None:
    merger = Merger()
    add(merger, NVML, 100.0)
    merger.forget(200.0)
    assert add(merger, KMSG, 100.5) == 1
    assert total(merger) == 2


def test_the_time_of_the_last_event_is_kept() -> None:
    merger = Merger()
    add(merger, NVML, 100.0)
    add(merger, KMSG, 101.0)
    assert merger.counts()[KEY].last == 101.0


def test_memory_is_bounded() -> None:
    merger = Merger()
    for number in range(100_000):
        add(merger, KMSG, number / 1000)
    assert total(merger) == 100_000
    assert sum(len(waiting) for tally in merger._tallies.values() for waiting in tally.waiting.values()) <= 256


# ---- the naive twin ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Report:
    source: Source
    earliest: float
    latest: float


def may_pair(one: Report, other: Report) -> bool:
    return one.earliest - WINDOW <= other.latest and other.earliest - WINDOW <= one.latest


def naive(reports: list[Report]) -> int:
    """Number of events: reports less the greatest number of pairs (Kuhn's algorithm over all pairs)."""
    left = [report for report in reports if report.source is NVML]
    right = [report for report in reports if report.source is KMSG]
    partner: dict[int, int] = {}

    def find(one: int, tried: set[int]) -> bool:
        for other, report in enumerate(right):
            if other in tried or not may_pair(left[one], report):
                continue
            tried.add(other)
            if other not in partner or find(partner[other], tried):
                partner[other] = one
                return True
        return False

    return len(reports) - sum(find(one, set()) for one in range(len(left)))


times = st.integers(0, 240).map(lambda quarters: quarters / 4)  # exact: nothing hangs on the last digit


@st.composite
def arrivals(draw: st.DrawFn) -> list[Report]:
    """Reports in the order in which they arrive: each source in the order of its times, the two mixed anyhow."""
    told = [Report(NVML, when, when) for when in sorted(draw(st.lists(times, max_size=12)))]
    looks = sorted(draw(st.lists(times, min_size=1, max_size=8, unique=True)))
    logged = []
    for began, ended in zip([0.0, *looks], looks, strict=False):
        logged += [Report(KMSG, began, ended)] * draw(st.integers(0, 3))
    mixed = []
    while told or logged:
        from_told = bool(told) and (not logged or draw(st.booleans()))
        mixed.append((told if from_told else logged).pop(0))
    return mixed


@given(arrivals())
@settings(max_examples=300)
def test_it_counts_what_the_naive_twin_counts(reports: list[Report]) -> None:
    merger = Merger(WINDOW)
    before = 0
    for report in reports:
        merger.add(report.source, KEY, (report.earliest, report.latest))
        assert total(merger) >= before, "a counter never falls"
        before = total(merger)
    assert before == naive(reports)


@given(arrivals())
def test_reports_together_count_as_one_by_one(reports: list[Report]) -> None:
    single, together = Merger(WINDOW), Merger(WINDOW)
    runs: list[tuple[Report, int]] = []
    for report in reports:
        single.add(report.source, KEY, (report.earliest, report.latest))
        if runs and runs[-1][0] == report:
            runs[-1] = (report, runs[-1][1] + 1)
        else:
            runs.append((report, 1))
    for report, count in runs:
        together.add(report.source, KEY, (report.earliest, report.latest), count)
    assert total(single) == total(together)


@given(events=st.lists(times, max_size=20), delay=st.floats(0, 2))
def test_a_history_told_by_both_in_full_counts_each_event_once(events: list[float], delay: float) -> None:
    merger = Merger(WINDOW)
    for when in sorted(events):
        add(merger, NVML, when)
        add(merger, KMSG, when + delay)
    assert total(merger) == len(events)
