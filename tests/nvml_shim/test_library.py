"""The stand-in for NVIDIA's library, used by the real bindings: layouts, time, versions, symbols."""

from __future__ import annotations

import ctypes
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pynvml
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.nvml_shim.control import Page
from tests.nvml_shim.library import build
from tests.nvml_shim.recording import FORMAT, load, names
from tests.nvml_shim.shim_host import ShimHost


def one_gpu(calls: dict[str, Any]) -> dict[str, Any]:
    """A recording of a host with one GPU."""
    calls = {"nvmlDeviceGetUUID": "GPU-1", **calls}
    return {"format": FORMAT, "system": {"nvmlSystemGetDriverVersion": "1.2"}, "devices": [{"calls": calls}]}


def test_the_page_is_laid_out_alike_in_both_languages() -> None:
    library = ctypes.CDLL(str(build()))
    assert ctypes.c_size_t.in_dll(library, "hwsonde_control_bytes").value == ctypes.sizeof(Page)


def test_the_bindings_take_it_for_the_systems_library(tmp_path: Path) -> None:
    host = ShimHost("h200", tmp_path)
    script = (
        "import ctypes, sys; ctypes.CDLL(sys.argv[1]); import pynvml; pynvml.nvmlInit();"
        "print(pynvml.nvmlSystemGetDriverVersion(), pynvml.nvmlDeviceGetCount())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(host.library)], capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stdout.split() == ["570.124.06", "8"]
    assert host.control.initialisations == 1


@pytest.mark.parametrize("name", names())
def test_every_recorded_call_can_be_made(name: str) -> None:
    """A call that the library does not have would be a recording's dead weight."""
    library = ctypes.CDLL(str(build()))
    recording = load(name)
    for device in recording["devices"]:
        for part in (device, *device.get("mig", ())):
            for function in (*part["calls"], *part.get("mig_on", ()), *part.get("mig_off", ())):
                assert hasattr(library, function), function
    for function in (*recording["system"], *recording["missing"]):
        assert hasattr(library, function), function


@pytest.mark.parametrize("name", names())
def test_what_a_driver_lacks_is_missing_and_nothing_else(name: str, tmp_path: Path) -> None:
    host = ShimHost(name, tmp_path)
    lacking, full = ctypes.CDLL(str(host.library)), ctypes.CDLL(str(build()))
    for function in host.recording["missing"]:
        assert not hasattr(lacking, function), function
        assert hasattr(full, function), function
    for function in (
        "nvmlInitWithFlags",
        "nvmlDeviceGetCount_v2",
        "nvmlDeviceGetHandleByIndex_v2",
        "nvmlEventSetWait_v2",
    ):
        assert hasattr(lacking, function), function


# ---- numbers --------------------------------------------------------------------------------------------------------


def naive(wave: dict[str, Any], time: float) -> float:
    """A number at a time, by the definition in recording.py; a counter by summing its rate in small steps."""
    if "every" in wave:
        time = math.floor(time / wave["every"]) * wave["every"]
    turn = 2 * math.pi / wave["period"]
    if "mean" in wave:
        return float(wave["mean"] + wave["swing"] * math.sin(turn * time + wave["phase"]))
    steps = 4000
    width = time / steps
    area = sum(
        (wave["rate"] + wave["swing"] * math.sin(turn * (number + 0.5) * width + wave["phase"])) * width
        for number in range(steps)
    )
    return float(wave["start"] + area)


waves = st.fixed_dictionaries({
    "swing": st.floats(0, 1), "period": st.floats(2, 100), "phase": st.floats(-4, 4), "rate": st.integers(1, 10**6),
})  # fmt: skip


@given(kind=st.sampled_from(["mean", "start"]), base=st.integers(0, 10**9), figures=waves, time=st.floats(0, 60))
@settings(max_examples=40, deadline=None)
def test_numbers_change_as_they_are_said_to(
    tmp_path_factory: pytest.TempPathFactory, kind: str, base: int, figures: dict[str, Any], time: float
) -> None:
    rate = figures["rate"]
    wave: dict[str, Any] = {**figures, kind: base, "swing": figures["swing"] * rate}
    if kind == "mean":
        del wave["rate"]
        wave["swing"] = min(wave["swing"], base)
    host = ShimHost(one_gpu({"nvmlDeviceGetTotalEnergyConsumption": wave}), tmp_path_factory.mktemp("host"), fixed=time)
    with host.bound() as nvml:
        nvml.nvmlInit()
        found = nvml.nvmlDeviceGetTotalEnergyConsumption(nvml.nvmlDeviceGetHandleByIndex(0))
    assert found == pytest.approx(naive(wave, time), abs=1 + rate * 1e-3)


def test_a_counter_wraps_where_its_bits_end(tmp_path: Path) -> None:
    fields = {"94": {"start": 2**32 - 10, "rate": 4, "wrap": 32, "type": "uint"}}
    host = ShimHost(one_gpu({"nvmlDeviceGetFieldValues": fields}), tmp_path)
    found = []
    with host.bound() as nvml:
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(0)
        for second in range(5):
            host.control.freeze(second)
            (value,) = nvml.nvmlDeviceGetFieldValues(handle, [94])
            found.append(value.value.uiVal)
    assert found == [2**32 - 10, 2**32 - 6, 2**32 - 2, 2, 6]


def test_numbers_near_the_end_of_their_types_keep_every_bit(tmp_path: Path) -> None:
    for value in (2**64 - 1, 2**63, 2**47, 2**53 + 1):
        host = ShimHost(one_gpu({"nvmlDeviceGetTotalEnergyConsumption": value}), tmp_path / str(value))
        with host.bound() as nvml:
            nvml.nvmlInit()
            assert nvml.nvmlDeviceGetTotalEnergyConsumption(nvml.nvmlDeviceGetHandleByIndex(0)) == value


def test_negative_numbers_and_all_types_of_field_values(tmp_path: Path) -> None:
    wanted = {"double": ("dVal", 2.5), "uint": ("uiVal", 7), "ulong": ("ulVal", 8), "ullong": ("ullVal", 9),
              "llong": ("sllVal", -10), "int": ("siVal", -11), "ushort": ("usVal", 12)}  # fmt: skip
    fields = {
        str(300 + number): {"mean": value, "type": name} for number, (name, (_, value)) in enumerate(wanted.items())
    }
    host = ShimHost(one_gpu({"nvmlDeviceGetFieldValues": fields}), tmp_path)
    with host.bound() as nvml:
        nvml.nvmlInit()
        values = nvml.nvmlDeviceGetFieldValues(nvml.nvmlDeviceGetHandleByIndex(0), [int(field) for field in fields])
    for number, (found, (member, value)) in enumerate(zip(values, wanted.values(), strict=True)):
        assert (found.nvmlReturn, found.valueType) == (0, number)
        assert getattr(found.value, member) == value


def test_a_failed_field_holds_rubbish_that_a_reader_must_not_take(tmp_path: Path) -> None:
    host = ShimHost(one_gpu({"nvmlDeviceGetFieldValues": {"82": 61, "*": {"error": 2}}}), tmp_path)
    with host.bound() as nvml:
        nvml.nvmlInit()
        good, scoped, unknown = nvml.nvmlDeviceGetFieldValues(nvml.nvmlDeviceGetHandleByIndex(0), [82, (138, 3), 197])
    assert (good.nvmlReturn, scoped.nvmlReturn, unknown.nvmlReturn) == (0, 2, 2)
    assert unknown.value.ullVal == 0xDEADBEEFDEADBEEF


# ---- buffers, monitors, processes -----------------------------------------------------------------------------------


def test_sample_buffers_keep_the_last_readings_and_give_each_once(tmp_path: Path) -> None:
    host = ShimHost("h200", tmp_path, fixed=100.01)
    with host.bound() as nvml:
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(0)
        kind, samples = nvml.nvmlDeviceGetSamples(handle, nvml.NVML_TOTAL_POWER_SAMPLES, 0)
        assert kind == nvml.NVML_VALUE_TYPE_UNSIGNED_INT
        assert len(samples) == 120
        times = [sample.timeStamp for sample in samples]
        assert times == sorted(set(times))
        assert times[-1] - times[0] == pytest.approx(119 * 20_000, abs=2)
        with pytest.raises(pynvml.NVMLError_NotFound):
            nvml.nvmlDeviceGetSamples(handle, nvml.NVML_TOTAL_POWER_SAMPLES, times[-1])
        host.control.freeze(100.07)
        _, later = nvml.nvmlDeviceGetSamples(handle, nvml.NVML_TOTAL_POWER_SAMPLES, times[-1])
        assert [sample.timeStamp > times[-1] for sample in later] == [True] * 3


def monitors(nvml: Any, handle: Any, first: Any, second: Any, ids: list[int]) -> list[tuple[int, float]]:
    request = nvml.c_nvmlGpmMetricsGet_t(version=1, numMetrics=len(ids), sample1=first, sample2=second)
    for place, number in enumerate(ids):
        request.metrics[place].metricId = number
    nvml.nvmlGpmMetricsGet(request)
    return [(metric.nvmlReturn, metric.value) for metric in request.metrics[: len(ids)]]


def test_performance_monitors_give_the_mean_between_two_samples(tmp_path: Path) -> None:
    wave = {"mean": 50.0, "swing": 20.0, "period": 8.0, "phase": 0.0}
    host = ShimHost(one_gpu({"nvmlGpmQueryDeviceSupport": 1, "nvmlGpmMetricsGet": {"2": wave}}), tmp_path, fixed=1.0)
    with host.bound() as nvml:
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(0)
        assert nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice == 1
        first, second = nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()
        nvml.nvmlGpmSampleGet(handle, first)
        host.control.freeze(3.0)
        nvml.nvmlGpmSampleGet(handle, second)
        (good, mean), (bad, _) = monitors(nvml, handle, first, second, [2, 3])
        steps = [50 + 20 * math.sin(2 * math.pi * (1 + 2 * (number + 0.5) / 1000) / 8) for number in range(1000)]
        assert (good, bad) == (0, 3)
        assert mean == pytest.approx(sum(steps) / 1000, rel=1e-6)
        ((_, same),) = monitors(nvml, handle, second, second, [2])
        assert same == pytest.approx(50 + 20 * math.sin(2 * math.pi * 3 / 8))
        host.control.freeze(None)
        ((_, same),) = monitors(nvml, handle, second, second, [2])
        assert math.isnan(same)
        nvml.nvmlGpmSampleFree(first)
        nvml.nvmlGpmSampleFree(second)


def test_processes_and_what_they_use(tmp_path: Path) -> None:
    host = ShimHost("workstation", tmp_path)
    with host.bound() as nvml:
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(0)
        found = {
            process.pid: process.usedGpuMemory for process in nvml.nvmlDeviceGetGraphicsRunningProcesses_v3(handle)
        }
        assert found == {2210: 611 << 20, 2311: 204 << 20, 4120: None}
        assert nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle) == []
        (sample,) = nvml.nvmlDeviceGetProcessUtilization(handle, 0)
        assert (sample.pid, sample.smUtil, sample.memUtil) == (2210, 5, 2)
        (newer,) = nvml.nvmlDeviceGetProcessesUtilizationInfo(handle, 0)
        assert (newer.pid, newer.smUtil) == (2210, 5)
        with pytest.raises(pynvml.NVMLError_NotFound):
            nvml.nvmlDeviceGetProcessUtilization(handle, sample.timeStamp + 2_000_000)


