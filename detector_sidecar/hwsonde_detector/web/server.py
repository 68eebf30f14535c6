"""The HTTP server: cheroot's threads around the application, with limits.

A connection gets a thread only once it has sent something, and only for so long; there are a few threads, and more while clients hold these
up; where there are too many connections, whoever has most of them loses one. Whoever connects and says nothing, says it letter by letter, or
reads its answer so, must not keep Prometheus from its scrape.
"""

from __future__ import annotations

import errno
import logging
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from cheroot import wsgi
from cheroot.makefile import MakeFile
from cheroot.server import HTTPConnection, HTTPRequest
from cheroot.workers.threadpool import ThreadPool, WorkerThread

from hwsonde_detector.errors import ListenError
from hwsonde_detector.protection import OPEN, Protection, peer_names

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

log = logging.getLogger("hwsonde_detector.web")

_THREADS = 4
_TIMEOUT_S = 10
_REQUEST_S = 10.0
_SLOW_S = 1.0  # an answer that takes longer than this may be cut off where there are too many connections
_WATCH_S = 0.5
_CONNECTIONS = 128
_HEADER_BYTES = 16_384
_BODY_BYTES = 65_536
_STOP_S = 0.5
_HANDSHAKE = b"\x16"  # the first byte of a TLS connection
_NO_TLS = b"HTTP/1.0 400 Bad Request\r\nContent-Type: text/plain\r\n\r\nthis port speaks HTTPS only\n"


class _Request(HTTPRequest):
    """A request that tells its connection when it is complete."""

    def respond(self) -> None:
        """Answer it."""
        self.conn.complete = True
        super().respond()


