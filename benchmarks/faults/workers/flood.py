"""Sends small datagrams as fast as it can."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.faults.child import Task

_BURST = 200
_PORT = 9  # discard: nobody listens


def flood(task: Task) -> None:
    """Arguments: ``address`` and ``number`` of processes that send."""
    target = (task.arguments["address"], _PORT)

    def send() -> None:
        sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        data = bytes(64)
        while task.running():
            for _ in range(_BURST):
                # A full queue, or the receiver's refusal: the flood goes on.
                with suppress(OSError):
                    sender.sendto(data, target)

    task.begin()
    children = [task.fork(send) for _ in range(int(task.arguments["number"]))]
    while task.running():
        time.sleep(0.05)
    task.reap(children)
