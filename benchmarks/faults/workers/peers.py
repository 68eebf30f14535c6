"""Keeps the kernel files of several simulated hosts alive, so that exporters find hosts that are alike."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.faults.child import Task

_PERIOD = 0.5


def peers(task: Task) -> None:
    """Arguments: ``folders`` that are made, one for each host."""
    from tests.e2e.simulated import SimulatedHost  # noqa: PLC0415 - not needed by any other worker

    hosts = [SimulatedHost(Path(folder), seed) for seed, folder in enumerate(task.arguments["folders"])]
    for host in hosts:
        host.tick(_PERIOD)
    task.begin()
    before = time.monotonic()
    while task.running():
        time.sleep(_PERIOD)
        now = time.monotonic()
        for host in hosts:
            host.tick(now - before)
        before = now
