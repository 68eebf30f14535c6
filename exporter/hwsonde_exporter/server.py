"""The HTTP server: cheroot with the limits that a port open to a network needs.

What cheroot does is left to it; what is added: a connection takes a worker only when there is something to read, TLS is agreed
on by that worker and not by the thread that accepts, a request has a time in which it must be complete, and the number of
connections is bounded.
"""

from __future__ import annotations

import errno
import logging
import socket
import ssl
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from cheroot import wsgi
from cheroot.makefile import MakeFile
from cheroot.server import HTTPConnection, HTTPRequest

from hwsonde_exporter.errors import ListenError
from hwsonde_exporter.listening import Listening, bounded_connections
from hwsonde_exporter.protection import Keeper, Protection
from hwsonde_exporter.refusals import Refusals
from hwsonde_exporter.threads import launch
from hwsonde_exporter.tls import peer_names
from hwsonde_exporter.workers import Workers

_LOG = logging.getLogger(__name__)

_IDLE_SECONDS = 75
_REQUEST_SECONDS = 15.0
_PARTING_SECONDS = 1.0
_SLOW_SECONDS = 1.0  # an answer that takes longer than this may be cut off where there are too many connections
_MAX_HEADER_BYTES = 16 << 10
_MAX_BODY_BYTES = 64 << 10
_MAX_CONNECTIONS = 256
_BACKLOG = 128
_HANDSHAKE = b"\x16"  # the first byte of a TLS connection
# Why an address cannot be bound at any later moment either: no right to the port, no such kind of address in this kernel.
_LASTING = frozenset({errno.EACCES, errno.EPERM, errno.EAFNOSUPPORT})
_NO_TLS = b"HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain\r\n\r\nthis port speaks HTTPS only\n"


class _Request(HTTPRequest):
    """A request that tells its connection when it is complete."""

    def respond(self) -> None:
        """Answer it."""
        self.conn.complete = True
        super().respond()


