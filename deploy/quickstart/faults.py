"""Real faults on this host, bounded in time and size, in a process group of their own."""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from quickstart.errors import QuickstartError

WORKER = Path(__file__).with_name("fault_worker.py")
CPU_WORKERS_PER_CORE = 4
DISK_WORKERS = 4
DISK_ROOM = 2 << 30
MEMORY_SHARE = 0.5
MEMORY_LIMIT = 16 << 30
MEMORY_LEFT = 1 << 30


@dataclass(frozen=True, slots=True)
class Plan:
    """What a fault is: ``subsystem`` must be named for it, ``words`` say to people what is done."""

    kind: str
    subsystem: str
    number: int
    words: str


def plan(kind: str, cores: int, available: int) -> Plan:
    """Size of a fault for a host with so many cores and bytes of available memory.

    Raises
    ------
    QuickstartError
        If the host has too little memory for a fault in memory, or the kind is unknown.
    """
    if kind == "cpu":
        workers = CPU_WORKERS_PER_CORE * cores
        return Plan(kind, "cpu", workers, f"{workers} busy processes on {cores} cores")
    if kind == "disk":
        return Plan(kind, "storage", DISK_WORKERS, f"{DISK_WORKERS} processes that write past the page cache")
    if kind == "memory":
        size = min(int(available * MEMORY_SHARE), available - MEMORY_LEFT, MEMORY_LIMIT)
        if size < MEMORY_LEFT:
            raise QuickstartError(
                f"--fault memory needs 2 GiB of available memory, there are {available / 2**30:.1f}: choose cpu"
            )
        return Plan(kind, "memory", size, f"{size / 2**30:.1f} GiB taken, given back and taken again")
    raise QuickstartError(f"--fault {kind}: choose cpu, disk or memory")


def cores() -> int:
    """CPUs that this process may run on."""
    return len(os.sched_getaffinity(0))


def available_memory(meminfo: str) -> int:
    """Bytes of MemAvailable in the text of /proc/meminfo."""
    for line in meminfo.splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0


class Fault:
    """A fault while it lasts; a context manager that always ends it.

    Parameters
    ----------
    what
        Kind and size.
    seconds
        How long it lasts; it ends by itself.
    directory
        Where a fault on the disk writes.
    """

    def __init__(self, what: Plan, seconds: float, directory: Path) -> None:
        self.plan = what
        self.seconds = seconds
        self.directory = directory
        self.began = 0.0
        self.ended: float | None = None
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        if self.plan.kind == "disk" and _free(self.directory) < DISK_ROOM:
            raise QuickstartError(
                f"--fault disk needs 2 GiB of room on {self.directory}: choose --data on another disk"
            )
        self._process = subprocess.Popen(
            [
                sys.executable, "-I", "-S", str(WORKER), str(os.getpid()),
                self.plan.kind, str(self.seconds), str(self.plan.number), str(self.directory),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )  # fmt: skip
        self.began = self._said("begin", 20.0)
        if not self.began:
            self.stop()
            raise QuickstartError(f"the fault could not be made: {self._words()}")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Leader of the fault's process group."""
        return self._process.pid if self._process else 0

    def over(self) -> bool:
        """Whether it ended; sets ``ended``.

        Raises
        ------
        QuickstartError
            If it ended because it could not be made.
        """
        if self.ended is None and self._process is not None and self._process.poll() is not None:
            self.ended = time.time()
            if self._process.returncode:
                raise QuickstartError(f"the fault could not be made: {self._words()}")
        return self.ended is not None

    def stop(self) -> None:
        """End it now."""
        if self._process is None:
            return
        # A leader that is gone has waited for its workers, or took them along: its group may be another's by now.
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self.ended = self.ended or time.time()

    def _said(self, word: str, seconds: float) -> float:
        """Time behind a word that the worker writes; 0 if it does not come."""
        stream = self._stream()
        waiting = select.poll()
        waiting.register(stream, select.POLLIN)
        if not waiting.poll(seconds * 1000):
            return 0.0
        said = stream.readline().split()
        return float(said[1]) if len(said) == 2 and said[0] == word else 0.0

    def _stream(self) -> IO[str]:
        if self._process is None or self._process.stdout is None:
            raise QuickstartError("the fault was not started")
        return self._process.stdout

    def _words(self) -> str:
        if self._process is None or self._process.stderr is None:
            return ""
        lines = self._process.stderr.read().strip().splitlines()
        return lines[-1] if lines else f"status {self._process.returncode}"


def _free(directory: Path) -> int:
    try:
        return shutil.disk_usage(directory).free
    except OSError as error:
        raise QuickstartError(f"{directory}: {error.strerror}: a fault on the disk needs it") from error
