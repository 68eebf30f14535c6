"""Whose a cgroup is, told by its path: Slurm jobs, Kubernetes pods, containers, systemd units, and all the others.

The names are those that the managers give: Slurm's cgroup/v1 and cgroup/v2 plugins, the kubelet with the cgroupfs and the
systemd driver, runc and crun for containerd, CRI-O, Docker and Podman, LXC, systemd-machined and systemd itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from hwsonde_exporter import parsing

_SHOWN_DIGITS = 12  # of a container's 64, as its manager shows them


class Rank(IntEnum):
    """Which cgroups come first where there are more than may be shown."""

    JOB = 0
    CONTAINER = 1
    USER = 2
    UNIT = 3
    PLAIN = 4


@dataclass(frozen=True, slots=True)
class Identity:
    """Whose a cgroup is; what is not known is empty.

    Attributes
    ----------
    workload
        Unique on this host and the same for as long as the workload lives: ``slurm:1234``, ``pod:UID/CONTAINER``.
    manager
        Who made it: slurm, kubernetes, docker, podman, containerd, crio, lxc, machined, systemd, or cgroup for nobody known.
    rank
        See `Rank`.
    name
        Name that its manager knows it by.
    pod_uid, container_id
        Of a container: of its pod with dashes, and all 64 digits of its own.
    job_id
        Of a Slurm job.
    uid
        User number, where the path tells it.
    """

    workload: str
    manager: str
    rank: Rank
    name: str = ""
    pod_uid: str = ""
    container_id: str = ""
    job_id: str = ""
    uid: str = ""

    @property
    def final(self) -> bool:
        """Whether all below belongs to it; in a systemd unit or a plain cgroup there may still be a job or a container."""
        return self.rank <= Rank.CONTAINER


_SLURM = re.compile(r"(\S+_)?slurmstepd\.scope|slurm(_\S+)?")
_JOB = re.compile(r"job_(\d{1,20})")
_SLURM_USER = re.compile(r"uid_(\d{1,10})")
# cgroupfs driver: pod<uid>; systemd driver: kubepods-burstable-pod<uid with underscores>.slice. A static pod's UID is a hash.
_POD = re.compile(r"(?:\S*kubepods\S*-)?pod([0-9a-fA-F]{8}(?:[-_]?[0-9a-fA-F]{4}){3}[-_]?[0-9a-fA-F]{12})(?:\.slice)?")
_PREFIXES = {
    "cri-containerd": "containerd",
    "nerdctl": "containerd",
    "crio": "crio",
    "docker": "docker",
    "libpod": "podman",
}
_CONTAINER = re.compile(rf"(?:({'|'.join(_PREFIXES)})[-:])?([0-9a-f]{{64}})(?:\.scope)?")
# What containerd makes of its path where it was told of no driver: everything in one name.
_COLONS = re.compile(r"(\S*kubepods\S*\.slice):([a-z-]+):([0-9a-f]{64})")
_LXC = re.compile(r"lxc\.payload\.(\S+)")
_MACHINE = re.compile(r"machine-(\S+)\.scope|systemd-nspawn@(\S+)\.service")
_USER_SLICE = re.compile(r"user-(\d{1,10})\.slice")
_UNIT = re.compile(r"\S+\.(?:service|scope)")
_NO_ENTITY = re.compile(r"\S+\.(?:slice|mount|socket|swap|automount|target|device|path|timer)")
_ESCAPED = re.compile(r"\\x([0-9a-fA-F]{2})")


def identify(parts: Sequence[str], *, inside: bool = False) -> Identity | None:
    """Whose the cgroup with this path is, or None if it is only a part of somebody's, or a folder of several.

    Parameters
    ----------
    parts
        Names from the root of the hierarchy down to the cgroup.
    inside
        Whether it lies in a unit or a plain cgroup that was identified before: then only jobs and containers count.
    """
    if not parts:
        return None
    return _job(parts) or _container(parts) or _machine(parts) or (None if inside else _unit(parts) or _plain(parts))


def workload_of(path: str) -> Identity | None:
    """Whose a process with this cgroup path is (a line of /proc/PID/cgroup behind the second colon): job or container first, else the unit."""
    parts = [part for part in path.split("/") if part]
    outer: Identity | None = None
    for end in range(1, len(parts) + 1):
        found = identify(parts[:end], inside=outer is not None)
        if found is not None:
            if found.final:
                return found
            outer = outer or found
    return outer


def _job(parts: Sequence[str]) -> Identity | None:
    match = _JOB.fullmatch(parts[-1])
    if match is None or not any(_SLURM.fullmatch(part) for part in parts[:-1]):
        return None
    user = next((found.group(1) for part in parts if (found := _SLURM_USER.fullmatch(part))), "")
    number = match.group(1)
    return Identity(f"slurm:{number}", "slurm", Rank.JOB, name=parts[-1], job_id=number, uid=user)


def _container(parts: Sequence[str]) -> Identity | None:
    colons = _COLONS.fullmatch(parts[-1])
    if colons is not None:
        return _of_pod(_pod(colons.group(1)), colons.group(3), _PREFIXES.get(colons.group(2), "kubernetes"))
    match = _CONTAINER.fullmatch(parts[-1])
    if match is None:
        return None
    prefix, number = match.groups()
    pod = next((uid for part in reversed(parts[:-1]) if (uid := _pod(part))), "")
    parent = parts[-2] if len(parts) > 1 else ""
    if pod or any("kubepods" in part for part in parts[:-1]):
        return _of_pod(pod, number, "kubernetes")
    if prefix is not None:
        return _alone(number, _PREFIXES[prefix])
    # Amazon's ECS puts Docker's containers below the number of their task.
    if parent == "docker" or parts[0] == "ecs":
        return _alone(number, "docker")
    return _alone(number, "podman") if parent == "libpod_parent" else None


def _of_pod(pod: str, number: str, manager: str) -> Identity:
    if not pod:
        return _alone(number, manager)
    short = number[:_SHOWN_DIGITS]
    return Identity(f"pod:{pod}/{short}", "kubernetes", Rank.CONTAINER, name=short, pod_uid=pod, container_id=number)


def _alone(number: str, manager: str) -> Identity:
    short = number[:_SHOWN_DIGITS]
    return Identity(f"{manager}:{short}", manager, Rank.CONTAINER, name=short, container_id=number)


def _pod(part: str) -> str:
    """UID of the pod that this part of a path stands for, with dashes and in small letters; empty if it is none."""
    match = _POD.fullmatch(part)
    if match is None:
        return ""
    digits = re.sub("[-_]", "", match.group(1)).lower()
    if not re.search("[-_]", match.group(1)):
        return digits  # a static pod's hash is never written with dashes
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _machine(parts: Sequence[str]) -> Identity | None:
    last, parent = parts[-1], parts[-2] if len(parts) > 1 else ""
    match = _LXC.fullmatch(last)
    if match is not None or (parent == "lxc" and len(parts) == 2):
        name = parsing.text((match.group(1) if match else last).encode())
        return Identity(f"lxc:{name}", "lxc", Rank.CONTAINER, name=name)
    match = _MACHINE.fullmatch(last)
    if match is not None:
        name = _plain_text(match.group(1) or match.group(2))
        return Identity(f"machine:{name}", "machined", Rank.CONTAINER, name=name)
    return None


def _unit(parts: Sequence[str]) -> Identity | None:
    last = parts[-1]
    user = _USER_SLICE.fullmatch(last)
    if user is not None and len(parts) > 1 and parts[-2] == "user.slice":
        # All of a user's sessions together: each has a number that nobody knows, and ends with a connection.
        return Identity(f"systemd:{last}", "systemd", Rank.USER, name=last, uid=user.group(1))
    if _UNIT.fullmatch(last) and "user.slice" not in parts and not last.startswith(("libpod-conmon-", "crio-conmon-")):
        name = _plain_text(last)
        return Identity(f"systemd:{name}", "systemd", Rank.UNIT, name=name)
    return None


def _plain(parts: Sequence[str]) -> Identity | None:
    """A cgroup of nobody known; whether it holds processes of its own is not for its name to tell."""
    if any(_NO_ENTITY.fullmatch(part) or _UNIT.fullmatch(part) for part in parts):
        return None
    if any(_SLURM.fullmatch(part) or "kubepods" in part for part in parts):
        return None
    path = parsing.text(("/" + "/".join(parts)).encode())
    return Identity(f"cgroup:{path}", "cgroup", Rank.PLAIN, name=path)


def _plain_text(name: str) -> str:
    """Name of a unit without systemd's escapes, fit for a label."""
    return parsing.text(_ESCAPED.sub(lambda match: chr(int(match.group(1), 16)), name).encode())
