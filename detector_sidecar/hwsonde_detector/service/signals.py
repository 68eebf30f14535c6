"""Signals: stop and reload, told to the loop without racing it."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class Stopped(BaseException):
    """Raised inside a blocking read when the process was told to end; not an error, so nothing on the way catches it."""


class Signals:
    """What the process was told.

    SIGTERM and SIGINT end a blocking read at once, and everything else at the next turn of the loop. SIGHUP asks for a reload.

    Parameters
    ----------
    wake
        Ends the loop's sleep.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self.stop = False
        self.reload = False
        self._wake = wake
        self._blocking = False

    def install(self) -> None:
        """Take over the process's signals; without effect in a thread other than the main one, where Python has none."""
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
                signal.signal(number, self._handle)

    def tell(self, *, stop: bool = False, reload: bool = False) -> None:
        """Do what a signal would do, from any thread; does not end a blocking read."""
        self.stop |= stop
        self.reload |= reload
        self._wake()

    @contextmanager
    def interruptible(self) -> Iterator[None]:
        """Let a stop end what runs inside, by `Stopped`."""
        self._blocking = True
        try:
            if self.stop:
                raise Stopped
            yield
        finally:
            self._blocking = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.tell(stop=number != signal.SIGHUP, reload=number == signal.SIGHUP)
        if self.stop and self._blocking:
            self._blocking = False
            raise Stopped
