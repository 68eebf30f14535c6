"""The shipped profile on GPUs: the decisive channel of each fault, physical ranges, and a bounded number of channels."""

import math
import re

import pytest

from hwsonde_detector.signals.layout import RuleBook, build_layout
from hwsonde_detector.signals.profiles.rules import Reading
from hwsonde_exporter.metric import Kind
from hwsonde_exporter.nvml.xid import TABLE, Origin
from hwsonde_exporter.registry import load_collectors
from hwsonde_exporter.sampler import derived_metrics
from tests.detector.signals.build import series
from tests.detector.signals.test_shipped import shipped

RULES = [rule for rule in shipped("hwsonde").rules if rule.parts[0].name.startswith("hwsonde_gpu_")]
GPU = {"gpu": "3", "uuid": "GPU-3"}


def channels_of(*found):
    return {channel.name: channel for channel in build_layout(found, RuleBook.of([shipped("hwsonde")])).channels}


@pytest.mark.parametrize(
    ("metric", "labels", "channel", "subsystem", "weight"),
    [
        ("up", {}, "gpu_up{gpu=3}", "gpu", 1.0),
        ("sm_active_ratio", {}, "gpu_sm_active_ratio{gpu=3}", "gpu", 0.3),
        ("tensor_active_ratio", {}, "gpu_tensor_active_ratio{gpu=3}", "gpu", 0.3),
        ("clock_hertz", {"domain": "memory"}, "gpu_clock_hertz{gpu=3,domain=memory}", "gpu", 1.0),
        ("clocks_event_active", {"reason": "hw_thermal_slowdown"}, "gpu_clocks_event_active{gpu=3,reason=hw_thermal_slowdown}", "thermal", 1.0),
        ("clocks_event_active", {"reason": "hw_power_brake_slowdown"}, "gpu_clocks_event_active{gpu=3,reason=hw_power_brake_slowdown}", "power", 1.0),
        ("clocks_event_active", {"reason": "sw_power_cap"}, "gpu_clocks_event_active{gpu=3,reason=sw_power_cap}", "power", 0.3),
        ("throttled_seconds_total", {"reason": "thermal"}, "gpu_throttled_seconds{gpu=3,reason=thermal}", "thermal", 1.0),
        ("throttled_seconds_total", {"reason": "sw_thermal_slowdown"}, "gpu_throttled_seconds{gpu=3,reason=sw_thermal_slowdown}", "thermal", 1.0),
        ("throttled_seconds_total", {"reason": "board_limit"}, "gpu_throttled_seconds{gpu=3,reason=board_limit}", "power", 1.0),
        ("temperature_celsius", {"sensor": "memory"}, "gpu_temperature_celsius{gpu=3,sensor=memory}", "thermal", 0.3),
        ("power_limit_watts", {"limit": "enforced"}, "gpu_power_limit_watts{gpu=3,limit=enforced}", "power", 1.0),
        ("ecc_errors_total", {"type": "uncorrected"}, "gpu_ecc_errors{gpu=3,type=uncorrected}", "gpu", 1.0),
        ("row_remap_failed", {}, "gpu_row_remap_failed{gpu=3}", "gpu", 1.0),
        ("recovery_action", {}, "gpu_recovery_action{gpu=3}", "gpu", 1.0),
        ("xid_errors_total", {"xid": "79"}, "gpu_xid_errors{gpu=3}", "gpu", 1.0),
        ("xid_errors_total", {"xid": "31"}, "gpu_xid_errors", "workload", 0.3),
        ("nvlink_errors_total", {"link": "7", "error": "replay"}, "gpu_nvlink_errors{gpu=3}", "network", 1.0),
        ("nvlink_up", {"link": "7"}, "gpu_nvlink_up{gpu=3}", "network", 1.0),
        ("nvlink_bytes_total", {"link": "7", "direction": "transmit"}, "gpu_nvlink_bytes{gpu=3,direction=transmit}", "network", 0.3),
        ("pcie_replays_total", {}, "gpu_pcie_replays{gpu=3}", "pcie", 1.0),
        ("pcie_errors_total", {"error": "bad_tlp"}, "gpu_pcie_errors{gpu=3}", "pcie", 1.0),
    ],
)  # fmt: skip
def test_the_decisive_channel_of_a_fault(metric, labels, channel, subsystem, weight):
    one = channels_of(series(f"hwsonde_gpu_{metric}", **GPU, **labels))[channel]
    assert (one.subsystem.value, one.weight) == (subsystem, weight)
    if "{" in channel:
        assert (one.device.kind, one.device.name) == ("gpu", "3")


