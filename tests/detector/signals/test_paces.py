"""Values that are read at a pace of their own and shown at every scrape."""

import math
from itertools import pairwise

import numpy as np
import pytest

from hwsonde_detector.signals.channels import ChannelState, advance
from tests.detector.signals.build import batch_of, series
from tests.detector.signals.entity import HOST, PROFILE, A, B, run

COUNTER = series("slow_total", **A, device="x")
CLOCK = series("read_seconds", **A, collector="slow")
SCRAPED = series("lazy_total", **A, side="")
NAME = "slow{device=x}"


START = 1_800_000_000


def ms(time):
    return round(1000 * (START + time))


def shown(value, *, period=5.0, seconds=60, scrape=1.0, delay=0.2, skew=0.0, start=0.0):
    """Samples of a counter that is ``value`` of the time at which it is read, and of its clock."""
    times = [start + scrape * number for number in range(int(seconds / scrape))]
    reads = [delay + period * math.floor((time - delay) / period) for time in times]
    return {
        COUNTER: [(ms(time), value(read)) for time, read in zip(times, reads, strict=True)],
        CLOCK: [(ms(time), START + read + skew) for time, read in zip(times, reads, strict=True)],
    }


def column(news, name=NAME):
    return news.frame.values[:, [channel.name for channel in news.frame.channels].index(name)].tolist()


def known(values):
    return [value for value in values if math.isfinite(value)]


def test_a_steady_counter_is_steady():
    news = run([batch_of(shown(lambda time: 100 + 3 * time))])[0]
    values = column(news)
    # Two readings make a rate, which is held until the next.
    assert math.isnan(values[0])
    np.testing.assert_allclose(values[1:], 3.0)
    assert news.interval_ms == 1000


def test_without_a_clock_the_scrape_counts():
    samples = shown(lambda time: 100 + 3 * time)
    del samples[CLOCK]
    np.testing.assert_allclose(column(run([batch_of(samples)])[0])[1:11], [15, 0, 0, 0, 0] * 2)


@pytest.mark.parametrize("skew", [-1000.0, -3600.0, -5.0, 0.7, 4.0, 86_400.0])
def test_a_wrong_clock_is_as_good_as_a_right_one(skew):
    right, wrong = (run([batch_of(shown(lambda time: (time + 9) ** 2, skew=one))])[0] for one in (0.0, skew))
    np.testing.assert_allclose(column(wrong), column(right))


@pytest.mark.parametrize(
    ("period", "scrape"), [(5, 1), (5, 3), (5, 5), (10, 15), (15, 10), (15, 15), (30, 1), (60, 15), (5, 60), (1.1, 1)]
)
def test_any_pace_at_any_scrape(period, scrape):
    news = run(
        [batch_of(shown(lambda time: 1000 + 7 * time, period=period, scrape=scrape, seconds=40 * max(period, scrape)))]
    )[0]
    values = column(news)
    np.testing.assert_allclose(known(values), 7.0, rtol=1e-6)
    settled = math.ceil(3 * max(period / scrape, 1))
    assert all(math.isfinite(value) for value in values[settled:])


def test_a_reading_first_seen_late_does_not_spike():
    """The detector starts between two readings: one second between the scrapes, thirty between the readings."""
    values = column(run([batch_of(shown(lambda time: 100 + 2 * time, period=30, start=29.7, seconds=300))])[0])
    np.testing.assert_allclose(known(values), 2.0)
    assert math.isfinite(values[1])


def test_a_burst_is_one_step():
    values = column(run([batch_of(shown(lambda time: 10 * min(max(time - 30, 0), 10), seconds=60))])[0])
    steps = [value for before, value in pairwise(values[11:]) if value != pytest.approx(before)]
    assert len(steps) <= 4
    assert max(known(values)) == pytest.approx(10.0)


