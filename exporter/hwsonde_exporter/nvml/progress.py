"""Where the worker is: a slot of shared memory that it writes before each group of calls.

A worker that hangs cannot tell what it hangs in, and telling before each group by message would cost two system calls a
group. So both map a page, and the parent looks when an answer is late.
"""

from __future__ import annotations

import mmap
import os
import struct
from typing import NamedTuple

_SLOT = struct.Struct("<QdiI48s")
_SEQUENCE = struct.Struct("<Q")
_TRIES = 100
NO_DEVICE = -1


class Where(NamedTuple):
    """What the worker is in: the driver's number of the GPU (-1 for none), the group of calls, and since when (monotonic)."""

    number: int
    group: str
    since: float


class Slot:
    """The shared page.

    Parameters
    ----------
    descriptor
        Of the memory; `create` makes one.
    """

    def __init__(self, descriptor: int) -> None:
        self._map = mmap.mmap(descriptor, mmap.PAGESIZE)
        self._sequence = 0

    @staticmethod
    def create() -> int:
        """Make a descriptor of fresh shared memory, which a child may inherit."""
        descriptor = os.memfd_create("hwsonde-nvml", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, mmap.PAGESIZE)
        return descriptor

    def enter(self, number: int, group: str, now: float) -> None:
        """Say what begins now. Called by one thread only."""
        name = group.encode()[:48]
        # An odd number says that the rest is being written.
        _SEQUENCE.pack_into(self._map, 0, self._sequence + 1)
        _SLOT.pack_into(self._map, 0, self._sequence + 1, now, number, len(name), name)
        self._sequence += 2
        _SEQUENCE.pack_into(self._map, 0, self._sequence)

    def leave(self, now: float) -> None:
        """Say that it came back."""
        self.enter(NO_DEVICE, "", now)

    def read(self) -> Where | None:
        """What the worker is in, or None if it is in no call."""
        for _ in range(_TRIES):
            sequence, since, number, length, name = _SLOT.unpack_from(self._map, 0)
            (after,) = _SEQUENCE.unpack_from(self._map, 0)
            if sequence == after and sequence % 2 == 0:
                group = name[: min(length, len(name))].decode("ascii", "replace")
                return Where(number, group, since) if group else None
        return None

    def close(self) -> None:
        """Unmap the page."""
        self._map.close()
