"""What a host did while a test ran: a failure on a busy host must be told from a failure of the programs."""

from __future__ import annotations

import os
import time
from collections import deque
from pathlib import Path

KEPT = 300
STEAL_FIELD = 7


def jiffies(stat: str) -> list[int]:
    """User, nice, system, idle, iowait, irq, softirq and steal time of all CPUs from the text of /proc/stat (proc_stat(5))."""
    return [int(number) for number in stat.split("\n", 1)[0].split()[1:9]]


def now() -> list[int]:
    return jiffies(Path("/proc/stat").read_text(encoding="ascii"))


class Noise:
    """Load average and score once a second, and the CPU time that other virtual machines took."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._first = now()
        self._points: deque[tuple[float, float | None, float]] = deque(maxlen=KEPT)

    def add(self, score: float | None) -> None:
        """Keep the present, at most once a second."""
        since = time.monotonic() - self._began
        if not self._points or since - self._points[-1][0] >= 1:
            self._points.append((since, score, os.getloadavg()[0]))

    def __str__(self) -> str:
        passed = [after - before for before, after in zip(self._first, now(), strict=True)]
        stolen = 100 * passed[STEAL_FIELD] / max(sum(passed), 1)
        points = ", ".join(
            f"{since:.0f}s {'-' if score is None else f'{score:.2f}'}/{load:.1f}" for since, score, load in self._points
        )
        return (
            f"load average {' '.join(f'{load:.1f}' for load in os.getloadavg())} on {os.cpu_count()} CPUs, "
            f"{stolen:.1f} % of the CPU time stolen by other machines; score/load so far: {points or 'none'}"
        )