def test_a_gauge_is_held_and_then_dropped():
    """The collector fails: the exporter shows its last values for a while yet, but they are old."""
    heat, clock = series("lazy_heat", **A, chip="1"), series("read_seconds", **A, collector="lazy")
    times = range(40)
    reads = [min(5 * (time // 5), 20) for time in times]
    samples = {
        heat: [(ms(time), float(read)) for time, read in zip(times, reads, strict=True)],
        clock: [(ms(time), float(START + read)) for time, read in zip(times, reads, strict=True)],
    }
    values = column(run([batch_of(samples)])[0], "lazy_heat")
    assert values[10:28] == [10.0] * 5 + [15.0] * 5 + [20.0] * 8
    assert not known(values[28:])


def test_a_reset_or_nonsense_counts_once():
    def value(time):
        return 50.0 if time < 10 else 1.0 if time < 20 else -1.0 if time < 25 else 9.0

    news = run([batch_of(shown(value, seconds=40))])[0]
    # For each of the two rules that read it.
    assert (news.resets, news.rejected) == (2, 2)


def test_a_clock_that_was_set_gives_way_to_the_scrapes():
    samples = shown(lambda time: 100 + 3 * time, seconds=80)
    for step in (-4.0, -3600.0, 3600.0):
        moved = [(time, clock + (step if time >= ms(40.2) else 0.0)) for time, clock in samples[CLOCK]]
        values = column(run([batch_of(samples | {CLOCK: moved})])[0])
        np.testing.assert_allclose(values[11:], 3.0, err_msg=str(step))


@pytest.mark.parametrize("nonsense", [math.nan, math.inf, -5.0, 1e300])
def test_what_is_no_time_is_no_clock(nonsense):
    samples = shown(lambda time: 100 + 3 * time, seconds=10)
    samples[CLOCK] = [(time, nonsense) for time, _ in samples[CLOCK]]
    news = run([batch_of(samples)])[0]
    assert news.rejected == 10
    np.testing.assert_allclose(column(news)[1:6], [15, 0, 0, 0, 0])


def test_the_scrape_gives_the_rows_their_times_though_nothing_else_is_read():
    news = run([batch_of(shown(lambda time: 100 + 3 * time, seconds=20))])[0]
    assert len(news.frame.times) == 20
    assert news.interval_ms == 1000


def test_clocks_of_other_collectors_and_targets_are_none_of_its_business():
    samples = shown(lambda time: 100 + 3 * time)
    samples |= {
        series("read_seconds", **A, collector="other"): [(time, time / 1000) for time, _ in samples[CLOCK]],
        series("read_seconds", **B, collector="slow"): [(time, time / 1000) for time, _ in samples[CLOCK]],
        series("read_seconds", **A): [(time, time / 1000) for time, _ in samples[CLOCK]],
    }
    np.testing.assert_allclose(column(run([batch_of(samples)])[0])[11:], 3.0)


def test_paces_survive_a_new_set_of_series():
    samples = shown(lambda time: 100 + 3 * time)
    late = {series("slow_total", **A, device="y"): samples[COUNTER][33:], SCRAPED: [(ms(2), 0.0), (ms(50), 1.0)]}
    state, values = ChannelState(HOST), []
    for time, _ in samples[COUNTER]:
        one = {key: [pair for pair in pairs if pair[0] == time] for key, pairs in (samples | late).items()}
        state, news = advance(state, batch_of(one), (PROFILE,))
        values += column(news)
    np.testing.assert_allclose(values[11:], 3.0)


def test_old_samples_of_a_new_series_are_no_reading():
    """Something was stored late: it must neither show as a new reading nor push out what is held."""
    samples = shown(lambda time: 100 + 3 * time, seconds=33)
    late = {series("slow_total", **A, device="y"): [(ms(31), 5.0)]}
    after = {key: [(ms(33), value) for _, value in pairs[-1:]] for key, pairs in samples.items()}
    news = run([batch_of(samples), batch_of(late), batch_of(after)])
    assert not len(news[1].frame.times)
    assert column(news[2]) == pytest.approx([3.0])
