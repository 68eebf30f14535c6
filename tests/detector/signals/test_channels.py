import math

import numpy as np
import pytest

from hwsonde_detector.signals.channels import ChannelState, advance
from hwsonde_detector.signals.profiles import parse_profile
from hwsonde_detector.types import Device, SampleBatch, Subsystem
from tests.detector.signals.build import batch_of, series
from tests.detector.signals.entity import HOST, PROFILE, A, B, run


def one(pairs, name="work_total", **labels):
    """Rows of one series."""
    return run([batch_of({series(name, **A, **labels): pairs})])[0]


def column(news, name):
    return news.frame.values[:, [channel.name for channel in news.frame.channels].index(name)].tolist()


def test_rate_over_the_time_that_really_passed():
    news = one([(1000, 10.0), (2100, 12.2), (3000, 14.0)], mode="user")
    assert news.frame.times.tolist() == [1000, 2100, 3000]
    np.testing.assert_allclose(column(news, "work{mode=user}"), [np.nan, 2.0, 2.0])
    assert news.interval_ms == 900
    assert news.frame.entity == HOST


def test_first_sample_has_no_rate_and_no_interval():
    news = one([(1000, 10.0)], mode="user")
    assert news.interval_ms is None
    assert len(news.frame.times) == 1
    assert math.isnan(column(news, "work{mode=user}")[0])


def test_reset_masks_one_pair_and_is_counted():
    news = one([(1000, 10.0), (2000, 20.0), (3000, 1.0), (4000, 4.0)], mode="user")
    np.testing.assert_allclose(column(news, "work{mode=user}"), [np.nan, 10.0, np.nan, 3.0])
    assert news.resets == 1
    assert not news.restarted


def test_impossible_rate_is_rejected():
    news = one([(1000, 0.0), (2000, 10.0), (3000, 1e6), (4000, 1e6 + 1)], mode="user")
    np.testing.assert_allclose(column(news, "work{mode=user}"), [np.nan, 10.0, np.nan, 1.0])
    assert news.rejected == 1


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf, -1.0, 9.3e18])
def test_impossible_counter_value_is_rejected_and_skipped(bad):
    news = one([(1000, 0.0), (2000, 10.0), (3000, bad), (4000, 30.0)], mode="user")
    np.testing.assert_allclose(column(news, "work{mode=user}"), [np.nan, 10.0, np.nan, 10.0])
    assert (news.rejected, news.resets) == (1, 0)


def test_gap_is_not_smeared():
    times = [1000, 2000, 3000, 6000, 7000]
    news = one([(time, time / 100) for time in times], mode="user")
    np.testing.assert_allclose(column(news, "work{mode=user}"), [np.nan, 10, 10, np.nan, 10])
    assert news.resets == 0


def test_one_missed_scrape_still_gives_its_average():
    news = one([(time, time / 100) for time in [1000, 2000, 3000, 5000]], mode="user")
    np.testing.assert_allclose(column(news, "work{mode=user}"), [np.nan, 10, 10, 10])


def test_level_gives_its_change_of_either_sign():
    news = one([(1000, 5.0), (2000, 4.0), (3000, 8.0)], name="level_bytes")
    np.testing.assert_allclose(column(news, "level_bytes_change"), [np.nan, -1.0, 4.0])
    assert news.resets == 0


def test_gauge_needs_only_its_sample_and_is_range_checked():
    news = one([(1000, 5.0), (2000, 4294967295.0)], name="heat", device="f1")
    np.testing.assert_allclose(column(news, "heat{device=f1}"), [5.0, np.nan])
    assert news.rejected == 1
    assert news.frame.channels[0].device == Device("fan", "f1")


def test_sum_takes_only_series_that_were_there_at_both_ends():
    news = run(
        [
            batch_of(
                {
                    series("work_total", **A, mode="user", cpu="0"): [(t, t / 1000) for t in (1000, 2000, 3000, 4000)],
                    series("work_total", **A, mode="user", cpu="1"): [(t, t / 100) for t in (2000, 3000)],
                }
            )
        ]
    )[0]
    np.testing.assert_allclose(column(news, "work{mode=user}"), [np.nan, 1.0, 11.0, 1.0])


def test_one_wrong_part_hides_the_sum():
    news = run(
        [
            batch_of(
                {
                    series("work_total", **A, mode="user", cpu="0"): [(1000, 1.0), (2000, 2.0), (3000, 3.0)],
                    series("work_total", **A, mode="user", cpu="1"): [(1000, 9.0), (2000, 1.0), (3000, 2.0)],
                }
            )
        ]
    )[0]
    np.testing.assert_allclose(column(news, "work{mode=user}"), [np.nan, np.nan, 2.0])


