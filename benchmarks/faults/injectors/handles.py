"""A process that opens files and does not close them."""

from __future__ import annotations

from benchmarks.faults.injectors.base import STORAGE, WORKLOAD, ByProcess, Effect, Room

_RATE, _MOST = 1500, 60_000
_LEAST = 200.0
_ROOM = 4


class HandleLeak(ByProcess):
    """A leak of file handles, whose count the kernel keeps for the whole host."""

    kind = "handle_leak"
    subsystems = STORAGE | WORKLOAD
    worker = "handles"
    group = "leak"

    def __init__(self) -> None:
        super().__init__()
        self._before = 0

    def missing(self, room: Room) -> str | None:
        """Never to the end of what the host has."""
        limit = room.kernel.file_limit()
        if limit and limit < _ROOM * _MOST:
            return f"the host has only {limit} file handles"
        return super().missing(room)

    def arguments(self, room: Room) -> dict[str, object]:
        """How fast, and how many."""
        del room
        return {"rate": _RATE, "most": _MOST}

    def start(self, room: Room) -> None:
        """Begin."""
        self._before = room.kernel.open_files()
        super().start(room)

    def effect(self, room: Room) -> Effect:
        """Handles more than before, a second."""
        return Effect("handles", (room.kernel.open_files() - self._before) / self.lasted(room), _LEAST, "/s")
