"""Signals to the serving program: to end, which it does in time whatever its threads are doing, and to reload."""

from __future__ import annotations

import os
import queue
import signal
import time
from contextlib import suppress
from types import FrameType

from hwsonde_exporter.early import reload_wanted
from hwsonde_exporter.errors import ThreadError
from hwsonde_exporter.threads import spawn

# A program that is asked to end does so within a second. Where a device, a full pipe in place of the log or a lock keeps a
# thread, and with it the interpreter's own end, the process ends all the same.
_LATEST_SECONDS = 0.9


class Ended(BaseException):
    """A signal to end came while the program was starting; ``number`` is the signal's."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


class Signals:
    """SIGTERM, SIGINT and SIGHUP from now on. To be made in the main thread."""

    def __init__(self) -> None:
        # Unlike an event or a condition, it may be used by a handler in the midst of being used.
        self._caught: queue.SimpleQueue[int] = queue.SimpleQueue()
        self._starting = True
        self._ending = False
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, self._note)
        if reload_wanted():
            self._caught.put(int(signal.SIGHUP))

    def started(self) -> None:
        """From now on nothing is raised any more: `wait` tells."""
        self._starting = False

    def wait(self, timeout: float) -> int | None:
        """Number of the signal that came within ``timeout`` seconds; None if none did.

        Several that wait count as one, and one to end goes before all others.
        """
        try:
            found = {self._caught.get(timeout=max(0.0, timeout))}
        except queue.Empty:
            return None
        with suppress(queue.Empty):
            while True:
                found.add(self._caught.get_nowait())
        return min(found - {signal.SIGHUP}, default=int(signal.SIGHUP))

    def _note(self, number: int, _: FrameType | None) -> None:
        if number != signal.SIGHUP and not self._ending:
            self._ending = True
            with suppress(ThreadError):
                spawn("end", _end_at_last)
            if self._starting:
                raise Ended(number)
        self._caught.put(number)


def _end_at_last() -> None:
    time.sleep(_LATEST_SECONDS)
    os._exit(0)
