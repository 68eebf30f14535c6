"""Reads a file past the page cache at a steady pace, as a data loader does."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from benchmarks.faults.meters import Progress
from benchmarks.faults.workers.direct import BLOCK, opened, read_block

if TYPE_CHECKING:
    from benchmarks.faults.child import Task

_PERIOD = 0.05


def reader(task: Task) -> None:
    """Arguments: ``data``, the file. 20 MiB a second. Slot 0 is progress, slot 1 bytes."""
    file, room = opened(task.arguments["data"])
    progress, place = Progress(task.meter), 0
    task.begin()
    due = time.monotonic()
    while task.running():
        began = time.monotonic()
        count = read_block(file, room, place)
        place = place + BLOCK if count == BLOCK else 0
        task.meter.add(1, count)
        due = max(due + _PERIOD, time.monotonic())
        time.sleep(max(due - time.monotonic(), 0.0))
        progress.piece("block", time.monotonic() - began)
