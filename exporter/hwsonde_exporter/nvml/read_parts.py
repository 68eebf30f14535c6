"""Who uses a GPU, and into what it is cut: processes and MIG instances. Functions of the worker."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any

from hwsonde_exporter.nvml.gpu import NOTHING, Gpu, Row
from hwsonde_exporter.nvml.read_gpm import instance_activity

PROCESS_TYPES = (("compute", "Compute"), ("graphics", "Graphics"), ("mps", "MPSCompute"))
# The structure of a process grew without a new name, so a library may fill in another one than the binding reads.
_LAYOUTS = ("v3", "v2")
_MAX_PID = 1 << 22
_MAX_PROCESSES = 1024
_MAX_MEMORY = 1 << 44
_MAX_INSTANCES = 64
# The library takes a sample of each process once in this time at least.
_PERIOD_SECONDS = 2.0


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
    for pid, (share, busy) in _utilization(gpu, present).items():
        yield "process_sm_utilization_ratio", (str(pid),), share
        yield "process_memory_busy_ratio", (str(pid),), busy


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


def _utilization(gpu: Gpu, present: Collection[int]) -> dict[int, tuple[int, int]]:
    """How much each process computed and used memory since the last reading, in percent.

    The library tells only of those that did something in its last sample period. So a process that it does not tell of was idle,
    on a GPU of which it has ever told anything.
    """
    nvml, handle = gpu.nvml, gpu.handle
    last = gpu.memory.get("processes_seen", 0)
    samples = gpu.first(
        (
            "nvmlDeviceGetProcessesUtilizationInfo",
            lambda: _or_nothing(gpu, nvml.nvmlDeviceGetProcessesUtilizationInfo, handle, last),
        ),
        (
            "nvmlDeviceGetProcessUtilization",
            lambda: _or_nothing(gpu, nvml.nvmlDeviceGetProcessUtilization, handle, last),
        ),
    )
    if samples is None:
        return {}
    newest: dict[int, Any] = {}
    for sample in samples[:_MAX_PROCESSES]:
        # Places of the buffer that were never written to hold process 0.
        if 0 < sample.pid <= _MAX_PID and sample.timeStamp > last:
            known = newest.get(sample.pid)
            if known is None or known.timeStamp <= sample.timeStamp:
                newest[sample.pid] = sample
    if newest:
        gpu.memory["processes_seen"] = max(sample.timeStamp for sample in newest.values())
    if "processes_seen" not in gpu.memory:
        return {}
    now = gpu.library.clock()
    used: dict[int, tuple[float, tuple[int, int]]] = gpu.memory.get("processes_used", {})
    used |= {pid: (now, (sample.smUtil, sample.memUtil)) for pid, sample in newest.items()}
    found: dict[int, tuple[int, int]] = {}
    kept: dict[int, tuple[float, tuple[int, int]]] = {}
    for pid in sorted({*present, *newest}):
        found[pid] = (0, 0)
        # The library may not have taken another sample since.
        if pid in used and now - used[pid][0] < _PERIOD_SECONDS:
            kept[pid], found[pid] = used[pid], used[pid][1]
    gpu.memory["processes_used"] = kept
    return found


def _or_nothing(gpu: Gpu, function: Callable[..., list[Any]], *arguments: object) -> list[Any]:
    """Result of a function; nothing where the library says that there is nothing to tell."""
    try:
        return function(*arguments)
    except Exception as error:
        if gpu.library.error_name(error) in NOTHING:
            return []
        raise


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
        part = gpu.ask("nvmlDeviceGetMigDeviceHandleByIndex", place, key=place)
        if part is not None:
            yield from _instance(gpu, part, place, seen)
    yield from instance_activity(gpu, seen)


def _instance(gpu: Gpu, part: Any, place: int, seen: set[int]) -> Iterator[Row]:  # noqa: ANN401  (as the binding)
    nvml = gpu.nvml
    # What one part refuses, in a container that was given another one, says nothing of the others nor of the whole.
    key = ("part", place)
    instance = gpu.call("nvmlDeviceGetGpuInstanceId", lambda: nvml.nvmlDeviceGetGpuInstanceId(part), key=key)
    if instance is None:
        return
    uuid = gpu.call("nvmlDeviceGetUUID", lambda: nvml.nvmlDeviceGetUUID(part), key=key) or ""
    compute = gpu.call("nvmlDeviceGetComputeInstanceId", lambda: nvml.nvmlDeviceGetComputeInstanceId(part), key=key)
    name = gpu.call("nvmlDeviceGetName", lambda: nvml.nvmlDeviceGetName(part), key=key) or ""
    # The name is that of the board, "MIG" and the profile: NVIDIA A100-SXM4-80GB MIG 3g.40gb.
    profile = name.rpartition(" MIG ")[2] if " MIG " in name else ""
    yield "mig_info", (uuid, str(instance), "" if compute is None else str(compute), profile), 1
    if instance in seen:
        return
    seen.add(instance)
    attributes = gpu.call("nvmlDeviceGetAttributes_v2", lambda: nvml.nvmlDeviceGetAttributes_v2(part), key=key)
    if attributes is not None:
        yield "mig_multiprocessors", (str(instance),), attributes.multiprocessorCount
    memory = gpu.call("nvmlDeviceGetMemoryInfo", lambda: nvml.nvmlDeviceGetMemoryInfo(part), key=key)
    if memory is not None:
        yield "mig_memory_size_bytes", (str(instance),), memory.total
        yield "mig_memory_used_bytes", (str(instance),), memory.used
