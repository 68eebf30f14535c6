"""Storms of forks and of context switches, both proven by the kernel's own counters."""

from __future__ import annotations

from typing import ClassVar

from benchmarks.faults.injectors.base import CPU, ByProcess, Effect, Room


class Storm(ByProcess):
    """Something that /proc/stat counts, far more often than before."""

    subsystems = CPU
    group = "storm"
    counter: ClassVar[str]
    least: ClassVar[float]

    def __init__(self) -> None:
        super().__init__()
        self._prepared = self._usual = self._count = 0.0

    def prepare(self, room: Room) -> None:
        """Start the worker, and begin to count what is usual."""
        super().prepare(room)
        self._prepared, self._count = room.now(), room.kernel.stat(self.counter)

    def start(self, room: Room) -> None:
        """Begin."""
        count, passed = room.kernel.stat(self.counter), room.now() - self._prepared
        # Right after preparing there was no time to see what is usual.
        self._usual = (count - self._count) / passed if passed >= 1.0 else 0.0
        self._count = count
        super().start(room)

    def effect(self, room: Room) -> Effect:
        """More than usual, a second."""
        rate = (room.kernel.stat(self.counter) - self._count) / self.lasted(room)
        return Effect(f"{self.counter} above the usual", rate - self._usual, self.least, "/s")


class ForkStorm(Storm):
    """Processes that make processes."""

    kind = "fork_storm"
    worker = "forks"
    counter = "processes"
    least = 100.0

    def arguments(self, room: Room) -> dict[str, object]:
        """One for each core."""
        return {"number": room.cpus}


class SwitchStorm(Storm):
    """Processes that wake each other."""

    kind = "switch_storm"
    worker = "switches"
    counter = "ctxt"
    least = 10_000.0

    def arguments(self, room: Room) -> dict[str, object]:
        """One pair for each core."""
        return {"number": room.cpus}
