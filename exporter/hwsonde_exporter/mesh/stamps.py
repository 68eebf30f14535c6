"""When the kernel received a packet, whatever the threads of this program were doing then; see socket(7)."""

from __future__ import annotations

import socket
import struct

SO_TIMESTAMPNS = 35  # SO_TIMESTAMPNS_OLD, a struct timespec of two longs; the module socket does not name it
_TIMESPEC = struct.Struct("@ll")
_NANOSECONDS = 1_000_000_000
ROOM = 256  # for control messages: the time, and the address that was asked

Control = list[tuple[int, int, bytes]]


def ask_for_stamps(channel: socket.socket) -> None:
    """Let the kernel note when each packet came."""
    channel.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)


def arrival(control: Control) -> int | None:
    """When a packet came, in nanoseconds of the wall clock; None if the kernel did not say."""
    for level, kind, data in control:
        if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS and len(data) == _TIMESPEC.size:
            seconds, nanoseconds = _TIMESPEC.unpack(data)
            return int(seconds) * _NANOSECONDS + int(nanoseconds)
    return None
