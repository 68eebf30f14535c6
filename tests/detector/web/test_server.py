"""The server's threads belong to those who ask, not to those who only connect."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from wsgiref.types import StartResponse, WSGIEnvironment

import pytest

from hwsonde_detector.errors import ListenError
from hwsonde_detector.web import server as module
from hwsonde_detector.web.server import WebServer


def hello(environ: WSGIEnvironment, start: StartResponse) -> list[bytes]:
    start("200 OK", [("Content-Length", "5")])
    return [b"hello"]


@contextmanager
def serving() -> Iterator[WebServer]:
    server = WebServer("127.0.0.1", 0, hello)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def connect(server: WebServer) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=60)


def ask(connection: socket.socket) -> bytes:
    connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
    answer = b""
    while not answer.endswith(b"hello"):
        received = connection.recv(4096)
        if not received:
            return answer
        answer += received
    return answer


def test_silent_connections_hold_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TIMEOUT_S", 60)
    with serving() as server, ExitStack() as silent:
        for _ in range(20):
            silent.enter_context(connect(server))
        time.sleep(0.2)
        began = time.monotonic()
        with connect(server) as asking:
            assert ask(asking).endswith(b"hello")
            assert ask(asking).endswith(b"hello"), "a second request of the same connection"
        assert time.monotonic() - began < module._TIMEOUT_S / 2, "as long as a silent connection may stay"


def test_requests_that_never_end_are_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_REQUEST_S", 1.0)
    monkeypatch.setattr(module, "_TIMEOUT_S", 60)
    with serving() as server, ExitStack() as slow:
        talkers = [slow.enter_context(connect(server)) for _ in range(8)]
        for talker in talkers:
            talker.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
        began = time.monotonic()
        with connect(server) as asking:
            assert ask(asking).endswith(b"hello")
        assert time.monotonic() - began < module._TIMEOUT_S / 2, "as long as a connection may take for its next byte"
        for talker in talkers:
            # Cut off, with or without a word.
            with suppress(ConnectionResetError):
                assert b"200 OK" not in talker.recv(4096)


def test_far_more_half_requests_than_connections_hold_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even while they may still become whole: neither their number nor their slowness keeps a scrape away."""
    monkeypatch.setattr(module, "_REQUEST_S", 60.0)
    monkeypatch.setattr(module, "_TIMEOUT_S", 60)
    with serving() as server, ExitStack() as slow:
        for _ in range(2 * module._CONNECTIONS + 40):
            talker = slow.enter_context(connect(server))
            talker.sendall(b"GET /metrics HTTP/1.1\r\nX: ")
        began = time.monotonic()
        for _ in range(3):
            with connect(server) as asking:
                assert ask(asking).endswith(b"hello")
        assert time.monotonic() - began < module._TIMEOUT_S / 2
        assert len(server._server.living) <= module._CONNECTIONS
    assert len(server._server.requests._threads) <= module._CONNECTIONS


def test_threads_that_idle_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TIMEOUT_S", 60)
    with serving() as server:
        with ExitStack() as slow:
            for _ in range(30):
                slow.enter_context(connect(server)).sendall(b"GET /metrics HTTP/1.1\r\nX: ")
            assert within(60, lambda: len(server._server.requests._threads) >= 30)
        assert within(60, lambda: len(server._server.requests._threads) == module._THREADS)
        with connect(server) as asking:
            assert ask(asking).endswith(b"hello")


def test_clients_that_do_not_read_hold_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TIMEOUT_S", 60)
    monkeypatch.setattr(module, "_REQUEST_S", 60.0)
    much = b"x" * (8 << 20)

    def answer(environ: WSGIEnvironment, start: StartResponse) -> list[bytes]:
        if environ["PATH_INFO"] == "/metrics":
            return hello(environ, start)
        start("200 OK", [("Content-Length", str(len(much)))])
        return [much]

    server = WebServer("127.0.0.1", 0, answer)
    server.start()
    try:
        with ExitStack() as slow:
            for _ in range(20):
                slow.enter_context(connect(server)).sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
            began = time.monotonic()
            with connect(server) as asking:
                assert ask(asking).endswith(b"hello")
            assert time.monotonic() - began < module._TIMEOUT_S / 2
    finally:
        server.stop()


def test_the_number_of_connections_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CONNECTIONS", 3)
    with serving() as server, ExitStack() as stack:
        kept = [stack.enter_context(connect(server)) for _ in range(3)]
        for connection in kept:
            assert ask(connection).endswith(b"hello")
            # The answer is there before its thread has noted that it is given.
            assert within(60, lambda: all(one.began is None for one in list(server._server.living)))
        with connect(server) as one_more:
            assert ask(one_more).endswith(b"hello")
            assert len(server._server.living) <= 3
            assert kept[0].recv(1) == b"", "what has been idle for longest makes room"
            assert ask(kept[2]).endswith(b"hello")


def within(seconds: float, what: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while not (found := what()) and time.monotonic() < end:
        time.sleep(0.05)
    return found


def test_the_oldest_silent_connection_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CONNECTIONS", 3)
    monkeypatch.setattr(module, "_TIMEOUT_S", 60)
    with serving() as server, ExitStack() as stack:
        asking = stack.enter_context(connect(server))
        assert ask(asking).endswith(b"hello")
        silent = [stack.enter_context(connect(server)) for _ in range(2)]
        for _ in range(2):
            with connect(server) as scraper:
                assert ask(scraper).endswith(b"hello")
        # Earlier than a silent connection must go.
        silent[0].settimeout(module._TIMEOUT_S / 2)
        assert silent[0].recv(1) == b""
        assert ask(asking).endswith(b"hello")


def test_an_address_that_is_not_ours_is_one_line() -> None:
    with pytest.raises(ListenError) as caught:
        WebServer("192.0.2.7", 9881, hello)
    assert (
        str(caught.value) == "cannot listen on 192.0.2.7:9881: this host has no such address; correct it by web.listen"
    )


def test_a_name_that_nobody_knows_is_one_line() -> None:
    with pytest.raises(
        ListenError, match=r"^cannot listen on nobody\.invalid:9881: [^:\n]+; choose another address by web\.listen$"
    ):
        WebServer("nobody.invalid", 9881, hello)
