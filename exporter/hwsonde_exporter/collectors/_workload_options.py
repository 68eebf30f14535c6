"""What may be configured about workloads, and its defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class WorkloadOptions:
    """Bounds and thresholds.

    Attributes
    ----------
    limit
        Greatest number of workloads. A workload has up to 40 series, so that 48 stay below the series limit of a collector.
    minimum_cpu_seconds, minimum_memory_bytes
        What a user's sessions, a service or a plain cgroup must have used, either of both, to be a workload. Jobs and
        containers always are.
    tasks
        Threads that are looked at in one reading, 0 for none.
    user_names
        Whether the label ``user`` gives names; it gives nothing otherwise.
    """

    limit: int = 48
    minimum_cpu_seconds: float = 60.0
    minimum_memory_bytes: int = 256 << 20
    tasks: int = 512
    user_names: bool = False

    @staticmethod
    def of(options: Mapping[str, Any]) -> WorkloadOptions:
        """Take what is given under ``collector.workload.*``, and the defaults for the rest."""
        default = WorkloadOptions()
        return WorkloadOptions(
            limit=options.get("collector.workload.limit", default.limit),
            minimum_cpu_seconds=options.get("collector.workload.minimum-cpu-seconds", default.minimum_cpu_seconds),
            minimum_memory_bytes=options.get("collector.workload.minimum-memory-bytes", default.minimum_memory_bytes),
            tasks=options.get("collector.workload.tasks", default.tasks),
            user_names=options.get("collector.workload.user-names", default.user_names),
        )
