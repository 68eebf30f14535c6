"""Processes of the bench: one launcher for all, so that each is bounded in time, dies with the bench and is written down."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Protocol

from benchmarks.faults.errors import BenchError

ROOT = Path(__file__).resolve().parents[2]
READY_SECONDS = 60.0
STOP_SECONDS = 3.0
_PATHS = (ROOT, ROOT / "exporter", ROOT / "detector_sidecar")


@dataclass(frozen=True, slots=True)
class Job:
    """What a child is to do.

    Attributes
    ----------
    worker
        Name of a worker (`benchmarks.faults.child.WORKERS`), or ``exec`` for a program.
    arguments
        The worker's own.
    seconds
        It is killed by the kernel after so long, whatever happens.
    groups
        Files that take its number: the control group that it runs in.
    netns
        Path of the network namespace that it runs in; empty: the host's.
    meter
        File of its `meters.Meter`; empty: none.
    """

    worker: str
    arguments: dict[str, Any] = field(default_factory=dict)
    seconds: float = 3600.0
    groups: tuple[str, ...] = ()
    netns: str = ""
    meter: str = ""


class Child(Protocol):
    """A process of the bench, as injectors see it."""

    pid: int

    def go(self) -> None:
        """Let a child that is ready begin."""

    def alive(self) -> bool:
        """Whether it still runs."""

    def signal(self, number: signal.Signals) -> None:
        """Send it a signal, and what it started."""

    def stop(self) -> None:
        """End it, and what it started; does nothing a second time."""


class Process:
    """A `Child` that is a real process, in a process group of its own.

    Parameters
    ----------
    job
        What it does.
    log
        File that gets what it says on standard error (of a program: all).
    noted
        Told its number at once.

    Raises
    ------
    BenchError
        It did not become ready; with its last words.
    """

    def __init__(self, job: Job, log: Path, noted: Callable[[int], None]) -> None:
        self.job, self.log = job, log
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(map(str, _PATHS)),
            "PYTHONUNBUFFERED": "1",
            # One thread a worker: what is measured is the host, not a pool of threads that fights with itself.
            **{f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")},
        }
        command = [sys.executable, "-P", "-m", "benchmarks.faults.child", str(os.getpid()), json.dumps(asdict(job))]
        program = job.worker == "exec"
        with log.open("ab") as stream:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL if program else subprocess.PIPE,
                stdout=stream if program else subprocess.PIPE,
                stderr=stream,
                cwd=ROOT,
                env=environment,
                process_group=0,
            )
        self.pid = self._process.pid
        noted(self.pid)
        if not program:
            self._wait_ready()

    def _wait_ready(self) -> None:
        stream: IO[bytes] | None = self._process.stdout
        if stream is None or not _line(stream, READY_SECONDS).startswith(b"ready"):
            self.stop()
            raise BenchError(f"the worker {self.job.worker} did not start: {last_words(self.log)}")

    def go(self) -> None:
        """Let it begin."""
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.write(b"go\n")
                self._process.stdin.flush()

    def alive(self) -> bool:
        """Whether it still runs."""
        return self._process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to its group."""
        if self.alive():
            with suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def stop(self, seconds: float = STOP_SECONDS) -> None:
        """Ask it to end; kill what does not."""
        if self.alive():
            # A stopped process takes note of nothing but this and the kill.
            self.signal(signal.SIGCONT)
            self.signal(signal.SIGTERM)
            end = time.monotonic() + seconds
            while self.alive() and time.monotonic() < end:
                time.sleep(0.02)
        # Its leader may be gone before its members, which share its group.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STOP_SECONDS)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with suppress(OSError):
                    stream.close()


def _line(stream: IO[bytes], seconds: float) -> bytes:
    """The next line, empty if it does not come in time."""
    waiting = select.poll()
    waiting.register(stream, select.POLLIN)
    return stream.readline() if waiting.poll(seconds * 1000) else b""


def last_words(log: Path) -> str:
    """Last line of a log."""
    try:
        lines = [
            line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()
        ]
    except OSError:
        return "nothing was said"
    return lines[-1][:300] if lines else "nothing was said"


def run(command: Sequence[str], seconds: float = 10.0) -> str:
    """Output of a short command.

    Raises
    ------
    BenchError
        It is not installed, fails, or takes too long; with what it said.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BenchError(f"{command[0]} does not run: {error}") from None
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise BenchError(f"{' '.join(command)}: {said[-1] if said else f'status {done.returncode}'}")
    return done.stdout