def test_moments_give_mean_and_deviation():
    observed = [[10.0, 12.0], [7.0, 9.0, 11.0, 13.0]]
    total, count, squares = [100.0], [50.0], [1000.0]
    for values in observed:
        total.append(total[-1] + sum(values))
        count.append(count[-1] + len(values))
        squares.append(squares[-1] + sum((value - 10.0) ** 2 for value in values))
    times = (1000, 2000, 3000)
    name = "power_sampled_watts"
    news = run(
        [
            batch_of(
                {
                    series(f"{name}_sum", **A): list(zip(times, total, strict=True)),
                    series(f"{name}_count", **A): list(zip(times, count, strict=True)),
                    series(f"{name}_squared_deviation_total", **A): list(zip(times, squares, strict=True)),
                }
            )
        ]
    )[0]
    np.testing.assert_allclose(column(news, f"{name}_mean"), [np.nan, 11.0, 10.0])
    np.testing.assert_allclose(column(news, f"{name}_deviation"), [np.nan, 1.0, np.std(observed[1])])


def test_moments_without_observations_have_no_value():
    name = "power_sampled_watts"
    news = run(
        [
            batch_of(
                {
                    series(f"{name}_sum", **A): [(1000, 5.0), (2000, 5.0)],
                    series(f"{name}_count", **A): [(1000, 5.0), (2000, 5.0)],
                }
            )
        ]
    )[0]
    # The deviation lacks its squares, so there is no such channel.
    assert [channel.name for channel in news.frame.channels] == [f"{name}_mean"]
    assert np.isnan(news.frame.values).all()


def test_ratio_shrinks_where_little_happens():
    news = run(
        [
            batch_of(
                {
                    series("errors_total", **A): [(1000, 0.0), (2000, 1.0), (3000, 3.0), (4000, 3.0)],
                    series("requests_total", **A): [(1000, 0.0), (2000, 1.0), (3000, 21.0), (4000, 21.0)],
                }
            )
        ]
    )[0]
    np.testing.assert_allclose(column(news, "error_ratio"), [np.nan, 0.2, 0.1, 0.0])


def test_other_target_joins_while_it_is_fresh():
    mine = {series("work_total", **A, mode=mode): [(t, t / 100) for t in range(1000, 9000, 1000)] for mode in "xy"}
    other = {series("heat", **B, device="f"): [(900, 1.0), (1900, 2.0), (2900, 3.0), (3900, 4.0)]}
    news = run([batch_of(mine | other)])[0]
    assert news.frame.times.tolist() == list(range(1000, 9000, 1000))
    # Its own interval is not known at its first scrape; 1.5 intervals after its last one it is no longer believed.
    expected = [np.nan, 2.0, 3.0, 4.0, 4.0, np.nan, np.nan, np.nan]
    expected[4] = 4.0 if 5000 - 3900 <= 1500 else np.nan
    np.testing.assert_allclose(column(news, "heat{device=f}"), expected)


def test_the_target_with_most_channels_gives_the_times_and_keeps_doing_so():
    first = {
        series("work_total", **A, mode="x"): [(1000, 1.0)],
        series("work_total", **A, mode="y"): [(1000, 1.0)],
        series("heat", **B, device="f"): [(1500, 1.0)],
    }
    more = {series("heat", **B, device=str(n)): [(2500, 1.0)] for n in range(9)} | {
        series("work_total", **A, mode="x"): [(2000, 2.0)]
    }
    one_, two = run([batch_of(first), batch_of(more)])
    assert one_.frame.times.tolist() == [1000]
    assert two.frame.times.tolist() == [2000]


@pytest.mark.parametrize(
    ("scrapes", "silence", "taken"),
    [
        ([1000, 2000, 3000], 9_000, False),
        ([1000, 2000, 3000], 11_000, True),
        # At a scrape every 30 s, five of them; after a single scrape, longer still.
        ([1000, 31_000, 61_000], 149_000, False),
        ([1000, 31_000, 61_000], 151_000, True),
        ([1000], 599_000, False),
        ([1000], 601_000, True),
    ],
)
def test_a_silent_primary_gives_way(scrapes, silence, taken):
    first = {series("work_total", **A, mode=mode): [(time, 1.0) for time in scrapes] for mode in "xyz"}
    start = scrapes[-1] + silence
    later = {series("heat", **B, device="f"): [(start, 1.0)]}
    one_, two = run([batch_of(first), batch_of(later)])
    assert one_.frame.times.tolist() == scrapes
    assert two.frame.times.tolist() == [start] * taken


def test_a_series_of_two_targets_counts_once():
    samples = {series("heat", **A, device="f"): [(1000, 1.0)], series("heat", **B, device="f"): [(1000, 7.0)]}
    samples[series("work_total", **A, mode="x")] = [(1000, 1.0)]
    news = run([batch_of(samples)])[0]
    assert column(news, "heat{device=f}") == [1.0]


