"""Rules for GPUs: each finds its fault, and a healthy host has none."""

from __future__ import annotations

import pytest

from hwsonde_exporter.check_rules import RULES, Severity
from hwsonde_exporter.nvml.answer import WorkerState
from hwsonde_exporter.nvml.check_rules import GPU_RULES, GpuRule, Labels
from hwsonde_exporter.registry import load_collectors

Samples = list[tuple[str, dict[str, str], float]]


class Reading:
    def __init__(self, samples: Samples) -> None:
        self.samples = samples

    def rows(self, name: str) -> list[tuple[Labels, float]]:
        return [(labels, value) for found, labels, value in self.samples if found == name]


def gpu(number: int, **labels: str) -> dict[str, str]:
    return {"gpu": str(number), "uuid": f"GPU-{number}"} | labels


def healthy() -> Samples:
    """Eight GPUs that wait for a job; two spare links of each are wired to nothing."""
    samples: Samples = [
        ("hwsonde_gpu_devices", {}, 8), ("hwsonde_gpu_pci_devices", {}, 8), ("hwsonde_gpu_driver_mismatch", {}, 0),
    ]  # fmt: skip
    for number in range(8):
        samples += [
            ("hwsonde_gpu_up", gpu(number), 1),
            ("hwsonde_gpu_row_remap_failed", gpu(number), 0),
            ("hwsonde_gpu_row_remap_pending", gpu(number), 0),
            ("hwsonde_gpu_sram_ecc_threshold_exceeded", gpu(number), 0),
            ("hwsonde_gpu_recovery_action", gpu(number), 0),
            ("hwsonde_gpu_ecc_errors_total", gpu(number, type="corrected"), 12),
            ("hwsonde_gpu_ecc_errors_total", gpu(number, type="uncorrected"), 0),
            ("hwsonde_gpu_xid_logged_errors", gpu(number, xid="31"), 400),
            ("hwsonde_gpu_fabric_state", gpu(number), 3),
            ("hwsonde_gpu_fabric_degraded", gpu(number, aspect="degraded_bandwidth"), 0),
            ("hwsonde_gpu_pcie_link_generation", gpu(number), 1),
            ("hwsonde_gpu_pcie_link_max_generation", gpu(number), 5),
            ("hwsonde_gpu_performance_state", gpu(number), 0),
            ("hwsonde_gpu_utilization_ratio", gpu(number), 0.0),
            ("hwsonde_gpu_clocks_event_active", gpu(number, reason="gpu_idle"), 1),
            ("hwsonde_gpu_clocks_event_active", gpu(number, reason="hw_slowdown"), 0),
            ("hwsonde_gpu_clocks_event_active", gpu(number, reason="sw_power_cap"), 0),
        ]
        samples += [("hwsonde_gpu_nvlink_up", gpu(number, link=str(link)), int(link < 16)) for link in range(18)]
    return samples


def findings(samples: Samples) -> list[tuple[str, str, str]]:
    reading = Reading(samples)
    return [(rule.name, subject, text) for rule in GPU_RULES for subject, text in rule.judge(reading)]


def changed(name: str, value: float, *labels: dict[str, str]) -> list[tuple[str, str, str]]:
    """Findings where these series have another value, or come on top."""
    kept = [(found, known, was) for found, known, was in healthy() if found != name or known not in labels]
    return findings(kept + [(name, one, value) for one in labels])


def test_nothing_is_found_on_a_healthy_host() -> None:
    assert findings(healthy()) == []


def test_nothing_is_found_on_a_host_without_gpus() -> None:
    assert findings([]) == []


@pytest.mark.parametrize(
    ("name", "value", "labels", "rule", "subject", "words"),
    [
        ("up", 0, gpu(3), "gpu_lost", "gpu3", "(GPU-3) does not answer"),
        ("pci_devices", 9, {}, "gpu_lost", "", "uses 8 of the 9 GPUs"),
        ("driver_mismatch", 1, {}, "gpu_driver", "", "reboot"),
        ("row_remap_failed", 1, gpu(2), "gpu_memory_failed", "gpu2", "replace it"),
        ("sram_ecc_threshold_exceeded", 1, gpu(2), "gpu_memory_failed", "gpu2", "caches"),
        ("row_remap_pending", 1, gpu(2), "gpu_reset_needed", "gpu2", "repair that waits; reset it"),
        ("retired_pages_pending", 1, gpu(2), "gpu_reset_needed", "gpu2", "repair that waits"),
        ("recovery_action", 2, gpu(5), "gpu_reset_needed", "gpu5", "reboot the host"),
        ("recovery_action", 99, gpu(5), "gpu_reset_needed", "gpu5", "see its documentation"),
        ("ecc_errors_total", 3, gpu(1, type="uncorrected"), "gpu_memory_errors", "gpu1", "had 3 uncorrected"),
        ("xid_logged_errors", 2, gpu(7, xid="79"), "gpu_xid", "gpu7", "XID 79, 2 times (GPU fell off the bus); reboot"),
        ("xid_logged_errors", 1, {"gpu": "0000:dd:00", "uuid": "", "xid": "48"}, "gpu_xid", "gpu0000:dd:00", "XID 48 ("),
        ("nvlink_up", 0, gpu(4, link="7"), "gpu_nvlink", "gpu4", "15 of its 18 NVLinks up, others 16; look at 7, 16, 17"),
        ("fabric_state", 2, gpu(0), "gpu_fabric", "gpu0", "not registered"),
        ("fabric_degraded", 1, gpu(0, aspect="degraded_bandwidth"), "gpu_fabric", "gpu0", "degraded bandwidth"),
        ("clocks_event_active", 1, gpu(6, reason="hw_thermal_slowdown"), "gpu_throttled", "gpu6", "heat"),
        ("clocks_event_active", 1, gpu(6, reason="hw_power_brake_slowdown"), "gpu_throttled", "gpu6", "power brake"),
        ("clocks_event_active", 1, gpu(6, reason="sw_power_cap"), "gpu_throttled", "gpu6", "although it is idle"),
    ],
)  # fmt: skip
def test_each_fault_is_found_and_nothing_else(
    name: str, value: float, labels: dict[str, str], rule: str, subject: str, words: str
) -> None:
    ((found, where, text),) = changed(f"hwsonde_gpu_{name}", value, labels)
    assert (found, where) == (rule, subject)
    assert words in text


