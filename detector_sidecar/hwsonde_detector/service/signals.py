"""Signals: stop and reload, told to the loop without racing it."""

from __future__ import annotations

import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from hwsonde_detector.early import reload_wanted

_ENDING = (signal.SIGTERM, signal.SIGINT)
_AGAIN_SECONDS = 0.05


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
        if threading.current_thread() is not threading.main_thread():
            return
        reading, writing = socket.socketpair()
        writing.settimeout(0)
        for number in (*_ENDING, signal.SIGHUP):
            signal.signal(number, self._handle)
        if reload_wanted():
            self.tell(reload=True)
        # Taken out of the object's hands: it has to live as long as the process may be signalled.
        signal.set_wakeup_fd(writing.detach(), warn_on_full_buffer=False)
        threading.Thread(
            target=self._repeat, args=(reading, threading.get_ident()), name="signals", daemon=True
        ).start()

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

    def _repeat(self, caught: socket.socket, main: int) -> None:
        """Send a signal to end again until Python has heard it.

        One that comes a moment before the main thread enters a system call, or to another thread, does not end that call:
        Python would handle it only after the call, a server's whole time to answer later.
        """
        while numbers := caught.recv(64):
            for number in set(numbers).intersection(_ENDING):
                while not self.stop:
                    time.sleep(_AGAIN_SECONDS)
                    if not self.stop:
                        signal.pthread_kill(main, number)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        del frame
        self.tell(stop=number != signal.SIGHUP, reload=number == signal.SIGHUP)
        if self.stop and self._blocking:
            self._blocking = False
            raise Stopped
