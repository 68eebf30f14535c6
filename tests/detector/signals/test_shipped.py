"""The shipped profiles: they parse, they speak of metrics that exist, and each fault's decisive channel has the right subsystem."""

import re
from importlib.resources import files

import numpy as np
import pytest

from hwsonde_detector.signals.channels import ChannelState, advance
from hwsonde_detector.signals.layout import RuleBook, build_layout
from hwsonde_detector.signals.profiles import parse_profile
from hwsonde_detector.signals.profiles.rules import Formula, Reading
from hwsonde_detector.types import SampleBatch, Series
from hwsonde_exporter import self_metrics
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind
from hwsonde_exporter.registry import load_collectors
from hwsonde_exporter.sampler import derived_metrics
from tests.detector.signals.build import series

NAMES = ("hwsonde", "node_exporter")


def shipped(name):
    folder = files("hwsonde_detector.signals.profiles")
    return parse_profile((folder / f"{name}.yaml").read_text(encoding="utf-8"), f"{name}.yaml")


def quantities():
    return [quantity for one in load_collectors().values() for quantity in getattr(one, "quantities", ())]


def exported():
    """Every series name of our exporter: (is it a counter, label names)."""
    metrics = [metric for one in load_collectors().values() for metric in one.metrics]
    metrics += [metric for quantity in quantities() for metric in derived_metrics(quantity)]
    metrics += self_metrics.METRICS
    result = {}
    for metric in metrics:
        for ending in metric.suffixes:
            result[metric.name + ending] = (metric.kind is not Kind.GAUGE, set(metric.label_names(ending)))
    return result


@pytest.mark.parametrize("name", NAMES)
def test_no_two_rules_give_one_channel(name):
    rules = shipped(name).rules
    keys = [(rule.name, rule.by, tuple(part.only for part in rule.parts)) for rule in rules]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("name", NAMES)
def test_symptoms_weigh_less_than_causes(name):
    for rule in shipped(name).rules:
        if re.search(r"context_switches|interrupts|intr|softirq|_bytes|packets\b|segments\b|Segs\b|pgfault", rule.name):
            trouble = re.search("(?i)drop|retrans|corrupt|lost|failed|discard|missed|out_of_order|ecn", rule.name)
            assert rule.weight <= 0.3 or trouble, rule.name
        assert "load" not in rule.name


def test_our_profile_speaks_of_metrics_that_our_exporter_has():
    known = exported()
    profile = shipped("hwsonde")
    for rule in profile.rules:
        for part in rule.parts:
            assert part.name in known, part.name
            counter, labels = known[part.name]
            assert (part.reading is Reading.RATE) == counter, part.name
            assert {label for label, _ in (*part.only, *part.excluded)} <= labels, part.name
            assert set(rule.by) <= labels, part.name
    assert profile.restart in known


def test_references_are_those_of_the_sampler():
    known = {f"{quantity.metric.name}_sum": quantity.reference for quantity in quantities()}
    for rule in shipped("hwsonde").rules:
        if rule.formula is Formula.DEVIATION:
            assert rule.reference == known[rule.parts[0].name], rule.name


def test_every_sampled_quantity_of_weight_is_judged():
    read = set(shipped("hwsonde").metric_names())
    unread = {quantity.metric.name for quantity in quantities() if f"{quantity.metric.name}_sum" not in read}
    # Packets move with bytes at 10 Hz, and their counters are channels already.
    assert unread <= {"hwsonde_network_packets_sampled_per_second"}


def channels_of(name, *found):
    layout = build_layout(found, RuleBook.of([shipped(name)]))
    return {channel.name: channel for channel in layout.channels}


