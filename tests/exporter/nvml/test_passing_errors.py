"""Errors that pass: a reading that fails for once is missing for once, and nothing else takes its place."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from hwsonde_exporter.nvml.groups import GROUPS
from tests.exporter.nvml.fakes import Clock, fields_of, gpu_of, raises
from tests.exporter.nvml.test_readings import Gpm, Mig, process, table

NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND, UNKNOWN = (
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_NO_PERMISSION,
    pynvml.NVML_ERROR_NOT_FOUND,
    pynvml.NVML_ERROR_UNKNOWN,
)
FIELDS = "nvmlDeviceGetFieldValues"


# ---- two ways to the same --------------------------------------------------------------------------------------------


def test_memory_does_not_jump_to_the_older_measure_for_one_reading() -> None:
    """The older call counts what the driver reserves as used."""
    newer = SimpleNamespace(total=100, reserved=5, used=40, free=55)
    older = SimpleNamespace(total=100, used=45, free=55)
    failing: list[bool] = []

    def memory(_: object, version: object = None) -> Any:
        if version is None:
            return older
        return raises(UNKNOWN)() if failing else newer

    gpu = gpu_of(nvmlDeviceGetMemoryInfo=memory)
    assert table(GROUPS["memory"](gpu))["memory_used_bytes",] == 40
    failing.append(True)
    assert table(GROUPS["memory"](gpu)) == {}
    failing.clear()
    assert table(GROUPS["memory"](gpu))["memory_used_bytes",] == 40


def test_a_newer_call_that_never_answered_does_not_hide_the_older() -> None:
    older = SimpleNamespace(total=100, used=45, free=55)
    gpu = gpu_of(nvmlDeviceGetMemoryInfo=lambda _, version=None: older if version is None else raises(UNKNOWN)())
    for _ in range(2):
        assert table(GROUPS["memory"](gpu))["memory_used_bytes",] == 45


PCIE = (pynvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER, 0)
AVERAGE = (pynvml.NVML_FI_DEV_POWER_AVERAGE, pynvml.NVML_POWER_SCOPE_GPU)
SENT = (pynvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, 0)


@pytest.mark.parametrize(
    ("group", "field", "function", "reading"),
    [
        ("pcie", PCIE, "nvmlDeviceGetPcieReplayCounter", ("pcie_replays_total",)),
        ("power", AVERAGE, "nvmlDeviceGetPowerUsage", ("power_average_watts",)),
    ],
)
def test_a_field_that_fails_for_once_is_not_replaced_by_another_counter(
    group: str, field: tuple[int, int], function: str, reading: tuple[str, ...]
) -> None:
    gpu = gpu_of(**{FIELDS: fields_of({field: (1, 7)}), function: 1000})
    assert table(GROUPS[group](gpu))[reading] == 7
    gpu.nvml.functions[FIELDS] = raises(UNKNOWN)
    assert reading not in table(GROUPS[group](gpu))
    gpu.nvml.functions[FIELDS] = fields_of({field: (1, 8)})
    assert table(GROUPS[group](gpu))[reading] == 8
    # What the GPU says that it does not have any more, the older call has to tell.
    gpu.nvml.functions[FIELDS] = fields_of({})
    assert table(GROUPS[group](gpu))[reading] == 1000


def test_the_throughput_of_a_window_does_not_appear_when_the_counters_fail_for_once() -> None:
    gpu = gpu_of(**{FIELDS: fields_of({SENT: (3, 7)}), "nvmlDeviceGetPcieThroughput": 9})
    assert table(GROUPS["pcie_throughput"](gpu)) == {}
    gpu.nvml.functions[FIELDS] = raises(UNKNOWN)
    assert table(GROUPS["pcie_throughput"](gpu)) == {}
    without = gpu_of(nvmlDeviceGetPcieThroughput=9)
    assert len(table(GROUPS["pcie_throughput"](without))) == 2


def test_bytes_of_a_link_do_not_jump_to_the_other_counter() -> None:
    four = {(pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, 0): (3, 10)}
    five = {(pynvml.NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES, 0): (3, 999_999)}
    links = {
        "nvmlDeviceGetNvLinkState": lambda _, link: 1 if link < 1 else raises(pynvml.NVML_ERROR_INVALID_ARGUMENT)()
    }
    gpu = gpu_of(**links, **{FIELDS: fields_of(four | five)})
    wanted = {("nvlink_bytes_total", "0", "transmit"): 10_240}
    assert table(GROUPS["nvlink"](gpu)) == wanted
    gpu.nvml.functions[FIELDS] = raises(UNKNOWN)
    assert table(GROUPS["nvlink"](gpu)) == {}
    gpu.nvml.functions[FIELDS] = fields_of(four | five)
    assert table(GROUPS["nvlink"](gpu)) == wanted


# ---- parts and processes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [NO_PERMISSION, NOT_SUPPORTED])
def test_what_one_part_refuses_is_asked_of_the_others_and_of_the_whole(code: int) -> None:
    """In a container that was given one MIG device the others may not be asked."""
    functions = Mig().functions()
    own = {name: functions[name] for name in ("nvmlDeviceGetMemoryInfo", "nvmlDeviceGetName", "nvmlDeviceGetUUID")}

    def only_five(name: str) -> Any:
        def answer(part: Any, version: object = None) -> Any:
            if not isinstance(part, tuple):
                return SimpleNamespace(total=1000, used=10, free=990) if name.endswith("MemoryInfo") else "whole"
            return own[name](part) if part[0] == 5 else raises(code)()

        return answer

    gpu = gpu_of(**(functions | {name: only_five(name) for name in own}))
    for _ in range(2):
        rows = table(GROUPS["mig"](gpu))
        assert rows["mig_memory_used_bytes", "5"] == 5
        assert ("mig_memory_used_bytes", "1") not in rows
        assert ("mig_info", "MIG-5-0", "5", "0", "3g.40gb") in rows
    assert table(GROUPS["memory"](gpu))["memory_used_bytes",] == 10
    assert next(iter(table(GROUPS["identity"](gpu))))[1] == "whole"


class Processes:
    """A GPU with processes 7 and 8, of which the library tells how busy they were while they were."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.samples: list[Any] = []
        self.gpu = gpu_of(
            self.clock,
            nvmlDeviceGetComputeRunningProcesses_v3=[process(7, 100), process(8, 100)],
            nvmlDeviceGetProcessUtilization=self.tell,
        )

    def tell(self, _: object, last: int) -> Any:
        found = [sample for sample in self.samples if sample.timeStamp > last]
        return found or raises(NOT_FOUND)()

    def busy(self, pid: int, share: int) -> None:
        time = int(self.clock.now * 1e6)
        self.samples.append(SimpleNamespace(pid=pid, timeStamp=time, smUtil=share, memUtil=share // 2))

    def look(self, seconds: float) -> dict[str, float]:
        self.clock.now += seconds
        rows = table(GROUPS["processes"](self.gpu))
        assert not self.gpu.library.errors
        return {labels[1]: value for labels, value in rows.items() if labels[0] == "process_sm_utilization_ratio"}


def test_a_process_that_does_nothing_is_idle_and_not_gone() -> None:
    bench = Processes()
    assert bench.look(5.0) == {}, "of a GPU that tells of nobody nobody knows"
    bench.busy(7, 90)
    assert bench.look(5.0) == {"7": 90, "8": 0}
    bench.busy(8, 20)
    assert bench.look(5.0) == {"7": 0, "8": 20}
    assert bench.look(5.0) == {"7": 0, "8": 0}


def test_a_look_too_early_for_another_sample_finds_what_the_last_one_found() -> None:
    bench = Processes()
    bench.busy(7, 90)
    bench.look(1.0)
    assert bench.look(0.2) == {"7": 90, "8": 0}
    bench.busy(8, 40)
    assert bench.look(0.5) == {"7": 90, "8": 40}
    assert bench.look(1.6) == {"7": 0, "8": 40}
    assert bench.look(1.0) == {"7": 0, "8": 0}


def test_a_process_that_has_ended_is_not_remembered() -> None:
    bench = Processes()
    bench.busy(7, 90)
    bench.look(1.0)
    bench.gpu.nvml.functions["nvmlDeviceGetComputeRunningProcesses_v3"] = [process(8, 100)]
    assert bench.look(0.2) == {"8": 0}
    assert bench.gpu.memory["processes_used"] == {}


# ---- buffers of the library ----------------------------------------------------------------------------------------


def test_a_look_that_comes_too_early_tells_the_same_again_until_it_is_due() -> None:
    clock = Clock()
    library = Gpm(clock)
    gpu = gpu_of(clock, **library.functions())
    table(GROUPS["gpm"](gpu))
    clock.now += 1.0
    rows = table(GROUPS["gpm"](gpu))
    assert rows
    taken = dict(library.taken)
    clock.now += 0.4
    assert table(GROUPS["gpm"](gpu)) == rows
    assert library.taken == taken
    gpu.nvml.functions["nvmlGpmSampleGet"] = raises(UNKNOWN)
    clock.now += 0.6
    assert table(GROUPS["gpm"](gpu)) == {}
    clock.now += 0.1
    assert table(GROUPS["gpm"](gpu)) == {}


def test_the_state_of_the_fabric_is_one_byte_whatever_stands_beside_it() -> None:
    def fill(_: object, structure: Any) -> None:
        structure._obj.state = 0xABCDEF03
        structure._obj.status = 0

    rows = table(GROUPS["fabric"](gpu_of(nvmlDeviceGetGpuFabricInfoV=fill)))
    assert (rows["fabric_state",], rows["fabric_status",]) == (3, 0)


def test_a_link_whose_state_fails_for_once_keeps_its_bytes() -> None:
    failing: list[int] = []

    def state(_: object, link: int) -> Any:
        if link in failing:
            return raises(UNKNOWN)()
        return 1 if link < 2 else raises(pynvml.NVML_ERROR_INVALID_ARGUMENT)()

    sent = {(pynvml.NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, link): (3, 10) for link in range(2)}
    gpu = gpu_of(nvmlDeviceGetNvLinkState=state, **{FIELDS: fields_of(sent)})
    assert {labels for labels in table(GROUPS["nvlink_health"](gpu)) if labels[0] == "nvlink_up"} == {
        ("nvlink_up", "0"),
        ("nvlink_up", "1"),
    }
    failing.append(1)
    # What is not known is not told, and what does not depend on it is.
    assert table(GROUPS["nvlink_health"](gpu)) == {("nvlink_up", "0"): 1}
    assert len(table(GROUPS["nvlink"](gpu))) == 2
    failing.clear()
    assert table(GROUPS["nvlink_health"](gpu)) == {("nvlink_up", "0"): 1, ("nvlink_up", "1"): 1}