class _Connection(HTTPConnection):
    """A connection.

    ``began`` is when its present request began, None between requests; ``waiting`` since when it has been idle; ``complete`` whether it has
    sent a whole request, ``given_up`` whether it had to make room; ``secured``: TLS is agreed on, or not asked for.
    """

    RequestHandlerClass = _Request
    # A whole record of TLS goes into the buffer, so that nothing stays behind in it where no selector sees it.
    rbufsize = 32 << 10
    began: float | None = None
    waiting = 0.0
    known = complete = given_up = secured = False

    def communicate(self) -> bool:
        """Answer one request; give whether another one may follow."""
        self.began = time.monotonic()
        try:
            if not self.secured:
                self.secured = True
                if not self._secure(self.server.protection()):
                    return False
            return bool(super().communicate())  # type: ignore[no-untyped-call]
        finally:
            self.waiting = time.monotonic()
            self.began = None

    def _secure(self, protection: Protection) -> bool:
        """Agree on TLS where it is asked for, in the thread that answers: whoever dawdles keeps nobody else; False if that failed."""
        if protection.context is None:
            return True
        try:
            if self.socket.recv(1, socket.MSG_PEEK) != _HANDSHAKE:
                self.socket.sendall(_NO_TLS)
                return False
            self.socket = protection.context.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)
            self.socket.do_handshake()
        except (OSError, ValueError) as error:
            log.debug("no TLS connection with %s: %s", self.remote_addr, error)
            return False
        if protection.sans is not None and not protection.sans & peer_names(self.socket.getpeercert()):
            log.debug("the certificate of %s has none of client_allowed_sans", self.remote_addr)
            return False
        self.rfile = MakeFile(self.socket, "rb", self.rbufsize)
        self.wfile = MakeFile(self.socket, "wb", self.wbufsize)
        return True

    def cut(self) -> None:
        """End it from another thread; whoever reads or writes sees the end."""
        with suppress(OSError):
            # Not by the method of an SSL socket: that one drops its cipher first, and the thread that writes would go on in the clear.
            socket.socket.shutdown(self.socket, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close, and leave the server's list."""
        self.server.living.discard(self)
        try:
            super().close()
        except (OSError, ValueError):
            # A client that went away in the middle of a handshake: raised from here it would end the server.
            with suppress(OSError):
                self.socket.close()


class _Pool(ThreadPool):
    """cheroot's threads, and more of them while clients hold those up."""

    def tend(self) -> None:
        """Let there be a thread for each connection that waits for one, and none beyond the first few that idles."""
        waiting, idle = self.qsize, self.idle
        if waiting > idle:
            with suppress(RuntimeError, MemoryError):  # no thread to be had: it waits for one of those that there are
                self.grow(waiting - idle)
        # What waits may be taken by an idle thread at any moment. Of none to end it removes those that have ended.
        self.shrink(max(idle - waiting - self.min, 0))

    def grow(self, amount: int) -> None:
        """Start threads, at most so many as are allowed; waits for none of them, which might end before anybody looks."""
        threads = self._threads  # type: ignore[attr-defined]
        for _ in range(min(amount, self.max - len(threads))):
            worker = WorkerThread(self.server)  # type: ignore[no-untyped-call]
            # Nobody who reads slowly keeps the process from its end.
            worker.daemon, worker.name = True, "web-worker"
            worker.start()
            threads.append(worker)


class _Server(wsgi.Server):
    """cheroot's server with its complaints in our log and an eye on its connections."""

    ConnectionClass = _Connection

    def __init__(
        self, address: tuple[str, int], application: WSGIApplication, protection: Callable[[], Protection]
    ) -> None:
        self.protection = protection
        super().__init__(
            address,
            application,
            numthreads=_THREADS,
            timeout=_TIMEOUT_S,
            shutdown_timeout=1,
            request_queue_size=64,
            server_name="hwsonde-detector",
        )
        self.requests = _Pool(self, min=_THREADS, max=max(_THREADS, _CONNECTIONS))
        # `living` bounds them; what has just been cut still counts here for a moment.
        self.keep_alive_conn_limit = 2 * _CONNECTIONS
        self.living: set[_Connection] = set()
        self.bind_failure: OSError | None = None
        self.max_request_header_size = _HEADER_BYTES
        self.max_request_body_size = _BODY_BYTES

    def bind(self, family: int, type: int, proto: int = 0) -> object:  # noqa: A002 - its signature
        """Bind, keeping the error that cheroot makes a text of."""
        try:
            return super().bind(family, type, proto)
        except OSError as error:
            self.bind_failure = error
            raise

    def process_conn(self, conn: _Connection) -> None:
        """Hand a connection to a thread, a new one only after it has sent something; cheroot closes it if that takes too long."""
        if conn.given_up:
            conn.close()
        elif conn.known:
            super().process_conn(conn)
        else:
            conn.known, conn.waiting = True, time.monotonic()
            if len(self.living) >= _CONNECTIONS and not self._make_room():
                conn.close()
                return
            self.living.add(conn)
            self.put_conn(conn)

    def _make_room(self) -> bool:
        """Give up a connection of whoever has most of them; False if all are being answered and none for long.

        Of these, the oldest that has never sent a whole request goes first, then the one idle for longest, then the one that takes longest
        to read its answer. A scraper whose idle connection goes opens another; nobody locks others out by keeping connections.
        """
        now = time.monotonic()
        connections = list(self.living)
        crowds = Counter(str(connection.remote_addr) for connection in connections)

        def order(connection: _Connection) -> tuple[int, int, float]:
            began = connection.began
            stage = 0 if not connection.complete else 1 if began is None else 2
            return -crowds[str(connection.remote_addr)], stage, connection.waiting if began is None else began

        candidates = [
            connection
            for connection in connections
            if not connection.complete or (began := connection.began) is None or now - began > _SLOW_S
        ]
        if not candidates:
            return False
        oldest = min(candidates, key=order)
        oldest.given_up = True
        self.living.discard(oldest)
        # Its end wakes the selector, which hands it over to be closed: closed here, its number would stay registered there.
        oldest.cut()
        return True

    def tend(self, now: float) -> None:
        """End requests that have taken too long at ``now``, whose threads see the connection end and are free; let there be threads enough."""
        for connection in list(self.living):
            began = connection.began
            if began is not None and now - began > _REQUEST_S:
                connection.cut()
        self.requests.tend()

    def error_log(self, msg: str = "", level: int = 20, traceback: bool = False) -> None:  # noqa: FBT001, FBT002 - its signature
        """Write one line: a client's broken request is of no interest, a defect of ours is."""
        error = sys.exc_info()[1] if traceback else None
        if isinstance(error, ValueError) and "chunk" in str(error):
            level = logging.DEBUG  # the library calls a body that is no chunked one a defect
        said = [*msg.strip().splitlines(), *([f"{type(error).__name__}: {error}"] if error is not None else [])]
        log.log(logging.DEBUG if level < logging.ERROR else logging.WARNING, "%s", " ".join(said))


class WebServer:
    """Serves an application until it is stopped.

    Parameters
    ----------
    host, port
        Where to listen; port 0 takes a free one.
    application
        What answers.
    protection
        Gives what protects new connections.

    Raises
    ------
    ListenError
        If the address cannot be bound.
    """

    def __init__(
        self, host: str, port: int, application: WSGIApplication, protection: Callable[[], Protection] = lambda: OPEN
    ) -> None:
        self._server = _Server((host, port), application, protection)
        try:
            self._server.prepare()
        except OSError as error:
            raise ListenError(_explain(host, port, self._server.bind_failure or error)) from error
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="web", daemon=True)
        self._watcher = threading.Thread(target=self._watch, name="web-watch", daemon=True)

    @property
    def port(self) -> int:
        """The port that is listened on."""
        return int(self._server.bind_addr[1])

    def start(self) -> None:
        """Answer from now on, in threads of its own."""
        self._thread.start()
        self._watcher.start()

    def stop(self) -> None:
        """Answer no more; returns within a second, even when a client reads slowly or not at all."""
        self._ended.set()
        # The server waits for its threads one after the other; those that are left end with the process.
        ending = threading.Thread(target=self._server.stop, name="web-stop", daemon=True)
        ending.start()
        ending.join(_STOP_S)

    def _watch(self) -> None:
        while not self._ended.wait(_WATCH_S):
            self._server.tend(time.monotonic())

    def _serve(self) -> None:
        try:
            self._server.serve()
        except Exception as error:  # noqa: BLE001 - scoring and /metrics' absence must be visible, not end the process silently
            log.error("the web server ended: %s: %s", type(error).__name__, error)  # noqa: TRY400 - one line


def _explain(host: str, port: int, failure: OSError) -> str:
    shown = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if failure.errno == errno.EADDRINUSE:
        why = "another program has the port; is another detector running? Stop it or choose another address"
    elif failure.errno == errno.EADDRNOTAVAIL:
        why = "this host has no such address; correct it"
    elif failure.errno == errno.EACCES:
        why = "ports below 1024 need CAP_NET_BIND_SERVICE; choose another"
    else:
        why = f"{failure.strerror or failure}; choose another address"
    return f"cannot listen on {shown}: {why} by web.listen"
