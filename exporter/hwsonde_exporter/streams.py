"""Standard streams that are closed, full or read by nobody: they must not cost a command its answer."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import TextIO


def open_all() -> None:
    """Let descriptors 0 to 2 exist, and each stream be able to say what it is given.

    Where the caller has closed one, the next file or socket that is opened would take its number, and what is printed would
    go into that. A character that the terminal's encoding lacks is shown by its number.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free is this one
    for name, number in (("stdout", 1), ("stderr", 2)):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(number, "w", encoding="utf-8", errors="backslashreplace", closefd=False))  # noqa: SIM115  (it stays open)
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def tell(stream: TextIO, text: str) -> OSError | None:
    """Write a text at once; gives what kept it from being written, after which the stream takes everything and keeps nothing."""
    try:
        stream.write(text)
        stream.flush()
    except OSError as error:
        drop(stream)
        return error
    return None


def drop(stream: TextIO) -> None:
    """Let the stream take everything and keep nothing, so that the interpreter does not try at its end what has failed already."""
    with suppress(OSError, ValueError):
        empty = os.open(os.devnull, os.O_WRONLY)
        os.dup2(empty, stream.fileno())
        os.close(empty)
