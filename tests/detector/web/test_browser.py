"""The page over real HTTP: rendered by a headless Chromium where there is one, otherwise as it is served."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
import requests

from hwsonde_detector.errors import ListenError
from hwsonde_detector.web.app import App, Metrics
from hwsonde_detector.web.server import WebServer

from .data import HOSTILE, StillClock, fleet

_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--enable-logging=stderr", "--window-size=1280,1200", "--virtual-time-budget=4000",
)  # fmt: skip


@pytest.fixture
def address() -> Iterator[str]:
    board, history = fleet(HOSTILE)
    server = WebServer("127.0.0.1", 0, App(board, history, StillClock(), Metrics("text/plain", lambda *_: b"x 1\n")))
    server.start()
    yield f"http://127.0.0.1:{server.port}"
    server.stop()


def test_the_page_shows_host_part_and_size_of_the_trouble(address: str, tmp_path: Path) -> None:
    browser = shutil.which("chromium")
    if browser is None:
        print("chromium is not installed: the page is checked as it is served, without its script")
        page = requests.get(f"{address}/", timeout=60).text
        assert "a/node17 cpu: cpu_sampled_busy_ratio 98.1 %" in page
        assert requests.get(f"{address}/api/v1/hosts", timeout=60).json()["hosts"][0]["score"] > 2
        return
    print("the page is checked as chromium renders it")
    done = subprocess.run(
        [browser, *_FLAGS, f"--user-data-dir={tmp_path}", "--dump-dom", f"{address}/"],
        capture_output=True,
        text=True,
        timeout=90,
        check=True,
    )
    dom = done.stdout
    assert not re.search(r"CONSOLE.*(error|Refused|Uncaught)", done.stderr, re.IGNORECASE), done.stderr
    assert re.search(r'id="verdict-side"[^>]*>\d\.\d\d . threshold<', dom)
    assert re.search(r'id="host-name"[^>]*>a/node17<', dom)
    assert dom.count("<canvas") == 2
    assert dom.count('aria-pressed="true"') == 1
    assert "&lt;script&gt;alert" in dom
    assert len(re.findall(r"<script", dom)) == 2
    assert "learning 80 of 240 rows, about 3 min to go" in dom
    assert re.search(r'scope="row">disk_written\{device=nvme0n1\}<', dom)
    assert len(re.findall(r'<span class="words">named after its instance', dom)) == 1
    assert re.search(r'id="named"[^>]* hidden', dom), "the note of another host"
    assert "moved first: cpu_sampled_busy_ratio" in dom


def test_the_server_answers_over_http_and_survives_garbage(address: str) -> None:
    port = int(address.rpartition(":")[2])
    for garbage in (b"\x00\xff\r\n\r\n", b"GET / HTTP/9\r\n\r\n", b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\n\r\n", b""):
        answered = b""
        # The server may hang up in the middle of garbage; that is an answer, too.
        with socket.create_connection(("127.0.0.1", port), timeout=60) as connection, suppress(OSError):
            connection.sendall(garbage)
            connection.shutdown(socket.SHUT_WR)
            answered = connection.recv(4096)
        assert b"Traceback" not in answered
    answer = requests.get(f"{address}/metrics", timeout=60)
    assert (answer.status_code, answer.text) == (200, "x 1\n")
    encoded = requests.get(f"{address}/api/v1/hosts/a%2Fnode18", timeout=60)
    assert encoded.json()["name"] == "a/node18"
    assert requests.put(f"{address}/", data=b"x" * 1000, timeout=60).status_code == 405


def test_a_taken_port_is_one_line_that_says_what_to_do(address: str) -> None:
    port = int(address.rpartition(":")[2])
    with pytest.raises(ListenError, match=rf"cannot listen on 127\.0\.0\.1:{port}.*web\.listen") as caught:
        WebServer("127.0.0.1", port, lambda environ, start: [])
    assert "\n" not in str(caught.value)
