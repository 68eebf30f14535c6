"""Netlink: dumps (one request, and every message of the answer as it comes), and what messages are made of; see netlink(7)."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

from hwsonde_exporter.collectors._netns import host_socket
from hwsonde_exporter.errors import ReadError

ROUTE, SOCK_DIAG, GENERIC, RDMA = 0, 4, 16, 20

HEADER = struct.Struct("=IHHII")  # struct nlmsghdr: length, type, flags, sequence, port
_ATTRIBUTE = struct.Struct("=HH")
_TYPE_MASK = 0x3FFF  # without the flags "nested" and "network byte order"
REQUEST = 0x1  # NLM_F_REQUEST
_DUMP = 0x300  # NLM_F_DUMP
ERROR, _DONE = 2, 3
# The kernel fills what it is given, up to 32 KiB a message.
RECEIVE_BYTES = 1 << 16
TIMEOUT_SECONDS = 2.0

# Protocol, type and body of a request -> type and body of each message of the answer.
Dump = Callable[[int, int, bytes], Iterator[tuple[int, memoryview]]]


def dumper(procfs: Path) -> Dump:
    """Give a `Dump` that asks in the network namespace of process 1 of ``procfs``, on a socket of its own each time.

    It may be left before its end. It raises, when the first message is asked for or later:

    Unavailable
        If that namespace cannot be reached.
    OSError
        If there is no such protocol, the kernel refuses, or it does not answer in time.
    ReadError
        If the answer is not understood.
    """

    def dump(protocol: int, kind: int, body: bytes) -> Iterator[tuple[int, memoryview]]:
        with host_socket(procfs, socket.AF_NETLINK, socket.SOCK_RAW, protocol) as channel:
            channel.settimeout(TIMEOUT_SECONDS)
            channel.send(HEADER.pack(HEADER.size + len(body), kind, REQUEST | _DUMP, 1, 0) + body)
            while True:
                done = False
                for answer, message in messages(memoryview(channel.recv(RECEIVE_BYTES))):
                    if answer in (ERROR, _DONE):
                        _check(message)
                        done = True
                        break
                    yield answer, message
                if done:
                    return

    return dump


def _check(message: memoryview) -> None:
    """Raise the error that a closing message tells, if any; it is negative."""
    number = -int(struct.unpack_from("=i", message)[0]) if len(message) >= 4 else 0
    if number > 0:
        raise OSError(number, os.strerror(number))


def messages(data: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Type and body of each message of a packet.

    Raises
    ------
    ReadError
        If a message is cut or its length is none.
    """
    place = 0
    while place < len(data):
        if place + HEADER.size > len(data):
            raise ReadError("netlink: a message is cut")
        length, kind, *_ = HEADER.unpack_from(data, place)
        if length < HEADER.size or place + length > len(data):
            raise ReadError("netlink: a message is cut")
        yield kind, data[place + HEADER.size : place + length]
        place += (length + 3) & ~3


def attribute(kind: int, value: bytes) -> bytes:
    """An attribute of a request, filled up to a multiple of four bytes."""
    return _ATTRIBUTE.pack(_ATTRIBUTE.size + len(value), kind) + value + bytes(-len(value) % 4)


def attributes(message: memoryview, start: int = 0) -> Iterator[tuple[int, memoryview]]:
    """Type, without its flags, and content of each whole attribute from ``start`` on; one that is cut ends them."""
    place = start
    while place + _ATTRIBUTE.size <= len(message):
        length, kind = _ATTRIBUTE.unpack_from(message, place)
        if length < _ATTRIBUTE.size or place + length > len(message):
            return
        yield kind & _TYPE_MASK, message[place + _ATTRIBUTE.size : place + length]
        place += (length + 3) & ~3
