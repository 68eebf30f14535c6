"""Slow, silent and many clients of a protected exporter."""

import socket
import ssl
import threading
import time
from base64 import b64encode
from concurrent.futures import ThreadPoolExecutor

import pytest

from hwsonde_exporter import server as server_module
from hwsonde_exporter.exporter import Exporter
from tests.exporter.core.asking import exporter_of
from tests.exporter.core.fakes import collector_kind, heat_of
from tests.exporter.core.serving.protected import PASSWORD, Place, curl, hashed, served


def test_slow_and_half_open_clients_hold_nobody_up(exporter: Exporter, place: Place) -> None:
    """Far more of them than there are threads while all is quiet."""
    place.write()
    with served(exporter, place, threads=2) as (port, _, _):
        held = []
        for number in range(40):
            connection = socket.create_connection(("127.0.0.1", port))
            if number % 4 == 1:
                connection.sendall(b"\x16")  # a handshake that never goes on
            elif number % 4 == 2:
                connection.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc")
            elif number % 4 == 3:
                context = ssl._create_unverified_context()
                connection = context.wrap_socket(connection)
                connection.sendall(b"GET /metrics HTTP/1.1\r\nHos")
            held.append(connection)
        began = time.monotonic()
        for _ in range(3):
            assert curl(port, "--cacert", place.authority.cert)[1] == 200
        assert time.monotonic() - began < 5
        for connection in held:
            connection.close()


def test_a_client_that_reads_slowly_holds_nobody_up(place: Place) -> None:
    many = exporter_of(collector_kind("heat", heat_of(1)))
    place.write()
    with served(many, place, threads=1) as (port, _, _):
        context = ssl._create_unverified_context()
        slow = []
        for _ in range(6):
            connection = socket.create_connection(("127.0.0.1", port))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
            wrapped = context.wrap_socket(connection)
            wrapped.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 50)
            slow.append(wrapped)
        assert curl(port, "--cacert", place.authority.cert)[1] == 200
        for connection in slow:
            connection.close()
    many.stop()


def test_two_hundred_connections_at_once(exporter: Exporter, place: Place) -> None:
    place.write("", {"prometheus": hashed(PASSWORD, 10)})
    context = ssl.create_default_context(cafile=str(place.authority.cert))
    request = (
        b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\nAuthorization: Basic "
        + b64encode(f"prometheus:{PASSWORD}".encode())
        + b"\r\nConnection: close\r\n\r\n"
    )
    ready = threading.Barrier(200)

    def ask(port: int) -> bytes:
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
            ready.wait(60)
            with context.wrap_socket(connection, server_hostname="localhost") as wrapped:
                wrapped.sendall(request)
                answer = b""
                while piece := wrapped.recv(65536):
                    answer += piece
                return answer

    with served(exporter, place) as (port, _, _), ThreadPoolExecutor(200) as pool:
        answers = list(pool.map(ask, [port] * 200))
    assert {answer[:15] for answer in answers} == {b"HTTP/1.1 200 OK"}


def test_requests_that_never_end_are_cut_off_over_tls(
    exporter: Exporter, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "_REQUEST_SECONDS", 0.3)
    place.write()
    with served(exporter, place) as (port, _, _):
        silent, half = (socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(2))
        with silent, half:
            half.sendall(b"\x16\x03")
            assert silent.recv(1) == b""
            assert half.recv(100)[:1] in {b"", b"\x15"}
        assert curl(port, "--cacert", place.authority.cert)[1] == 200


def test_those_without_an_answer_make_room(exporter: Exporter, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half requests on every connection do not lock out who asks properly."""
    monkeypatch.setattr(server_module, "_MAX_CONNECTIONS", 5)
    place.write()
    with served(exporter, place) as (port, _, _):
        half = [socket.create_connection(("127.0.0.1", port)) for _ in range(5)]
        for connection in half:
            connection.sendall(b"\x16\x03\x01")
        time.sleep(0.1)
        for _ in range(3):
            assert curl(port, "--cacert", place.authority.cert)[1] == 200
        for connection in half:
            connection.close()
