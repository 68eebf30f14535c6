"""The training's control group may use a part of one core only."""

from __future__ import annotations

from benchmarks.faults.injectors.base import CPU, Effect, Injector, Room

_CORES = 0.4
_LEAST = 0.1


class CpuQuota(Injector):
    """A quota of CPU."""

    kind = "cpu_quota"
    subsystems = CPU
    part = "training"

    def __init__(self) -> None:
        self._set = False
        self._began = self._throttled = 0.0

    def missing(self, room: Room) -> str | None:
        """Needs a controller."""
        if room.cgroups.first(self.part, "cpu.max", "cpu.cfs_quota_us") is None:
            return "no control group here has quotas of CPU"
        return super().missing(room)

    def start(self, room: Room) -> None:
        """Set it."""
        self._began, self._throttled = room.now(), room.cgroups.throttled_seconds(self.part)
        self._set = True
        room.cgroups.set_quota(self.part, _CORES)

    def effect(self, room: Room) -> Effect:
        """Time that the group was held back; a quota that is never reached does nothing."""
        passed = max(room.now() - self._began, 1e-3)
        held = (room.cgroups.throttled_seconds(self.part) - self._throttled) / passed
        return Effect("time throttled", held, _LEAST, "s/s")

    def stop(self, room: Room) -> None:
        """Lift it."""
        if self._set:
            room.cgroups.set_quota(self.part, None)
            self._set = False
