"""What two hosts say to each other: a request of 64 bytes, and an answer of the same length, so that nobody is amplified.

The answer repeats the 16 random bytes of the request, which proves that it comes from somebody who saw it, and tells how long
the request lay at the peer, which is not the network's time.
"""

from __future__ import annotations

import struct

SIZE = 64
NONCE_BYTES = 16
_MAGIC = b"hwsp"
_VERSION, _REQUEST, _ANSWER = 1, 1, 2
# Magic, version, kind, nothing, nonce, nanoseconds at the peer, nothing: in network byte order.
_LAYOUT = struct.Struct("!4sBBH16sQ32s")


def make_request(nonce: bytes) -> bytes:
    """Request with a nonce of 16 bytes."""
    return _LAYOUT.pack(_MAGIC, _VERSION, _REQUEST, 0, nonce, 0, b"")


def read_request(data: bytes) -> bytes | None:
    """Nonce of a request; None for anything else, answers too, so that two hosts never answer each other for ever."""
    return _read(data, _REQUEST)


def make_answer(nonce: bytes, held: int) -> bytes:
    """Answer to the request with this nonce, which lay here for ``held`` nanoseconds."""
    return _LAYOUT.pack(_MAGIC, _VERSION, _ANSWER, 0, nonce, held, b"")


def read_answer(data: bytes) -> tuple[bytes, int] | None:
    """Nonce of an answer and the nanoseconds that the request lay at the peer; None for anything else."""
    nonce = _read(data, _ANSWER)
    return None if nonce is None else (nonce, _LAYOUT.unpack(data)[5])


def _read(data: bytes, wanted: int) -> bytes | None:
    if len(data) != SIZE:
        return None
    magic, version, kind, _, nonce, *_ = _LAYOUT.unpack(data)
    return bytes(nonce) if (magic, version, kind) == (_MAGIC, _VERSION, wanted) else None
