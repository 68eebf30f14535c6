"""Who uses a GPU, and into what it is cut: processes and MIG instances. Functions of the worker."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hwsonde_exporter.nvml.gpu import Gpu, Row
from hwsonde_exporter.nvml.read_gpm import instance_activity

PROCESS_TYPES = (("compute", "Compute"), ("graphics", "Graphics"), ("mps", "MPSCompute"))
# The structure of a process grew without a new name, so a library may fill in another one than the binding reads.
_LAYOUTS = ("v3", "v2")
_MAX_PID = 1 << 22
_MAX_PROCESSES = 1024
_MAX_MEMORY = 1 << 44
_MAX_INSTANCES = 64


def processes(gpu: Gpu) -> Iterator[Row]:
    """Processes with a context, the memory that each has, and how much each computed."""
    memory: dict[int, int] = {}
    present: set[int] = set()
    for label, name in PROCESS_TYPES:
        found = _listed(gpu, name)
        if found is None:
            continue
        yield "processes", (label,), len({process.pid for process in found})
        taken: dict[int, int] = {}
        for process in found[:_MAX_PROCESSES]:
            present.add(process.pid)
            if process.usedGpuMemory is not None:
                # On a GPU that is cut up a process is listed once for each part that it uses.
                taken[process.pid] = taken.get(process.pid, 0) + process.usedGpuMemory
        for pid, used in taken.items():
            # One that computes and draws is in two lists with the same memory.
            memory[pid] = max(memory.get(pid, 0), used)
    for pid in sorted(present):
        yield "process", (str(pid),), 1
    for pid, used in memory.items():
        yield "process_memory_bytes", (str(pid),), used
    for sample in _utilization(gpu).values():
        yield "process_sm_utilization_ratio", (str(sample.pid),), sample.smUtil
        yield "process_memory_busy_ratio", (str(sample.pid),), sample.memUtil


def _listed(gpu: Gpu, name: str) -> list[Any] | None:
    """Processes of one type, by the first layout of the structure under which they make sense."""
    for layout in _LAYOUTS:
        function = f"nvmlDeviceGet{name}RunningProcesses_{layout}"
        if (name, layout) in gpu.memory.setdefault("senseless", set()):
            continue
        found: list[Any] | None = gpu.ask(function)
        if found is None:
            continue
        if all(_sensible(process) for process in found):
            return found
        gpu.memory["senseless"].add((name, layout))
        gpu.library.count("layout")
    return None


def _sensible(process: Any) -> bool:  # noqa: ANN401  (as the binding)
    used = process.usedGpuMemory
    return 0 < process.pid <= _MAX_PID and (used is None or 0 <= used < _MAX_MEMORY)


def _utilization(gpu: Gpu) -> dict[int, Any]:
    """Newest sample of each process since the last reading."""
    nvml, handle = gpu.nvml, gpu.handle
    last = gpu.memory.get("processes_seen", 0)
    samples = gpu.first(
        (
            "nvmlDeviceGetProcessesUtilizationInfo",
            lambda: nvml.nvmlDeviceGetProcessesUtilizationInfo(handle, last),
        ),
        ("nvmlDeviceGetProcessUtilization", lambda: nvml.nvmlDeviceGetProcessUtilization(handle, last)),
    )
    newest: dict[int, Any] = {}
    for sample in (samples or [])[:_MAX_PROCESSES]:
        # Places of the buffer that were never written to hold process 0.
        if 0 < sample.pid <= _MAX_PID and sample.timeStamp > last:
            kept = newest.get(sample.pid)
            if kept is None or kept.timeStamp <= sample.timeStamp:
                newest[sample.pid] = sample
    if newest:
        gpu.memory["processes_seen"] = max(sample.timeStamp for sample in newest.values())
    return newest


def mig(gpu: Gpu) -> Iterator[Row]:
    """Whether the GPU is cut up, its parts, and the memory and activity of each."""
    modes = gpu.ask("nvmlDeviceGetMigMode")
    if modes is None:
        return
    if modes[0] != gpu.memory.get("mig", modes[0]):
        # What a whole GPU has and a cut one has not is asked for anew.
        gpu.forget()
    gpu.memory["mig"] = modes[0]
    yield "mig_enabled", ("current",), modes[0]
    yield "mig_enabled", ("pending",), modes[1]
    if modes[0] != 1:
        return
    count = gpu.ask("nvmlDeviceGetMaxMigDeviceCount") or 0
    seen: set[int] = set()
    for place in range(min(count, _MAX_INSTANCES)):
        part = gpu.ask("nvmlDeviceGetMigDeviceHandleByIndex", place)
        if part is not None:
            yield from _instance(gpu, part, seen)
    yield from instance_activity(gpu, seen)


def _instance(gpu: Gpu, part: Any, seen: set[int]) -> Iterator[Row]:  # noqa: ANN401  (as the binding)
    nvml = gpu.nvml
    instance = gpu.call("nvmlDeviceGetGpuInstanceId", lambda: nvml.nvmlDeviceGetGpuInstanceId(part))
    if instance is None:
        return
    uuid = gpu.call("nvmlDeviceGetUUID", lambda: nvml.nvmlDeviceGetUUID(part)) or ""
    compute = gpu.call("nvmlDeviceGetComputeInstanceId", lambda: nvml.nvmlDeviceGetComputeInstanceId(part))
    name = gpu.call("nvmlDeviceGetName", lambda: nvml.nvmlDeviceGetName(part)) or ""
    # The name is that of the board, "MIG" and the profile: NVIDIA A100-SXM4-80GB MIG 3g.40gb.
    profile = name.rpartition(" MIG ")[2] if " MIG " in name else ""
    yield "mig_info", (uuid, str(instance), "" if compute is None else str(compute), profile), 1
    if instance in seen:
        return
    seen.add(instance)
    attributes = gpu.call("nvmlDeviceGetAttributes_v2", lambda: nvml.nvmlDeviceGetAttributes_v2(part))
    if attributes is not None:
        yield "mig_multiprocessors", (str(instance),), attributes.multiprocessorCount
    memory = gpu.call("nvmlDeviceGetMemoryInfo", lambda: nvml.nvmlDeviceGetMemoryInfo(part))
    if memory is not None:
        yield "mig_memory_size_bytes", (str(instance),), memory.total
        yield "mig_memory_used_bytes", (str(instance),), memory.used
