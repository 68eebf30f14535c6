"""What the groups of calls give, where libraries and cards differ."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from hwsonde_exporter.nvml.fast import FastReader
from hwsonde_exporter.nvml.gpu import DriverGone, GpuGone, Row
from hwsonde_exporter.nvml.groups import GROUPS
from hwsonde_exporter.nvml.read_gpm import release
from hwsonde_exporter.nvml.read_nvlink import bit_error_ratio, bus_id
from tests.exporter.nvml.fakes import Clock, fields_of, gpu_of, raises

NOT_SUPPORTED, NOT_FOUND, UNKNOWN = (
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_NOT_FOUND,
    pynvml.NVML_ERROR_UNKNOWN,
)


def table(rows: Iterable[Row]) -> dict[tuple[str, ...], float]:
    return {(name, *labels): value for name, labels, value in rows}


@pytest.mark.parametrize("group", GROUPS)
def test_a_library_without_any_function_gives_nothing_and_no_error(group: str) -> None:
    gpu = gpu_of()
    rows = table(GROUPS[group](gpu))
    assert set(rows) <= {("info", "", "0000:3b:00.0", "", "", "", "", "")}
    assert not gpu.library.errors
    # What is missing is not asked for again.
    before = len(gpu.nvml.calls)
    table(GROUPS[group](gpu))
    assert len(gpu.nvml.calls) == before


@pytest.mark.parametrize("group", sorted(set(GROUPS) - {"identity"}))
@pytest.mark.parametrize(("code", "error"), [(15, GpuGone), (1, DriverGone), (9, DriverGone), (18, DriverGone)])
def test_errors_that_mean_more_end_the_group(group: str, code: int, error: type[Exception]) -> None:
    functions = {name: raises(code) for name in dir(pynvml) if name.startswith(("nvmlDeviceGet", "nvmlGpm"))}
    with pytest.raises(error):
        table(GROUPS[group](gpu_of(**functions)))


def test_other_errors_are_counted_each_time_and_cost_one_call() -> None:
    gpu = gpu_of(nvmlDeviceGetClockInfo=raises(UNKNOWN), nvmlDeviceGetPerformanceState=5)
    gpu.library.group = "clock"
    for _ in range(2):
        assert table(GROUPS["clock"](gpu)) == {("performance_state",): 5}
    assert gpu.library.errors == {("clock", "unknown"): 8}


def test_what_is_not_supported_is_asked_again_after_a_while_and_when_the_mode_changes() -> None:
    clock = Clock()
    gpu = gpu_of(clock, nvmlDeviceGetPerformanceState=raises(NOT_SUPPORTED), nvmlDeviceGetMigMode=[0, 0])
    table(GROUPS["clock"](gpu))
    gpu.nvml.functions["nvmlDeviceGetPerformanceState"] = 2
    assert table(GROUPS["clock"](gpu)) == {}
    clock.now += 301
    assert table(GROUPS["clock"](gpu)) == {("performance_state",): 2}
    gpu.nvml.functions["nvmlDeviceGetPerformanceState"] = raises(NOT_SUPPORTED)
    table(GROUPS["clock"](gpu))
    table(GROUPS["mig"](gpu))
    gpu.nvml.functions |= {"nvmlDeviceGetPerformanceState": 3, "nvmlDeviceGetMigMode": [1, 1]}
    table(GROUPS["mig"](gpu))
    assert table(GROUPS["clock"](gpu)) == {("performance_state",): 3}


def test_the_older_call_serves_where_the_newer_is_missing() -> None:
    memory = SimpleNamespace(total=100, used=40, free=60)
    gpu = gpu_of(nvmlDeviceGetMemoryInfo=lambda _, version=None: memory if version is None else raises(13)())
    assert table(GROUPS["memory"](gpu)) == {
        ("memory_size_bytes",): 100,
        ("memory_used_bytes",): 40,
        ("memory_free_bytes",): 60,
    }
    gpu = gpu_of(nvmlDeviceGetTemperature=61, nvmlDeviceGetTemperatureV=raises(25))
    assert table(GROUPS["temperature"](gpu)) == {("temperature_celsius", "gpu"): 61}
    gpu = gpu_of(nvmlDeviceGetCurrentClocksThrottleReasons=0x48)
    active = {labels[1] for labels, value in table(GROUPS["throttle"](gpu)).items() if value}
    assert active == {"hw_slowdown", "hw_thermal_slowdown"}


def test_a_binding_older_than_a_function_is_like_a_library_without_it() -> None:
    def gone(*_: object) -> Any:
        raise AttributeError("nvmlDeviceGetMarginTemperature")

    gpu = gpu_of(nvmlDeviceGetMarginTemperature=gone)
    assert table(GROUPS["temperature"](gpu)) == {}
    assert not gpu.library.errors


def test_each_field_is_checked_and_read_by_its_type_and_scope() -> None:
    scope = pynvml.NVML_POWER_SCOPE_MODULE
    fields = {
        (pynvml.NVML_FI_DEV_POWER_INSTANT, pynvml.NVML_POWER_SCOPE_GPU): (1, 655_883),
        (pynvml.NVML_FI_DEV_POWER_INSTANT, scope): (1, 0),
    }
    gpu = gpu_of(nvmlDeviceGetFieldValues=fields_of(fields))
    gpu.nvml.functions["nvmlDeviceGetPowerUsage"] = 650_000
    assert table(GROUPS["power"](gpu)) == {("power_watts", "gpu"): 655_883, ("power_average_watts",): 650_000}


def test_fields_of_pcie_tell_how_many_bits_they_have() -> None:
    fields = {
        (pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, 0): (1, 5),
        (pynvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES, 0): (3, 1 << 40),
        (pynvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER, 0): (1, 2),
    }
    gpu = gpu_of(nvmlDeviceGetFieldValues=fields_of(fields))
    assert table(GROUPS["pcie"](gpu)) == {
        ("pcie_bytes_total@32", "transmit"): 5,
        ("pcie_bytes_total@64", "receive"): 1 << 40,
        ("pcie_replays_total",): 2,
    }
    gpu.nvml.functions["nvmlDeviceGetPcieThroughput"] = 7
    assert table(GROUPS["pcie_throughput"](gpu)) == {}


def test_rows_that_are_remapped_are_known_by_fields_too() -> None:
    fields = {(pynvml.NVML_FI_DEV_REMAPPED_UNC, 0): (1, 3), (pynvml.NVML_FI_DEV_REMAPPED_PENDING, 0): (1, 1)}
    gpu = gpu_of(nvmlDeviceGetFieldValues=fields_of(fields))
    assert table(GROUPS["remap"](gpu)) == {("remapped_rows_total", "uncorrected"): 3, ("row_remap_pending",): 1}


def process(pid: int, memory: int | None) -> Any:
    return SimpleNamespace(pid=pid, usedGpuMemory=memory)


def test_a_process_in_two_lists_counts_its_memory_once_and_in_two_parts_twice() -> None:
    gpu = gpu_of(
        nvmlDeviceGetComputeRunningProcesses_v3=[process(7, 100), process(7, 50), process(8, None)],
        nvmlDeviceGetGraphicsRunningProcesses_v3=[process(7, 150)],
    )
    rows = {labels: value for labels, value in table(GROUPS["processes"](gpu)).items() if labels[0] != "process"}
    assert rows == {
        ("processes", "compute"): 2,
        ("processes", "graphics"): 1,
        ("process_memory_bytes", "7"): 150,
    }


def test_a_list_that_makes_no_sense_is_read_with_the_older_structure() -> None:
    gpu = gpu_of(
        nvmlDeviceGetComputeRunningProcesses_v3=[process(7, 100), process(0, 1 << 60)],
        nvmlDeviceGetComputeRunningProcesses_v2=[process(7, 100)],
    )
    gpu.library.group = "processes"
    for _ in range(2):
        assert table(GROUPS["processes"](gpu))["process_memory_bytes", "7"] == 100
    assert gpu.library.errors == {("processes", "layout"): 1}


@pytest.mark.parametrize("code", [0, NOT_FOUND])
def test_no_samples_are_no_failure(code: int) -> None:
    gpu = gpu_of(nvmlDeviceGetProcessUtilization=raises(code), nvmlDeviceGetSamples=raises(code))
    assert table(GROUPS["processes"](gpu)) == {}
    reader = FastReader(10.0, Clock())
    reader.read_buffers(gpu)
    assert reader.take() == []
    assert not gpu.library.errors


def test_of_several_samples_of_a_process_the_newest_counts_and_none_twice() -> None:
    def sample(pid: int, time: int, use: int) -> Any:
        return SimpleNamespace(pid=pid, timeStamp=time, smUtil=use, memUtil=1)

    samples = [sample(7, 100, 10), sample(7, 300, 30), sample(7, 200, 20), sample(0, 0, 0)]
    gpu = gpu_of(nvmlDeviceGetProcessUtilization=lambda _, last: samples)
    assert table(GROUPS["processes"](gpu))["process_sm_utilization_ratio", "7"] == 30
    assert table(GROUPS["processes"](gpu)) == {}


class Mig:
    """A GPU that is cut into instances 1 (two compute instances) and 5."""

    places = ((1, 0), (1, 1), (5, 0))

    def functions(self) -> dict[str, Any]:
        return {
            "nvmlDeviceGetMigMode": [1, 1],
            "nvmlDeviceGetMaxMigDeviceCount": 7,
            "nvmlDeviceGetMigDeviceHandleByIndex": lambda _, place: (
                self.places[place] if place < 3 else raises(NOT_FOUND)()
            ),
            "nvmlDeviceGetGpuInstanceId": lambda part: part[0],
            "nvmlDeviceGetComputeInstanceId": lambda part: part[1],
            "nvmlDeviceGetUUID": lambda part: f"MIG-{part[0]}-{part[1]}",
            "nvmlDeviceGetName": lambda part: "NVIDIA A100-SXM4-80GB MIG 3g.40gb",
            "nvmlDeviceGetMemoryInfo": lambda part: SimpleNamespace(total=100 * part[0], used=part[0]),
        }


def test_parts_are_listed_and_their_memory_counted_once() -> None:
    rows = table(GROUPS["mig"](gpu_of(**Mig().functions())))
    assert rows == {
        ("mig_enabled", "current"): 1,
        ("mig_enabled", "pending"): 1,
        ("mig_info", "MIG-1-0", "1", "0", "3g.40gb"): 1,
        ("mig_info", "MIG-1-1", "1", "1", "3g.40gb"): 1,
        ("mig_info", "MIG-5-0", "5", "0", "3g.40gb"): 1,
        ("mig_memory_size_bytes", "1"): 100,
        ("mig_memory_used_bytes", "1"): 1,
        ("mig_memory_size_bytes", "5"): 500,
        ("mig_memory_used_bytes", "5"): 5,
    }


class Gpm:
    """The library's hardware counters: every quantity is its number, over as many seconds as lay between the looks."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.taken: dict[int, float] = {}
        self.buffers = 0

    def functions(self) -> dict[str, Any]:
        return {
            "nvmlGpmQueryDeviceSupport": SimpleNamespace(isSupportedDevice=1),
            "nvmlGpmSampleAlloc": self.allocate,
            "nvmlGpmSampleGet": lambda _, buffer: self.taken.update({id(buffer): self.clock.now}),
            "nvmlGpmMigSampleGet": lambda _, instance, buffer: self.taken.update({id(buffer): self.clock.now}),
            "nvmlGpmMetricsGet": self.compare,
        }

    def allocate(self) -> Any:
        self.buffers += 1
        return pynvml.c_nvmlGpmSample_t()

    def compare(self, request: Any) -> Any:
        for metric in request.metrics[: request.numMetrics]:
            metric.value = float(metric.metricId)
            metric.nvmlReturn = NOT_SUPPORTED if metric.metricId == pynvml.NVML_GPM_METRIC_FP64_UTIL else 0
        return request


