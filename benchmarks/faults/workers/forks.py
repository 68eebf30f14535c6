"""Processes that make processes which end at once."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.faults.child import Task


def forks(task: Task) -> None:
    """Arguments: ``number`` of processes that fork. Never more than so many children are alive."""

    def storm() -> None:
        while task.running():
            pid = os.fork()
            if not pid:
                os._exit(0)
            os.waitpid(pid, 0)

    task.begin()
    children = [task.fork(storm) for _ in range(int(task.arguments["number"]))]
    while task.running():
        time.sleep(0.05)
    task.reap(children)