@pytest.mark.parametrize(
    ("metric", "labels"),
    [
        ("clocks_event_active", {"reason": "gpu_idle"}),
        ("clocks_event_active", {"reason": "applications_clocks_setting"}),
        ("throttled_seconds_total", {"reason": "low_utilization"}),
        ("nvlink_errors_total", {"link": "0", "error": "symbol"}),
        ("clock_hertz", {"domain": "video"}),
        ("energy_joules_total", {}),
        ("process_memory_bytes", {"pid": "4711"}),
    ],
)
def test_what_says_nothing_of_a_fault_is_left_out(metric, labels):
    assert not channels_of(series(f"hwsonde_gpu_{metric}", **GPU, **labels))


def test_faults_of_programs_are_told_apart_from_those_of_gpus():
    """Each code of the table is in exactly one of the two channels, by whose fault it is."""
    device, program = (rule for rule in RULES if rule.parts[0].name == "hwsonde_gpu_xid_errors_total")
    for code, row in TABLE.items():
        taken = [rule.parts[0].takes({"xid": str(code)}) for rule in (device, program)]
        assert taken == [row.origin is not Origin.APPLICATION, row.origin is Origin.APPLICATION], code
    assert device.parts[0].takes({"xid": "500"}), "a number that nobody documented is the GPU's"


def test_every_gauge_has_a_physical_range():
    for rule in RULES:
        for part in rule.parts:
            if part.reading in {Reading.VALUE, Reading.CHANGE}:
                assert math.isfinite(part.low), part.name
                assert math.isfinite(part.high), part.name
            if part.reading is Reading.RATE and re.search(r"_(bytes|seconds)_total", part.name):
                assert math.isfinite(part.rate_limit) or "deviation" in part.name, part.name


def gpu_series(number, links):
    """Every series of one GPU, with a few values of each further label."""
    labels = {
        "engine": ["encoder"], "pipe": ["fp16"], "domain": ["graphics", "sm", "memory", "video"], "sensor": ["gpu", "memory"],
        "scope": ["gpu", "module", "memory"], "limit": ["enforced", "default", "min", "max"], "type": ["corrected", "uncorrected"],
        "reason": [
            "gpu_idle", "hw_slowdown", "hw_thermal_slowdown", "sw_thermal_slowdown", "hw_power_brake_slowdown", "sw_power_cap", "power",
            "thermal", "board_limit", "reliability",
        ],
        "direction": ["transmit", "receive"], "error": ["replay", "crc_data", "bad_tlp"], "link": [str(link) for link in range(links)],
        "xid": ["31", "48", "79"], "aspect": ["degraded_bandwidth"], "cause": ["correctable"], "fan": ["0"], "state": ["current"],
        "location": ["dram"], "threshold": ["slowdown"], "availability": ["max"], "pid": [str(pid) for pid in range(100, 130)],
    }  # fmt: skip
    found = []
    for kind in load_collectors().values():
        metrics = [
            *kind.metrics,
            *(metric for quantity in getattr(kind, "quantities", ()) for metric in derived_metrics(quantity)),
        ]
        for metric in metrics:
            if metric.labels[:2] != ("gpu", "uuid") or metric.name.endswith("_info"):
                continue
            rows = [{"gpu": str(number), "uuid": f"GPU-{number}"}]
            for label in metric.labels[2:]:
                rows = [row | {label: value} for row in rows for value in labels.get(label, ["x"])]
            endings = metric.suffixes if metric.kind is Kind.SUMMARY else ("",)
            found += [series(metric.name + ending, **row) for row in rows for ending in endings]
    return found


def test_a_gpu_has_a_bounded_number_of_channels_however_many_links_and_processes_it_has():
    one = channels_of(*gpu_series(0, 18))
    two = channels_of(*gpu_series(0, 18), *gpu_series(1, 18))
    assert 30 <= len(two) - len(one) <= 60
    assert len(channels_of(*gpu_series(0, 2))) == len(one)
