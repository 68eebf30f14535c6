"""Processes on NVIDIA's GPUs: memory and use of each, and which jobs, pods and services hold which GPU."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import ClassVar

from hwsonde_exporter.collectors._files import read_once_or_none
from hwsonde_exporter.collectors._gpu_collector import GpuReadings, metrics_of
from hwsonde_exporter.collectors._gpu_owners import (
    Owner,
    Owners,
    checkpoint_path,
    holders,
    pod_workload,
    read_allocations,
)
from hwsonde_exporter.collectors._gpu_parts_table import PROCESSES
from hwsonde_exporter.collectors._gpu_rows import Row, by_reading
from hwsonde_exporter.collectors._workload_pods import parse_passwd, read_pod_names
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.nvml.answer import Answer, Device
from hwsonde_exporter.registry import register

# Up to four series each, so that they stay below the limit of a collector beside those of other hosts' jobs.
MOST_PROCESSES = 256
MOST_HELD = 512

_PID = re.compile(r"[0-9]{1,8}", re.ASCII)
_ROWS = by_reading(PROCESSES)
PROCESS_INFO = Metric(
    "hwsonde_gpu_process_info",
    Kind.GAUGE,
    "Constant 1 labelled with the identity of a process on a GPU; names are told only where an option says so.",
    ("gpu", "uuid", "pid", "process", "user", "workload"),
    "",
    "gpu",
    "pid from nvmlDeviceGetComputeRunningProcesses_v3 and its like; /proc/PID/comm, owner of /proc/PID, /proc/PID/cgroup",
)
LEFT_OUT = Metric(
    "hwsonde_gpu_processes_left_out",
    Kind.GAUGE,
    f"Processes on GPUs without series of their own, since there are more than {MOST_PROCESSES}.",
    (),
    "",
    "gpu",
    "as hwsonde_gpu_process_info",
)
WORKLOAD_GPU = Metric(
    "hwsonde_workload_gpu_info",
    Kind.GAUGE,
    "Constant 1 for each GPU a workload holds; join GPU series to it on uuid, and hwsonde_workload_info on workload.",
    ("workload", "gpu", "uuid"),
    "",
    "workload",
    "processes on the GPU joined with /proc/PID/cgroup; /var/lib/kubelet/device-plugins/kubelet_internal_checkpoint",
)


@register
class GpuProcessCollector(GpuReadings):
    """What each process with a context on a GPU uses, by its number on the host, and whose it is."""

    name: ClassVar[str] = "gpu_process"
    help: ClassVar[str] = "NVIDIA GPUs: memory and use of each process, and which workloads hold which GPU"
    rows: ClassVar[Mapping[str, Row]] = _ROWS
    groups: ClassVar[Collection[str]] = ("processes",)
    nothing: ClassVar[str] = "no GPU tells of processes"
    metrics: ClassVar[tuple[Metric, ...]] = (*metrics_of(_ROWS), PROCESS_INFO, LEFT_OUT, WORKLOAD_GPU)
    period: ClassVar[float | None] = 1.0
    every: ClassVar[float] = 5.0
    pure: ClassVar[bool] = False  # whose a process is changes without it
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host) -> None:
        super().__init__(host)
        self._owners = Owners(host)
        self._users: Mapping[str, str] = {}
        self._stamp: tuple[int, int] | None = None
        self._given: list[tuple[str, str]] = []  # workload and device, by the kubelet

    def probe(self) -> None:
        """Look again whose processes are seen, and what users are called; otherwise as the other collectors of GPUs."""
        names = self.host.workloads().gpu_process_names
        self._owners = Owners(self.host, names=names)
        passwd = read_once_or_none(self.host, self.host.paths.rootfs / "etc" / "passwd") if names else None
        self._users = parse_passwd(passwd) if passwd else {}
        self._stamp = None
        super().probe()

    def samples(self, answer: Answer) -> list[Sample]:
        """Give the samples of an answer, of the processes with the most memory where there are too many."""
        chosen, left_out = _choose(answer.devices)
        devices = [_limited(device, chosen) for device in answer.devices]
        samples = super().samples(replace(answer, devices=tuple(devices)))
        owners = {pid: self._owners.of(int(pid)) for pid in {pid for _, pid in chosen}}
        for device in devices:
            for pid in _pids(device):
                samples.append(Sample(PROCESS_INFO, (device.index, device.uuid, pid, *self._described(owners[pid])), 1))
        samples.append(Sample(LEFT_OUT, (), left_out))
        return samples + self._held(answer.devices, owners)

    def _described(self, owner: Owner) -> tuple[str, str, str]:
        return owner.process, self._users.get(owner.user, owner.user), owner.workload

    def _held(self, devices: Collection[Device], owners: Mapping[str, Owner]) -> list[Sample]:
        """Give which workload holds which GPU; processes without series of their own count here all the same."""
        known = dict(owners)

        def owner(pid: int) -> Owner:
            text = str(pid)
            if text not in known:
                known[text] = self._owners.of(pid)
            return known[text]

        found, _ = holders(
            [(device.index, device.uuid, int(pid)) for device in devices for pid in _pids(device)],
            owner,
            self._allocations(),
            {device.uuid: (device.index, device.uuid) for device in devices if device.uuid},
            MOST_HELD,
        )
        return [Sample(WORKLOAD_GPU, tuple(held), 1) for held in found]

    def _allocations(self) -> list[tuple[str, str]]:
        """Give what the kubelet has given out; read again only when its file has changed."""
        try:
            status = os.stat(checkpoint_path(self.host))  # noqa: PTH116  (one call, no object)
        except OSError:
            return []
        stamp = (status.st_mtime_ns, status.st_size)
        if stamp != self._stamp:
            allocations = read_allocations(self.host)
            names = read_pod_names(str(self.host.paths.rootfs)) if allocations else None
            self._given = [(pod_workload(one, names), one.device) for one in allocations] if names is not None else []
            self._stamp = stamp
        return self._given


def _pids(device: Device) -> list[str]:
    """Numbers of the processes on a GPU, as labels."""
    return [
        reading.labels[0]
        for reading in device.readings
        if reading.name == "process" and len(reading.labels) == 1 and _PID.fullmatch(reading.labels[0])
    ]


def _choose(devices: Collection[Device]) -> tuple[set[tuple[str, str]], int]:
    """UUID of the GPU and number of each process that has series, and how many have none: those with little memory."""
    memory: dict[tuple[str, str], float] = defaultdict(float)
    for device in devices:
        for pid in _pids(device):
            memory[device.uuid, pid] = 0.0
        for reading in device.readings:
            if reading.name == "process_memory_bytes" and (device.uuid, *reading.labels) in memory:
                memory[device.uuid, reading.labels[0]] = reading.value
    ranked = sorted(memory, key=lambda key: (-memory[key], key))
    return set(ranked[:MOST_PROCESSES]), max(0, len(ranked) - MOST_PROCESSES)


def _limited(device: Device, chosen: Collection[tuple[str, str]]) -> Device:
    """The GPU without what is told of processes that were not chosen."""
    kept = tuple(
        reading
        for reading in device.readings
        if not reading.name.startswith("process")
        or reading.name == "processes"
        or (device.uuid, *reading.labels) in chosen
    )
    return replace(device, readings=kept)
