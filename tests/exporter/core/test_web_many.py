"""Clients that are many, slow, silent or never done: nobody holds the others up."""

import socket
import threading
import time
from contextlib import suppress
from typing import Any

import pytest

from hwsonde_exporter import server as server_module
from hwsonde_exporter.exporter import Exporter
from hwsonde_exporter.server import Listeners
from hwsonde_exporter.state import State
from hwsonde_exporter.web import Application
from tests.exporter.core.asking import Port, ask, raw


class Blocked:
    """An exporter whose scrapes last until they are let go."""

    ready, names, enabled = True, frozenset({"x"}), frozenset({"x"})

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.let_go = threading.Event()
        self.turned_away = 0

    def scrape(self, names: Any, timeout: Any) -> list[Any]:
        self.entered.release()
        self.let_go.wait(20)
        return []

    def refused(self) -> None:
        self.turned_away += 1

    def states(self) -> list[State]:
        return []


def test_too_many_scrapes_at_once_are_refused_and_counted() -> None:
    blocked = Blocked()
    listeners = Listeners([("127.0.0.1", 0)], Application(blocked, "x", max_scrapes=2), threads=4)
    listeners.start()
    port = listeners.addresses[0][1]
    answers: list[int] = []
    threads = [threading.Thread(target=lambda: answers.append(ask(port, "/metrics")[0])) for _ in range(2)]
    try:
        for thread in threads:
            thread.start()
            assert blocked.entered.acquire(timeout=10)
        status, headers, body = ask(port, "/metrics")
        assert (status, headers["Retry-After"]) == (503, "1")
        assert body.startswith(b"2 scrapes are under way already;")
        assert blocked.turned_away == 1
        assert ask(port, "/-/healthy")[0] == 200
        blocked.let_go.set()
        for thread in threads:
            thread.join(10)
        assert answers == [200, 200]
        assert ask(port, "/metrics")[0] == 200
    finally:
        blocked.let_go.set()
        listeners.stop()


def test_silent_connections_hold_no_worker_up(port: Port) -> None:
    """There are four workers; a connection takes one only when it says something."""
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
    try:
        began = time.monotonic()
        assert ask(port, "/-/healthy")[0] == 200
        assert time.monotonic() - began < 2
    finally:
        for connection in silent:
            connection.close()


def test_requests_that_never_end_are_cut_off(exporter: Exporter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_REQUEST_SECONDS", 0.2)
    listeners = Listeners([("127.0.0.1", 0)], Application(exporter, "x"), threads=2)
    listeners.start()
    port = listeners.addresses[0][1]
    slow = [socket.create_connection(("127.0.0.1", port), timeout=5) for _ in range(3)]
    slow[0].sendall(b"GET /met")
    slow[1].sendall(b"GET / HTTP/1.1\r\nHost")
    try:
        deadline = time.monotonic() + 5
        closed = set()
        while len(closed) < 3 and time.monotonic() < deadline:
            listeners.reap()
            slow[1].settimeout(0.05)
            for place, connection in enumerate(slow):
                connection.settimeout(0.05)
                try:
                    if not connection.recv(65536):
                        closed.add(place)
                except TimeoutError:
                    pass
                except OSError:
                    closed.add(place)
        assert closed == {0, 1, 2}
        assert ask(port, "/-/healthy")[0] == 200
    finally:
        listeners.stop()


def healthy(connection: socket.socket) -> bool:
    """Ask over a connection that stays open."""
    connection.sendall(b"GET /-/healthy HTTP/1.1\r\nHost: x\r\n\r\n")
    answer = b""
    while not answer.endswith(b"healthy\n"):
        piece = connection.recv(65536)
        if not piece:
            return False
        answer += piece
    return True


def test_beyond_the_bound_the_connection_idle_for_longest_makes_room(
    exporter: Exporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever keeps all connections open locks nobody out."""
    monkeypatch.setattr(server_module, "_MAX_CONNECTIONS", 3)
    listeners = Listeners([("127.0.0.1", 0)], Application(exporter, "x"), threads=2)
    listeners.start()
    kept = [socket.create_connection(listeners.addresses[0], timeout=5) for _ in range(3)]
    try:
        for connection in (kept[1], kept[0], kept[2], kept[0]):
            assert healthy(connection)
            time.sleep(0.02)
        for _ in range(2):
            with socket.create_connection(listeners.addresses[0], timeout=5) as scraper:
                assert healthy(scraper)
        assert healthy(kept[0])
        assert kept[1].recv(1) == b""
    finally:
        for connection in kept:
            connection.close()
        listeners.stop()


def test_beyond_the_bound_connections_are_closed_while_all_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_MAX_CONNECTIONS", 2)
    blocked = Blocked()
    listeners = Listeners([("127.0.0.1", 0)], Application(blocked, "x"), threads=2)
    listeners.start()
    port = listeners.addresses[0][1]
    threads = [threading.Thread(target=ask, args=(port, "/metrics")) for _ in range(2)]
    try:
        for thread in threads:
            thread.start()
            assert blocked.entered.acquire(timeout=10)
        assert raw(port, b"GET /-/healthy HTTP/1.0\r\n\r\n") == b""
        blocked.let_go.set()
        for thread in threads:
            thread.join(10)
        assert b"healthy" in raw(port, b"GET /-/healthy HTTP/1.0\r\n\r\n")
    finally:
        blocked.let_go.set()
        listeners.stop()


def test_the_oldest_silent_connection_makes_room(exporter: Exporter, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "_MAX_CONNECTIONS", 3)
    listeners = Listeners([("127.0.0.1", 0)], Application(exporter, "x"), threads=2)
    listeners.start()
    address = listeners.addresses[0]
    asking = socket.create_connection(address, timeout=5)
    silent = []
    try:
        assert healthy(asking)
        silent += [socket.create_connection(address, timeout=5) for _ in range(2)]
        for _ in range(2):
            with socket.create_connection(address, timeout=5) as scraper:
                assert healthy(scraper)
        assert silent[0].recv(1) == b""
        assert healthy(asking)
    finally:
        for connection in (asking, *silent):
            connection.close()
        listeners.stop()


def test_whoever_has_most_connections_gives_up_one_even_if_it_is_being_served(
    exporter: Exporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients that ask and do not read the answers lock nobody else out, nor cost him the connection that he has."""
    monkeypatch.setattr(server_module, "_MAX_CONNECTIONS", 6)
    monkeypatch.setattr(server_module, "_SLOW_SECONDS", 0.1)
    listeners = Listeners([("127.0.0.1", 0)], Application(exporter, "x"), threads=2)
    listeners.start()
    address = listeners.addresses[0]
    scraper = socket.create_connection(address, timeout=5)
    crowd = []
    try:
        assert healthy(scraper)
        for _ in range(5):
            slow = socket.socket()
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
            slow.bind(("127.0.0.2", 0))
            slow.connect(address)
            slow.settimeout(0.2)
            with suppress(TimeoutError):
                while True:
                    slow.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 1000)
            crowd.append(slow)
        for _ in range(2):
            with socket.create_connection(address, timeout=5) as another:
                assert healthy(another)
        assert healthy(scraper)
    finally:
        for connection in (scraper, *crowd):
            connection.close()
        listeners.stop()
