"""Pairs of processes that wake each other all the time."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.faults.child import Task


def switches(task: Task) -> None:
    """Arguments: ``number`` of pairs."""

    def bounce(source: int, target: int, *, first: bool) -> None:
        if first:
            os.write(target, b".")
        while task.running() and os.read(source, 1):
            os.write(target, b".")

    task.begin()
    children = []
    for _ in range(int(task.arguments["number"])):
        (left, to_left), (right, to_right) = os.pipe(), os.pipe()
        children.append(task.fork(lambda s=left, t=to_right: bounce(s, t, first=True)))  # type: ignore[misc]
        children.append(task.fork(lambda s=right, t=to_left: bounce(s, t, first=False)))  # type: ignore[misc]
    while task.running():
        time.sleep(0.05)
    task.reap(children)
