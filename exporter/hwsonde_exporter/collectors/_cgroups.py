"""The trees of control groups: where they are mounted, and which directories they have."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from hwsonde_exporter.collectors._files import exists, read_once_or_none, read_or_none
from hwsonde_exporter.collectors.filesystem import parse_mountinfo
from hwsonde_exporter.host import Host

# The controllers whose files are read; "unified" stands for the tree of version 2, with whatever controllers it has.
UNIFIED = "unified"
CONTROLLERS = ("cpuacct", "cpu", "memory", "blkio", "pids")
MAX_DIRECTORIES = 8192
MAX_DEPTH = 16
MAX_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """One mounted tree: its folder as we see it, and which of `CONTROLLERS` (or ``unified``) it has."""

    folder: str
    controllers: frozenset[str]


@dataclass(slots=True)
class Group:
    """A cgroup, under the same path in every tree that has it.

    ``where`` gives its folder by controller; ``empty`` is whether it has no children in any tree.
    """

    parts: tuple[str, ...]
    where: dict[str, str] = field(default_factory=dict)
    empty: bool = True


@dataclass(frozen=True, slots=True)
class Forest:
    """All cgroups by path, parents before their children; ``complete`` is false if a bound was met on the way."""

    groups: Mapping[tuple[str, ...], Group]
    complete: bool


def find_hierarchies(host: Host) -> list[Hierarchy]:
    """Trees of cgroups that process 1 has mounted, or that lie at the usual place where its mounts cannot be read."""
    data = read_or_none(host, host.paths.proc("1", "mountinfo")) or b""
    found: dict[bytes, tuple[int, Hierarchy]] = {}
    for mount in parse_mountinfo(data):
        if mount.fstype == b"cgroup2":
            controllers = frozenset({UNIFIED})
        elif mount.fstype == b"cgroup":
            controllers = frozenset(_controllers(data, mount.mountpoint))
        else:
            continue
        folder = _translate(host, os.fsdecode(mount.mountpoint))
        # Containers mount the same tree again, further down; the shortest path is the host's own.
        rank = len(mount.mountpoint) + (10_000 if mount.root != b"/" else 0)
        if controllers and (mount.number not in found or rank < found[mount.number][0]):
            found[mount.number] = (rank, Hierarchy(folder, controllers))
    trees = [tree for _, tree in found.values() if os.path.isdir(tree.folder)]  # noqa: PTH112  (paths are texts here)
    trees = trees or _usual(str(host.paths.sys("fs/cgroup")))
    if any(is_part(host, tree) for tree in trees):
        # A container's own /sys shows only its own cgroup; the host's lies below its root filesystem, where that is mounted.
        below = _usual(f"{str(host.paths.rootfs).rstrip('/')}/sys/fs/cgroup")
        return [tree for tree in below if not is_part(host, tree)] or trees
    return trees


def is_part(host: Host, tree: Hierarchy) -> bool:
    """Whether a tree's root is a cgroup of the host's in which process 1 is not, as a cgroup namespace of our own shows it.

    Only cgroups below the root have the file cgroup.events; of what is outside of its namespace a process sees the path
    with ``/..``.
    """
    if UNIFIED not in tree.controllers or not exists(f"{tree.folder}/cgroup.events"):
        return False
    return b":/.." in (read_once_or_none(host, host.paths.proc("1", "cgroup")) or b"")


def _controllers(mountinfo: bytes, mountpoint: bytes) -> set[str]:
    """Controllers of a tree of version 1: among the options of its filesystem, at the line's end."""
    for line in mountinfo.split(b"\n"):
        head, _, tail = line.partition(b" - ")
        fields = head.split(b" ")
        if len(fields) > 4 and fields[4] == mountpoint and tail.startswith(b"cgroup "):
            options = tail.rpartition(b" ")[2].decode("ascii", "replace").split(",")
            return {option for option in options if option in CONTROLLERS}
    return set()


def _translate(host: Host, mountpoint: str) -> str:
    """Path of a mount point of process 1 as this process sees it."""
    if mountpoint.startswith("/sys/"):
        return str(host.paths.sys(mountpoint[5:]))
    return f"{str(host.paths.rootfs).rstrip('/')}{mountpoint}"


def _usual(base: str) -> list[Hierarchy]:
    if os.path.exists(f"{base}/cgroup.controllers"):  # noqa: PTH110  (as above)
        return [Hierarchy(base, frozenset({UNIFIED}))]
    found: dict[str, set[str]] = {}
    for name in (*CONTROLLERS, UNIFIED):
        # "cpu" is often a link to "cpu,cpuacct".
        folder = os.path.realpath(f"{base}/{name}")
        if os.path.isdir(folder):  # noqa: PTH112  (as above)
            found.setdefault(folder, set()).add(name)
    return [Hierarchy(folder, frozenset(names)) for folder, names in found.items()]


def walk(trees: Sequence[Hierarchy], clock: Callable[[], float]) -> Forest:
    """Every cgroup of these trees, as far as the bounds on number, depth and time allow.

    Parameters
    ----------
    trees
        What `find_hierarchies` gave.
    clock
        Monotonic seconds.
    """
    groups: dict[tuple[str, ...], Group] = {}
    deadline = clock() + MAX_SECONDS
    seen = 0
    complete = True
    for tree in trees:
        waiting: list[tuple[str, ...]] = [()]
        while waiting:
            parts = waiting.pop()
            folder = "/".join((tree.folder, *parts))
            group = groups.setdefault(parts, Group(parts))
            for controller in tree.controllers:
                group.where.setdefault(controller, folder)
            seen += 1
            if seen > MAX_DIRECTORIES or clock() > deadline:
                complete = False
                break
            children = _children(folder)
            group.empty = group.empty and not children
            if children and len(parts) >= MAX_DEPTH:
                complete = False
                continue
            waiting += ((*parts, name) for name in reversed(children))
    return Forest(dict(sorted(groups.items())), complete)


def _children(folder: str) -> list[str]:
    try:
        # A folder of the kernel's counts its children in its links: 2 is a leaf, and need not be listed.
        if os.stat(folder).st_nlink == 2:  # noqa: PTH116  (thousands of times)
            return []
        with os.scandir(folder) as entries:
            return sorted(
                entry.name for entry in entries if entry.name.isprintable() and entry.is_dir(follow_symlinks=False)
            )
    except OSError:
        return []
