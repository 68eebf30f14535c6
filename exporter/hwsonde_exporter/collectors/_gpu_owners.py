"""Whose a GPU is: processes joined to jobs, containers and services, and what the kubelet has given to pods."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._files import read_once_or_none
from hwsonde_exporter.collectors._workload_names import Identity, Rank, workload_of
from hwsonde_exporter.collectors._workload_pods import PodNames
from hwsonde_exporter.host import Host

# Kernel threads are seen only where the host's own processes are: number 2 is their parent.
_KERNEL_THREADS = b"kthreadd"
_MAX_CHECKPOINT_DEVICES = 4096
_SHOWN_DIGITS = 12  # of a container's number, as in its workload's name


class Owner(NamedTuple):
    """Whose a process is; what is not known is empty.

    ``workload`` is as in ``hwsonde_workload_info``, ``process`` the name of the program, ``user`` the number of the user.
    """

    workload: str = ""
    process: str = ""
    user: str = ""


class Allocation(NamedTuple):
    """A GPU, or a MIG device, that the kubelet gave to a container of a pod."""

    pod_uid: str
    container: str
    device: str


class Held(NamedTuple):
    """A GPU that a workload holds, in the order of the labels of ``hwsonde_workload_gpu_info``."""

    workload: str
    gpu: str
    uuid: str


def sees_host(host: Host) -> bool:
    """Whether the numbers of processes under ``--path.procfs`` are the host's, as those of the driver's library are.

    In a container with processes of its own the same number is another process, and a join would name the wrong one.
    """
    data = read_once_or_none(host, host.paths.proc("2", "comm"))
    return data is not None and data.strip() == _KERNEL_THREADS


def parse_cgroup(data: bytes) -> Identity | None:
    """Whose a process is by its /proc/PID/cgroup.

    A line is ``0::PATH`` (version 2) or ``NUMBER:CONTROLLERS:PATH`` (version 1). A job or container that any of them names
    comes first, then a unit; the paths of one process rarely differ.
    """
    found: Identity | None = None
    for line in parsing.lines(data):
        fields = line.split(b":", 2)
        if len(fields) != 3:
            continue
        path = os.fsdecode(fields[2])
        # Seen from a control group namespace of ours the path climbs first.
        parts = [part for part in path.split("/") if part not in {"", ".."}]
        identity = workload_of("/".join(parts)) if path.isprintable() else None
        if identity is not None and identity.final:
            return identity
        found = found or identity
    return found


class Owners:
    """Finds the owners of processes.

    Parameters
    ----------
    host
        Whose processes they are.
    names
        Whether names of programs and numbers of users are told.
    """

    def __init__(self, host: Host, *, names: bool = False) -> None:
        self.host = host
        self._names = names
        self._host_seen: bool | None = None

    def refresh(self) -> None:
        """Look again whose processes are seen."""
        self._host_seen = sees_host(self.host)

    def of(self, pid: int) -> Owner:
        """Owner of a process of the host; nothing of one that has ended, or where other processes than the host's are seen."""
        if self._host_seen is None:
            self.refresh()
        if not self._host_seen or pid <= 0:
            return Owner()
        folder = self.host.paths.proc(str(pid))
        data = read_once_or_none(self.host, folder / "cgroup")
        if data is None:
            return Owner()
        identity = parse_cgroup(data)
        workload = identity.workload if identity is not None else ""
        if not self._names:
            return Owner(workload)
        comm = read_once_or_none(self.host, folder / "comm")
        return Owner(workload, parsing.text(comm) if comm is not None else "", _user(folder))


def _user(folder: os.PathLike[str]) -> str:
    try:
        return str(os.stat(folder).st_uid)  # noqa: PTH116  (one call, no object)
    except OSError:
        return ""


