"""Pages, recall and time to detect, on episodes and labels of known truth; and against the benchmark's measures over rows."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.event_metrics import false_pages, hit_events
from hwsonde_detector.past.figures import DAY_MS, faults, opened, page_rate, pages, spread
from hwsonde_detector.past.labels import Label
from hwsonde_detector.past.tally import BINS, Tally
from hwsonde_detector.types import (
    Entity,
    EntityReport,
    Episode,
    EpisodeEvent,
    Learning,
    Outputs,
    Phase,
    Score,
    Subsystem,
)

HOST = Entity((("cluster", "lab"), ("node", "n1")))
OTHER = Entity((("cluster", "lab"), ("node", "n2")))
SECONDS = 1000
LEARNING = Learning(0, 0, None, frozen=False, channels=1, channels_judged=1)


def score(second: int, fused: float = 0.1, *, calibrated: bool = True, entity: Entity = HOST) -> Score:
    return Score(entity, 1000 * second, fused, {}, {}, (), calibrated, 1.0, 0.5, 0.0)


def report(scores: list[Score], entity: Entity = HOST, skipped: dict[str, int] | None = None, interval_ms: int = 1000):
    return EntityReport(entity, tuple(scores), LEARNING, interval_ms, skipped=skipped or {})


def episode(start: float, end: float | None, subsystem: Subsystem = Subsystem.CPU, entity: Entity = HOST) -> Episode:
    end_ms = round(1000 * end) if end is not None else None
    return Episode(
        f"{entity}@{start}", entity, round(1000 * start), round(1000 * start), end_ms, subsystem, 2.0, "a sentence"
    )


def label(start: float, end: float, *subsystems: Subsystem, kind: str = "hog", host: str = "n1") -> Label:
    return Label(host, round(1000 * start), round(1000 * end), kind, subsystems, f"f:{start}")


def tally_of(labels=(), episodes=(), *, seconds: int = SECONDS, entities=(HOST,)) -> Tally:
    tally = Tally(0, 1000 * seconds, 1, tuple(labels))
    events = tuple(
        EpisodeEvent(Phase.CLOSED if one.end_ms is not None else Phase.OPENED, one.end_ms or one.start_ms, one)
        for one in episodes
    )
    reports = tuple(report([score(s, entity=entity) for s in range(1, seconds + 1)], entity) for entity in entities)
    tally.take(Outputs(reports, events), 1000 * seconds)
    return tally


def test_pages_are_counted_over_calibrated_time():
    tally = Tally(100_000, 500_000, 2)
    tally.take(Outputs((report([score(s) for s in range(1, 101)]),)), 100_000)  # learning only
    early = [score(s, calibrated=False) for s in range(101, 201)]
    late = [score(s, fused=float(s)) for s in range(201, 501)]
    tally.take(Outputs((report(early + late, skipped={"not_full": 3, "reset": 9}),)), 500_000)
    tally.take(Outputs((report([score(501)]),)), 501_000)
    host = tally.hosts[HOST]
    assert (host.windows, host.calibrated, host.skipped) == (400, 300, {"not_full": 3})
    assert host.coverage == 200.0
    # Every second row ends a window: each stands for two seconds.
    assert (host.judged_ms, host.exposed_ms, host.quiet_ms) == (800_000, 600_000, 600_000)
    assert host.peaks[-1] == 500.0
    assert host.peaks[(301_000 - 100_001) * BINS // 400_000] == 301.0
    assert np.isfinite(host.peaks).sum() == 400


def test_the_realised_rate_has_the_exact_interval():
    tally = tally_of(episodes=[episode(100, 120), episode(300, None)])
    rate = pages(tally)
    days = SECONDS * 1000 / DAY_MS
    assert rate.pages == 2
    assert rate.node_days == pytest.approx(days)
    assert rate.per_100 == pytest.approx(200 / days)
    assert (rate.low, rate.high) == pytest.approx((24.2209 / days, 722.4688 / days), rel=1e-4)


def test_no_time_gives_no_rate():
    assert page_rate(0, 0).per_100 is None
    assert page_rate(0, DAY_MS).per_100 == 0.0
    assert page_rate(0, DAY_MS).high == pytest.approx(368.888, rel=1e-5)


def test_an_episode_that_was_open_already_is_no_page_of_the_range():
    tally = Tally(50_000, 100_000, 1)
    events = tuple(
        EpisodeEvent(Phase.CLOSED, 1, one)
        for one in (episode(10, 20), episode(40, 60), episode(70, 80), episode(101, 102))
    )
    tally.take(Outputs((report([]),), events), 100_000)
    assert [one.start_ms for one in tally.episodes.touching(50_000, 100_000)] == [40_000, 70_000]
    assert [one.start_ms for one in opened(tally)] == [70_000]


def test_what_is_found_and_when():
    labels = [
        label(100, 150, Subsystem.MEMORY, Subsystem.CPU),  # found after 7 s, right
        label(200, 250, Subsystem.GPU),  # found after 3 s, wrong
        label(300, 310, Subsystem.CPU, kind="short"),  # found in the slack after its end
        label(400, 420, kind="missed"),
        label(500, 520),  # an episode that began 11 rows before has another reason
        label(600, 620),  # one that began 10 rows before is the same: the label is late
        label(700, 720),  # found, nothing said of subsystems
    ]
    episodes = [
        episode(107, 160), episode(108, 109), episode(203, 204, Subsystem.MEMORY), episode(318, 330), episode(489, 510), episode(590, 640),
        episode(705, None), episode(900, 905),
    ]  # fmt: skip
    figures = faults(tally_of(labels, episodes))
    assert figures is not None
    assert [one.seconds for one in figures.findings] == [7.0, 3.0, 18.0, None, None, 0.0, 5.0]
    assert [one.right for one in figures.findings] == [True, False, True, None, None, None, None]
    assert all(one.judged for one in figures.findings)
    assert (figures.overall.found.count, figures.overall.found.total) == (5, 7)
    assert (figures.overall.right.count, figures.overall.right.total) == (2, 3)
    assert figures.overall.seconds == spread([0.0, 3.0, 5.0, 7.0, 18.0])
    assert list(figures.kinds) == ["hog", "missed", "short"]
    assert figures.kinds["missed"].seconds is None
    assert figures.kinds["missed"].right.value is None
    assert figures.false_episodes == {episodes[-1].identity}
    assert figures.false.pages == 1


def test_spread_is_median_and_quartiles():
    found = spread([4.0, 1.0, 3.0, 2.0])
    assert found is not None
    assert (found.least, found.lower, found.median, found.upper, found.most) == (1.0, 1.75, 2.5, 3.25, 4.0)
    assert spread([]) is None


def test_false_pages_are_counted_over_the_time_away_from_faults():
    tally = tally_of([label(101, 150), label(155, 180)], entities=(HOST, OTHER))
    # Rows 91 to 190 lie in or near one of the two; the other host has no fault.
    assert tally.hosts[HOST].quiet_ms == (SECONDS - 100) * 1000
    assert tally.hosts[OTHER].quiet_ms == SECONDS * 1000
    assert tally.hosts[HOST].exposed_ms == SECONDS * 1000


def test_labels_that_do_not_count():
    labels = [label(-5, 3), label(2000, 2001), label(10, 20, host="n9"), label(30, 40)]
    figures = faults(tally_of(labels))
    assert figures is not None
    assert [one.label for one in figures.findings] == [labels[3]]
    assert figures.unknown == (labels[2],)
    assert figures.elsewhere == (labels[0], labels[1])
    # A fault that began before the range is no chance to find one, but its time is not quiet.
    assert tally_of(labels).hosts[HOST].quiet_ms == (SECONDS - 13 - 31) * 1000
    assert faults(tally_of()) is None


def test_a_fault_that_nobody_could_see_counts_as_not_found():
    tally = Tally(0, 100_000, 1, (label(50, 60),))
    tally.take(Outputs((report([score(s) for s in range(1, 40)] + [score(s) for s in range(80, 100)]),)), 100_000)
    figures = faults(tally)
    assert figures is not None
    assert (figures.overall.judged, figures.overall.found.count, figures.overall.found.total) == (0, 0, 1)


def test_a_label_of_several_hosts_is_a_fault_on_each():
    whole = Label((("cluster", "lab"),), 100_000, 120_000, "fabric", (), "f:1")
    figures = faults(tally_of([whole], [episode(105, 110, entity=OTHER)], entities=(HOST, OTHER)))
    assert figures is not None
    assert [one.seconds for one in figures.findings] == [None, 5.0]


STRETCHES = st.lists(st.integers(1, 40), min_size=2, max_size=16)


def stretches(lengths: list[int], least_gap: int) -> list[tuple[int, int]]:
    """Stretches (first, last) from lengths of gaps and stretches by turns."""
    at, found = 1, []
    for gap, length in zip(lengths[::2], lengths[1::2], strict=False):
        first = at + least_gap + gap
        found.append((first, first + length - 1))
        at = first + length
    return [one for one in found if one[1] <= SECONDS - 20]


@given(STRETCHES, STRETCHES)
def test_the_same_as_the_benchmark_says_of_rows(fault_lengths, episode_lengths):
    labels = stretches(fault_lengths, 25)
    # Far enough apart that the benchmark takes none of them for one.
    episodes = stretches(episode_lengths, 10)
    truth, alarm = np.zeros(SECONDS + 1, np.bool_), np.zeros(SECONDS + 1, np.bool_)
    for first, last in labels:
        truth[first : last + 1] = True
    for first, last in episodes:
        alarm[first : last + 1] = True
    tally = tally_of([label(*one) for one in labels], [episode(*one) for one in episodes])
    figures = faults(tally)
    if figures is None:
        assert not labels
        return
    assert figures.false.pages == false_pages(alarm, truth, gap=0)
    # Of episodes that began more than ten rows before or after a fault the benchmark would count some, and we none.
    found = sum(one.episode is not None and one.episode.start_ms <= one.label.end_ms for one in figures.findings)
    rows = np.arange(SECONDS + 1)
    expected = 0
    for low, high in labels:
        own = np.zeros_like(alarm)
        for first, last in episodes:
            if low - 10 <= first <= high:
                own[first : last + 1] = True
        expected += hit_events(own, (rows >= low) & (rows <= high))
    assert found == expected
