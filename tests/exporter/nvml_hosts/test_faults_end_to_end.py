"""Each fault, end to end: which series disappear, which stay, how long a scrape takes, how long until it is healed.

Times are compared with the collectors' period and with the same host when it was healthy, never with a clock alone.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.exporter.nvml_hosts.gpu_host import TIMEOUT, GpuHost, Labels, Series, gpus_up, of, one, running
from tests.nvml_shim.control import Control, Fault
from tests.nvml_shim.recording import load

PERIOD = 1.0
DEADLINE = 0.5
SCRAPES = 9
# A scrape that waits for a call that hangs takes the runner's timeout.
LONGEST_SCRAPE = TIMEOUT / 2
GPUS = ("0", "1", "2", "3")
# What may come and go with a fault, and says so.
TELLING = (
    "hwsonde_gpu_up", "hwsonde_gpu_nvml_", "hwsonde_gpu_xid_", "hwsonde_gpu_sxid_", "hwsonde_exporter_", "hwsonde_gpu_devices",
    "hwsonde_gpu_processes_left_out", "hwsonde_gpu_kernel_log_", "hwsonde_gpu_driver_", "hwsonde_gpu_pci_devices",
)  # fmt: skip
# Shares of a window need two looks a second apart: a worker that starved of CPU was replaced, and has had one.
WINDOWED = (
    "graphics_active",
    "sm_active",
    "sm_occupancy",
    "tensor_active",
    "dram_active",
    "pipe_active",
    "mig_sm_active",
)
NOT_ALWAYS = frozenset(
    {
        "hwsonde_gpu_pcie_rate_bytes_per_second",
        *(f"hwsonde_gpu_{name}_ratio" for name in WINDOWED),
    }
)
OF_PROCESSES = {
    "processes", "process_memory_bytes", "process_info", "process_sm_utilization_ratio", "process_memory_busy_ratio",
}  # fmt: skip
Key = tuple[str, Labels]


def four_gpus() -> dict[str, Any]:
    """The healthy host with four of its GPUs; the last one can be cut up."""
    recording = load("h200")
    return {**recording, "devices": [recording["devices"][number] for number in (0, 1, 2, 7)]}


def readings(series: Series) -> dict[Key, float]:
    """Series that are readings of a GPU."""
    return {key: value for key, value in series.items() if "gpu" in dict(key[1]) and not key[0].startswith(TELLING)}


def of_gpu(series: Series, gpu: str) -> set[Key]:
    """Readings of one GPU."""
    return {key for key in readings(series) if dict(key[1])["gpu"] == gpu}


def scrape_seconds(host: GpuHost) -> float:
    """Median time of some scrapes; the least of a few such medians, since others use this machine, too."""

    def once() -> float:
        began = time.perf_counter()
        host.text()
        return time.perf_counter() - began

    return min(statistics.median(once() for _ in range(SCRAPES)) for _ in range(3))


def as_quick_as(host: GpuHost, healthy: float) -> float | None:
    """How many times as long a scrape takes as on the healthy host; None if that never is less than three.

    What else this machine does makes a few of them slow; those of a host that waits for something are slow all of them.
    """
    ratios = (scrape_seconds(host) / healthy for _ in range(10))
    return next((ratio for ratio in ratios if ratio < 3), None)


def settled(host: GpuHost) -> Series:
    """A scrape with all that the host can give."""
    host.wait(lambda series: gpus_up(series) == dict.fromkeys(GPUS, 1))
    series, _ = host.wait(
        lambda series: all(of(series, "hwsonde_gpu_sm_active_ratio", gpu=gpu) for gpu in GPUS), anew=True
    )
    return series


@pytest.fixture
def host(tmp_path: Path) -> Iterator[GpuHost]:
    with running(four_gpus(), tmp_path, deadline=DEADLINE, period=PERIOD) as found:
        yield found


@dataclass(frozen=True)
class Case:
    """A fault and what it should do.

    Parameters
    ----------
    inject
        Makes it.
    lost
        By GPU: names of the metrics that disappear, without their prefix; ``{"*"}`` for all readings.
    shown
        Metrics, with labels, that tell of it, and the value that each takes.
    heal
        Ends it.
    """

    inject: Callable[[Control], object]
    lost: Mapping[str, set[str]]
    shown: Mapping[tuple[str, tuple[tuple[str, str], ...]], float] = field(default_factory=dict)
    heal: Callable[[Control], object] = Control.heal


def fails(**fault: Any) -> Callable[[Control], object]:
    return lambda control: control.inject(Fault(**fault))


CASES = {
    "lost": Case(fails(device=2, error=15), {"2": {"*"}}, {("gpu_up", (("gpu", "2"),)): 0}),
    "reset_required": Case(fails(device=2, error=16), {"2": {"*"}}, {("gpu_up", (("gpu", "2"),)): 0}),
    "unknown_error": Case(fails(device=1, error=999), {"1": {"*"}}, {("gpu_up", (("gpu", "1"),)): 0}),
    "gone_from_the_list": Case(
        lambda control: control.remove_gpu(1),
        {"1": {"*"}},
        {("gpu_up", (("gpu", "1"),)): 0, ("gpu_devices", ()): 3, ("gpu_pci_devices", ()): 4},
        lambda control: control.add_gpu(1),
    ),
    "one_call": Case(
        fails(device=0, function="nvmlDeviceGetClockInfo", error=999),
        {"0": {"clock_hertz"}},
        {("gpu_up", (("gpu", "0"),)): 1},
    ),
    "one_argument": Case(fails(device=0, function="nvmlDeviceGetNvLinkErrorCounter", arguments="5/*", error=999), {"0": {"nvlink_errors_total"}}),
    "one_field": Case(
        fails(device=3, function="nvmlDeviceGetFieldValues", arguments="186/1", error=999), {"3": {"power_watts"}}
    ),
    "no_permission": Case(
        fails(function="nvmlDeviceGet*RunningProcesses_v*", error=4),
        dict.fromkeys(GPUS, OF_PROCESSES),
    ),
    "sentinel_32": Case(
        lambda control: control.answer(1, "nvmlDeviceGetUtilizationRates", {"gpu": 2**32 - 1}),
        {"1": {"utilization_ratio"}},
    ),
    "sentinel_47": Case(
        lambda control: control.answer(1, "nvmlDeviceGetTotalEnergyConsumption", 2**47), {"1": {"energy_joules_total"}}
    ),
    "sentinel_63": Case(
        lambda control: control.answer(1, "nvmlDeviceGetMemoryInfo_v2", {"used": 2**63}), {"1": {"memory_used_bytes"}}
    ),
    "not_a_number": Case(
        lambda control: control.answer(1, "nvmlDeviceGetFieldValues", {"186": {"mean": float("nan"), "type": "double"}}),
        {"1": {"power_watts"}},
    ),
    "no_samples": Case(
        fails(function="nvmlDeviceGetProcessUtilization", empty=True),
        {},
    ),
    "driver_unloaded": Case(
        lambda control: control.unload_driver(),
        {gpu: {"*"} for gpu in GPUS},
        {("gpu_nvml_state", (("state", "no_driver"),)): 1, ("gpu_devices", ()): 0},
        lambda control: control.load_driver(),
    ),
}  # fmt: skip


def concerned(key: Key, lost: Mapping[str, set[str]]) -> bool:
    """Whether a series is of those that a fault may cost."""
    names = lost.get(dict(key[1])["gpu"], set())
    return (
        "*" in names
        or key[0].removeprefix("hwsonde_gpu_") in names
        or ("processes" in names and key[0] == "hwsonde_workload_gpu_info")
    )


# What differs from another case in one call or one word alone is left to the slow tests.
MORE = {
    "sentinel_32",
    "not_a_number",
    "one_argument",
    "one_field",
    "no_permission",
    "sentinel_47",
    "sentinel_63",
    "unknown_error",
    "reset_required",
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in MORE else []) for name in CASES]
)
def test_a_fault_costs_its_own_series_only_and_heals(name: str, host: GpuHost, record_property: Any) -> None:
    case = CASES[name]
    before = settled(host)
    healthy = scrape_seconds(host)
    expected = {key for key in readings(before) if not concerned(key, case.lost)}

    case.inject(host.control)

    def noticed(series: Series) -> bool:
        now = readings(series)
        told = all(
            one(series, f"hwsonde_{metric}", **dict(labels)) == value for (metric, labels), value in case.shown.items()
        )
        everything = [key for key in readings(before) if "*" in case.lost.get(dict(key[1])["gpu"], ())]
        some = {(gpu, metric) for gpu, metrics in case.lost.items() for metric in metrics - {"*"}}
        missing = {
            (gpu, metric)
            for gpu, metric in some
            if len(of(series, f"hwsonde_gpu_{metric}", gpu=gpu)) < len(of(before, f"hwsonde_gpu_{metric}", gpu=gpu))
        }
        return told and not any(key in now for key in everything) and missing == some

    _, until_noticed = host.wait(noticed)
    sick = as_quick_as(host, healthy)
    assert sick is not None
    end = time.monotonic() + 2 * PERIOD
    while time.monotonic() < end:
        left = {key for key in expected - readings(host.series()).keys() if key[0] not in NOT_ALWAYS}
        assert not left
        time.sleep(PERIOD / 10)

    case.heal(host.control)
    wanted = {key for key in readings(before) if key[0] not in NOT_ALWAYS}
    _, until_healed = host.wait(lambda series: wanted <= readings(series).keys())
    record_property("noticed_seconds", round(until_noticed, 2))
    record_property("healed_seconds", round(until_healed, 2))
    record_property("scrape_ratio", round(sick, 2))
    assert set(gpus_up(host.renewed()).values()) == {1}
