"""Messages between the exporter and its worker: JSON behind a length, and events that survive the worker.

JSON, because a worker whose library has gone wild must not be able to do more to us than to send nonsense: it is bounded
here and checked in `answer`. Events go by a socket of their own, one datagram each, so that what a worker has handed over
before it died is still there, and none is half there.
"""

from __future__ import annotations

import json
import socket
import struct
from typing import NamedTuple

MAX_MESSAGE = 4 << 20
_LENGTH = struct.Struct("<I")
_EVENT = struct.Struct("<QdQi64s32s")
EVENT_BYTES = _EVENT.size
NO_INSTANCE = -1


class Broken(Exception):
    """The other side is gone, or sends what is no message."""


class RawEvent(NamedTuple):
    """An event as it travels: ``sequence`` counts from 1 in each worker, ``gpu_instance`` is -1 where there is none."""

    sequence: int
    time: float
    xid: int
    gpu_instance: int
    uuid: str
    bus_id: str


def encode(message: object) -> bytes:
    """Bytes of a message.

    Raises
    ------
    Broken
        If it is longer than the other side takes.
    """
    body = json.dumps(message, separators=(",", ":"), allow_nan=False).encode()
    if len(body) > MAX_MESSAGE:
        raise Broken(f"a message of {len(body)} bytes")
    return _LENGTH.pack(len(body)) + body


class Inbox:
    """Puts messages together from what a stream gives in pieces."""

    def __init__(self) -> None:
        self._data = bytearray()

    def feed(self, data: bytes) -> None:
        """Take what was received."""
        self._data += data

    def message(self) -> object | None:
        """Give the next message, or None if it is not yet complete.

        Raises
        ------
        Broken
            If what came is no message.
        """
        if len(self._data) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._data)
        if length > MAX_MESSAGE:
            raise Broken(f"a message of {length} bytes is announced")
        end = _LENGTH.size + length
        if len(self._data) < end:
            return None
        body = bytes(self._data[_LENGTH.size : end])
        del self._data[:end]
        try:
            message: object = json.loads(body)
        except (ValueError, RecursionError):
            raise Broken("a message that is no JSON") from None
        if message is None:
            raise Broken("an empty message")
        return message


def receive(stream: socket.socket, inbox: Inbox) -> object:
    """Wait for the next message; raises `Broken` when the other side is gone."""
    while (message := inbox.message()) is None:
        data = stream.recv(1 << 16)
        if not data:
            raise Broken("the other side has ended")
        inbox.feed(data)
    return message


def encode_event(event: RawEvent) -> bytes:
    """Bytes of an event; texts that are too long are cut."""
    return _EVENT.pack(
        event.sequence,
        event.time,
        event.xid & 0xFFFFFFFFFFFFFFFF,
        event.gpu_instance,
        event.uuid.encode()[:64],
        event.bus_id.encode()[:32],
    )


def decode_event(data: bytes) -> RawEvent | None:
    """Event of a datagram, or None if it is none."""
    if len(data) != EVENT_BYTES:
        return None
    sequence, time, xid, instance, uuid, bus_id = _EVENT.unpack(data)
    texts = [text.rstrip(b"\0").decode("ascii", "replace") for text in (uuid, bus_id)]
    return RawEvent(sequence, time, xid, instance, *texts)
