"""The shipped profiles: they parse, they speak of metrics that exist, and each fault's decisive channel has the right subsystem."""

import functools
import re
from importlib.resources import files

import pytest

from hwsonde_detector.signals.layout import RuleBook, build_layout
from hwsonde_detector.signals.profiles import parse_profile
from hwsonde_detector.signals.profiles.rules import Clock, Formula, Reading
from hwsonde_exporter import self_metrics
from hwsonde_exporter.metric import Kind
from hwsonde_exporter.registry import load_collectors
from hwsonde_exporter.sampler import derived_metrics
from tests.detector.signals.build import series

NAMES = ("hwsonde", "node_exporter")


@functools.cache
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
            # A transmit queue that is served by a softirq had been full or held back.
            held_back = rule.title == "transmit queues that waited"
            assert rule.weight <= 0.3 or trouble or held_back, rule.name
        assert not re.search(r"(^|_)load\d*(_|$)", rule.name), "load averages lag by design"


@pytest.mark.parametrize(
    ("metric", "labels", "role"),
    [
        ("hwsonde_workload_info", {"workload": "slurm:12", "manager": "slurm"}, "mark"),
        ("hwsonde_workload_threads", {"workload": "docker:0123456789ab"}, "mark"),
        ("hwsonde_gpu_processes", {"gpu": "0", "uuid": "GPU-0", "type": "compute"}, "mark"),
        ("hwsonde_gpu_ecc_errors_total", {"gpu": "0", "type": "uncorrected"}, "fault"),
        ("hwsonde_gpu_clocks_event_active", {"gpu": "0", "reason": "hw_thermal_slowdown"}, "fault"),
        ("hwsonde_network_up", {"device": "eth0"}, "fault"),
        ("hwsonde_storage_nvme_media_errors_total", {"device": "nvme0"}, "fault"),
        # A GPU that reaches its power limit is at work, a bridge without containers has no carrier, a program's error is the job's own.
        ("hwsonde_gpu_clocks_event_active", {"gpu": "0", "reason": "sw_power_cap"}, "signal"),
        ("hwsonde_network_up", {"device": "docker0"}, "signal"),
        ("hwsonde_gpu_xid_errors_total", {"gpu": "0", "xid": "31"}, "signal"),
        ("hwsonde_cpu_forks_total", {}, "signal"),
    ],
)
def test_who_excuses_and_what_nothing_excuses(metric, labels, role):
    (channel,) = build_layout([series(metric, **labels)], RuleBook.of([shipped("hwsonde")])).channels
    assert channel.role == role


@pytest.mark.parametrize(
    "workload", ["systemd:cron.service", "systemd:user-1000.slice", "cgroup:/hog", "machine:guest"]
)
def test_what_nobody_asked_for_is_no_mark(workload):
    found = [series(f"hwsonde_workload_{name}", workload=workload) for name in ("info", "threads")]
    assert not build_layout(found, RuleBook.of([shipped("hwsonde")])).channels


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


def test_places_and_titles_speak_of_labels_that_are_there():
    known, profile = exported(), shipped("hwsonde")
    for place in profile.places:
        assert {place.label, place.place} <= known[place.metric][1], place
        assert place.metric in profile.metric_names()
    devices = {(rule.device_kind, rule.device_label) for rule in profile.rules}
    assert {(place.kind, place.label) for place in profile.places} <= devices
    # What pages must be called something that people say.
    for rule in profile.rules:
        decisive = re.search(
            "pressure_waiting_seconds|throttled|ecc_errors|xid|clock|power|retransmit|busy|rtt", rule.name
        )
        assert rule.title or not decisive, rule.name
        assert "hwsonde" not in rule.title


