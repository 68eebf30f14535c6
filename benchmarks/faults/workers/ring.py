"""One member of an all-reduce ring over plain sockets: reduce, then gather, as the collective libraries do."""

from __future__ import annotations

import select
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.faults.meters import Progress

if TYPE_CHECKING:
    from benchmarks.faults.child import Task

PORT = 29_400
_VALUES = 1 << 18
_PERIOD = 0.1
_CONNECT_SECONDS = 20.0


class Closed(Exception):
    """The neighbour is gone."""


def exchange(out: socket.socket, into: socket.socket, data: memoryview, room: memoryview) -> None:
    """Send all of ``data`` to one neighbour while ``room`` is filled by the other."""
    sent = got = 0
    while sent < len(data) or got < len(room):
        readable, writable, _ = select.select(
            [into] if got < len(room) else [], [out] if sent < len(data) else [], [], 1.0
        )
        try:
            if writable:
                sent += out.send(data[sent:])
            if readable:
                count = into.recv_into(room[got:])
                if not count:
                    raise Closed
                got += count
        except BlockingIOError:
            continue
        except OSError as error:
            raise Closed from error


def all_reduce(
    out: socket.socket, into: socket.socket, values: np.ndarray[tuple[int], np.dtype[np.float32]], me: int, size: int
) -> None:
    """Sum ``values`` (a multiple of ``size`` long) over all members, in place: size - 1 steps that reduce, as many that gather."""
    parts = values.reshape(size, -1)
    incoming = np.empty_like(parts[0])
    for turn in range(2 * (size - 1)):
        send, receive = (me - turn) % size, (me - turn - 1) % size
        exchange(out, into, memoryview(parts[send]).cast("B"), memoryview(incoming).cast("B"))
        if turn < size - 1:
            parts[receive] += incoming
        else:
            parts[receive] = incoming


def ring(task: Task) -> None:
    """Arguments: ``me`` of ``size``, ``listen`` and ``next``, addresses. Slot 0 is progress, slot 1 the sum's first value."""
    arguments = task.arguments
    me, size = int(arguments["me"]), int(arguments["size"])
    listener = socket.create_server((arguments["listen"], PORT))
    task.begin()
    out = connected(arguments["next"], task)
    listener.settimeout(_CONNECT_SECONDS)
    into, _ = listener.accept()
    progress = Progress(task.meter)
    for one in (out, into):
        one.setblocking(False)  # noqa: FBT003 - the standard library has it so
        one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    ones = np.ones(_VALUES // size * size, np.float32)
    with suppress(Closed):
        due = time.monotonic()
        while task.running():
            began = time.monotonic()
            values = ones.copy()
            all_reduce(out, into, values, me, size)
            task.meter.put(1, float(values[0]))
            due = max(due + _PERIOD, time.monotonic())
            time.sleep(due - time.monotonic() if due > time.monotonic() else 0.0)
            progress.piece("round", time.monotonic() - began)


def connected(address: str, task: Task) -> socket.socket:
    """A connection to the next member, which may not be there yet."""
    end = time.monotonic() + _CONNECT_SECONDS
    while True:
        try:
            return socket.create_connection((address, PORT), timeout=_CONNECT_SECONDS)
        except OSError:
            if time.monotonic() > end or not task.running():
                raise
            time.sleep(0.05)
