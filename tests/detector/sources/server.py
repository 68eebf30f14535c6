"""A real HTTP server on loopback that answers as it is told, the bad ways included."""

from __future__ import annotations

import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

from hwsonde_detector.sources.options import SourceOptions
from hwsonde_detector.sources.prometheus import PrometheusSource


@dataclass(frozen=True, slots=True)
class Asked:
    path: str
    form: dict[str, str]
    headers: dict[str, str]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FakeServer

    def do_POST(self) -> None:
        form = {
            name: values[0]
            for name, values in parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode()).items()
        }
        self.server.asked.append(Asked(self.path, form, {name.lower(): value for name, value in self.headers.items()}))
        self.server.next_behaviour()(self)

    def reply(self, body: bytes, status: int = 200, length: int | None = None, **headers: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body) if length is None else length))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
        pass


Behaviour = Callable[[Handler], None]


class FakeServer(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[Asked] = []
        self.behaviours: list[Behaviour] = []
        self.ended = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def next_behaviour(self) -> Behaviour:
        """The last one stays."""
        return self.behaviours.pop(0) if len(self.behaviours) > 1 else self.behaviours[0]

    def play(self, *behaviours: Behaviour) -> None:
        self.behaviours = list(behaviours)

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that leave early are part of the play."""


@contextmanager
def serving(tls: ssl.SSLContext | None = None) -> Iterator[FakeServer]:
    server = FakeServer()
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.ended.set()
        server.shutdown()
        server.server_close()
        thread.join(5)


def good(body: bytes) -> Behaviour:
    return lambda handler: handler.reply(body)


def status(code: int, body: bytes = b"", **headers: str) -> Behaviour:
    return lambda handler: handler.reply(body, code, **headers)


def truncated(body: bytes, sent: int) -> Behaviour:
    """Promises the whole body, sends a part and hangs up."""

    def behave(handler: Handler) -> None:
        handler.reply(body[:sent], length=len(body))
        handler.close_connection = True

    return behave


def chunks(parts: Sequence[bytes], *, whole: bool = True, pause: float = 0.0) -> Behaviour:
    """Chunked encoding, slowly if wanted, without the last chunk if not whole."""

    def behave(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        for part in parts:
            handler.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            handler.wfile.flush()
            if pause and handler.server.ended.wait(pause):
                return
        if whole:
            handler.wfile.write(b"0\r\n\r\n")
        else:
            handler.close_connection = True

    return behave


def silent(handler: Handler) -> None:
    """Accepts, reads, and never answers."""
    handler.server.ended.wait(20)
    handler.close_connection = True


def hangs_up(handler: Handler) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)
    handler.close_connection = True


def not_http(handler: Handler) -> None:
    handler.wfile.write(b"SSH-2.0-OpenSSH_9.2\r\n" * 3)
    handler.close_connection = True


def stalls(body: bytes) -> Behaviour:
    """Sends headers and half of the body, and then nothing."""

    def behave(handler: Handler) -> None:
        handler.reply(body[: len(body) // 2], length=len(body))
        silent(handler)

    return behave


def source(server, names=("up",), monotonic=time.monotonic, **options):
    """A source that reads from the server, and waits for it on a busy machine; what tries its patience gives it less."""
    defaults = {"connect_timeout_ms": 20_000, "read_timeout_ms": 20_000, "url": server.url}
    return PrometheusSource(SourceOptions(**{**defaults, **options}), names, monotonic)
