"""A host whose kernel files this process writes: it is as quiet, and as sick, as a test wants.

What a real host does while others use it cannot be asserted; `./run demo` shows the same way with a real fault. Here the real
exporter reads files that grow as those of a small virtual machine do, ten times a second.
"""

from __future__ import annotations

import os
import re
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

TEMPLATE = Path(__file__).resolve().parents[1] / "fixtures" / "hosts" / "vm"
TICK = 0.1
CPUS = 2
HERTZ = 100
# Seconds that the template's counters took to grow.
UPTIME = 86_000
# user, nice, system, idle, iowait, irq, softirq, steal: shares of a quiet CPU, and of one that is fought for.
QUIET = (0.06, 0.0, 0.03, 0.896, 0.004, 0.0, 0.006, 0.004)
BUSY = (0.9, 0.0, 0.085, 0.0, 0.0, 0.0, 0.01, 0.005)
HOGS = 8
MICROSECONDS = 1_000_000
NANOSECONDS = 1_000_000_000
NUMBER = re.compile(rb"(?<![\w.])\d+(?![\w.])")

Grow = Callable[[bytes, int], float]


class CpuFault:
    """Eight busy processes more than the host has CPUs for, while it is entered."""

    def __init__(self, host: SimulatedHost) -> None:
        self._host = host
        self.began = 0.0
        self.ended: float | None = None

    def __enter__(self) -> Self:
        self.began = time.time()
        self._host.hogs = HOGS
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._host.hogs = 0
        self.ended = time.time()


class SimulatedHost:
    """Writes /proc of a quiet host of two CPUs below a folder, from `start` to `stop`.

    Parameters
    ----------
    folder
        Where ``proc``, ``sys`` and ``root`` are made.
    seed
        Of the noise.
    """

    def __init__(self, folder: Path, seed: int = 7) -> None:
        shutil.copytree(TEMPLATE, folder, symlinks=True)
        self.folder = folder
        self.hogs = 0
        self._random = np.random.default_rng(seed)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="simulated host", daemon=True)
        names = (
            "stat",
            "schedstat",
            "softirqs",
            "vmstat",
            "diskstats",
            "pressure/cpu",
            "pressure/memory",
            "pressure/io",
        )
        names += ("1/net/dev", "1/net/snmp", "1/net/netstat", "loadavg", "meminfo")
        self._files = {name: os.open(folder / "proc" / name, os.O_RDWR | os.O_CLOEXEC) for name in names}
        self._texts = {name: (folder / "proc" / name).read_bytes() for name in names}
        # Fractions of a jiffy that a CPU has not been charged yet.
        self._owed = np.zeros((CPUS, len(QUIET)))

    @property
    def flags(self) -> tuple[str, ...]:
        """What makes an exporter read this host."""
        kinds = {"procfs": "proc", "sysfs": "sys", "rootfs": "root"}
        return tuple(f"--path.{kind}={self.folder / name}" for kind, name in kinds.items())

    def cpu_fault(self) -> CpuFault:
        """A CPU fault, to be entered."""
        return CpuFault(self)

    def start(self) -> None:
        """Begin to live."""
        self._thread.start()

    def stop(self) -> None:
        """End, and leave the files as they are."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join(5)
        for descriptor in self._files.values():
            os.close(descriptor)

    def _run(self) -> None:
        before = time.monotonic()
        while not self._over.wait(TICK):
            now = time.monotonic()
            self.tick(now - before)
            before = now

    def tick(self, seconds: float) -> None:
        """Let some time pass and write every file anew."""
        for name, text in self._texts.items():
            write = {"stat": self._stat, "loadavg": self._loadavg, "meminfo": self._meminfo}.get(name)
            new = write(text, seconds) if write else NUMBER.sub(self._grown(name, seconds), text)
            self._texts[name] = new
            # In place, as the exporter keeps the file open; one call, so that it does not read half of it.
            os.pwrite(self._files[name], new, 0)
            os.ftruncate(self._files[name], len(new))

    def _more(self, value: int, seconds: float, factor: float = 1.0) -> int:
        return int(value) + int(self._random.poisson(value / UPTIME * seconds * factor))

    def _grown(self, name: str, seconds: float) -> Callable[[re.Match[bytes]], bytes]:
        """What replaces each number of a file of counters."""
        waiting = min(1.0, 0.95 * (self.hogs > 0) + abs(self._random.normal(0.013, 0.002)))

        def number(match: re.Match[bytes]) -> bytes:
            value = int(match[0])
            if value < 1000:  # a version, a device number, or an event that a quiet host does not have
                return match[0]
            if name == "pressure/cpu":
                return b"%d" % (value + int(waiting * seconds * MICROSECONDS))
            if name == "schedstat" and value > NANOSECONDS:  # running, then waiting, of each CPU
                running = value > 4 * 10**12
                load = (0.99 if self.hogs else 0.1) if running else 0.5 * self.hogs + waiting
                return b"%d" % (value + int(load * seconds * NANOSECONDS))
            factor = 4.0 if self.hogs and name in {"schedstat", "softirqs"} else 1.0
            return b"%d" % self._more(value, seconds, factor)

        return number

    def _stat(self, text: bytes, seconds: float) -> bytes:
        rows = [line.split() for line in text.splitlines()]
        shares = np.array(BUSY if self.hogs else QUIET)
        for cpu in range(CPUS):
            noisy = shares * self._random.normal(1, 0.08, len(shares)).clip(0.5, 1.5)
            self._owed[cpu] += noisy / noisy.sum() * seconds * HERTZ
        charged = np.floor(self._owed).astype(np.int64)
        self._owed -= charged
        for row in rows:
            key = row[0]
            if key.startswith(b"cpu"):
                more = charged.sum(axis=0) if key == b"cpu" else charged[int(key[3:])]
                row[1 : 1 + len(more)] = [b"%d" % (int(old) + new) for old, new in zip(row[1:], more, strict=False)]
            elif key in {b"intr", b"softirq", b"ctxt", b"processes"}:
                factor = 4.0 if self.hogs and key == b"ctxt" else 1.0
                row[1:] = [b"%d" % self._more(int(value), seconds, factor) for value in row[1:]]
            elif key == b"procs_running":
                row[1] = b"%d" % (1 + self.hogs + self._random.poisson(0.2))
            elif key == b"procs_blocked":
                row[1] = b"%d" % self._random.poisson(0.05)
        return b"".join(b" ".join(row) + b"\n" for row in rows)

    def _loadavg(self, text: bytes, seconds: float) -> bytes:
        one, five, fifteen, _, last = text.split()
        target = 0.2 + self.hogs
        loads = [
            float(old) + (target - float(old)) * seconds / span
            for old, span in ((one, 60), (five, 300), (fifteen, 900))
        ]
        tasks = b"%d/%d" % (1 + self.hogs, 311 + self.hogs + self._random.integers(-2, 3))
        return b"%.2f %.2f %.2f %s %s\n" % (*loads, tasks, last)

    def _meminfo(self, text: bytes, _: float) -> bytes:
        """Memory that comes and goes by a tenth of a percent around the template's."""
        lines = []
        for line in (TEMPLATE / "proc" / "meminfo").read_bytes().splitlines():
            name, rest = line.split(b":", 1)
            if name in {b"MemFree", b"MemAvailable", b"Cached", b"AnonPages", b"Active", b"Inactive", b"Dirty"}:
                moved = int(int(rest.split()[0]) * self._random.normal(1, 0.001))
                rest = b"%16d kB" % moved
            lines.append(name + b":" + rest + b"\n")
        return b"".join(lines)