def test_counters_are_compared_over_a_second_and_refused_ones_left_out() -> None:
    clock = Clock()
    library = Gpm(clock)
    gpu = gpu_of(clock, **library.functions())
    assert table(GROUPS["gpm"](gpu)) == {}
    clock.now += 0.3
    assert table(GROUPS["gpm"](gpu)) == {}
    clock.now += 0.7
    rows = table(GROUPS["gpm"](gpu))
    assert rows["sm_active_ratio",] == pynvml.NVML_GPM_METRIC_SM_UTIL
    assert rows["pipe_active_ratio", "fp16"] == pynvml.NVML_GPM_METRIC_FP16_UTIL
    assert ("pipe_active_ratio", "fp64") not in rows
    clock.now += 31.0
    assert table(GROUPS["gpm"](gpu)) == {}
    clock.now += 1.0
    assert table(GROUPS["gpm"](gpu)) != {}
    assert library.buffers == 2
    release(gpu)
    assert len(gpu.library.spare) == 2


def test_instances_have_buffers_of_their_own_and_give_them_back() -> None:
    clock = Clock()
    library, mig = Gpm(clock), Mig()
    gpu = gpu_of(clock, **library.functions(), **mig.functions())
    table(GROUPS["mig"](gpu))
    clock.now += 1.0
    rows = table(GROUPS["mig"](gpu))
    assert rows["mig_sm_active_ratio", "1"] == rows["mig_sm_active_ratio", "5"] == pynvml.NVML_GPM_METRIC_SM_UTIL
    assert library.buffers == 4
    mig.places = ((1, 0), (1, 0), (1, 0))
    table(GROUPS["mig"](gpu))
    assert len(gpu.library.spare) == 2


