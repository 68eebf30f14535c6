"""Too little memory: for the training, and for a process that touches more than it may hold."""

from __future__ import annotations

from benchmarks.faults.injectors.base import MEMORY, STORAGE, ByProcess, Effect, Injector, Room

_SPARE = 24 << 20
_LEAST_HITS = 20.0
_PAGING_ROOM = 48 << 20
_LEAST_FAULTS = 50.0


class MemoryPressure(Injector):
    """The training's control group may hold little more than it needs: what it loads pushes out what it loaded."""

    kind = "memory_pressure"
    subsystems = MEMORY
    part = "training"

    def __init__(self) -> None:
        self._set = False
        self._hits = 0

    def missing(self, room: Room) -> str | None:
        """Needs a controller."""
        if room.cgroups.first(self.part, "memory.max", "memory.limit_in_bytes") is None:
            return "no control group here has limits of memory"
        return super().missing(room)

    def start(self, room: Room) -> None:
        """Set the limit."""
        self._hits = room.cgroups.limit_hits(self.part)
        _, anonymous = room.cgroups.memory(self.part)
        self._set = True
        room.cgroups.limit_memory(self.part, anonymous + _SPARE)

    def effect(self, room: Room) -> Effect:
        """How often the limit was met."""
        return Effect("limit met", float(room.cgroups.limit_hits(self.part) - self._hits), _LEAST_HITS, "times")

    def stop(self, room: Room) -> None:
        """Lift it."""
        if self._set:
            room.cgroups.limit_memory(self.part, None)
            self._set = False


class Thrash(ByProcess):
    """A process reads pages of a file all over, and may hold a fifth of them: nearly each is a fault and a read."""

    kind = "thrash"
    subsystems = MEMORY | STORAGE
    worker = "paging"
    group = "thrash"

    def __init__(self) -> None:
        super().__init__()
        self._faults = 0

    def missing(self, room: Room) -> str | None:
        """Needs a controller."""
        return None if room.cgroups.can("memory") else "no control group here has limits of memory"

    def arguments(self, room: Room) -> dict[str, object]:
        """The file."""
        return {"data": str(room.small)}

    def prepare(self, room: Room) -> None:
        """Limit the group before anything is in it."""
        room.cgroups.make(self.group)
        room.cgroups.limit_memory(self.group, _PAGING_ROOM)
        super().prepare(room)

    def start(self, room: Room) -> None:
        """Begin."""
        self._faults = room.cgroups.memory_stat(self.group, "pgmajfault")
        super().start(room)

    def effect(self, room: Room) -> Effect:
        """Faults that read the disk, a second."""
        faults = room.cgroups.memory_stat(self.group, "pgmajfault") - self._faults
        return Effect("major page faults", faults / self.lasted(room), _LEAST_FAULTS, "/s")
