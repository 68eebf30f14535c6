"""The images' health check: right about both programs, with and without TLS, and without a trace in what they count."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
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
                connection, _ = listening.accept()
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
