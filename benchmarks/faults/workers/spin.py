"""Processes that compute."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.faults.child import Task


def spin(task: Task) -> None:
    """Arguments: ``number`` of processes."""

    def compute() -> None:
        value = 1
        while task.running():
            for _ in range(100_000):
                value = (value * 1_103_515_245 + 12_345) & 0x7FFF_FFFF

    task.begin()
    children = [task.fork(compute) for _ in range(int(task.arguments["number"]))]
    while task.running():
        time.sleep(0.05)
    task.reap(children)