def test_restart_is_seen_by_the_start_time():
    pairs = [(1000, 5.0), (2000, 6.0)]
    steady = {series("work_total", **A, mode="x"): pairs, series("start_seconds", **A): [(1000, 7e8), (2000, 7e8)]}
    moved = {series("work_total", **A, mode="x"): pairs, series("start_seconds", **A): [(1000, 7e8), (2000, 7e8 + 9)]}
    assert not run([batch_of(steady)])[0].restarted
    news = run([batch_of(moved)])[0]
    assert news.restarted
    assert [channel.name for channel in news.frame.channels] == ["work{mode=x}"]


def test_restart_is_seen_by_many_resets():
    def samples(falling):
        return batch_of(
            {
                series("work_total", **A, mode=str(n)): [(1000, 50.0), (2000, 1.0 if n < falling else 60.0)]
                for n in range(10)
            }
        )

    assert run([samples(5)])[0].restarted
    assert run([samples(5)])[0].resets == 5
    assert not run([samples(4)])[0].restarted


def test_samples_seen_before_change_nothing():
    samples = {series("work_total", **A, mode="x"): [(1000, 1.0), (2000, 9.0), (3000, 2.0)]}
    first, again = run([batch_of(samples), batch_of(samples)])
    assert first.resets == 1
    assert not len(again.frame.times)
    assert (again.resets, again.rejected, again.restarted) == (0, 0, False)
    assert again.interval_ms == 1000
    assert again.frame.channels is first.frame.channels


def test_nothing_at_all():
    news = run([SampleBatch.empty()])[0]
    assert news.frame.values.shape == (0, 0)
    assert news.interval_ms is None


def test_series_that_no_rule_reads_are_passed_over():
    news = run([batch_of({series("other", **A): [(1000, 1.0)]})])[0]
    assert news.frame.values.shape == (0, 0)


def test_channels_are_in_order_of_name_and_carry_what_the_profile_says():
    samples = {series("work_total", **A, mode=mode): [(1000, 1.0)] for mode in ("user", "idle", 'a "b", c', "")}
    samples[series("level_bytes", **A)] = [(1000, 1.0)]
    channels = run([batch_of(samples)])[0].frame.channels
    names = [channel.name for channel in channels]
    assert names == sorted(names)
    assert set(names) == {
        "level_bytes_change",
        "work{mode=user}",
        "work{mode=idle}",
        'work{mode="a \\"b\\", c"}',
        'work{mode=""}',
    }
    found = {channel.name: channel for channel in channels}
    assert found["work{mode=idle}"].subsystem is Subsystem.STORAGE
    assert found["level_bytes_change"].logarithmic


def test_a_vanished_series_is_forgotten_and_may_come_back():
    key = series("work_total", **A, mode="gone")
    stay = series("work_total", **A, mode="stay")
    long = range(1000, 702_000, 1000)
    first = batch_of({key: [(1000, 1.0)], stay: [(t, 0.0) for t in long]})
    second = batch_of({stay: [(702_000, 0.0)]})
    third = batch_of({key: [(703_000, 9.0), (704_000, 10.0)], stay: [(703_000, 0.0), (704_000, 0.0)]})
    one_, two, three = run([first, second, third])
    assert len(one_.frame.channels) == 2
    assert [channel.name for channel in two.frame.channels] == ["work{mode=stay}"]
    np.testing.assert_allclose(column(three, "work{mode=gone}"), [np.nan, 1.0])


def test_other_profiles_start_anew_but_give_no_row_twice():
    samples = batch_of({series("work_total", **A, mode="x"): [(1000, 1.0), (2000, 2.0)]})
    other = parse_profile("metrics: [{name: work_total, kind: gauge, subsystem: cpu, scale: {floor: 1}}]", "o.yaml")
    state, first = advance(ChannelState(HOST), samples, (PROFILE,))
    state, second = advance(state, samples, (other,))
    assert len(first.frame.times) == 2
    assert not len(second.frame.times)
    later = batch_of({series("work_total", **A, mode="x"): [(3000, 3.0)]})
    _, third = advance(state, later, (other,))
    assert column(third, "work_total") == [3.0]


def test_the_interval_follows_a_change_and_survives_one_gap():
    times = [*range(1000, 11_000, 1000), *range(25_000, 115_000, 15_000)]
    key = series("work_total", **A, mode="x")
    state = ChannelState(HOST)
    intervals = []
    for time in times:
        state, news = advance(state, batch_of({key: [(time, time / 1000)]}), (PROFILE,))
        intervals.append(news.interval_ms)
    assert intervals[:2] == [None, 1000]
    assert intervals[10:14] == [1000] * 4
    assert intervals[-1] == 15_000