@pytest.mark.parametrize(
    ("name", "found", "channel", "subsystem", "weight"),
    [
        ("hwsonde", ("hwsonde_cpu_pressure_waiting_seconds_total", {}), "cpu_pressure_waiting_seconds", "cpu", 1.0),
        ("hwsonde", ("hwsonde_cpu_seconds_total", {"cpu": "0", "mode": "user"}), "cpu_seconds{mode=user}", "cpu", 0.3),
        (
            "hwsonde",
            ("hwsonde_cpu_seconds_total", {"cpu": "0", "mode": "iowait"}),
            "cpu_seconds{mode=iowait}",
            "storage",
            1.0,
        ),
        ("hwsonde", ("hwsonde_cpu_processes_blocked", {}), "cpu_processes_blocked", "storage", 1.0),
        (
            "hwsonde",
            ("hwsonde_cpu_softirqs_total", {"vector": "net_rx"}),
            "cpu_softirqs{vector=net_rx}",
            "network",
            0.3,
        ),
        ("hwsonde", ("hwsonde_cpu_softirqs_total", {"vector": "block"}), "cpu_softirqs{vector=block}", "storage", 0.3),
        (
            "hwsonde",
            ("hwsonde_memory_scanned_pages_total", {"agent": "direct"}),
            "memory_scanned_pages{agent=direct}",
            "memory",
            1.0,
        ),
        (
            "hwsonde",
            ("hwsonde_memory_page_faults_total", {"kind": "major"}),
            "memory_page_faults{kind=major}",
            "memory",
            1.0,
        ),
        ("hwsonde", ("hwsonde_memory_cached_bytes", {}), "memory_cached_bytes_change", "memory", 0.0),
        ("hwsonde", ("hwsonde_network_tcp_fast_retransmits_total", {}), "network_tcp_fast_retransmits", "network", 1.0),
        (
            "hwsonde",
            ("hwsonde_network_dropped_packets_total", {"device": "lo", "direction": "received"}),
            "network_dropped_packets{device=lo,direction=received}",
            "network",
            1.0,
        ),
        (
            "hwsonde",
            ("hwsonde_storage_pressure_waiting_seconds_total", {}),
            "storage_pressure_waiting_seconds",
            "storage",
            1.0,
        ),
        (
            "hwsonde",
            ("hwsonde_storage_file_handles", {"state": "allocated"}),
            "storage_file_handles_change",
            "storage",
            1.0,
        ),
        (
            "node_exporter",
            ("node_cpu_seconds_total", {"cpu": "0", "mode": "iowait"}),
            "node_cpu_seconds{mode=iowait}",
            "storage",
            1.0,
        ),
        ("node_exporter", ("node_cpu_seconds_total", {"cpu": "0", "mode": "user"}), "node_cpu_seconds", "cpu", 1.0),
        ("node_exporter", ("node_netstat_Tcp_RetransSegs", {}), "node_netstat_Tcp_RetransSegs", "network", 1.0),
        (
            "node_exporter",
            ("node_network_receive_drop_total", {"device": "lo"}),
            "node_network_receive_drop{device=lo}",
            "network",
            1.0,
        ),
    ],
)
def test_decisive_channels_have_the_right_subsystem(name, found, channel, subsystem, weight):
    one = channels_of(name, series(found[0], **found[1]))[channel]
    assert (one.subsystem.value, one.weight) == (subsystem, weight)


def test_what_is_left_out():
    assert not channels_of("hwsonde", series("hwsonde_cpu_seconds_total", cpu="0", mode="idle"))
    assert not channels_of("hwsonde", series("hwsonde_cpu_load1"))
    assert not channels_of("node_exporter", series("node_network_receive_bytes_total", device="veth12ab"))
    assert not channels_of("node_exporter", series("node_filesystem_readonly", mountpoint="/run", fstype="tmpfs"))


def test_this_host_gives_values_in_range():
    """The real collectors of this machine, read twice: most channels have a value and none is refused."""
    collectors = [one(Host()) for name, one in load_collectors().items() if one.period is None]

    def read():
        found = {}
        for collector in collectors:
            for sample in collector.collect():
                names = sample.metric.label_names(sample.suffix)
                labels = dict(zip(names, sample.labels, strict=True)) | {"job": "x", "instance": "h:1"}
                found[Series(sample.metric.name + sample.suffix, tuple(sorted(labels.items())))] = float(sample.value)
        return found

    state, news = ChannelState(), None
    for time in (1_000_000, 1_015_000):
        found = read()
        keys = tuple(sorted(found))
        batch = SampleBatch(
            keys, np.arange(len(keys) + 1), np.full(len(keys), time), np.array([found[key] for key in keys])
        )
        state, news = advance(state, batch, (shipped("hwsonde"),))
    assert news.rejected == 0
    assert len(news.frame.channels) > 30
    known = np.isfinite(news.frame.values[-1])
    assert known.mean() > 0.9
    assert {"cpu", "memory"} <= {channel.subsystem.value for channel in np.array(news.frame.channels)[known]}
