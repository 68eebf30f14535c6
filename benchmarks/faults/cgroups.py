"""Control groups of the bench's own, version 1 or 2, below ``hwsonde-bench``."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from benchmarks.faults.errors import BenchError

TOP = "hwsonde-bench"
CONTROLLERS = frozenset({"cpu", "cpuacct", "memory", "blkio"})
_UNIFIED_CONTROLLERS = ("cpu", "memory", "io")
_PERIOD = 100_000
# What version 1 takes for "no limit" of memory.
_NO_LIMIT = "-1"
_TRIES = 20


@dataclass(frozen=True, slots=True)
class Tree:
    """A mounted tree of control groups.

    ``base`` is the folder below which ours are made, ``unified`` says version 2, ``controllers`` which it has.
    """

    base: Path
    unified: bool
    controllers: frozenset[str]


def find_trees(mountinfo: str, own: str) -> list[Tree]:
    """Trees that can be used, from the texts of /proc/self/mountinfo and /proc/self/cgroup.

    In version 1 ours lie below the control group that we are in, so that no bound on us is escaped. A group of version 2 that has processes
    may not hand controllers down, so there they lie beside it.
    """
    places = {}
    for line in own.splitlines():
        _, names, path = line.split(":", 2)
        for name in names.split(","):
            places[name] = path
    found, seen = [], set()
    for line in mountinfo.splitlines():
        head, _, tail = line.partition(" - ")
        fields, kind = head.split(), tail.split()
        if len(fields) < 5 or not kind or kind[0] not in {"cgroup", "cgroup2"} or fields[2] in seen:
            continue
        root, mountpoint = fields[3], Path(fields[4])
        unified = kind[0] == "cgroup2"
        have: frozenset[str] = frozenset() if unified else frozenset(kind[-1].split(",")) & CONTROLLERS
        # A new group of cpusets has no processor at all until somebody gives it one.
        if not unified and (not have or "cpuset" in kind[-1].split(",")):
            continue
        seen.add(fields[2])
        path = places.get("" if unified else min(have), "/")
        relative = path.removeprefix(root) if root != "/" else path
        if unified and relative.strip("/"):
            relative = str(Path(relative).parent)
        base = mountpoint / relative.strip("/")
        found.append(Tree(base, unified, _available(base) if unified else have))
    return found


def _available(base: Path) -> frozenset[str]:
    try:
        return frozenset((base / "cgroup.controllers").read_text(encoding="ascii").split())
    except OSError:
        return frozenset()


class Cgroups:
    """The bench's groups: `make` them, put processes in by their ``procs`` files, set limits, read counters, `remove` all.

    Parameters
    ----------
    trees
        What `find_trees` gave.
    """

    def __init__(self, trees: list[Tree]) -> None:
        self.trees = trees

    @staticmethod
    def here() -> Cgroups:
        """Those of this host."""
        return Cgroups(
            find_trees(
                Path("/proc/self/mountinfo").read_text(encoding="utf-8"),
                Path("/proc/self/cgroup").read_text(encoding="utf-8"),
            )
        )

    def make(self, name: str) -> list[Path]:
        """Make a group in every tree; give the files that take the numbers of its processes.

        Raises
        ------
        BenchError
            There is no tree, or none may be written.
        """
        procs, problem = [], "no control groups are mounted"
        for tree in self.trees:
            folder = tree.base / TOP / name
            try:
                folder.mkdir(parents=True, exist_ok=True)
                if tree.unified:
                    for place in (tree.base, tree.base / TOP):
                        _hand_down(place)
            except OSError as error:
                problem = f"{folder}: {error.strerror}"
                continue
            procs.append(folder / "cgroup.procs")
        if not procs:
            raise BenchError(f"a control group cannot be made ({problem}): run the bench as root")
        return procs

    def place(self, name: str, file: str) -> Path | None:
        """Path of a control file of a group, in whichever tree has it."""
        for tree in self.trees:
            path = tree.base / TOP / name / file
            if path.exists():
                return path
        return None

    def first(self, name: str, *files: str) -> Path | None:
        """Path of the first of some control files that there is: the names of both versions."""
        for file in files:
            if (path := self.place(name, file)) is not None:
                return path
        return None

    def can(self, controller: str) -> bool:
        """Whether some tree has a controller (by its name in version 1)."""
        unified = {"blkio": "io", "cpuacct": "cpu"}.get(controller, controller)
        return any((unified if tree.unified else controller) in tree.controllers for tree in self.trees)

    def cpu_seconds(self, name: str) -> float:
        """CPU time that a group has used."""
        if (path := self.place(name, "cpuacct.usage")) is not None:
            return int(_read(path) or 0) / 1e9
        return self._keyed(name, "cpu.stat", "usage_usec") / 1e6

    def set_quota(self, name: str, cores: float | None) -> None:
        """Let a group use so many cores at most; None: as many as it likes."""
        quota = None if cores is None else max(int(cores * _PERIOD), 1000)
        if (path := self.place(name, "cpu.max")) is not None:
            _write(path, f"{'max' if quota is None else quota} {_PERIOD}")
        elif (path := self.place(name, "cpu.cfs_quota_us")) is not None:
            if quota is not None:
                _write(path.with_name("cpu.cfs_period_us"), str(_PERIOD))
            _write(path, _NO_LIMIT if quota is None else str(quota))

    def throttled_seconds(self, name: str) -> float:
        """Time that a group was held back by its quota."""
        if self.place(name, "cpu.max") is not None:
            return self._keyed(name, "cpu.stat", "throttled_usec", unified=True) / 1e6
        return self._keyed(name, "cpu.stat", "throttled_time") / 1e9

    def memory(self, name: str) -> tuple[int, int]:
        """Bytes that a group holds: all, and those that are no file's."""
        path = self.first(name, "memory.current", "memory.usage_in_bytes")
        anonymous = max(self._keyed(name, "memory.stat", word) for word in ("anon", "total_rss", "rss"))
        return int(_read(path) or 0) if path is not None else 0, anonymous

    def limit_memory(self, name: str, size: int | None) -> None:
        """Let a group hold so many bytes at most; None: as many as it likes."""
        if (path := self.place(name, "memory.max")) is not None:
            _write(path, "max" if size is None else str(size))
        elif (path := self.place(name, "memory.limit_in_bytes")) is not None:
            _write(path, _NO_LIMIT if size is None else str(size))

    def limit_hits(self, name: str) -> int:
        """How often a group ran into its limit of memory."""
        if (path := self.place(name, "memory.failcnt")) is not None:
            return int(_read(path) or 0)
        return self._keyed(name, "memory.events", "max")

    def memory_stat(self, name: str, word: str) -> int:
        """A counter of memory.stat, such as ``pgmajfault``."""
        return self._keyed(name, "memory.stat", word)

    def throttle_reads(self, name: str, device: str, rate: int | None) -> None:
        """Let a group read so many bytes a second from a device (``major:minor``); None: as many as it likes."""
        if (path := self.place(name, "io.max")) is not None:
            _write(path, f"{device} rbps={'max' if rate is None else rate}")
        elif (path := self.place(name, "blkio.throttle.read_bps_device")) is not None:
            _write(path, f"{device} {rate or 0}")

    def processes(self, name: str = "") -> list[int]:
        """Numbers of the processes in a group, or in all of them."""
        found: set[int] = set()
        for tree in self.trees:
            for path in (tree.base / TOP / name).rglob("cgroup.procs"):
                found.update(int(number) for number in (_read(path) or "").split())
        return sorted(found)

    def remove(self, pause: Callable[[float], None] = time.sleep) -> list[str]:
        """Kill whatever is in our groups and remove them; give those that could not be."""
        for _ in range(_TRIES):
            for pid in self.processes():
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            left = [path for tree in self.trees for path in _folders(tree.base / TOP) if not _removed(path)]
            if not left:
                return []
            pause(0.05)
        return [str(path) for path in left]

    def _keyed(self, name: str, file: str, word: str, *, unified: bool | None = None) -> int:
        for tree in self.trees:
            if unified is not None and tree.unified != unified:
                continue
            for line in (_read(tree.base / TOP / name / file) or "").splitlines():
                key, _, value = line.partition(" ")
                if key == word:
                    return int(value)
        return 0


def _hand_down(place: Path) -> None:
    """Let the groups below have the controllers, one by one: which of them may be handed down is the host's to say."""
    for controller in _UNIFIED_CONTROLLERS:
        with suppress(OSError):
            _write(place / "cgroup.subtree_control", f"+{controller}")


def _folders(top: Path) -> list[Path]:
    """Groups below a folder and itself, the deepest first."""
    if not top.is_dir():
        return []
    return sorted((path for path in (top, *top.rglob("*")) if path.is_dir()), key=lambda path: -len(path.parts))


def _removed(path: Path) -> bool:
    try:
        path.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return None


def _write(path: Path, text: str) -> None:
    """One write, as the kernel wants it; raises OSError."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode("ascii"))
    finally:
        os.close(descriptor)
