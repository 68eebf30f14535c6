"""A slow piece of wire: packets that enter a device in one network namespace leave another one's later."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.faults.child import Task

_TUNSETIFF = 0x400454CA
_IFF_TUN, _IFF_NO_PI = 0x0001, 0x1000
_PACKET = 1 << 16
_MOST = 8192


def tunnel(name: str) -> int:
    """A device in the present network namespace, as a descriptor that gives and takes its packets; gone when it is closed."""
    descriptor = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22x", name.encode("ascii"), _IFF_TUN | _IFF_NO_PI))
    return descriptor


def unfiltered() -> None:
    """Let packets of the present network namespace come another way than answers go."""
    for name in ("all", "default"):
        Path(f"/proc/sys/net/ipv4/conf/{name}/rp_filter").write_text("0", encoding="ascii")


def relay(task: Task) -> None:
    """Arguments: namespaces ``source`` and ``target`` (paths) and devices ``enter`` and ``leave`` made there, ``seconds`` of delay.

    Slot 0 counts packets that were delayed.
    """
    from benchmarks.faults.child import enter_network  # noqa: PLC0415 - imported under another name while it runs

    arguments = task.arguments
    enter_network(arguments["source"])
    unfiltered()
    enter = tunnel(arguments["enter"])
    enter_network(arguments["target"])
    unfiltered()
    leave = tunnel(arguments["leave"])
    delay = float(arguments["seconds"])
    waiting: deque[tuple[float, bytes]] = deque()
    task.begin()
    while task.running():
        now = time.monotonic()
        patience = min(waiting[0][0] - now, 0.1) if waiting else 0.1
        if select.select([enter], [], [], max(patience, 0.0))[0]:
            while True:
                try:
                    packet = os.read(enter, _PACKET)
                except BlockingIOError:
                    break
                except OSError:
                    # The device is not up yet, or not any more.
                    time.sleep(0.01)
                    break
                # A queue that is full loses what comes, as any device does.
                if len(waiting) < _MOST:
                    waiting.append((time.monotonic() + delay, packet))
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            try:
                os.write(leave, waiting.popleft()[1])
            except OSError:
                continue
            task.meter.add(0, 1)
