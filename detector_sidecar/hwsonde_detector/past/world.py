"""What a command about the past needs of the machine: clocks, streams, signals, a folder for its results."""

from __future__ import annotations

import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from hwsonde_detector.errors import ConfigError
from hwsonde_detector.past.memory import memory_left


@dataclass(frozen=True, slots=True)
class World:
    """Clocks, streams and the wish to stop; a test gives its own.

    Attributes
    ----------
    now_ms, monotonic
        Wall clock in ms, and seconds that never jump.
    stopped
        Whether the run should end at the next batch.
    pause
        Waits for so many seconds, or until it should stop.
    out, err
        Streams for results and for progress.
    memory
        How many bytes of memory are left; None where nobody says.
    """

    now_ms: Callable[[], int]
    monotonic: Callable[[], float]
    stopped: Callable[[], bool] = lambda: False
    pause: Callable[[float], object] = time.sleep
    out: TextIO = field(default_factory=lambda: sys.stdout)
    err: TextIO = field(default_factory=lambda: sys.stderr)
    memory: Callable[[], int | None] = memory_left

    @staticmethod
    def real() -> World:
        """Give this machine's; signals end the program."""
        return World(_now_ms, time.monotonic)

    @staticmethod
    def stoppable() -> World:
        """Give this machine's; SIGINT and SIGTERM ask to stop."""
        ended = threading.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: ended.set())
        return World(_now_ms, time.monotonic, ended.is_set, ended.wait)


def say(stream: TextIO, line: str) -> None:
    """Write a line that is seen at once."""
    stream.write(f"{line}\n")
    stream.flush()


def usable(folder: Path) -> Path:
    """Give a folder for results, having seen that they can be written before hours are spent on them; raises ConfigError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ConfigError(
            f"--out: {folder}: results cannot be written there: {error.strerror or error}; name another folder"
        ) from None
    return folder


def write_result(path: Path, content: bytes) -> Path:
    """Replace a file, so that whoever reads it sees the old one or the new one; raises ConfigError."""
    new = path.with_name(f".{path.name}.new")
    try:
        new.write_bytes(content)
        new.replace(path)
    except OSError as error:
        with suppress(OSError):
            new.unlink()
        raise ConfigError(f"--out: {path}: it cannot be written: {error.strerror or error}; make room") from None
    return path


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
