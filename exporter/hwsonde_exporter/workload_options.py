"""What may be configured of workloads, and its defaults."""

from __future__ import annotations

from dataclasses import dataclass


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
    gpu_process_names
        Whether names of programs and of their users are told of processes on GPUs.
    """

    limit: int = 48
    minimum_cpu_seconds: float = 60.0
    minimum_memory_bytes: int = 256 << 20
    tasks: int = 512
    user_names: bool = False
    gpu_process_names: bool = False
