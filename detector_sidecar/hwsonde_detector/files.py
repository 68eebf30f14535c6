"""Reading files that an operator names: what is named may be a pipe or a device, where reading waits or never ends."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_at_once(path: Path) -> BinaryIO:
    """Open for reading without waiting for anybody to write (a named pipe); raises OSError."""
    return open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK))


def read_regular(path: Path, most: int = -1) -> bytes:
    """Content of a regular file.

    Parameters
    ----------
    path
        The file.
    most
        Read no more bytes than this; -1: all.

    Raises
    ------
    OSError
        It cannot be read, or is something else: a pipe, a device.
    """
    with open_at_once(path) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        return file.read(most)