class _Connection(HTTPConnection):
    """A connection that notes since when it has been open and how long its present request has taken.

    ``awaited``: it was accepted; ``served``: a worker has had it; ``complete``: it has sent a whole request; ``given_up``: it had
    to make room; ``secured``: TLS is agreed on, or not asked for.
    """

    RequestHandlerClass = _Request
    # A whole record of TLS goes into the buffer, so that nothing stays behind in it where no selector sees it.
    rbufsize = 32 << 10
    server: _Server
    accepted = 0.0
    began: float | None = None
    waiting_since = 0.0
    awaited = served = complete = given_up = secured = False

    def communicate(self) -> bool:
        """Serve one request; gives whether the connection stays open."""
        self.began = time.monotonic()
        self.served = True
        try:
            if not self.secured:
                self.secured = True
                if not self._secure(self.server.keeper.refresh()):
                    self._part()
                    return False
            return bool(super().communicate())  # type: ignore[no-untyped-call]
        finally:
            self.waiting_since = time.monotonic()
            self.began = None

    def _part(self) -> None:
        """Let the client hear why before the connection goes: closed with something unread, it would be reset at once."""
        ending = time.monotonic() + _PARTING_SECONDS
        with suppress(OSError):
            # Past the SSL socket, which may have no session to speak of.
            socket.socket.shutdown(self.socket, socket.SHUT_WR)
            self.socket.settimeout(_PARTING_SECONDS)
            while time.monotonic() < ending and socket.socket.recv(self.socket, 1 << 16):
                pass

    def cut(self) -> None:
        """End it from another thread; whoever reads or writes sees the end."""
        with suppress(OSError):
            # Not by the method of an SSL socket: that one drops its cipher first, and the thread that writes would go on in the clear.
            socket.socket.shutdown(self.socket, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close, and count it."""
        self.server.open.discard(self)
        with suppress(OSError):
            super().close()

    def _secure(self, protection: Protection) -> bool:
        """Agree on TLS where it is asked for; False if that failed."""
        if protection.context is None:
            return True
        address = str(self.remote_addr or "")
        first = self.socket.recv(1, socket.MSG_PEEK)
        if first != _HANDSHAKE:
            if first:
                self.server.refusals.note("tls", address, "it speaks plain HTTP")
                self.socket.sendall(_NO_TLS)
            return False
        try:
            self.socket = protection.context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
            self.socket.do_handshake()
        except (OSError, ValueError) as error:
            self.server.refusals.note("tls", address, f"no TLS connection: {_reason(error)}")
            return False
        if protection.allowed_sans is not None and not protection.allowed_sans & peer_names(self.socket.getpeercert()):
            self.server.refusals.note("tls", address, "its certificate has none of client_allowed_sans")
            return False
        self.rfile = MakeFile(self.socket, "rb", self.rbufsize)
        self.wfile = MakeFile(self.socket, "wb", self.wbufsize)
        return True


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"client certificate: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    if isinstance(error, TimeoutError):
        return "timed out"
    return (isinstance(error, OSError) and error.strerror) or "the client went away"


class _Server(wsgi.Server):
    """One listening socket with its workers."""

    ConnectionClass = _Connection
    max_request_header_size = _MAX_HEADER_BYTES
    max_request_body_size = _MAX_BODY_BYTES
    keep_alive_conn_limit = _MAX_CONNECTIONS
    nodelay = True

    def __init__(
        self,
        address: tuple[str, int],
        application: Callable[..., Any],
        threads: int,
        guards: tuple[Keeper, Refusals],
        given: socket.socket | None = None,
    ) -> None:
        super().__init__(
            address,
            application,
            numthreads=threads,
            server_name="hwsonde-exporter",
            timeout=_IDLE_SECONDS,
            shutdown_timeout=1,
            request_queue_size=_BACKLOG,
        )
        self.most = bounded_connections(_MAX_CONNECTIONS)
        self.requests = Workers(self, threads, max(threads, self.most))
        self.keeper, self.refusals = guards
        self.open: set[_Connection] = set()
        self.bind_failure: OSError | None = None
        self._given = given
        self._thread = threading.Thread(target=self.serve, name="http", daemon=True)

    @property
    def alive(self) -> bool:
        """Whether connections are accepted."""
        return self._thread.is_alive()

    def launch(self) -> None:
        """Serve on a thread of its own; returns at once. Raises `hwsonde_exporter.errors.ThreadError`."""
        launch(self._thread)

    def bind(self, family: int, type: int, proto: int = 0) -> object:  # noqa: A002  (cheroot's name)
        """Bind, or take the socket that was given; keeps the error that cheroot makes a text of."""
        if self._given is not None:
            self.bind_addr = self._given.getsockname()[:2]
            self._given.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.socket = Listening(self._given, self._make_room)
            return self.socket
        try:
            self.socket = Listening(super().bind(family, type, proto), self._make_room)
        except OSError as error:
            self.bind_failure = error
            raise
        return self.socket

    def process_conn(self, conn: _Connection) -> None:
        """Give a connection to a worker once there is something to read; a silent one would hold the worker up."""
        if conn.given_up:
            conn.close()
            return
        if conn.awaited:
            super().process_conn(conn)
            return
        conn.awaited = True
        conn.accepted = conn.waiting_since = time.monotonic()
        if len(self.open) >= self.most and not self._make_room():
            conn.close()
            return
        # A request that never ends is cut off by `reap`; this keeps a worker from waiting longer than that in one read.
        conn.socket.settimeout(_REQUEST_SECONDS)
        self.open.add(conn)
        self.put_conn(conn)

    def _make_room(self) -> bool:
        """Give up a connection of whoever has most of them; False if all are being served and none for long.

        Of these, the oldest that has never sent a whole request goes first, then the one idle for longest, then the one that
        takes longest to read its answers. A scraper whose idle connection goes opens another; nobody can lock others out by
        keeping connections.
        """
        now = time.monotonic()
        connections = list(self.open)
        crowds = Counter(str(connection.remote_addr) for connection in connections)

        def order(connection: _Connection) -> tuple[int, int, float]:
            began = connection.began
            stage = 0 if not connection.complete else 1 if began is None else 2
            return -crowds[str(connection.remote_addr)], stage, connection.waiting_since if began is None else began

        candidates = [
            connection
            for connection in connections
            if not connection.complete or (began := connection.began) is None or now - began > _SLOW_SECONDS
        ]
        if not candidates:
            return False
        oldest = min(candidates, key=order)
        oldest.given_up = True
        self.open.discard(oldest)
        # Its end wakes the selector, which hands it over to be closed: closed here, its number would stay registered there.
        oldest.cut()
        return True

    def reap(self) -> None:
        """Cut off connections whose request has not come or has not been served within its time."""
        now = time.monotonic()
        for connection in list(self.open):
            began = connection.began if connection.served else connection.accepted
            if began is not None and now - began > _REQUEST_SECONDS:
                connection.cut()

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
        Workers of each address while all is quiet.
    keeper
        Knows how connections are protected; None leaves them open.
    refusals
        Counts connections that were refused.
    sockets
        Sockets that listen already, in place of the addresses.

    Raises
    ------
    ListenError
        If one address cannot be bound; none is left listening then.
    """

    def __init__(
        self,
        addresses: Sequence[tuple[str, int]],
        application: Callable[..., Any],
        threads: int = 8,
        keeper: Keeper | None = None,
        refusals: Refusals | None = None,
        sockets: Iterable[socket.socket] = (),
    ) -> None:
        self._servers: list[_Server] = []
        guards = (keeper or Keeper(None), refusals or Refusals())
        given = list(sockets)
        try:
            for listening in given:
                self._servers.append(_prepared(_Server(_address(listening), application, threads, guards, listening)))
            for address in () if given else addresses:
                self._servers.append(_bound(address, lambda place: _Server(place, application, threads, guards)))
        except ListenError:
            self.stop()
            raise

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Host and port that each server is really bound to."""
        return [server.bind_addr for server in self._servers]

    @property
    def alive(self) -> bool:
        """Whether all of them accept connections."""
        return all(server.alive for server in self._servers)

    def start(self) -> None:
        """Serve on threads of their own; returns at once."""
        for server in self._servers:
            server.launch()

    def reap(self) -> None:
        """Cut off requests that take too long; to be called every second or so."""
        for server in self._servers:
            server.reap()

    def stop(self) -> None:
        """Close the sockets; requests under way may still be answered."""
        for server in self._servers:
            with suppress(OSError):
                server.stop()


def _address(listening: socket.socket) -> tuple[str, int]:
    host, port = listening.getsockname()[:2]
    return host, port


def _prepared(server: _Server) -> _Server:
    try:
        server.prepare()
    except OSError as error:
        host, port = server.bind_addr
        raise _refused(host, port, error) from error
    return server


def _bound(address: tuple[str, int], make: Callable[[tuple[str, int]], _Server]) -> _Server:
    host, port = address
    candidates = [host] if host else (["::", "0.0.0.0"] if socket.has_ipv6 else ["0.0.0.0"])  # noqa: S104
    failure: OSError | None = None
    for candidate in candidates:
        server = make((candidate, port))
        try:
            server.prepare()
        except OSError as error:
            failure = server.bind_failure or error
            # Without IPv6 in the kernel there is still IPv4; any other failure would only be repeated.
            if failure.errno not in {errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL}:
                break
        else:
            return server
    raise _refused(host, port, failure)


def _refused(host: str, port: int, failure: OSError | None) -> ListenError:
    lasting = failure is not None and failure.errno in _LASTING
    return ListenError(_explain(host, port, failure), passing=not lasting)


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
