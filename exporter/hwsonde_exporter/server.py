"""The HTTP server: cheroot with the limits that a port open to a network needs.

What cheroot does is left to it; what is added: a connection takes a worker only when there is something to read, a request
has a time in which it must be complete, and the number of connections is bounded.
"""

from __future__ import annotations

import errno
import logging
import socket
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from cheroot import wsgi
from cheroot.server import HTTPConnection

from hwsonde_exporter.errors import ListenError

_LOG = logging.getLogger(__name__)

_IDLE_SECONDS = 75
_REQUEST_SECONDS = 15.0
_MAX_HEADER_BYTES = 16 << 10
_MAX_BODY_BYTES = 64 << 10
_MAX_CONNECTIONS = 256
_BACKLOG = 128


class _Connection(HTTPConnection):
    """A connection that notes since when it has been open and how long its present request has taken.

    ``awaited``: it was accepted; ``asked``: it has sent something; ``served``: a worker has had it; ``given_up``: it had to make room.
    """

    accepted = 0.0
    began: float | None = None
    awaited = asked = served = given_up = False

    def communicate(self) -> bool:
        """Serve one request; gives whether the connection stays open."""
        self.began = time.monotonic()
        self.served = True
        try:
            return bool(super().communicate())  # type: ignore[no-untyped-call]
        finally:
            self.began = None

    def close(self) -> None:
        """Close, and count it."""
        self.server.open.discard(self)
        super().close()


class _Server(wsgi.Server):
    """One listening socket with its workers."""

    ConnectionClass = _Connection
    max_request_header_size = _MAX_HEADER_BYTES
    max_request_body_size = _MAX_BODY_BYTES
    keep_alive_conn_limit = _MAX_CONNECTIONS
    nodelay = True

    def __init__(self, address: tuple[str, int], application: Callable[..., Any], threads: int) -> None:
        super().__init__(
            address,
            application,
            numthreads=threads,
            max=threads,
            server_name="hwsonde-exporter",
            timeout=_IDLE_SECONDS,
            shutdown_timeout=1,
            request_queue_size=_BACKLOG,
        )
        self.open: set[_Connection] = set()
        self.bind_failure: OSError | None = None

    def bind(self, family: int, type: int, proto: int = 0) -> object:  # noqa: A002  (cheroot's name)
        """Bind, keeping the error that cheroot makes a text of."""
        try:
            return super().bind(family, type, proto)
        except OSError as error:
            self.bind_failure = error
            raise

    def process_conn(self, conn: _Connection) -> None:
        """Give a connection to a worker once there is something to read; a silent one would hold the worker up."""
        if conn.given_up:
            conn.close()
            return
        if conn.awaited:
            conn.asked = True
            super().process_conn(conn)
            return
        conn.awaited = True
        conn.accepted = time.monotonic()
        if len(self.open) >= _MAX_CONNECTIONS and not self._make_room():
            conn.close()
            return
        # A request that never ends is cut off by `reap`; this keeps a worker from waiting longer than that in one read.
        conn.socket.settimeout(_REQUEST_SECONDS)
        self.open.add(conn)
        self.put_conn(conn)

    def _make_room(self) -> bool:
        """Give up the oldest connection that has never sent anything; False if all have."""
        silent = [connection for connection in list(self.open) if not connection.asked]
        if not silent:
            return False
        oldest = min(silent, key=lambda connection: connection.accepted)
        oldest.given_up = True
        self.open.discard(oldest)
        # Its end wakes the selector, which hands it over to be closed: closed here, its number would stay registered there.
        with suppress(OSError):
            oldest.socket.shutdown(socket.SHUT_RDWR)
        return True

    def reap(self) -> None:
        """Cut off connections whose request has not come or has not been served within its time."""
        now = time.monotonic()
        for connection in list(self.open):
            began = connection.began if connection.served else connection.accepted
            if began is not None and now - began > _REQUEST_SECONDS:
                with suppress(OSError):
                    connection.socket.shutdown(socket.SHUT_RDWR)

    def error_log(self, msg: str = "", level: int = logging.INFO, traceback: bool = False) -> None:  # noqa: FBT001, FBT002
        """Write cheroot's messages to our log: clients that go away are no news."""
        _LOG.log(
            logging.DEBUG if level <= logging.INFO else level,
            "%s",
            " ".join(str(msg).split()),
            exc_info=traceback or None,
        )


class Listeners:
    """Servers on all listen addresses.

    Parameters
    ----------
    addresses
        Host and port of each; the host may be empty for all interfaces, port 0 takes a free one.
    application
        WSGI application.
    threads
        Workers of each address.

    Raises
    ------
    ListenError
        If one address cannot be bound; none is left listening then.
    """

    def __init__(self, addresses: Sequence[tuple[str, int]], application: Callable[..., Any], threads: int = 8) -> None:
        self._servers: list[_Server] = []
        try:
            for address in addresses:
                self._servers.append(_bound(address, application, threads))
        except ListenError:
            self.stop()
            raise

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Host and port that each server is really bound to."""
        return [server.bind_addr for server in self._servers]

    def start(self) -> None:
        """Serve on threads of their own; returns at once."""
        for server in self._servers:
            threading.Thread(target=server.serve, name="http", daemon=True).start()

    def reap(self) -> None:
        """Cut off requests that take too long; to be called every second or so."""
        for server in self._servers:
            server.reap()

    def stop(self) -> None:
        """Close the sockets, and give requests under way a moment."""
        for server in self._servers:
            with suppress(OSError):
                server.stop()


def _bound(address: tuple[str, int], application: Callable[..., Any], threads: int) -> _Server:
    host, port = address
    candidates = [host] if host else (["::", "0.0.0.0"] if socket.has_ipv6 else ["0.0.0.0"])  # noqa: S104
    failure: OSError | None = None
    for candidate in candidates:
        server = _Server((candidate, port), application, threads)
        try:
            # The workers must not outlive the main thread, and a thread is a daemon if the one that starts it is.
            _on_daemon_thread(server.prepare)
        except OSError as error:
            failure = server.bind_failure or error
            # Without IPv6 in the kernel there is still IPv4; any other failure would only be repeated.
            if failure.errno not in {errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL}:
                break
        else:
            return server
    raise ListenError(_explain(host, port, failure))


def _on_daemon_thread(work: Callable[[], None]) -> None:
    failures: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  (raised again by the thread that waits)
            failures.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join()
    if failures:
        raise failures[0]


def _explain(host: str, port: int, failure: OSError | None) -> str:
    shown = f"{f'[{host}]' if ':' in host else host}:{port}"
    code = failure.errno if failure is not None else None
    if code == errno.EADDRINUSE:
        return f"cannot listen on {shown}: another program has the port; stop it or choose another with --web.listen-address"
    if code == errno.EACCES:
        return f"cannot listen on {shown}: ports below 1024 need CAP_NET_BIND_SERVICE; choose another with --web.listen-address"
    if code == errno.EADDRNOTAVAIL:
        return f"cannot listen on {shown}: this host has no such address; correct --web.listen-address"
    return f"cannot listen on {shown}: {failure.strerror or failure if failure else 'unknown reason'}; see --web.listen-address"
