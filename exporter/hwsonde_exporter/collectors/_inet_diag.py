"""What the kernel tells of TCP sockets by NETLINK_SOCK_DIAG; see sock_diag(7), linux/inet_diag.h and linux/tcp.h.

The older of its two requests is used (TCPDIAG_GETSOCK, which ``ss`` sends too where it wants all families): it alone gives
IPv4 and IPv6 in one walk over the table of connections, which has half a million buckets on a large host.
"""

from __future__ import annotations

import struct
import sys
from typing import NamedTuple

from hwsonde_exporter.collectors._netlink import attribute

REQUEST_TYPE = 18  # TCPDIAG_GETSOCK
ESTABLISHED, LISTEN = 1, 10
_AF_UNSPEC, _AF_INET, _AF_INET6 = 0, 2, 10
_INFO = 2  # INET_DIAG_INFO
# struct inet_diag_req: family, lengths of the addresses, extensions, sockid, states, dbs.
_REQUEST = struct.Struct("=BBBB48sII")
# struct inet_diag_msg: family, state, timer, retrans, ports, source, destination, device, cookie, five numbers.
_MESSAGE = struct.Struct("=BBBB4s16s16sI8s20s")
_ATTRIBUTE = struct.Struct("=HH")  # length, type
_PLACE = slice(8, 44)  # source, destination and device
_COOKIE = slice(44, 52)
# struct tcp_info up to tcpi_dsack_dups: retransmits, flags of the delivery rate, last_data_sent, rtt, total_retrans,
# bytes_acked, min_rtt, data_segs_out, delivery_rate, dsack_dups.
_FIELDS = struct.Struct("=2xB4xB36xI20xI28xI16xQ20xI4xIQ48xI")
LEAST_INFO = 128  # up to tcpi_bytes_acked, Linux 4.1
SIZE_OF = {"min_rtt": 152, "data_segs_out": 160, "delivery_rate": 168, "dsack_dups": _FIELDS.size}
_NO_MIN_RTT = (1 << 32) - 1
_MAPPED = bytes(10) + b"\xff\xff"


_BYTECODE = 1  # INET_DIAG_REQ_BYTECODE
_JUMP, _DESTINATION = 1, 8  # INET_DIAG_BC_JMP, INET_DIAG_BC_D_COND
_STEP = struct.Struct("=BBH")  # code, distance if it holds, distance if not
_HOST_CONDITION = struct.Struct("=BBxxi")  # struct inet_diag_hostcond: family, length of the prefix, port or -1


class Flow(NamedTuple):
    """One established connection.

    Attributes
    ----------
    place
        Source and destination address and the device that the socket is bound to, as the kernel gives them: see `split_place`.
    family
        AF_INET or AF_INET6.
    cookie
        Number of the socket, never used again as long as the host runs; 8 bytes.
    size
        Length of the kernel's struct tcp_info in bytes: what lies beyond is 0 here (`SIZE_OF`).
    unanswered
        Retransmission time-outs in a row that nothing has answered.
    limited
        Whether the delivery rate was measured while the program sent less than it could have.
    idle
        Milliseconds since data was last sent.
    rtt, least_rtt
        Smoothed round-trip time, and its minimum over the kernel's window (300 s), in microseconds; 0 if not known.
    retransmits, duplicates, segments
        Counters, modulo 2^32: segments sent again, those that the peer reported to have got twice, and data segments sent.
    acknowledged
        Bytes that the peer has acknowledged, a counter.
    rate
        Delivery rate in bytes per second; 0 if not known.
    """

    place: bytes
    family: int
    cookie: bytes
    size: int
    unanswered: int
    limited: bool
    idle: int
    rtt: int
    retransmits: int
    acknowledged: int
    least_rtt: int
    segments: int
    rate: int
    duplicates: int


def request(state: int, *, with_loopback: bool = True) -> bytes:
    """Request for all TCP sockets in one state, with struct tcp_info; those of the loopback addresses may be left out."""
    head = _REQUEST.pack(_AF_UNSPEC, 0, 0, 1 << (_INFO - 1), b"", 1 << state, 0)
    return head if with_loopback else head + attribute(_BYTECODE, _NO_LOOPBACK)


def _filter() -> bytes:
    """Program for the kernel that passes over connections to 127.0.0.0/8 and ::1 (struct inet_diag_bc_op).

    Each step says how far to go if its condition holds and if not; who arrives just at the end is shown, who jumps beyond it is
    not. A jump is a condition that never holds.
    """
    program = b""
    # From the end to the beginning, since a jump must know how much is behind it.
    for family, length, address in ((_AF_INET6, 128, bytes(15) + b"\1"), (_AF_INET, 8, b"\x7f\0\0\0")):
        jump = _STEP.pack(_JUMP, _STEP.size, _STEP.size + len(program) + 4)
        condition = _HOST_CONDITION.pack(family, length, -1) + address
        size = _STEP.size + len(condition)
        program = _STEP.pack(_DESTINATION, size, size + len(jump)) + condition + jump + program
    return program


_NO_LOOPBACK = _filter()


def parse_flow(message: memoryview) -> Flow | None:
    """Parse an answer behind its netlink header; None if it is no established connection or lacks struct tcp_info.

    struct tcp_info has grown at its end over the years; what a kernel does not have is 0.
    """
    if len(message) < _MESSAGE.size:
        return None
    family, state = message[0], message[1]
    if state != ESTABLISHED or family not in {_AF_INET, _AF_INET6}:
        return None
    info = _find_info(message)
    if info is None or len(info) < LEAST_INFO:
        return None
    size = len(info)
    fields = _FIELDS.unpack_from(info if size >= _FIELDS.size else bytes(info) + bytes(_FIELDS.size - size))
    unanswered, flags, idle, rtt, retransmits, acknowledged, least_rtt, segments, rate, duplicates = fields
    return Flow(
        bytes(message[_PLACE]),
        family,
        bytes(message[_COOKIE]),
        size,
        unanswered,
        bool(flags & 1),
        idle,
        rtt,
        retransmits,
        acknowledged,
        0 if least_rtt == _NO_MIN_RTT else least_rtt,
        segments,
        rate,
        duplicates,
    )


def _find_info(message: memoryview) -> memoryview | None:
    # What _netlink.attributes does, written out: this runs for each connection of a host.
    place, end = _MESSAGE.size, len(message)
    while place + 4 <= end:
        length, kind = _ATTRIBUTE.unpack_from(message, place)
        if length < 4 or place + length > end:
            return None
        if kind == _INFO:
            return message[place + 4 : place + length]
        place += (length + 3) & ~3
    return None


def split_place(place: bytes, family: int) -> tuple[bytes, bytes, int]:
    """Source and destination address (4 or 16 bytes; IPv4 in IPv6 as IPv4) and the index of the bound device, 0 for none."""
    source, destination = place[:16], place[16:32]
    index = int.from_bytes(place[32:36], sys.byteorder)
    if family == _AF_INET:
        return source[:4], destination[:4], index
    return _plain(source), _plain(destination), index


def _plain(address: bytes) -> bytes:
    return address[12:] if address.startswith(_MAPPED) else address
