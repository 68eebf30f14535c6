"""Sends probes to the peers and times their answers."""

from __future__ import annotations

import logging
import os
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle

from hwsonde_exporter.mesh.board import Board
from hwsonde_exporter.mesh.packet import NONCE_BYTES, SIZE, make_request, read_answer
from hwsonde_exporter.mesh.stamps import ROOM, arrival, ask_for_stamps
from hwsonde_exporter.threads import spawn

_LOG = logging.getLogger(__name__)

TIMEOUT_SECONDS = 1.0
MOST_RATE = 500.0  # probes a second, to all peers together
# The answers wait in the socket, with the time at which they came, until the thread looks: waking for each would cost more.
_TICK_SECONDS = 0.1
_RESOLVE_SECONDS = 60.0
# Switches choose among equal ways by addresses and ports: with one port a peer would be reached over one way only.
PORTS = 8
_NANOSECONDS = 1_000_000_000
# More than a clock is slewed by in a second; beyond it the clock was set between sending and receiving.
_CLOCK_SET = 1_000_000


@dataclass(frozen=True, slots=True)
class Peer:
    """Another host that answers probes: the name that it has in labels, its host name or address, and its UDP port."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class _Probe:
    """A probe under way: ``sent`` by the wall clock, in nanoseconds; ``lead`` is that clock less the monotonic one."""

    peer: str
    sent: int
    lead: int


class Flight:
    """The probes under way, by nonce, in the order in which they were sent.

    Times are nanoseconds of the wall clock, by which the kernel stamps packets; monotonic ones decide what is late.
    """

    def __init__(self, board: Board) -> None:
        self._board = board
        self._probes: dict[bytes, _Probe] = {}

    def __len__(self) -> int:
        """Give the number of probes under way."""
        return len(self._probes)

    def add(self, nonce: bytes, peer: str, monotonic: int, wall: int) -> None:
        """Note a probe that is about to be sent."""
        self._probes[nonce] = _Probe(peer, wall, wall - monotonic)

    def withdraw(self, nonce: bytes) -> None:
        """Forget a probe that could not be sent."""
        self._probes.pop(nonce, None)

    def take(self, data: bytes, came: int, lead: int) -> None:
        """Take a packet that came at ``came``; ``lead`` is the wall clock less the monotonic one now."""
        answer = read_answer(data)
        probe = self._probes.pop(answer[0], None) if answer is not None else None
        if answer is None or probe is None:
            return  # nobody's answer, a second one, or one that came too late
        took = came - probe.sent - answer[1]
        if abs(lead - probe.lead) >= _CLOCK_SET or took < 0:
            return  # neither lost nor timed: the clock was set, or the peer claims to have held it for longer than it was away
        if came - probe.sent > TIMEOUT_SECONDS * _NANOSECONDS:
            self._board.lost(probe.peer)
        else:
            self._board.observed(probe.peer, took / _NANOSECONDS)

    def expire(self, monotonic: int) -> None:
        """Count as lost what has been under way for too long at monotonic nanoseconds ``monotonic``."""
        limit = monotonic - int(TIMEOUT_SECONDS * _NANOSECONDS)
        late = []
        for nonce, probe in self._probes.items():
            if probe.sent - probe.lead > limit:
                break
            late.append(nonce)
        for nonce in late:
            self._board.lost(self._probes.pop(nonce).peer)


class Sender:
    """One thread that sends and receives, and one that looks names up if there are any.

    Parameters
    ----------
    peers
        Whom to probe, each once an ``interval``.
    interval
        Seconds; more where the peers are so many that `MOST_RATE` would be passed.
    board
        Where it counts.
    """

    def __init__(self, peers: Sequence[Peer], interval: float, board: Board) -> None:
        self._peers = tuple(peers)
        self._interval = max(interval, len(peers) / MOST_RATE)
        self._board = board
        self._stopped = threading.Event()
        self._flight = Flight(board)
        self._places: dict[str, tuple[int, tuple[object, ...]]] = {}
        self._channels: dict[tuple[int, int], socket.socket] = {}
        self._reported: dict[str, str] = {}

    def start(self) -> None:
        """Begin to probe; returns at once."""
        names = [peer for peer in self._peers if not self._resolve(peer, socket.AI_NUMERICHOST)]
        if names:
            spawn("mesh-names", self._look_up, names)
        spawn("mesh-sender", self._serve)

    def stop(self) -> None:
        """End soon; returns at once."""
        self._stopped.set()

    def _serve(self) -> None:
        try:
            due = time.monotonic()
            turns = self._turns()
            sent = 0.0
            tick = min(_TICK_SECONDS, self._interval / 2)
            while not self._stopped.wait(max(0.0, due - time.monotonic())):
                due = max(due + tick, time.monotonic())
                self._receive()
                self._flight.expire(time.monotonic_ns())
                # Peers take turns, as many at each tick as an interval needs.
                sent += len(self._peers) * tick / self._interval
                while sent >= 1:
                    sent -= 1
                    self._send(*next(turns))
        finally:
            for channel in self._channels.values():
                channel.close()

    def _turns(self) -> Iterator[tuple[Peer, int]]:
        """Whom to send to, and from which of the ports: a peer gets the next one each time."""
        for turn in cycle(range(PORTS)):
            for peer in self._peers:
                yield peer, turn

    def _send(self, peer: Peer, turn: int) -> None:
        place = self._places.get(peer.name)
        if place is None:
            self._board.failed(peer.name)
            return
        nonce = os.urandom(NONCE_BYTES)
        request = make_request(nonce)
        try:
            channel = self._channel(place[0], turn)
            self._flight.add(nonce, peer.name, time.monotonic_ns(), time.time_ns())
            channel.sendto(request, place[1])
        except OSError as error:
            self._flight.withdraw(nonce)
            self._board.failed(peer.name)
            self._report(peer, f"cannot be sent to: {error.strerror or error}")
            return
        self._board.sent(peer.name)
        self._report(peer, "")

    def _receive(self) -> None:
        for channel in self._channels.values():
            # As many as can have come since the latest tick, so that a flood does not keep the thread from sending.
            for _ in range(1 + 2 * int(MOST_RATE)):
                try:
                    data, control, _, _ = channel.recvmsg(SIZE + 1, ROOM, socket.MSG_DONTWAIT)
                except BlockingIOError:
                    break
                except OSError:
                    continue  # what routers and firewalls answered to a probe; it will count as lost
                wall, monotonic = time.time_ns(), time.monotonic_ns()
                came = arrival(control)
                self._flight.take(data, wall if came is None else came, wall - monotonic)

    def _channel(self, family: int, turn: int) -> socket.socket:
        channel = self._channels.get((family, turn))
        if channel is None:
            channel = self._channels[family, turn] = socket.socket(family, socket.SOCK_DGRAM)
            ask_for_stamps(channel)
        return channel

    def _look_up(self, peers: Sequence[Peer]) -> None:
        """Look names up again and again: hosts move, and a name server may answer late or never."""
        while True:
            for peer in peers:
                if self._stopped.is_set():
                    return
                if not self._resolve(peer, 0) and peer.name not in self._places:
                    self._report(peer, "has no address")
            if self._stopped.wait(_RESOLVE_SECONDS):
                return

    def _resolve(self, peer: Peer, flags: int) -> bool:
        try:
            found = socket.getaddrinfo(peer.host, peer.port, type=socket.SOCK_DGRAM, flags=flags)
        except (OSError, UnicodeError):
            return False
        family, _, _, _, place = found[0]
        self._places[peer.name] = (family, place)
        return True

    def _report(self, peer: Peer, problem: str) -> None:
        """Write one line for each change, never for each probe."""
        if self._reported.get(peer.name, "") != problem:
            self._reported[peer.name] = problem
            if problem:
                _LOG.warning("network_probe: peer %s %s", peer.name, problem)
            else:
                _LOG.info("network_probe: peer %s is sent to again", peer.name)
