"""When hosts were heard, as batches go by."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector.explain.silence import Gap, Heard
from hwsonde_detector.reports.jobs import Watch
from tests.detector.reports.test_jobs import LABELS, batch, cpu, entity, series

N1, N2, N3 = (entity(f"n{number}") for number in (1, 2, 3))


def up(node: str):
    return series("up", node)


def hear(*batches):
    watch = Watch(LABELS)
    for one in batches:
        watch.take(one)
    return watch.hearing(10_000_000)


def test_a_host_is_heard_by_what_it_sends_itself():
    one = batch((cpu("n1", "slurm:7"), [1000, 2000]), (cpu("n2", "slurm:7"), [1500]), (series("up", "n2"), [9000]))
    two = batch((series("m", "n1"), [2500]), (series("scrape_duration_seconds", "n3"), [9500]))
    hearing = hear(one, two)
    assert hearing.newest_ms == 9500
    assert hearing.until_ms == 10_000_000
    # `up` that is neither 0 nor 1 here says that it was asked.
    assert hearing.hosts == {N1: Heard(2500), N2: Heard(1500, (), 9000, 9000)}


def test_whether_it_was_asked_in_vain():
    asked = batch((up("n1"), [1000, 2000]))
    asked.values[:] = [1.0, 0.0]
    again = batch((up("n1"), [3000]))
    again.values[:] = 1.0
    assert hear(asked, again).hosts == {N1: Heard(None, (), 3000, 2000)}


def test_long_silences_are_kept_with_whether_it_was_asked():
    vain = batch((up("n2"), [65_000, 130_000]))
    hearing = hear(
        batch((cpu("n1", "a"), [5000]), (cpu("n2", "a"), [5000])),
        vain,
        batch((cpu("n1", "a"), [65_000]), (cpu("n2", "a"), [64_999])),
        batch((cpu("n1", "a"), [65_000, 66_000]), (cpu("n2", "a"), [140_000])),
    )
    assert hearing.hosts[N1] == Heard(66_000, (Gap(5000, 65_000, vain=False),))
    assert hearing.hosts[N2] == Heard(140_000, (Gap(64_999, 140_000, vain=True),), 130_000, 130_000)


def test_of_very_many_silences_the_longest_are_kept():
    times = [0]
    for number in range(300):
        times.append(times[-1] + 60_000 + 1000 * (number % 150))
    (host,) = hear(*(batch((cpu("n1", "a"), [at + 1])) for at in times)).hosts.values()
    assert len(host.gaps) == 100
    assert min((gap.to_ms or 0) - gap.from_ms for gap in host.gaps) == 60_000 + 100_000
    assert list(host.gaps) == sorted(host.gaps, key=lambda gap: gap.from_ms)


@given(st.lists(st.lists(st.integers(0, 400), min_size=1, max_size=6, unique=True).map(sorted), max_size=6))
def test_however_batches_fall(parts):
    """Batches come in order; what was read before may come once more."""
    parts = sorted(parts)
    hearing = hear(*(batch((cpu("n1", "a"), [1000 * second for second in part])) for part in parts))
    if parts:
        newest, gaps = parts[0][-1], []
        for part in parts[1:]:
            if part[0] - newest >= 60:
                gaps.append((1000 * newest, 1000 * part[0]))
            newest = max(newest, part[-1])
        assert hearing.hosts[N1].last_ms == 1000 * newest
        assert [(gap.from_ms, gap.to_ms) for gap in hearing.hosts[N1].gaps] == gaps
    assert N3 not in hearing.hosts
