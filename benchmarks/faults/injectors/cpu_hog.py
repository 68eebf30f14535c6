"""Processes that take the CPU, on a host that has some left and on one that is full."""

from __future__ import annotations

from typing import ClassVar

from benchmarks.faults.injectors.base import CPU, ByProcess, Effect, Room

_PER_CORE = 4


class CpuHog(ByProcess):
    """Four busy processes a core on a host with cores to spare."""

    kind = "cpu_hog_quiet"
    subsystems = CPU
    worker = "spin"
    group = "hog"
    load: ClassVar[str] = "quiet"
    least_cores: ClassVar[float] = 0.5

    def __init__(self) -> None:
        super().__init__()
        self._used = 0.0

    def missing(self, room: Room) -> str | None:
        """Each sort of host has its own sort of session."""
        return None if room.load == self.load else f"only in a session with --load {self.load}"

    def arguments(self, room: Room) -> dict[str, object]:
        """How many processes."""
        return {"number": _PER_CORE * room.cpus}

    def start(self, room: Room) -> None:
        """Begin."""
        self._used = room.cgroups.cpu_seconds(self.group)
        super().start(room)

    def effect(self, room: Room) -> Effect:
        """CPU that its control group got."""
        cores = (room.cgroups.cpu_seconds(self.group) - self._used) / self.lasted(room)
        return Effect("CPU of the hog", cores, self.least_cores, "cores")


class CpuHogFull(CpuHog):
    """As many busy processes as cores, on a host whose cores are all in use: totals hardly move, who gets the CPU does."""

    kind = "cpu_hog_full"
    load = "full"
    least_cores = 0.3

    def arguments(self, room: Room) -> dict[str, object]:
        """How many processes."""
        return {"number": room.cpus}
