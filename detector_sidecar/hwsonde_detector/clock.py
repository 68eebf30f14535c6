"""The clock that the service is given: wall time, elapsed time, and a sleep that a signal can end."""

from __future__ import annotations

import os
import select
import time
from contextlib import suppress
from typing import Protocol


class Clock(Protocol):
    """Time as the service loop sees it; a test gives its own."""

    def now_ms(self) -> int:
        """Wall clock, UTC, milliseconds since the epoch; may jump."""

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never jumps."""

    def wait(self, seconds: float) -> None:
        """Return after ``seconds``, or sooner if `wake` is called (also if it was called since the last wait)."""

    def wake(self) -> None:
        """End the present or the next `wait` at once; may be called by a signal handler."""


class SystemClock:
    """The machine's clock.

    Waiting is a ``poll`` on a pipe: unlike a lock or an event, a pipe can be written to by a signal handler that
    interrupted the very thread that waits.
    """

    def __init__(self) -> None:
        self._reader, self._writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._waiting = select.poll()
        self._waiting.register(self._reader, select.POLLIN)

    def now_ms(self) -> int:
        """Wall clock, UTC, milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds since the machine started."""
        return time.monotonic()

    def wait(self, seconds: float) -> None:
        """Sleep, at most ``seconds``."""
        if self._waiting.poll(max(0.0, seconds) * 1000):
            with suppress(BlockingIOError):
                os.read(self._reader, 4096)

    def wake(self) -> None:
        """End the present or the next `wait`; nothing once the clock is closed: a signal may come at any time."""
        # A full pipe means that a wake-up is already on its way.
        with suppress(OSError):
            os.write(self._writer, b"w")

    def close(self) -> None:
        """Give the two descriptors back."""
        reader, writer = self._reader, self._writer
        self._reader = self._writer = -1
        os.close(reader)
        os.close(writer)
