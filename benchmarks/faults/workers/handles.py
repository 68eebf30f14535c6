"""Opens files and forgets to close them."""

from __future__ import annotations

import os
import resource
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.faults.child import Task

_PERIOD = 0.02


def handles(task: Task) -> None:
    """Arguments: ``rate`` a second and ``most`` of them. Slot 0 counts those that are open."""
    rate, most = float(task.arguments["rate"]), int(task.arguments["most"])
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    held: list[int] = []
    task.begin()
    due = time.monotonic()
    while task.running():
        if len(held) < most:
            # Stops where the process's own limit ends, as a leak does.
            with suppress(OSError):
                held.extend(os.open(os.devnull, os.O_RDONLY) for _ in range(int(rate * _PERIOD)))
        task.meter.put(0, len(held))
        due += _PERIOD
        time.sleep(max(due - time.monotonic(), 0.0))
