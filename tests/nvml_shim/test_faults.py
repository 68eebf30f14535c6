"""Each fault that a test can inject, as the real bindings see it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pynvml
import pytest

from tests.nvml_shim.control import MAX_EVENTS, Fault
from tests.nvml_shim.shim_host import ShimHost
from tests.nvml_shim.stuck_file import CannotMount, stuck_file


@pytest.fixture
def host(tmp_path: Path) -> ShimHost:
    return ShimHost("h200", tmp_path / "host")


@pytest.fixture
def nvml(host: ShimHost) -> Any:
    with host.bound() as bound:
        bound.nvmlInit()
        yield bound


def wait_for(condition: Any, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.01)


def test_a_lost_gpu_and_the_others(host: ShimHost, nvml: Any) -> None:
    handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(8)]
    host.control.inject(Fault(device=3, error=15))
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        nvml.nvmlDeviceGetPowerUsage(handles[3])
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        nvml.nvmlDeviceGetHandleByIndex(3)
    with pytest.raises(pynvml.NVMLError_GpuIsLost):
        nvml.nvmlDeviceGetFieldValues(handles[3], [82])
    assert nvml.nvmlDeviceGetCount() == 8
    assert nvml.nvmlDeviceGetPowerUsage(handles[4]) > 0
    host.control.heal()
    assert nvml.nvmlDeviceGetPowerUsage(handles[3]) > 0


def test_single_calls_single_arguments_and_single_fields(host: ShimHost, nvml: Any) -> None:
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    host.control.inject(
        Fault(function="nvmlDeviceGetPower*", error=4),
        Fault(function="nvmlDeviceGetClockInfo", arguments="2", error=999),
        Fault(function="nvmlDeviceGetFieldValues", arguments="138/3", error=3),
    )
    with pytest.raises(pynvml.NVMLError_NoPermission):
        nvml.nvmlDeviceGetPowerUsage(handle)
    with pytest.raises(pynvml.NVMLError_Unknown):
        nvml.nvmlDeviceGetClockInfo(handle, 2)
    assert nvml.nvmlDeviceGetClockInfo(handle, 1) > 0
    found = nvml.nvmlDeviceGetFieldValues(handle, [(138, 2), (138, 3), 82])
    assert [value.nvmlReturn for value in found] == [0, 3, 0]


def test_every_third_call_fails(host: ShimHost, nvml: Any) -> None:
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    host.control.inject(Fault(function="nvmlDeviceGetPowerUsage", error=999, one_in=3))
    found = []
    for _ in range(9):
        try:
            nvml.nvmlDeviceGetPowerUsage(handle)
            found.append(True)
        except pynvml.NVMLError_Unknown:
            found.append(False)
    assert found == [True, True, False] * 3


def test_sentinels_in_place_of_values(host: ShimHost, nvml: Any) -> None:
    handle = nvml.nvmlDeviceGetHandleByIndex(1)
    host.control.answer(1, "nvmlDeviceGetUtilizationRates", {"gpu": 2**32 - 1})
    host.control.answer(1, "nvmlDeviceGetTotalEnergyConsumption", 2**63)
    host.control.answer(
        1, "nvmlDeviceGetFieldValues", {"82": {"mean": 2**47}, "186": {"mean": float("nan"), "type": "double"}}
    )
    found = nvml.nvmlDeviceGetUtilizationRates(handle)
    assert found.gpu == 2**32 - 1
    assert found.memory < 100
    assert nvml.nvmlDeviceGetTotalEnergyConsumption(handle) == 2**63
    hot, power = nvml.nvmlDeviceGetFieldValues(handle, [82, 186])
    assert hot.value.ullVal == 2**47
    assert power.value.dVal != power.value.dVal
    host.control.heal()
    assert nvml.nvmlDeviceGetUtilizationRates(handle).gpu <= 100


def test_a_slow_call_and_the_count_of_calls(host: ShimHost, nvml: Any) -> None:
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    host.control.inject(Fault(device=0, function="nvmlDeviceGetPowerUsage", slow=0.2))
    began = time.monotonic()
    nvml.nvmlDeviceGetPowerUsage(handle)
    assert time.monotonic() - began >= 0.2
    nvml.nvmlDeviceGetPowerUsage(nvml.nvmlDeviceGetHandleByIndex(1))
    assert host.control.calls("nvmlDeviceGetPowerUsage") == 2


def test_empty_buffers_and_lists(host: ShimHost, nvml: Any) -> None:
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    host.control.inject(Fault(empty=True))
    assert nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle) == []
    with pytest.raises(pynvml.NVMLError) as caught:
        nvml.nvmlDeviceGetProcessUtilization(handle, 0)
    assert caught.value.value == 0
    with pytest.raises(pynvml.NVMLError_NotFound):
        nvml.nvmlDeviceGetSamples(handle, 1, 0)


def test_a_process_struct_of_another_size(host: ShimHost, nvml: Any) -> None:
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    many = [{"pid": 100 + number, "usedGpuMemory": 1 << 30} for number in range(4)]
    host.control.answer(0, "nvmlDeviceGetComputeRunningProcesses_v3", many)
    right = [process.pid for process in nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)]
    host.control.grow_processes(32)
    wrong = [process.pid for process in nvml.nvmlDeviceGetComputeRunningProcesses_v3(handle)]
    assert right == [100, 101, 102, 103]
    assert wrong != right
    assert len(wrong) == 4


def test_the_driver_goes_and_comes_again(host: ShimHost, nvml: Any) -> None:
    handle = nvml.nvmlDeviceGetHandleByIndex(0)
    host.control.unload_driver()
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        nvml.nvmlDeviceGetPowerUsage(handle)
    with pytest.raises(pynvml.NVMLError_DriverNotLoaded):
        nvml.nvmlInit()
    host.control.unload_driver(18)
    with pytest.raises(pynvml.NVMLError_LibRmVersionMismatch):
        nvml.nvmlInit()
    host.control.load_driver(stale=2)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        nvml.nvmlDeviceGetPowerUsage(handle)
    nvml.nvmlInit()
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        nvml.nvmlDeviceGetPowerUsage(handle)
    assert nvml.nvmlDeviceGetPowerUsage(nvml.nvmlDeviceGetHandleByIndex(0)) > 0


def test_a_reset_makes_the_handles_of_one_gpu_stale(host: ShimHost, nvml: Any) -> None:
    handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(2)]
    host.control.reset_gpu(0)
    with pytest.raises(pynvml.NVMLError_InvalidArgument):
        nvml.nvmlDeviceGetPowerUsage(handles[0])
    assert nvml.nvmlDeviceGetPowerUsage(handles[1]) > 0
    assert nvml.nvmlDeviceGetPowerUsage(nvml.nvmlDeviceGetHandleByUUID(host.uuid(0).encode())) > 0


def test_a_gpu_that_is_taken_away_moves_the_others_up(host: ShimHost, nvml: Any) -> None:
    host.control.remove_gpu(2)
    assert nvml.nvmlDeviceGetCount() == 7
    third = nvml.nvmlDeviceGetHandleByIndex(2)
    assert nvml.nvmlDeviceGetUUID(third) == host.uuid(3)
    assert nvml.nvmlDeviceGetIndex(third) == 2
    with pytest.raises(pynvml.NVMLError_NotFound):
        nvml.nvmlDeviceGetHandleByUUID(host.uuid(2).encode())
    host.control.add_gpu(2)
    assert nvml.nvmlDeviceGetUUID(nvml.nvmlDeviceGetHandleByIndex(2)) == host.uuid(2)


def test_mig_is_switched_on_and_off(host: ShimHost, nvml: Any) -> None:
    handle = nvml.nvmlDeviceGetHandleByIndex(7)
    assert nvml.nvmlDeviceGetMigMode(handle) == [0, 0]
    with pytest.raises(pynvml.NVMLError_NotFound):
        nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, 0)
    host.control.switch_mig(7, on=True)
    assert nvml.nvmlDeviceGetMigMode(handle) == [1, 1]
    mig = nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, 0)
    with pytest.raises(pynvml.NVMLError_NotSupported):
        nvml.nvmlDeviceGetUtilizationRates(handle)
    first, second = nvml.nvmlGpmSampleAlloc(), nvml.nvmlGpmSampleAlloc()
    nvml.nvmlGpmMigSampleGet(handle, 1, first)
    nvml.nvmlGpmMigSampleGet(handle, 1, second)
    host.control.switch_mig(7, on=None)
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        nvml.nvmlDeviceGetMemoryInfo(mig)
    assert nvml.nvmlDeviceGetUtilizationRates(handle).gpu > 0


# ---- events ---------------------------------------------------------------------------------------------------------


def drained(nvml: Any, events: Any) -> list[int]:
    found = []
    while True:
        try:
            found.append(nvml.nvmlEventSetWait_v2(events, 1).eventData)
        except pynvml.NVMLError_Timeout:
            return found


def listening(nvml: Any, devices: int = 8) -> Any:
    events = nvml.nvmlEventSetCreate()
    for index in range(devices):
        nvml.nvmlDeviceRegisterEvents(
            nvml.nvmlDeviceGetHandleByIndex(index), nvml.nvmlEventTypeXidCriticalError, events
        )
    return events


def test_events_come_once_and_only_after_registration(host: ShimHost, nvml: Any) -> None:
    host.control.xid(0, 13)
    events = listening(nvml)
    host.control.xid(2, 48)
    host.control.event(2, 4, 1)  # of a kind that was not asked for
    host.control.xid(5, 79)
    first = nvml.nvmlEventSetWait_v2(events, 1000)
    assert (first.eventData, first.eventType) == (48, 8)
    assert nvml.nvmlDeviceGetUUID(first.device) == host.uuid(2)
    assert drained(nvml, events) == [79]
    host.control.xid(0, 79)
    assert drained(nvml, events) == [79]
    nvml.nvmlEventSetFree(events)


def test_a_flood_of_events_keeps_the_newest(host: ShimHost, nvml: Any) -> None:
    events = listening(nvml)
    for number in range(MAX_EVENTS + 40):
        host.control.xid(0, number)
    assert drained(nvml, events) == list(range(40, MAX_EVENTS + 40))


def test_waiting_for_events_ends_when_the_driver_goes(host: ShimHost, nvml: Any) -> None:
    events = listening(nvml)
    host.control.unload_driver()
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        nvml.nvmlEventSetWait_v2(events, 10_000)


# ---- calls that do not return ---------------------------------------------------------------------------------------

_ASK = (
    "import ctypes, sys; ctypes.CDLL(sys.argv[1]); import pynvml as n; n.nvmlInit();"
    "h = n.nvmlDeviceGetHandleByIndex(0); print('ready', flush=True); sys.stdin.readline(); n.nvmlDeviceGetPowerUsage(h)"
)


def asking(host: ShimHost) -> subprocess.Popen[bytes]:
    """A process that asks for the power of the first GPU, and hangs in it."""
    process = subprocess.Popen(
        [sys.executable, "-c", _ASK, str(host.library)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == b"ready\n"
    process.stdin.write(b"go\n")
    process.stdin.flush()
    wait_for(lambda: host.control.hanging)
    return process


def state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_call_that_sleeps_for_ever_ends_with_its_process(host: ShimHost) -> None:
    host.control.inject(Fault(device=0, function="nvmlDeviceGetPowerUsage", hang="asleep"))
    process = asking(host)
    assert process.poll() is None
    process.terminate()
    assert process.wait(60) == -signal.SIGTERM


def test_a_deaf_call_ends_by_sigkill_only(host: ShimHost) -> None:
    host.control.inject(Fault(device=0, function="nvmlDeviceGetPowerUsage", hang="deaf"))
    process = asking(host)
    process.terminate()
    time.sleep(0.2)
    assert process.poll() is None
    process.kill()
    assert process.wait(60) == -signal.SIGKILL


def test_a_call_held_by_the_kernel_survives_sigkill(host: ShimHost, tmp_path: Path) -> None:
    try:
        with stuck_file(tmp_path / "mount") as path:
            host.control.inject(Fault(device=0, function="nvmlDeviceGetPowerUsage", block=str(path)))
            process = asking(host)
            wait_for(lambda: state(process.pid) in "SD")
            time.sleep(0.1)
            process.kill()
            wait_for(lambda: state(process.pid) == "D")
            time.sleep(0.2)
            assert process.poll() is None
    except CannotMount as error:
        pytest.skip(f"no process can be made unkillable here: {error}")
    assert process.wait(60) == -signal.SIGKILL