def states(present: str) -> Samples:
    return [("hwsonde_gpu_nvml_state", {"state": state.value}, int(state == present)) for state in WorkerState]


@pytest.mark.parametrize("state", sorted(set(WorkerState) - {"running", "no_driver", "mismatch"}))
def test_gpus_that_nobody_could_ask_are_not_lost_but_unknown(state: WorkerState) -> None:
    counted: Samples = [("hwsonde_gpu_devices", {}, 0), ("hwsonde_gpu_pci_devices", {}, 8)]
    ((rule, subject, text),) = findings([*counted, *states(state)])
    assert (rule, subject) == ("gpu_unasked", "")
    assert text.startswith(f"the 8 GPUs on the bus could not be asked ({state}); ")
    # A host that has a driver and no GPU, such as one with NVSwitches only.
    assert findings([("hwsonde_gpu_pci_devices", {}, 0), *states(state)]) == []


@pytest.mark.parametrize("state", ["no_driver", "mismatch"])
def test_a_driver_that_has_no_gpu_for_anybody_has_lost_them(state: str) -> None:
    counted: Samples = [("hwsonde_gpu_devices", {}, 0), ("hwsonde_gpu_pci_devices", {}, 8)]
    ((rule, _, text),) = findings([*counted, *states(state)])
    assert (rule, text[:30]) == ("gpu_lost", "the driver uses 0 of the 8 GPU")


def test_only_what_nobody_could_ask_is_unknown() -> None:
    assert [rule.name for rule in RULES if rule.name.startswith("gpu_") and rule.severity is Severity.UNKNOWN] == [
        "gpu_unasked"
    ]


def test_a_gpu_on_a_lower_generation_than_its_peers() -> None:
    others = [gpu(number) for number in range(8) if number != 2]
    ((rule, subject, text),) = changed("hwsonde_gpu_pcie_link_generation", 5, *others)
    assert (rule, subject) == ("gpu_pcie", "gpu2")
    assert "generation 1 and others like it at 5" in text


def test_a_sleeping_gpu_may_be_slower_than_one_that_works() -> None:
    samples = [sample for sample in healthy() if sample[0] != "hwsonde_gpu_performance_state"]
    samples += [("hwsonde_gpu_performance_state", gpu(number), 0 if number < 4 else 8) for number in range(8)]
    samples = [
        (name, labels, 5 if name == "hwsonde_gpu_pcie_link_generation" and int(labels["gpu"]) < 4 else value)
        for name, labels, value in samples
    ]
    assert findings(samples) == []


def test_a_busy_gpu_may_be_at_its_power_limit() -> None:
    samples = [*healthy(), ("hwsonde_gpu_clocks_event_active", gpu(0, reason="sw_power_cap"), 1)]
    samples = [
        (name, labels, 0.9 if name == "hwsonde_gpu_utilization_ratio" else value) for name, labels, value in samples
    ]
    assert findings(samples) == []


def test_a_gpu_is_told_once_to_be_reset() -> None:
    waits = [(f"hwsonde_gpu_{name}", gpu(2), 1.0) for name in ("recovery_action", "row_remap_pending")]
    samples = [*healthy(), *waits]
    ((rule, subject, _),) = findings(samples)
    assert (rule, subject) == ("gpu_reset_needed", "gpu2")


def test_names_of_rules_are_told_apart() -> None:
    names = [rule.name for rule in GPU_RULES]
    assert len(set(names)) == len(names)
    assert all(name.startswith("gpu_") for name in names)


@pytest.mark.parametrize("rule", GPU_RULES, ids=lambda rule: rule.name)
def test_a_rule_asks_for_what_its_collectors_publish(rule: GpuRule) -> None:
    asked = set()

    class Asked(Reading):
        def rows(self, name: str) -> list[tuple[Labels, float]]:
            asked.add(name)
            return super().rows(name)

    list(rule.judge(Asked(healthy())))
    kinds = load_collectors()
    published = {name: {metric.name for metric in kinds[name].metrics} for name in rule.collectors}
    assert asked <= set().union(*published.values())
    assert all(asked & names for names in published.values()), "a collector that the rule does not need"
