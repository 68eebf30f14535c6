"""A file whose reader waits in the kernel and cannot even be killed, as a process does in a sick driver.

The kernel's FUSE protocol (linux/fuse.h): a read that the serving program has taken but not answered ends by no signal. The
program here answers just enough to open one file and then keeps still.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_HEADER = struct.Struct("<IIQQIIII")
_REPLY = struct.Struct("<IiQ")
_ATTRIBUTES = struct.Struct("<QQQQQQIIIIIIIIII")
_LOOKUP, _FORGET, _GETATTR, _OPEN, _READ, _RELEASE, _INIT, _INTERRUPT, _BATCH_FORGET = 1, 2, 3, 14, 15, 18, 26, 36, 42
_DIRECT_IO = 1
_NAME = "stuck"
_ROOT, _FILE = 1, 2
_DETACH = 2


class CannotMount(Exception):
    """This process may not mount a FUSE filesystem."""


def _attributes(node: int) -> bytes:
    mode = 0o040755 if node == _ROOT else 0o100644
    return _ATTRIBUTES.pack(node, 4096, 8, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def _answer(opcode: int, node: int, body: bytes) -> bytes | int | None:  # noqa: PLR0911  (one for each request)
    """Body of the reply, an error's number, or None if nothing is answered."""
    if opcode == _INIT:
        return struct.pack("<IIIIHHIIHHI", 7, 31, 0, 0, 0, 0, 4096, 1, 0, 0, 0) + bytes(28)
    if opcode == _LOOKUP:
        if body.rstrip(b"\0").decode() != _NAME:
            return errno.ENOENT
        return struct.pack("<QQQQII", _FILE, 0, 3600, 3600, 0, 0) + _attributes(_FILE)
    if opcode == _GETATTR:
        return struct.pack("<QII", 3600, 0, 0) + _attributes(node)
    if opcode == _OPEN:
        return struct.pack("<QII", 1, _DIRECT_IO, 0)
    if opcode == _RELEASE:
        return b""
    if opcode in {_FORGET, _BATCH_FORGET, _INTERRUPT}:
        return None
    return errno.ENOSYS


def _serve(device: int, waiting: list[int]) -> None:
    """Answer until the filesystem is gone; ``waiting`` gets the numbers of the reads that were not answered."""
    with suppress(OSError):
        while request := os.read(device, 1 << 17):
            _, opcode, unique, node, *_ = _HEADER.unpack_from(request)
            if opcode == _READ:
                waiting.append(unique)
                continue
            answer = _answer(opcode, node, request[_HEADER.size :])
            if answer is not None:
                body, error = (b"", -answer) if isinstance(answer, int) else (answer, 0)
                os.write(device, _REPLY.pack(_REPLY.size + len(body), error, unique) + body)


@contextmanager
def stuck_file(folder: Path) -> Iterator[Path]:
    """Path of such a file while the context lasts; at its end every reader gets an error.

    Raises
    ------
    CannotMount
        Without root's rights, or without the kernel's FUSE.
    """
    folder.mkdir()
    library = ctypes.CDLL(None, use_errno=True)
    try:
        device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    except OSError as error:
        raise CannotMount(f"/dev/fuse: {error.strerror}") from None
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
    if library.mount(b"hwsonde-test", os.fsencode(folder), b"fuse", 0, options):
        os.close(device)
        raise CannotMount(f"mount: {os.strerror(ctypes.get_errno())}")
    waiting: list[int] = []
    thread = threading.Thread(target=_serve, args=(device, waiting), daemon=True)
    thread.start()
    try:
        yield folder / _NAME
    finally:
        library.umount2(os.fsencode(folder), _DETACH)
        for unique in waiting:
            with suppress(OSError):
                os.write(device, _REPLY.pack(_REPLY.size, -errno.EIO, unique))
        # With the last open file the filesystem ends, and with it the thread's read.
        thread.join(5)
        os.close(device)
