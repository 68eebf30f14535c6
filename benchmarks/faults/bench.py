"""The bench on this host: workload, faults' room and what watches, made at the start and removed at the end."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchmarks.faults import workload
from benchmarks.faults.cgroups import Cgroups
from benchmarks.faults.children import Child, Job, Process
from benchmarks.faults.errors import BenchError
from benchmarks.faults.kernel import Kernel
from benchmarks.faults.ledger import Ledger, usual_place
from benchmarks.faults.meters import read_meter
from benchmarks.faults.network import NAMESPACES, Network
from benchmarks.faults.stage import Stage
from benchmarks.faults.workload import Part, Workload

_MIB = 1 << 20
FILES_MIB = (256, 256)
"""Sizes of the file that is read and of the one that is paged."""
_ROOM_MIB = 4096
_MEMORY = 2 << 30


def processors() -> int:
    """CPUs that this process may run on."""
    return len(os.sched_getaffinity(0))


class Bench:
    """A context manager; between entering and leaving it is the `injectors.base.Room` of faults.

    Parameters
    ----------
    folder
        The recording; what is thrown away lies in it, too, below ``scratch``.
    node
        Name of this host.
    load
        ``quiet``, or ``full``: as many busy processes as CPUs run all the time.
    seconds
        Everything that is started ends after so long, whatever happens.
    peers
        Number of simulated hosts.
    watched
        Whether an exporter, a Prometheus and a recorder run.
    files_mib
        See `FILES_MIB`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        node: str,
        load: str,
        seconds: float,
        peers: int = 0,
        watched: bool = True,
        files_mib: tuple[int, int] = FILES_MIB,
    ) -> None:
        folder = folder.absolute()
        self.folder, self.node, self.load = folder, node, load
        self.cpus = processors()
        self.kernel = Kernel()
        self.cgroups = Cgroups.here()
        self.network: Network | None = Network() if os.geteuid() == 0 and Network.missing() is None else None
        self.scratch, self.logs = folder / "scratch", folder / "logs"
        self.disk, self.data, self.small = self.scratch, self.scratch / "data.bin", self.scratch / "small.bin"
        self.found: list[str] = []
        self._seconds, self._files_mib = seconds, files_mib
        self._ledger = Ledger(usual_place(), self.kernel, sweep)
        self._stack = ExitStack()
        self._number = 0
        self._meters: dict[int, Path] = {}
        self._workload = Workload([], self._part)
        self._stage = Stage(self.scratch, folder / "recording.archive", node, peers, self._program) if watched else None

    def __enter__(self) -> Self:
        self._check()
        with ExitStack() as stack:
            self._ledger = stack.enter_context(self._ledger)
            self.found = [f"a killed run had left and this one removed: {left}" for left in self._ledger.found]
            self._make(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _check(self) -> None:
        """Refuse a host that is too small, before anything is made."""
        if self._stage is not None and (why := self._stage.missing()):
            raise BenchError(why)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            free = shutil.disk_usage(self.folder).free
        except OSError as error:
            raise BenchError(f"{self.folder}: {error.strerror}: give another folder") from None
        if free < _ROOM_MIB * _MIB:
            raise BenchError(
                f"{self.folder} has {free // _MIB} MiB of room, {_ROOM_MIB} are needed: give another folder"
            )
        if self.kernel.available_memory() < _MEMORY:
            raise BenchError("less than 2 GiB of memory are available: end something first")

    def _make(self, stack: ExitStack) -> None:
        self._ledger.scratch(self.scratch)
        for place in (self.scratch, self.scratch / "meters", self.logs):
            place.mkdir(parents=True, exist_ok=True)
        for path, size in zip((self.data, self.small), self._files_mib, strict=True):
            _fill(path, size)
        if self.network is not None:
            try:
                self.network.build()
            except BenchError as error:
                self.network = None
                self.found.append(f"no ring: {error}")
        wanted = workload.parts(
            self.data,
            self.scratch / "checkpoint.bin",
            ring=self.network is not None,
            background=self.cpus if self.load == "full" else 0,
        )
        self._workload = Workload(wanted, self._part)
        stack.callback(self._workload.stop_all)
        self._workload.start_all()
        if self._stage is not None:
            stack.callback(self._stage.stop)
            self._stage.start()

    def _process(self, name: str, job: Job) -> Process:
        return Process(job, self.logs / f"{name}.log", self._ledger.process)

    def _meter_path(self, name: str) -> Path:
        self._number += 1
        return self.scratch / "meters" / f"{self._number}-{name}"

    def _groups(self, name: str) -> tuple[str, ...]:
        return tuple(str(path) for path in self.cgroups.make(name)) if self.cgroups.trees else ()

    def _part(self, part: Part) -> Child:
        meter = self._meter_path(part.name)
        job = Job(part.worker, part.arguments, self._seconds, self._groups(part.group), part.netns, str(meter))
        child = self._process(part.name, job)
        self._meters[child.pid] = meter
        return child

    def _program(self, name: str, worker: str, arguments: dict[str, Any]) -> Child:
        meter = self._meter_path(name)
        return self._process(name, Job(worker, arguments, self._seconds, meter=str(meter)))

    def spawn(self, worker: str, arguments: Mapping[str, object], group: str, netns: str = "") -> Child:
        """A process for a fault; see `injectors.base.Room`."""
        meter = self._meter_path(worker)
        place = str(NAMESPACES / netns) if netns else ""
        job = Job(worker, dict(arguments), self._seconds, self._groups(group), place, str(meter))
        child = self._process(worker, job)
        self._meters[child.pid] = meter
        return child

    def meter(self, child: Child, slot: int = 0) -> float:
        """What a process says of itself."""
        path = self._meters.get(child.pid)
        return read_meter(path, slot) if path is not None else 0.0

    def pid_of(self, part: str) -> int:
        """Process of a part of the workload."""
        return self._workload.pid(part)

    def progress(self, part: str, slot: int = 0) -> float:
        """What a part of the workload says of itself."""
        path = self._meters.get(self._workload.pid(part))
        return read_meter(path, slot) if path is not None else 0.0

    def exporter_pid(self) -> int:
        """Process of the exporter."""
        return self._stage.exporter_pid() if self._stage is not None else 0

    def exporter_answers(self) -> bool:
        """Whether it answers."""
        return self._stage is not None and self._stage.exporter_answers()

    def peer_folders(self) -> list[tuple[str, Path]]:
        """The simulated hosts."""
        return list(self._stage.peers) if self._stage is not None else []

    def now(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    def units(self) -> tuple[str, ...]:
        """Units of the workload that can be started anew."""
        return tuple(unit for unit in self._workload.units if unit != "background")

    def restart(self, unit: str) -> None:
        """Stop a unit of the workload and start it again: what happens on healthy hosts, too."""
        self._workload.restart(unit)

    def tend(self) -> list[str]:
        """Start again what has ended; give words for each."""
        programs = self._stage.tend() if self._stage is not None else []
        return [f"{name} ended and was started again" for name in [*self._workload.tend(), *programs]]

    def about(self) -> dict[str, Any]:
        """What this host is, for the record's head."""
        from benchmarks.faults.workers.training import library  # noqa: PLC0415 - numpy is not needed to look for leftovers

        return {
            "cpus": self.cpus,
            "memory_available": self.kernel.available_memory(),
            "kernel": self.kernel.text("sys", "kernel", "osrelease").strip(),
            "training": library(),
            "ring": self.network is not None,
            "cgroups": sorted({"2" if tree.unified else "1" for tree in self.cgroups.trees}),
        }


def _fill(path: Path, size: int) -> None:
    """Write a file of so many MiB that no disk can make smaller."""
    block = bytearray(os.urandom(_MIB))
    with path.open("wb", buffering=0) as file:
        for number in range(size):
            block[:8] = number.to_bytes(8, "little")
            file.write(block)
        os.fsync(file.fileno())
        # Whoever reads it first pays for it, not this process: a limit on the training's memory is to be felt.
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def sweep() -> list[str]:
    """Remove what has our names on this host: control groups with whatever is in them, and namespaces. Gives what could not be removed."""
    network = Network()
    return Cgroups.here().remove() + (network.remove() if network.missing() is None else [])


def leftovers() -> list[str]:
    """Remove what a killed run has left; give what there was.

    Raises
    ------
    BenchError
        A run is alive.
    """
    with Ledger(usual_place(), Kernel(), sweep) as ledger:
        return ledger.found
