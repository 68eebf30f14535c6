"""What the metrics of processes and of MIG devices should be; see expected.py."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.exporter.nvml_hosts.told import Rows, Told

TYPES_OF_PROCESSES = {"compute": "Compute", "graphics": "Graphics", "mps": "MPSCompute"}


def processes(told: Told, kind: str) -> list[dict[str, Any]] | None:
    """Processes of a kind; an older library has the same list under an older name."""
    found: list[dict[str, Any]] | None = told.calls.get(f"nvmlDeviceGet{kind}RunningProcesses_v3")
    return found


def process_memory(told: Told) -> Rows:
    used: dict[int, int] = {}
    for kind in TYPES_OF_PROCESSES.values():
        for process in processes(told, kind) or ():
            if process["usedGpuMemory"] is not None:
                used[process["pid"]] = max(used.get(process["pid"], 0), process["usedGpuMemory"])
    for pid, value in used.items():
        yield {"pid": str(pid)}, value


def process_share(field: str) -> Callable[[Told], Rows]:
    """Shares of the processes that the library tells of, and 0 of the others that are there: those did nothing."""

    def rows(told: Told) -> Rows:
        shares = {
            process["pid"]: process[field] / 100 for process in told.answer("nvmlDeviceGetProcessUtilization") or ()
        }
        present = {process["pid"] for kind in TYPES_OF_PROCESSES.values() for process in processes(told, kind) or ()}
        for pid in present if shares else ():
            yield {"pid": str(pid)}, shares.get(pid, 0.0)

    return rows


def mig_rows(name: str, parts: list[Told]) -> Rows:
    """Rows of a metric of MIG devices, one for each GPU instance."""
    for part in parts:
        instance = {"gpu_instance": str(part.get("GpuInstanceId"))}
        if name == "mig_info":
            profile = part.answer("nvmlDeviceGetName").rpartition(" MIG ")[2]
            compute = str(part.get("ComputeInstanceId"))
            yield (
                {
                    **instance,
                    "mig_uuid": part.answer("nvmlDeviceGetUUID"),
                    "compute_instance": compute,
                    "profile": profile,
                },
                1,
            )
            continue
        value = {
            "mig_multiprocessors": part.get("Attributes_v2", None, "multiprocessorCount"),
            "mig_memory_size_bytes": part.get("MemoryInfo", None, "total"),
            "mig_memory_used_bytes": part.get("MemoryInfo", None, "used"),
            "mig_sm_active_ratio": (part.number("nvmlGpmMetricsGet", "2") or 0) / 100 or None,
        }[name]
        if value is not None:
            yield instance, value


MIG = ("mig_info", "mig_multiprocessors", "mig_memory_size_bytes", "mig_memory_used_bytes", "mig_sm_active_ratio")
