"""Shares of channels, devices and subsystems."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector.detectors.tails import KNEE
from hwsonde_detector.explain.attribution import (
    by_device,
    by_subsystem,
    devices_to_blame,
    evidence,
    expected_band,
    top_channels,
)
from hwsonde_detector.signals.layout import RuleBook, build_layout
from hwsonde_detector.types import Channel, Device, Subsystem
from tests.detector.explain.models import WIDTH, model_of
from tests.detector.signals.build import series
from tests.detector.signals.test_shipped import shipped

A = Channel("a", Subsystem.CPU, floor=0.1)
B = Channel("b", Subsystem.STORAGE, Device("disk", "vda"), floor=1000.0, logarithmic=True, unit="bytes/s")
C = Channel("c", Subsystem.STORAGE, Device("disk", "vdb"), floor=1.0, weight=0.3)


@pytest.fixture(scope="module")
def trained():
    rng = np.random.default_rng(3)
    values = np.column_stack([rng.normal(1, 0.2, 200), rng.lognormal(8, 0.3, 200), rng.normal(50, 2, 200)])
    return model_of((A, B, C), values)


def test_quiet_channels_have_no_evidence_and_symptoms_little():
    strength = evidence(np.array([[0.0, 1.69, 5.0]]), (A, B, C))
    np.testing.assert_allclose(strength, [[0.0, 0.0, (5.0 - 1.7) * 0.3]])


def test_a_flow_that_fell_counts_for_a_tenth_and_nothing_else_changes():
    flow = replace(A, flow=True)
    surprises = np.full((1, 5), 4.7)
    deviations = np.array([[-9.0, 9.0, -9.0, -0.5, np.nan]])
    strength = evidence(surprises, (flow, flow, A, flow, flow), deviations)
    np.testing.assert_allclose(strength, [[0.3, 3.0, 3.0, 3.0, 3.0]])
    np.testing.assert_allclose(evidence(surprises, (flow,) * 5), np.full((1, 5), 3.0))


def test_beyond_one_in_a_million_evidence_only_ranks():
    strength = evidence(np.array([[6.0, 16.0, 18.0]]), (A, A, A))
    np.testing.assert_allclose(strength, [[4.3, 5.3, 5.5]])


def test_a_channel_that_never_moved_before_does_not_outvote_three_that_speak_of_a_fault():
    channels = (Channel("nice", Subsystem.CPU, weight=0.2), *(Channel(f"m{n}", Subsystem.MEMORY) for n in range(3)))
    shares = by_subsystem(evidence(np.array([[18.0, 3.0, 2.5, 2.2]]), channels)[0], channels)
    assert shares[Subsystem.MEMORY] > 2 * shares[Subsystem.CPU]


def test_many_quiet_channels_do_not_outweigh_three_loud_ones():
    many = tuple(Channel(f"n{index}", Subsystem.NETWORK) for index in range(50))
    strength = np.array([3.0, 3.0, 3.0] + [1.0] * 50)
    shares = by_subsystem(strength, (A, replace(A, name="a2"), replace(A, name="a3"), *many))
    assert shares[Subsystem.CPU] == pytest.approx(0.75)


LOUD = st.lists(
    st.tuples(
        st.sampled_from(list(Subsystem)[:4]),
        st.sampled_from([None, Device("gpu", "0"), Device("gpu", "1"), Device("disk", "vda")]),
        st.floats(0, 20),
        st.sampled_from([0.0, 0.3, 1.0]),
    ),
    min_size=1,
    max_size=12,
)


def made(loud):
    channels = tuple(
        Channel(f"c{index}", subsystem, device, weight=weight)
        for index, (subsystem, device, _, weight) in enumerate(loud)
    )
    return channels, np.array([surprise for _, _, surprise, _ in loud])


@given(LOUD, st.data())
def test_no_share_moves_when_an_unrelated_channel_is_added(loud, data):
    channels, surprises = made(loud)
    place = data.draw(st.integers(0, len(channels)))
    quiet = Channel("quiet", data.draw(st.sampled_from(list(Subsystem))), Device("nic", "eth9"))
    wider = (*channels[:place], quiet, *channels[place:])
    calm = data.draw(st.floats(0, KNEE))
    before, after = (
        evidence(values[None], chosen)[0]
        for values, chosen in ((surprises, channels), (np.insert(surprises, place, calm), wider))
    )
    assert by_device(before, channels) == pytest.approx(by_device(after, wider))
    shares = by_subsystem(after, wider)
    assert {name: shares[name] for name in by_subsystem(before, channels)} == pytest.approx(
        by_subsystem(before, channels)
    )
    assert shares.get(quiet.subsystem, 0.0) == pytest.approx(by_subsystem(before, channels).get(quiet.subsystem, 0.0))
    for subsystem in Subsystem:
        assert devices_to_blame(before, channels, subsystem) == devices_to_blame(after, wider, subsystem)


def naive_by_device(strength, channels):
    total = sum(strength)
    shares = {}
    for value, channel in zip(strength, channels, strict=True):
        if channel.device is not None and value > 0:
            shares[channel.device] = shares.get(channel.device, 0.0) + value / total
    return shares


@given(LOUD)
def test_shares_equal_their_naive_twins(loud):
    channels, surprises = made(loud)
    strength = evidence(surprises[None], channels)[0]
    shares = by_device(strength, channels)
    assert shares == pytest.approx(naive_by_device(strength.tolist(), channels))
    assert list(shares.values()) == sorted(shares.values(), reverse=True)
    sums = {
        subsystem: sum(sorted(v for v, c in zip(strength, channels, strict=True) if c.subsystem is subsystem)[-3:])
        for subsystem in {channel.subsystem for channel in channels}
    }
    total = sum(sums.values())
    expected = {name: value / total if total > 0 else 0.0 for name, value in sums.items()}
    assert by_subsystem(strength, channels) == pytest.approx(expected)


# --- devices


def gpus(*loud):
    """One channel of a GPU for each pair of its number and its strength."""
    channels = tuple(
        Channel(f"x{index}", Subsystem.GPU, Device("gpu", number)) for index, (number, _) in enumerate(loud)
    )
    return np.array([value for _, value in loud]), channels


def test_several_channels_of_one_gpu_outvote_one_of_another():
    strength, channels = gpus(("5", 6.0), ("3", 4.0), ("3", 4.0), ("3", 4.0))
    assert list(by_device(strength, channels)) == [Device("gpu", "3"), Device("gpu", "5")]
    assert devices_to_blame(strength, channels, Subsystem.GPU)[0] == Device("gpu", "3")


def test_devices_that_deviate_alike_are_all_in_it():
    strength, channels = gpus(*((str(number), 5.0) for number in range(8)))
    assert devices_to_blame(strength, channels, Subsystem.GPU) == tuple(Device("gpu", str(n)) for n in range(8))
    strength[1:] = 1.0
    assert devices_to_blame(strength, channels, Subsystem.GPU) == (Device("gpu", "0"),)


def test_no_device_is_named_where_the_host_as_a_whole_speaks_louder():
    strength, channels = gpus(("0", 4.0))
    host = Channel("whole", Subsystem.GPU)
    assert devices_to_blame(np.append(strength, 7.0), (*channels, host), Subsystem.GPU) == (Device("gpu", "0"),)
    assert devices_to_blame(np.append(strength, 9.0), (*channels, host), Subsystem.GPU) == ()
    assert devices_to_blame(strength, channels, Subsystem.CPU) == ()
    assert devices_to_blame(np.zeros(1), channels, Subsystem.GPU) == ()


def test_channels_of_a_device_in_other_subsystems_count_for_it():
    strength, channels = gpus(("0", 5.0), ("1", 5.0))
    power = Channel("p", Subsystem.POWER, Device("gpu", "1"))
    assert devices_to_blame(np.append(strength, 9.0), (*channels, power), Subsystem.GPU) == (Device("gpu", "1"),)


# --- channels


def test_top_channels_are_ordered_and_bounded(trained):
    rows = np.tile([9.0, 1.0, 50.0], (8, 1))
    top = top_channels(np.array([1.0, 3.0, 0.0]), rows, trained, 10, WIDTH, WIDTH)
    assert [entry.channel.name for entry in top] == ["b", "a"]
    assert [entry.share for entry in top] == [0.75, 0.25]
    assert [entry.value for entry in top] == [1.0, 9.0]
    assert [entry.direction for entry in top] == ["low", "high"]
    assert top_channels(np.zeros(3), rows, trained, 10, WIDTH, WIDTH) == ()
    assert len(top_channels(np.array([1.0, 3.0, 2.0]), rows, trained, 2, WIDTH, WIDTH)) == 2


def test_expected_band_holds_what_was_seen(trained):
    lower, upper = expected_band(trained, 1)
    assert 0 <= lower < np.exp(8) < upper
    signed = replace(trained, channels=(replace(A, signed=True), B, C))
    assert expected_band(signed, 0)[0] < expected_band(trained, 0)[0] or expected_band(trained, 0)[0] >= 0


# --- causes and symptoms, with the weights of the shipped profile


def named(loud):
    """The subsystem that is named when channels of the shipped profile are so loud, in decades, and so far off, in spreads."""
    found = [series(name, **labels) for name, labels, _, _ in loud]
    channels = build_layout(found, RuleBook.of([shipped("hwsonde")])).channels
    told = {}
    for (_, _, surprise, deviation), one in zip(loud, found, strict=True):
        for channel in build_layout([one], RuleBook.of([shipped("hwsonde")])).channels:
            told[channel.name] = (surprise, deviation)
    surprises, deviations = np.array([told[channel.name] for channel in channels]).T
    shares = by_subsystem(evidence(surprises[None], channels, deviations[None])[0], channels)
    return max(shares, key=lambda name: shares[name])


HOG = (
    ("hwsonde_workload_other_cpu_seconds_total", {}, 14.0, 20.0),
    ("hwsonde_workload_other_cgroup_cpu_seconds_total", {"cgroup": "cgroup:/hog"}, 14.0, 20.0),
    ("hwsonde_cpu_seconds_total", {"cpu": "0", "mode": "system"}, 12.0, 15.0),
    ("hwsonde_cpu_context_switches_total", {}, 8.0, 5.0),
)


def test_cpu_use_names_the_cpu_where_nothing_else_moves():
    assert named(HOG) is Subsystem.CPU


def test_cpu_use_that_a_memory_fault_makes_does_not_outvote_the_memory():
    memory = (
        ("hwsonde_memory_pressure_waiting_seconds_total", {}, 7.0, 9.0),
        ("hwsonde_memory_scanned_pages_total", {"agent": "kswapd"}, 8.0, 9.0),
        ("hwsonde_memory_page_faults_total", {"kind": "major"}, 5.0, 5.0),
        ("hwsonde_memory_anonymous_bytes", {}, 12.0, 14.0),
    )
    assert named(HOG + memory) is Subsystem.MEMORY


def test_a_hog_that_starves_a_job_is_no_fault_of_its_network_or_disk():
    starved = (
        ("hwsonde_network_bytes_total", {"device": "eth0", "direction": "received"}, 12.0, -15.0),
        ("hwsonde_network_bytes_total", {"device": "eth0", "direction": "transmitted"}, 12.0, -15.0),
        ("hwsonde_network_packets_total", {"device": "eth0", "direction": "received"}, 12.0, -15.0),
        ("hwsonde_storage_bytes_total", {"device": "vda", "operation": "read"}, 12.0, -15.0),
    )
    assert named(HOG + starved) is Subsystem.CPU


def test_traffic_that_rises_with_some_cpu_time_is_the_network():
    flood = (
        ("hwsonde_network_bytes_total", {"device": "eth0", "direction": "received"}, 14.0, 15.0),
        ("hwsonde_network_packets_total", {"device": "eth0", "direction": "received"}, 14.0, 15.0),
        ("hwsonde_network_softnet_dropped_packets_total", {}, 6.0, 9.0),
    )
    busy = (("hwsonde_cpu_seconds_total", {"cpu": "0", "mode": "softirq"}, 12.0, 15.0),)
    assert named(busy + flood) is Subsystem.NETWORK
