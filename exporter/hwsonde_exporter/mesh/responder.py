"""Answers the probes of other hosts, at a bounded rate."""

from __future__ import annotations

import logging
import socket
import struct
import threading
import time
from collections import OrderedDict
from contextlib import suppress

from hwsonde_exporter.mesh.board import Board
from hwsonde_exporter.mesh.packet import SIZE, make_answer, read_request
from hwsonde_exporter.mesh.stamps import ROOM, Control, arrival, ask_for_stamps
from hwsonde_exporter.threads import spawn

_LOG = logging.getLogger(__name__)

# Of all packets together, whatever they hold: the rest stays in the socket's buffer, which the kernel lets overflow.
TOTAL_RATE = 1000.0
SOURCE_RATE = 50.0  # of one address, a second; as much again at once
_SOURCES = 1024
_PAUSE_SECONDS = 0.05
_RETRY_SECONDS = 1.0
_WAIT_SECONDS = 0.5  # how soon the thread notices that it is to end
_MOST_HELD = 1_000_000_000
_IP_PKTINFO = 8  # the module socket names it from Python 3.14 on
_LINK_LOCAL = b"\xfe\x80"


class Bucket:
    """Tokens that come back at ``rate`` a second, at most ``room`` of them."""

    __slots__ = ("_level", "_rate", "_room", "_time")

    def __init__(self, rate: float, room: float, now: float) -> None:
        self._rate, self._room = rate, room
        self._level, self._time = room, now

    def take(self, now: float) -> bool:
        """Take one token at monotonic time ``now``; False if there is none."""
        self._level = min(self._room, self._level + (now - self._time) * self._rate)
        self._time = now
        if self._level < 1:
            return False
        self._level -= 1
        return True


class Sources:
    """A bucket for each of the addresses that asked most recently."""

    def __init__(self, rate: float = SOURCE_RATE, most: int = _SOURCES) -> None:
        self._rate, self._most = rate, most
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    def take(self, address: str, now: float) -> bool:
        """Whether this address may have an answer at monotonic time ``now``."""
        bucket = self._buckets.get(address)
        if bucket is None:
            if len(self._buckets) >= self._most:
                self._buckets.popitem(last=False)
            bucket = self._buckets[address] = Bucket(self._rate, self._rate, now)
        self._buckets.move_to_end(address)
        return bucket.take(now)


class Responder:
    """One thread with one socket.

    Parameters
    ----------
    address
        Host and port to listen on; an empty host stands for all addresses of both families.
    board
        Where it counts.
    """

    def __init__(self, address: tuple[str, int], board: Board) -> None:
        self._address = address
        self._board = board
        self._stopped = threading.Event()
        self._sources = Sources()
        self.bound = threading.Event()
        self.port = address[1]

    def start(self) -> None:
        """Begin to listen; returns at once."""
        spawn("mesh-responder", self._serve)

    def stop(self) -> None:
        """End soon; returns at once."""
        self._stopped.set()

    def _serve(self) -> None:
        host, port = self._address
        failures = 0
        while not self._stopped.is_set():
            try:
                with listen(self._address) as channel:
                    self.port = channel.getsockname()[1]
                    failures = 0
                    self.bound.set()
                    self._answer_all(channel)
            except OSError as error:
                failures += 1
                # The first time it may be the configuration before this one, which is about to let go of the port.
                if failures == 2:
                    text = "network_probe cannot listen on %s:%d: %s; tried again every second"
                    _LOG.warning(text, host, port, error.strerror or error)
            self.bound.clear()
            self._stopped.wait(_RETRY_SECONDS)

    def _answer_all(self, channel: socket.socket) -> None:
        total = Bucket(TOTAL_RATE, TOTAL_RATE, time.monotonic())
        while not self._stopped.is_set():
            if not total.take(time.monotonic()):
                self._stopped.wait(_PAUSE_SECONDS)
                continue
            try:
                data, control, _, source = channel.recvmsg(SIZE + 1, ROOM)
            except TimeoutError:
                continue
            self._answer(channel, data, control, source)

    def _answer(self, channel: socket.socket, data: bytes, control: Control, source: tuple[str, int]) -> None:
        nonce = read_request(data)
        if nonce is None:
            self._board.refused("malformed")
            return
        if not self._sources.take(source[0], time.monotonic()):
            self._board.refused("rate")
            return
        came = arrival(control)
        more = answer_from(control)
        now = time.time_ns()
        # A clock that was set meanwhile makes nonsense; the asker then sees the whole time.
        held = now - came if came is not None and 0 <= now - came <= _MOST_HELD else 0
        with suppress(OSError):  # whoever asked cannot be reached: it will see a loss
            channel.sendmsg([make_answer(nonce, held)], more, 0, source)
            self._board.answered()


def listen(address: tuple[str, int]) -> socket.socket:
    """UDP socket bound to an address, whose packets come with the time and the address that was asked; raises OSError."""
    host, port = address
    found = socket.getaddrinfo(host or None, port, type=socket.SOCK_DGRAM, flags=socket.AI_PASSIVE)
    # For all addresses one socket of IPv6 serves both families, where there is IPv6.
    wanted = sorted(found, key=lambda item: item[0] != socket.AF_INET6) if not host else found
    problem = OSError("no address")
    for family, kind, protocol, _, place in wanted:
        try:
            return _bound(socket.socket(family, kind, protocol), family, place, both=not host)
        except OSError as error:
            problem = error
    raise problem


def _bound(channel: socket.socket, family: int, place: tuple[object, ...], *, both: bool) -> socket.socket:
    try:
        if family == socket.AF_INET6:
            channel.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(not both))
            channel.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
        else:
            channel.setsockopt(socket.IPPROTO_IP, _IP_PKTINFO, 1)
        ask_for_stamps(channel)
        channel.settimeout(_WAIT_SECONDS)
        channel.bind(place)
    except OSError:
        channel.close()
        raise
    return channel


def answer_from(control: Control) -> Control:
    """Control message that sends the answer from the address that was asked, which a host with several could not guess."""
    for level, kind, data in control:
        if level == socket.IPPROTO_IP and kind == _IP_PKTINFO and len(data) == 12:
            # struct in_pktinfo: device, the address that was asked, the packet's; the route decides on the device.
            return [(level, kind, struct.pack("=I4s4s", 0, data[4:8], bytes(4)))]
        if level == socket.IPPROTO_IPV6 and kind == socket.IPV6_PKTINFO and len(data) == 20:
            address, device = data[:16], data[16:]
            return [(level, kind, address + (device if address.startswith(_LINK_LOCAL) else bytes(4)))]
    return []
