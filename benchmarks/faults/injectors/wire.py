"""A network that loses, is too slow, or takes its time: on the cables of the ring."""

from __future__ import annotations

from typing import ClassVar

from benchmarks.faults.children import Child
from benchmarks.faults.injectors.base import NETWORK, Effect, Injector, Room, rate_of
from benchmarks.faults.network import LINKS, NAMESPACES

_SHARE = 0.5
_LEAST_LOST = 0.2
_LEAST_RATE = 100_000


class OnRing(Injector):
    """What all of them need."""

    subsystems = NETWORK
    part = "ring0"

    def missing(self, room: Room) -> str | None:
        """Needs the namespaces."""
        if room.network is None:
            return "network namespaces cannot be made here"
        return super().missing(room)


class Loss2(OnRing):
    """Of every hundred packets two are lost, on each cable."""

    kind = "loss_2"
    share: ClassVar[float] = 0.02
    least: ClassVar[float] = 5.0

    def __init__(self) -> None:
        self._sent_again = 0

    def start(self, room: Room) -> None:
        """Begin to lose."""
        self._sent_again = self._retransmits(room)
        for link in LINKS:
            if room.network is not None:
                room.network.lose(link, self.share)

    def effect(self, room: Room) -> Effect:
        """Segments that the ring had to send again."""
        return Effect("segments sent again", float(self._retransmits(room) - self._sent_again), self.least)

    def stop(self, room: Room) -> None:
        """Lose nothing."""
        for link in LINKS:
            if room.network is not None:
                room.network.lose_nothing(link)

    def _retransmits(self, room: Room) -> int:
        members = [room.pid_of(f"ring{link.number}") for link in LINKS]
        return sum(room.kernel.network(pid, "Tcp", "RetransSegs") for pid in members if pid)


class Loss10(Loss2):
    """Of every hundred packets ten."""

    kind = "loss_10"
    share = 0.1
    least = 20.0


class RateLimit(OnRing):
    """Every cable carries half of what the ring sends."""

    kind = "rate_limit"

    def __init__(self) -> None:
        self._seen: list[tuple[float, float]] = []

    def prepare(self, room: Room) -> None:
        """Begin to see how much it sends."""
        self._look(room)

    def start(self, room: Room) -> None:
        """Set the limit."""
        self._look(room)
        rate = max(int(rate_of(self._seen) * _SHARE), _LEAST_RATE)
        for link in LINKS:
            if room.network is not None:
                room.network.limit(link, rate)

    def effect(self, room: Room) -> Effect:
        """Part of its traffic that is lost."""
        self._look(room)
        usual = rate_of(self._seen[:2])
        return Effect("traffic lost", 1 - rate_of(self._seen[-2:]) / usual if usual > 0 else 0.0, _LEAST_LOST)

    def stop(self, room: Room) -> None:
        """Lift it."""
        for link in LINKS:
            if room.network is not None:
                room.network.limit_not(link)

    def _look(self, room: Room) -> None:
        sent = room.kernel.sent_bytes(room.pid_of("ring0"), LINKS[0].near)
        self._seen.append((room.now(), float(sent)))


class Delay(OnRing):
    """Packets of one cable arrive 25 ms late: they go through a process of ours, where the kernel has no delay of its own to offer."""

    kind = "delay"
    seconds: ClassVar[float] = 0.025
    least: ClassVar[float] = 10.0
    enter: ClassVar[str] = "hwbe0"
    leave: ClassVar[str] = "hwbx0"

    def __init__(self) -> None:
        self._child: Child | None = None
        self._began = 0.0

    def missing(self, room: Room) -> str | None:
        """Needs tunnels."""
        if not room.kernel.has_tunnels():
            return "/dev/net/tun is not here"
        return super().missing(room)

    def prepare(self, room: Room) -> None:
        """Start the process; nothing goes through it yet."""
        link = LINKS[0]
        self._child = room.spawn(
            "relay",
            {
                "source": str(NAMESPACES / link.source),
                "target": str(NAMESPACES / link.target),
                "enter": self.enter,
                "leave": self.leave,
                "seconds": self.seconds,
            },
            "relay",
        )

    def start(self, room: Room) -> None:
        """Send packets its way."""
        if self._child is None:
            self.prepare(room)
        if self._child is not None and room.network is not None:
            self._child.go()
            room.network.detour(LINKS[0], self.enter, self.leave)
        self._began = room.now()

    def effect(self, room: Room) -> Effect:
        """Packets that it held, a second."""
        held = room.meter(self._child) if self._child is not None else 0.0
        return Effect("packets delayed", held / max(room.now() - self._began, 1e-3), self.least, "/s")

    def stop(self, room: Room) -> None:
        """Send them straight again."""
        if self._child is not None:
            if room.network is not None:
                room.network.direct(LINKS[0], self.enter)
            self._child.stop()
            self._child = None