def test_an_older_library_gives_the_same_processes_by_the_older_call(tmp_path: Path) -> None:
    host = ShimHost("old-driver", tmp_path)
    with host.bound() as nvml:
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(0)
        with pytest.raises(pynvml.NVMLError_FunctionNotFound):
            nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)
        assert [process.pid for process in nvml.nvmlDeviceGetComputeRunningProcesses_v2(handle)] == [7104]


def test_mig_devices(tmp_path: Path) -> None:
    host = ShimHost("a100-mig", tmp_path)
    with host.bound() as nvml:
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(0)
        assert nvml.nvmlDeviceGetMigMode(handle) == [1, 1]
        found = []
        for index in range(nvml.nvmlDeviceGetMaxMigDeviceCount(handle)):
            try:
                mig = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
            except pynvml.NVMLError_NotFound:
                continue
            found.append((nvml.nvmlDeviceGetGpuInstanceId(mig), nvml.nvmlDeviceGetAttributes_v2(mig).memorySizeMB))
            assert nvml.nvmlDeviceIsMigDeviceHandle(mig)
            parent = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(mig)
            assert nvml.nvmlDeviceGetUUID(parent) == host.uuid(0)
            uuid = nvml.nvmlDeviceGetUUID(mig)
            assert nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleByUUID(uuid.encode())) == uuid
        assert found == [(1, 40_192), (3, 19_968), (9, 9_728), (10, 9_728)]
        with pytest.raises(pynvml.NVMLError_NotSupported):
            nvml.nvmlDeviceGetUtilizationRates(handle)


def test_structs_of_a_wrong_version_are_refused(tmp_path: Path) -> None:
    host = ShimHost("h200", tmp_path)
    with host.bound() as nvml:
        nvml.nvmlInit()
        handle = nvml.nvmlDeviceGetHandleByIndex(0)
        with pytest.raises(pynvml.NVMLError) as caught:
            nvml.nvmlDeviceGetMemoryInfo(handle, version=0x01000028)
        assert caught.value.value == pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
        for kind in (nvml.c_nvmlGpuFabricInfo_v2_t, nvml.c_nvmlGpuFabricInfo_v3_t):
            info = kind()
            nvml.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(info))
            assert (info.state, info.healthMask) == (3, 0x1AA)
        assert info.healthSummary == 1
