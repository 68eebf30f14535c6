"""The disk is busy with somebody else, or gives the reader less than it wants."""

from __future__ import annotations

from typing import ClassVar

from benchmarks.faults.injectors.base import STORAGE, ByProcess, Effect, Injector, Room, rate_of

_MIB = float(1 << 20)
_PROCESSES = 4
_READER_SHARE = 0.25
_LEAST_LOST = 0.3
_LEAST_RATE = 1 << 20


class DiskWrite(ByProcess):
    """Four processes write past the page cache, so that what they count has been on the disk."""

    kind = "disk_write"
    subsystems = STORAGE
    worker = "writer"
    group = "writer"
    verb: ClassVar[str] = "written"
    least: ClassVar[float] = 10.0

    def arguments(self, room: Room) -> dict[str, object]:
        """Where, and how many."""
        return {"folder": str(room.disk), "number": _PROCESSES}

    def effect(self, room: Room) -> Effect:
        """What passed, a second."""
        return Effect(self.verb, self.told(room, _PROCESSES) / self.lasted(room) / _MIB, self.least, "MiB/s")


class DiskRead(DiskWrite):
    """Four processes read pieces of a file past the page cache, at random."""

    kind = "disk_read"
    worker = "random_reader"
    group = "random-reader"
    verb = "read"

    def arguments(self, room: Room) -> dict[str, object]:
        """What, and how many."""
        return {"data": str(room.data), "number": _PROCESSES}


class BlockThrottle(Injector):
    """The reader's control group gets a quarter of what it reads."""

    kind = "block_throttle"
    subsystems = STORAGE
    part = "reader"

    def __init__(self) -> None:
        self._device = ""
        self._seen: list[tuple[float, float]] = []

    def missing(self, room: Room) -> str | None:
        """Needs a controller and a disk."""
        if room.cgroups.first(self.part, "io.max", "blkio.throttle.read_bps_device") is None:
            return "no control group here has limits of block devices"
        if room.kernel.disk_of(room.data.parent) is None:
            return f"{room.data.parent} lies on no block device"
        return super().missing(room)

    def prepare(self, room: Room) -> None:
        """Begin to see how much it reads."""
        self._look(room)

    def start(self, room: Room) -> None:
        """Set the limit."""
        self._look(room)
        found = room.kernel.disk_of(room.data.parent)
        self._device = found[1] if found is not None else ""
        limit = max(int(rate_of(self._seen) * _READER_SHARE), _LEAST_RATE)
        room.cgroups.throttle_reads(self.part, self._device, limit)

    def effect(self, room: Room) -> Effect:
        """Part of its reading that is lost."""
        usual = rate_of(self._seen)
        self._look(room)
        now = rate_of(self._seen[-2:])
        return Effect("reading lost", 1 - now / usual if usual > 0 else 0.0, _LEAST_LOST)

    def stop(self, room: Room) -> None:
        """Lift it."""
        if self._device:
            room.cgroups.throttle_reads(self.part, self._device, None)
            self._device = ""

    def _look(self, room: Room) -> None:
        self._seen.append((room.now(), room.progress(self.part, 1)))
