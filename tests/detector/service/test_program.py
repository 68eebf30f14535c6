"""The whole program as a process: signals, reload, bad input, against a small server that plays Prometheus."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import requests

from hwsonde_detector.sources.archive import ArchiveSource, Start

ROOT = Path(__file__).parents[3]
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT / 'detector_sidecar'}:{os.environ.get('PYTHONPATH', '')}"}
READ_TIMEOUT_S = 60
EMPTY = json.dumps({"status": "success", "data": {"resultType": "matrix", "result": []}}).encode()


class Server(ThreadingHTTPServer):
    """Answers every query with ``body``, or not at all while ``hang`` is set."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.body, self.hang, self.status = EMPTY, False, 200
        self.asked = threading.Event()


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Server

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.asked.set()
        while self.server.hang:
            time.sleep(0.05)
        self.send_response(self.server.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(self.server.body)))
        self.end_headers()
        with suppress(BrokenPipeError):  # whoever asked has ended
            self.wfile.write(self.server.body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def prometheus() -> Iterator[Server]:
    server = Server()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield server
    server.hang = False
    server.shutdown()
    thread.join()
    server.server_close()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def write(file: Path, url: str, port: int, more: str = "") -> None:
    file.write_text(
        f"source: {{url: '{url}', history: 0s, read_timeout: {READ_TIMEOUT_S}s}}\nweb: {{listen: '127.0.0.1:{port}'}}\n"
        f"state: {{dir: '{file.parent / 'state'}'}}\n{more}"
    )


class Program:
    """A running detector."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.port = folder, free_port()
        self.file, self.log = folder / "detector.yaml", folder / "log"
        self.write(url)
        with self.log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "hwsonde_detector", "run", "--config.file", str(self.file)],
                stdout=log,
                stderr=log,
                env=ENVIRONMENT,
            )

    def write(self, url: str, more: str = "") -> None:
        write(self.file, url, self.port, more)

    def lines(self) -> list[str]:
        return self.log.read_text().splitlines()

    def get(self, path: str) -> requests.Response:
        return requests.get(f"http://127.0.0.1:{self.port}{path}", timeout=60)

    def metric(self, series: str) -> float:
        found = [line for line in self.get("/metrics").text.splitlines() if line.startswith(f"{series} ")]
        return float(found[0].split()[-1])

    def until(self, holds: Callable[[], bool], seconds: float = 80) -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if holds():
                    return
            except (requests.RequestException, IndexError):
                pass
            assert self.process.poll() is None, self.lines()
            time.sleep(0.05)
        pytest.fail(f"waited in vain; the log says {self.lines()}")

    def stop(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(timeout=60)


@contextmanager
def running(folder: Path, url: str) -> Iterator[Program]:
    program = Program(folder, url)
    try:
        yield program
    finally:
        if program.process.poll() is None:
            program.process.kill()
            program.process.wait()
    assert "Traceback" not in program.log.read_text()


def url(server: Server) -> str:
    return f"http://127.0.0.1:{server.server_port}"


def test_it_starts_reloads_and_ends_in_order(prometheus: Server, tmp_path: Path) -> None:
    with running(tmp_path, url(prometheus)) as program:
        program.until(lambda: program.get("/-/ready").status_code == 200)
        assert program.metric("hwsonde_detector_config_last_reload_successful") == 1
        program.write(url(prometheus), "tock: 1s\n")
        program.process.send_signal(signal.SIGHUP)
        program.until(lambda: program.metric('hwsonde_detector_reloads_total{result="failed"}') == 1)
        assert program.metric("hwsonde_detector_config_last_reload_successful") == 0
        (told,) = [line for line in program.lines() if "the old configuration stays" in line]
        assert "tock: unknown key" in told
        program.write(url(prometheus), "mode: shadow\n")
        program.process.send_signal(signal.SIGHUP)
        program.until(lambda: program.metric('hwsonde_detector_reloads_total{result="ok"}') == 1)
        program.until(lambda: program.get("/api/v1/hosts").json()["mode"] == "shadow")
        assert program.metric("hwsonde_detector_config_last_reload_successful") == 1
        assert program.stop() == 0
    assert (tmp_path / "state" / "state.npz").exists()


def test_an_archive_that_a_reload_turns_on_begins_with_a_start(prometheus: Server, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    with running(tmp_path, url(prometheus)) as program:
        program.until(lambda: program.get("/-/ready").status_code == 200)
        program.write(url(prometheus), f"archive: {{record: '{archive}'}}\n")
        program.process.send_signal(signal.SIGHUP)
        program.until(lambda: program.metric('hwsonde_detector_reloads_total{result="ok"}') == 1)
        program.until(lambda: any("models are kept" in line for line in program.lines()))
        size = archive.stat().st_size
        program.until(lambda: archive.stat().st_size > size)
        assert program.stop() == 0
    first, *rest = ArchiveSource(archive).records()
    assert isinstance(first, Start)
    assert rest
    assert not any(isinstance(record, Start) for record in rest)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_ends_while_the_server_does_not_answer(prometheus: Server, tmp_path: Path, number: int) -> None:
    prometheus.hang = True
    with running(tmp_path, url(prometheus)) as program:
        program.until(prometheus.asked.is_set)
        program.until(lambda: program.get("/-/healthy").status_code == 200)
        began = time.monotonic()
        assert program.stop(number) == 0
        assert time.monotonic() - began < READ_TIMEOUT_S / 2, "it waited for the answer"
    assert (tmp_path / "state" / "state.npz").exists()


def test_trouble_with_the_server_is_told_on_the_page_and_got_over(prometheus: Server, tmp_path: Path) -> None:
    prometheus.status, prometheus.body = 502, b"<html>bad gateway</html>"
    with running(tmp_path, url(prometheus)) as program:
        program.until(lambda: program.get("/api/v1/hosts").json()["source"]["state"] == "failing")
        assert program.get("/-/ready").status_code == 503
        assert program.metric("hwsonde_detector_source_up") == 0
        prometheus.status, prometheus.body = 200, EMPTY
        program.until(lambda: program.get("/-/ready").status_code == 200)
        assert program.metric("hwsonde_detector_source_up") == 1
        program.until(lambda: any("source answers again after" in line for line in program.lines()))
        assert program.stop() == 0


def test_a_damaged_state_is_set_aside_and_a_taken_port_is_one_line(prometheus: Server, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "state.npz").write_bytes(b"no state at all")
    with running(tmp_path, url(prometheus)) as program:
        program.until(lambda: program.get("/-/ready").status_code == 200)
        assert len([line for line in program.lines() if "damaged" in line]) == 1
        # Its folder is its own: of one that is taken another line tells.
        own = str(tmp_path / "other")
        done = subprocess.run(
            [sys.executable, "-m", "hwsonde_detector", "run", "--config.file", str(program.file), "--state.dir", own],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=ENVIRONMENT,
        )
        # Not 2, upon which its service would never be started again: the port may become free.
        assert done.returncode == 1
        (line,) = done.stderr.splitlines()
        assert f"cannot listen on 127.0.0.1:{program.port}" in line
        assert program.stop() == 0


def test_of_two_with_one_folder_the_second_ends_with_one_line(prometheus: Server, tmp_path: Path) -> None:
    with running(tmp_path, url(prometheus)) as program:
        program.until(lambda: program.get("/-/ready").status_code == 200)
        done = subprocess.run(
            [
                *(sys.executable, "-m", "hwsonde_detector", "run", "--config.file", str(program.file)),
                *("--web.listen-address", f"127.0.0.1:{free_port()}"),
            ],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            env=ENVIRONMENT,
        )
        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
        assert f"{tmp_path / 'state'}: another detector that runs keeps its state there; end that one, or name" in line
        program.process.kill()
        # Not waited for: what follows a kill is not refused.
        with running(tmp_path, url(prometheus)) as again:
            again.until(lambda: again.get("/-/ready").status_code == 200)
            assert again.stop() == 0
