"""The images' health check: right about both programs, with and without TLS, and without a trace in what they count."""

from __future__ import annotations

import shutil
import socket
import ssl
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from hwsonde_exporter.exporter import Exporter
from tests.deploy.conftest import ROOT
from tests.detector.web.test_protection import MUTUAL, SECURE, TLS, USERS, Page
from tests.exporter.core.asking import exporter_of
from tests.exporter.core.fakes import collector_kind, heat_of
from tests.exporter.core.serving.protected import PASSWORD, Place, hashed, served

HEALTHY = ROOT / "deploy" / "docker" / "healthy"
# What a check may take in an image, with room to spare.
LIMIT_S = 4.5


def check(port: int) -> subprocess.CompletedProcess[str]:
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-I", HEALTHY, str(port)], capture_output=True, text=True, timeout=30, check=False
    )
    assert time.monotonic() - began < LIMIT_S
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    made = exporter_of(collector_kind("heat", heat_of(21.5)))
    yield made
    made.stop()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("server.pem", "ca.pem"):
        shutil.copy(TLS / name, tmp_path / name)
    return tmp_path


@pytest.mark.parametrize("tls", [None, ""], ids=["http", "https"])
@pytest.mark.parametrize("users", [None, {"ann": hashed(PASSWORD)}], ids=["open", "password"])
def test_the_exporter_is_healthy_and_counts_no_refusal(
    exporter: Exporter, tmp_path: Path, tls: str | None, users: dict[str, str] | None
) -> None:
    place = Place(tmp_path)
    place.write(tls, users)
    with served(exporter, place) as (port, _, refusals):
        assert check(port).returncode == 0
        assert set(refusals.counts.values()) == {0}


@pytest.mark.parametrize("most", ["TLS12", "TLS13"])
def test_an_exporter_that_wants_a_certificate_lives(exporter: Exporter, tmp_path: Path, most: str) -> None:
    place = Place(tmp_path)
    place.write(f"  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: ca.pem\n  max_version: {most}")
    with served(exporter, place) as (port, _, _):
        assert check(port).returncode == 0


@pytest.mark.parametrize(
    "text", ["", USERS, SECURE, SECURE + USERS, MUTUAL], ids=["http", "password", "https", "both", "certificate"]
)
@pytest.mark.parametrize("openings", [("health",), ()], ids=["open", "closed"])
def test_the_detector_is_healthy(folder: Path, text: str, openings: tuple[str, ...]) -> None:
    page = Page(folder, text, openings)
    try:
        assert check(page.server.port).returncode == 0
    finally:
        page.server.stop()


def test_nobody_there_is_one_line_and_status_1() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        done = check(free.getsockname()[1])
    assert done.returncode == 1
    assert done.stderr.startswith("no answer on port ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "answer",
    [None, b"HTTP/1.0 503 Service Unavailable\r\n\r\nthe loop has not turned for 300 s\n", b"?\n"],
    ids=["silence", "stuck", "nonsense"],
)
def test_who_does_not_say_that_he_is_healthy_is_not(answer: bytes | None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        ended = threading.Event()

        def serve() -> None:
            held = []
            while not ended.is_set():
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return  # it was closed meanwhile
                held.append(connection)
                if answer is not None:
                    connection.recv(4096)
                    connection.sendall(answer)
                    connection.close()

        threading.Thread(target=serve, daemon=True).start()
        done = check(listening.getsockname()[1])
        ended.set()
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1


@contextmanager
def tls_server(serve: Callable[[socket.socket, int], None]) -> Iterator[int]:
    """Port of a server that gives each connection to a function, with its number."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept() -> None:
            number = 0
            with suppress(OSError):
                while True:
                    plain, _ = listening.accept()
                    with plain, suppress(OSError):
                        plain.settimeout(2)
                        serve(plain, number)
                    number += 1

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
        thread.join(20)


def tls_context(version: ssl.TLSVersion) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = context.maximum_version = version
    context.load_cert_chain(TLS / "server.pem")
    return context


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["TLS12", "TLS13"])
@pytest.mark.parametrize("how", ["closes", "resets"])
def test_who_speaks_tls_and_hangs_up_is_not_healthy(version: ssl.TLSVersion, how: str) -> None:
    shaken: list[int] = []
    context = tls_context(version)

    def serve(plain: socket.socket, number: int) -> None:
        with context.wrap_socket(plain, server_side=True) as connection:
            shaken.append(number)
            connection.recv(4096)
            if how == "resets":
                reset(connection)

    with tls_server(serve) as port:
        done = check(port)
    assert shaken, "there was a handshake"
    assert done.returncode == 1
    assert done.stderr.startswith("no answer on port ")
    assert done.stderr.count("\n") == 1


def test_a_refusal_that_a_reset_swallowed_is_asked_for_again() -> None:
    """As where a server of TLS 1.3 refuses whoever has no certificate before it has read the request."""
    version = ssl.TLSVersion.TLSv1_3
    open_to_all, mutual = tls_context(version), tls_context(version)
    mutual.verify_mode = ssl.CERT_REQUIRED
    mutual.load_verify_locations(TLS / "ca.pem")
    served: list[int] = []

    def serve(plain: socket.socket, number: int) -> None:
        served.append(number)
        if number:
            mutual.wrap_socket(plain, server_side=True).close()
            return
        with open_to_all.wrap_socket(plain, server_side=True) as connection:
            connection.recv(4096)
            reset(connection)

    with tls_server(serve) as port:
        assert check(port).returncode == 0
    assert served == [0, 1]