def parse_checkpoint(data: bytes) -> list[Allocation]:
    """Parse /var/lib/kubelet/device-plugins/kubelet_internal_checkpoint: NVIDIA's devices by pod and container.

    The devices lie under ``DeviceIDs`` by NUMA node, in kubelets before 1.20 in a plain list. A GPU shared by time has
    ``::`` and the number of the share behind its UUID. What is not understood is left out.
    """
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return []
    found: dict[Allocation, None] = {}
    for entry in _list(_mapping(_mapping(document).get("Data")).get("PodDeviceEntries")):
        fields = _mapping(entry)
        pod, container, resource = (fields.get(name) for name in ("PodUID", "ContainerName", "ResourceName"))
        if not (isinstance(pod, str) and isinstance(container, str) and isinstance(resource, str)):
            continue
        if not resource.startswith("nvidia.com/"):
            continue
        devices = fields.get("DeviceIDs")
        groups = devices.values() if isinstance(devices, dict) else [devices]
        for device in (item for group in groups for item in _list(group)):
            if isinstance(device, str) and len(found) < _MAX_CHECKPOINT_DEVICES:
                found[Allocation(_label(pod), _label(container), _label(device.partition("::")[0]))] = None
    return list(found)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else []


def _label(text: str) -> str:
    return parsing.text(text.encode("utf-8", "replace"))


def checkpoint_path(host: Host) -> Path:
    """Where the kubelet of a host keeps what it has given out."""
    return host.paths.rootfs / "var" / "lib" / "kubelet" / "device-plugins" / "kubelet_internal_checkpoint"


def read_allocations(host: Host) -> list[Allocation]:
    """What the kubelet of this host has given out; nothing where there is none, or where its file may not be read."""
    data = read_once_or_none(host, checkpoint_path(host))
    return parse_checkpoint(data) if data is not None else []


def pod_workload(allocation: Allocation, names: PodNames) -> str:
    """Name of the workload that an allocation belongs to: of its container where its number is known, else of its pod."""
    namespace, pod = names.pods.get(allocation.pod_uid, ("", ""))
    wanted = (namespace, pod, allocation.container)
    numbers = [number for number, known in names.containers.items() if known == wanted] if pod else []
    # A container that was started again has another number, and the old log may still be there.
    if len(numbers) == 1:
        return f"pod:{allocation.pod_uid}/{numbers[0][:_SHOWN_DIGITS]}"
    return f"pod:{allocation.pod_uid}"


def holders(
    processes: Iterable[tuple[str, str, int]],
    owner: Callable[[int], Owner],
    allocations: Iterable[tuple[str, str]],
    gpus: Mapping[str, tuple[str, str]],
    most: int,
) -> tuple[list[Held], int]:
    """Which workload holds which GPU: those that have a process on it, and those that it was given to.

    Parameters
    ----------
    processes
        Label and UUID of the GPU, and number of the process, for each process on a GPU.
    owner
        Gives the owner of a process.
    allocations
        Workload and device of each allocation.
    gpus
        Label and UUID of the GPU by the UUID of the GPU or of one of its MIG devices.
    most
        Greatest number of rows; jobs and containers come first.

    Returns
    -------
    The rows in order, and how many were left out.
    """
    found: dict[Held, None] = {}
    for gpu, uuid, pid in processes:
        workload = owner(pid).workload
        if workload:
            found[Held(workload, gpu, uuid)] = None
    with_processes = {(held.workload.partition("/")[0], held.uuid) for held in found}
    for workload, device in allocations:
        if device not in gpus:
            continue
        gpu, uuid = gpus[device]
        # A pod whose container is not known, and which has a process there, is told of already.
        if "/" in workload or (workload, uuid) not in with_processes:
            found[Held(workload, gpu, uuid)] = None
    rows = sorted(found, key=lambda held: (_rank(held.workload), held))
    return sorted(rows[:most]), max(0, len(rows) - most)


def _rank(workload: str) -> Rank:
    """Which workloads come first, by the beginning of their name."""
    manager = workload.partition(":")[0]
    if manager == "slurm":
        return Rank.JOB
    if manager in {"systemd", "cgroup"}:
        return Rank.UNIT if manager == "systemd" else Rank.PLAIN
    return Rank.CONTAINER
