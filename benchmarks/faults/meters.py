"""How far a worker has come: a small file that it writes in place and the bench reads whenever it wants."""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from statistics import median

_SLOTS = 4
_SIZE = 8 * _SLOTS
_VALUE = struct.Struct("<d")
_SAMPLES = 15


class Meter:
    """A worker's side: a few numbers in a file.

    Parameters
    ----------
    path
        The file; made anew. None: kept in memory only.
    """

    def __init__(self, path: Path | None) -> None:
        if path is None:
            self._map = mmap.mmap(-1, _SIZE)
            return
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.ftruncate(descriptor, _SIZE)
        self._map = mmap.mmap(descriptor, _SIZE)
        os.close(descriptor)

    def put(self, slot: int, value: float) -> None:
        """Say a number."""
        # Eight aligned bytes: a reader sees the old or the new one.
        _VALUE.pack_into(self._map, 8 * slot, value)

    def get(self, slot: int) -> float:
        """The number."""
        return float(_VALUE.unpack_from(self._map, 8 * slot)[0])

    def add(self, slot: int, value: float) -> None:
        """Add to a number."""
        self.put(slot, self.get(slot) + value)


class Progress:
    """Work done, in seconds that it takes on the healthy host: whatever the phase, a healthy worker makes one second a second.

    Parameters
    ----------
    meter
        Slot 0 gets the work.

    Notes
    -----
    Pieces of one sort count what their first `_SAMPLES` took in the median; those before count what they took themselves.
    """

    def __init__(self, meter: Meter) -> None:
        self.meter = meter
        self._seen: dict[str, list[float]] = {}
        self._worth: dict[str, float] = {}

    def piece(self, sort: str, seconds: float) -> None:
        """Count one piece of work that took so long."""
        worth = self._worth.get(sort)
        if worth is None:
            seen = self._seen.setdefault(sort, [])
            seen.append(seconds)
            worth = seconds
            if len(seen) == _SAMPLES:
                self._worth[sort] = median(seen)
        self.meter.add(0, worth)


def read_meter(path: Path, slot: int = 0) -> float:
    """What a worker says of itself; 0 before it says anything."""
    try:
        data = path.read_bytes()
    except OSError:
        return 0.0
    return float(_VALUE.unpack_from(data, 8 * slot)[0]) if len(data) >= _SIZE else 0.0


def lost(before: Mapping[str, float], during: Mapping[str, float]) -> float | None:
    """Part of the progress that was lost by the worker that lost most.

    Parameters
    ----------
    before, during
        Rates by worker, healthy and under the fault.

    Returns
    -------
    float or None
        0..1; None where no worker made progress before.
    """
    shares = [1 - during[name] / rate for name, rate in before.items() if rate > 0 and name in during]
    return min(max(*shares, 0.0), 1.0) if shares else None