def test_what_is_read_at_a_pace_of_its_own_says_so():
    """In both directions: each rule names the collector that reads its series in the background, and no rule another."""
    background = {
        metric.name + ending: name
        for name, one in load_collectors().items()
        if one.period is not None
        for metric in one.metrics
        for ending in metric.suffixes
    }
    profile = shipped("hwsonde")
    clock = self_metrics.LAST_SUCCESS.name
    for rule in profile.rules:
        wanted = {background.get(part.name) for part in rule.parts}
        assert len(wanted) == 1, f"{rule.name}: parts that are read at different times make no ratio"
        (collector,) = wanted
        assert rule.clock == (Clock(clock, collector) if collector is not None else None), rule.name
    assert clock in profile.metric_names()
    assert self_metrics.LAST_SUCCESS.labels == ("collector",)
    assert all(rule.clock is None for rule in shipped("node_exporter").rules)


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
        ("hwsonde", ("hwsonde_cpu_seconds_total", {"cpu": "0", "mode": "user"}), "cpu_seconds{mode=user}", "cpu", 0.2),
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
            "hwsonde",
            ("hwsonde_workload_cpu_throttled_seconds_total", {"workload": "slurm:7"}),
            "workload_cpu_throttled_seconds{workload=slurm:7}",
            "cpu",
            1.0,
        ),
        (
            "hwsonde",
            ("hwsonde_workload_other_cgroup_cpu_seconds_total", {"cgroup": "cgroup:/hog"}),
            "workload_other_cgroup_cpu_seconds",
            "cpu",
            0.2,
        ),
        (
            "hwsonde",
            ("hwsonde_workload_schedule_waiting_seconds_total", {"workload": "docker:0123456789ab"}),
            "workload_schedule_waiting_seconds{workload=docker:0123456789ab}",
            "cpu",
            1.0,
        ),
        (
            "hwsonde",
            ("hwsonde_workload_pressure_waiting_seconds_total", {"workload": "slurm:7", "resource": "io"}),
            "workload_pressure_waiting_seconds{workload=slurm:7,resource=io}",
            "storage",
            1.0,
        ),
        (
            "hwsonde",
            ("hwsonde_workload_pressure_waiting_seconds_total", {"workload": "slurm:7", "resource": "memory"}),
            "workload_pressure_waiting_seconds{workload=slurm:7,resource=memory}",
            "memory",
            1.0,
        ),
        (
            "hwsonde",
            ("hwsonde_workload_tasks", {"workload": "slurm:7", "state": "stopped"}),
            "workload_tasks{state=stopped}",
            "workload",
            1.0,
        ),
        (
            "hwsonde",
            ("hwsonde_workload_tcp_retransmitted_segments_total", {"workload": "pod:a"}),
            "workload_tcp_retransmitted_segments",
            "network",
            1.0,
        ),
        (
            "hwsonde",
            ("hwsonde_network_pfc_frames_total", {"device": "eth0", "priority": "3", "direction": "received"}),
            "network_pfc_frames{device=eth0,direction=received}",
            "network",
            1.0,
        ),
        (
            "hwsonde",
            ("hwsonde_network_rdma_retries_total", {"device": "mlx5_0", "port": "1", "cause": "ack_timeout"}),
            "network_rdma_retries{device=mlx5_0,port=1}",
            "network",
            1.0,
        ),
        (
            "hwsonde",
            ("hwsonde_pcie_link_width_lanes", {"device": "0000:17:00.0", "class": "gpu"}),
            "pcie_link_width_lanes{device=0000:17:00.0}",
            "pcie",
            1.0,
        ),
        (
            "hwsonde",
            ("hwsonde_storage_nvme_critical_warning", {"device": "nvme0", "condition": "reliability"}),
            "storage_nvme_critical_warning{device=nvme0}",
            "storage",
            1.0,
        ),
        (
            "hwsonde",
            ("hwsonde_memory_edac_errors_total", {"controller": "mc0", "type": "correctable"}),
            "memory_edac_errors{type=correctable}",
            "memory",
            1.0,
        ),
        (
            "node_exporter",
            ("node_cpu_seconds_total", {"cpu": "0", "mode": "iowait"}),
            "node_cpu_seconds{mode=iowait}",
            "storage",
            1.0,
        ),
        ("node_exporter", ("node_cpu_seconds_total", {"cpu": "0", "mode": "user"}), "node_cpu_seconds", "cpu", 0.2),
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
