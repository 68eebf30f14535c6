"""The threads that serve requests: a few while all is quiet, one more for each connection that holds one up."""

from __future__ import annotations

import logging
import threading
from collections import deque
from contextlib import suppress
from typing import Protocol

from hwsonde_exporter.errors import ThreadError
from hwsonde_exporter.threads import spawn

_LOG = logging.getLogger(__name__)

# A thread beyond the first few ends when it has had nothing to do for so long.
_IDLE_SECONDS = 20.0


class Connection(Protocol):
    """What a worker does with a connection."""

    def communicate(self) -> bool:
        """Serve one request; gives whether the connection stays open."""

    def close(self) -> None:
        """Close it."""


class Server(Protocol):
    """Where a connection goes that stays open."""

    def put_conn(self, conn: Connection) -> None:
        """Wait until there is something to read again."""


class Workers:
    """A pool that grows with the connections under way, so that slow clients hold up nobody but themselves.

    cheroot's own pool has a fixed number of threads: as many clients that send half a request would stop all scrapes. It
    asks of a pool just these methods.

    Parameters
    ----------
    server
        Gets connections back that stay open.
    least
        Threads that stay.
    most
        Threads at most; connections beyond wait for one. At least the number of connections that may be open.
    """

    def __init__(self, server: Server, least: int, most: int) -> None:
        self.min = least
        self._server = server
        self._most = most
        self._waiting: deque[Connection] = deque()
        self._condition = threading.Condition()
        self._threads = self._idle = 0
        self._closed = False

    @property
    def size(self) -> int:
        """Threads that exist now."""
        return self._threads

    def start(self) -> None:
        """Start the threads that stay; raises `ThreadError` if there is none at all."""
        with self._condition:
            self._add()
            with suppress(ThreadError):
                for _ in range(self.min - 1):
                    self._add()

    def put(self, connection: Connection) -> None:
        """Let a thread serve the connection; returns at once."""
        with self._condition:
            self._waiting.append(connection)
            if self._idle < len(self._waiting) and self._threads < self._most:
                with suppress(ThreadError):  # then it waits for one of those that there are
                    self._add()
            self._condition.notify()

    def stop(self, timeout: float | None = None) -> None:
        """Let each thread end after its present request; waits for these for ``timeout`` seconds at most."""
        with self._condition:
            self._closed = True
            self._condition.notify_all()
            self._condition.wait_for(lambda: self._threads == 0, timeout or 0.0)

    def _add(self) -> None:
        spawn("http-worker", self._serve)
        self._threads += 1

    def _serve(self) -> None:
        while (connection := self._next()) is not None:
            keep = False
            try:
                keep = connection.communicate()
            except OSError as error:
                _LOG.debug("a connection was lost: %s", error)
            except Exception:  # noqa: BLE001  (one request must not end the thread)
                _LOG.exception("a request could not be served")
            try:
                if keep:
                    self._server.put_conn(connection)
                else:
                    connection.close()
            except Exception as error:  # noqa: BLE001  (the thread must live; the connection is gone either way)
                _LOG.debug("a connection was lost: %s", error)
                with suppress(Exception):
                    connection.close()

    def _next(self) -> Connection | None:
        """Wait for a connection; None ends the thread."""
        with self._condition:
            self._idle += 1
            try:
                while not self._waiting:
                    if self._closed or (
                        not self._condition.wait(_IDLE_SECONDS) and not self._waiting and self._threads > self.min
                    ):
                        self._threads -= 1
                        self._condition.notify_all()
                        return None
                return self._waiting.popleft()
            finally:
                self._idle -= 1
