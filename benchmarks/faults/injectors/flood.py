"""A flood of small datagrams at one member of the ring."""

from __future__ import annotations

from benchmarks.faults.injectors.base import CPU, NETWORK, ByProcess, Effect, Room
from benchmarks.faults.network import LINKS

_LEAST = 3000.0


class UdpFlood(ByProcess):
    """Sent from the namespace before it in the ring; the receiver's kernel has the work of refusing them."""

    kind = "udp_flood"
    subsystems = NETWORK | CPU
    worker = "flood"
    group = "flood"
    netns = LINKS[0].source
    part = "ring0"

    def __init__(self) -> None:
        super().__init__()
        self._before = 0

    def missing(self, room: Room) -> str | None:
        """Needs the namespaces."""
        if room.network is None:
            return "network namespaces cannot be made here"
        return super().missing(room)

    def arguments(self, room: Room) -> dict[str, object]:
        """Where to, and how many processes."""
        del room
        return {"address": LINKS[0].far_address, "number": 2}

    def start(self, room: Room) -> None:
        """Begin."""
        self._before = self._arrived(room)
        super().start(room)

    def effect(self, room: Room) -> Effect:
        """Datagrams that arrived, a second."""
        return Effect("datagrams", (self._arrived(room) - self._before) / self.lasted(room), _LEAST, "/s")

    def _arrived(self, room: Room) -> int:
        pid = room.pid_of("ring1")
        names = ("InDatagrams", "NoPorts", "InErrors")
        return sum(room.kernel.network(pid, "Udp", name) for name in names) if pid else 0
