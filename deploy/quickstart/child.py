"""One program that the supervisor keeps running."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

LEASH = Path(__file__).with_name("leash.py")
LOG_LIMIT = 8 << 20
STEADY_SECONDS = 60.0
LONGEST_DELAY = 30.0
TAIL_BYTES = 64 << 10
LONGEST_WORDS = 400
# What the Go runtime writes after a panic: signals, goroutines, functions, places, registers.
_STACK = re.compile(
    r"\[signal |\[recovered|goroutine |created by |exit status \d|\.\.\.additional frames"
    r"|\s+\S+\.(go|s):\d+( \+0x[0-9a-f]+)?$"
    r"|[\w./*()\[\]{}-]+\.[\w.*()\[\]-]+\(.*\)$"
    r"|r?[a-z0-9]{1,6} +0x[0-9a-f]+$"
)
_PANIC = re.compile(r"panic: |fatal error: ")
_ERROR = re.compile(r"level=(error|ERROR)\b|\berr=")


@dataclass(frozen=True, slots=True)
class Program:
    """How to start a program, and how to see that it works.

    ``ready`` is the path that answers 200 on ``port`` once it does its work.
    """

    name: str
    command: Sequence[str]
    port: int
    ready: str
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class BackOff:
    """How long to wait before a program that died is started again: 1, 2, 4 ... 30 s, and 1 s again after a steady minute."""

    deaths: int = 0

    def next_delay(self, ran_seconds: float) -> float:
        """Seconds to wait after a life of ``ran_seconds``."""
        if ran_seconds >= STEADY_SECONDS:
            self.deaths = 0
        delay = min(2.0**self.deaths, LONGEST_DELAY)
        self.deaths += 1
        return delay


class Child:
    """A running program in its own process group, with its log.

    Parameters
    ----------
    program
        What to run.
    log
        File that gets both of its output streams.
    cwd
        Its working directory.
    """

    def __init__(self, program: Program, log: Path, cwd: Path) -> None:
        self.program = program
        self.log = log
        self.cwd = cwd
        self._process: subprocess.Popen[bytes] | None = None
        self._began = 0

    @property
    def pid(self) -> int | None:
        """Process identity, None before the first start."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start it; its group is its own, so that a Ctrl-C at the terminal reaches the supervisor alone."""
        with self.log.open("ab") as log:
            # What is in it was said by an earlier process.
            self._began = os.fstat(log.fileno()).st_size
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(LEASH), str(os.getpid()), *self.program.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.cwd,
                env={**os.environ, **self.program.environment},
                process_group=0,
            )

    def status(self) -> int | None:
        """Exit status of a program that ended, None while it runs."""
        return self._process.poll() if self._process else None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to its whole group."""
        if self._process and self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)

    def kill(self) -> None:
        """End it now, without a word."""
        self.signal(signal.SIGKILL)

    def wait(self, seconds: float) -> bool:
        """Wait for its end; False if it still runs after that time."""
        if self._process is None:
            return True
        try:
            self._process.wait(max(seconds, 0.0))
        except subprocess.TimeoutExpired:
            return False
        return True

    def stop(self, seconds: float = 5.0) -> None:
        """Ask it to end, and kill it after ``seconds``."""
        self.signal(signal.SIGTERM)
        if not self.wait(seconds):
            self.kill()
            self.wait(max(seconds, 1.0))

    def bound_log(self) -> None:
        """Keep its log small; what a cut leaves was said since the start."""
        if bound_log(self.log):
            self._began = 0

    def last_words(self) -> str:
        """Last line of its log since it was started that says something: neither empty nor a part of a stack; empty where it said nothing."""
        with suppress(OSError), self.log.open("rb") as log:
            size = log.seek(0, os.SEEK_END)
            # A file that somebody cut holds nothing from before the start.
            began = self._began if self._began <= size else 0
            log.seek(max(began, size - TAIL_BYTES))
            return words(log.read().decode(errors="replace"))
        return ""


def words(tail: str) -> str:
    """What a program said last, from the end of its log; of a Go program that panicked, the reason and the error before it."""
    lines = [line.rstrip() for line in tail.splitlines() if line.strip()]
    said = len(lines)
    while said and _STACK.match(lines[said - 1]):
        said -= 1
    if not said:
        return lines[-1].strip()[:LONGEST_WORDS] if lines else ""
    last = lines[said - 1].strip()
    before = lines[said - 2] if said > 1 else ""
    # The panic names what was given up, the error before it why.
    if said < len(lines) and _PANIC.match(last) and _ERROR.search(before):
        return f"{last[: LONGEST_WORDS // 3]}, after {before.strip()}"[:LONGEST_WORDS]
    return last[:LONGEST_WORDS]


def bound_log(path: Path, limit: int = LOG_LIMIT) -> bool:
    """Keep a log that is written in append mode below ``limit`` bytes: its second half moves to ``.old``, and it is emptied.

    Lines that arrive between the copy and the cut are lost; a log that grew this fast repeats itself.

    Returns
    -------
    bool
        Whether it was cut.
    """
    with suppress(OSError):
        if path.stat().st_size <= limit:
            return False
        with path.open("rb") as log:
            log.seek(-limit // 2, os.SEEK_END)
            path.with_name(path.name + ".old").write_bytes(log.read())
        os.truncate(path, 0)
        return True
    return False