def test_nvlink_4_counts_kibibytes_and_nvlink_5_bytes() -> None:
    def links(_: object, link: int) -> int:
        return 1 if link < 2 else raises(pynvml.NVML_ERROR_INVALID_ARGUMENT)()

    four = {(pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, 1): (3, 10)}
    gpu = gpu_of(nvmlDeviceGetNvLinkState=links, nvmlDeviceGetFieldValues=fields_of(four))
    assert table(GROUPS["nvlink"](gpu)) == {("nvlink_bytes_total", "1", "transmit"): 10_240}
    five = {
        (pynvml.NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES, 0): (3, 7),
        (pynvml.NVML_FI_DEV_NVLINK_COUNT_SYMBOL_BER, 0): (3, (3 << 8) | 12),
        (pynvml.NVML_FI_DEV_NVLINK_GET_SPEED, 0): (1, 53_125),
        (pynvml.NVML_FI_DEV_NVLINK_GET_SPEED, 1): (1, 0),
    }
    gpu = gpu_of(nvmlDeviceGetNvLinkState=links, nvmlDeviceGetFieldValues=fields_of(five))
    assert table(GROUPS["nvlink"](gpu)) == {("nvlink_bytes_total", "0", "receive"): 7}
    assert table(GROUPS["nvlink_health"](gpu)) == {
        ("nvlink_up", "0"): 1,
        ("nvlink_up", "1"): 1,
        ("nvlink_bit_error_ratio", "0", "symbol"): pytest.approx(3e-12),
        ("nvlink_speed_bytes_per_second", "0"): 53_125,
    }


def test_numbers_that_the_driver_packs_and_addresses_that_it_pads() -> None:
    assert bit_error_ratio((15 << 8) | 254) == pytest.approx(1.5e-253)
    assert bit_error_ratio(0) == 0.0
    assert bus_id("00000000:3B:00.0") == "0000:3b:00.0"
    assert bus_id(b"00010000:3B:00.0") == "00010000:3b:00.0"
    assert bus_id("0000:3b:00.0") == "0000:3b:00.0"
    assert bus_id("") == ""
