"""Serves the page, one board and Prometheus on one address of loopback, so that the browser asks nobody else."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from grafana.rendering.errors import RenderError

_PROXY = "/prometheus/"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript",
    ".css": "text/css",
    ".json": "application/json",
}
_SECONDS = 30


def ask(prometheus: str) -> None:
    """See that a Prometheus answers, before anything is built for it.

    Raises
    ------
    RenderError
        If none does.
    """
    try:
        with urllib.request.urlopen(f"{prometheus.rstrip('/')}/api/v1/query?query=1", timeout=_SECONDS) as answer:  # noqa: S310 - the user's own address
            fine = json.load(answer).get("status") == "success"
    except (OSError, ValueError, AttributeError) as error:
        raise RenderError(f"{prometheus} does not answer as Prometheus does ({error}): correct --prometheus") from None
    if not fine:
        raise RenderError(f"{prometheus} does not answer as Prometheus does: correct --prometheus")


class Site(ThreadingHTTPServer):
    """What is served; ``board`` may be changed between two looks.

    Parameters
    ----------
    page
        Folder of the built page.
    prometheus
        Address of Prometheus.
    """

    daemon_threads = True
    request_queue_size = 128  # a board asks a hundred queries at once

    def __init__(self, page: Path, prometheus: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.prometheus = prometheus.rstrip("/")
        self.board: Mapping[str, Any] = {}
        self.files = {
            f"/{path.relative_to(page).as_posix()}": (
                path.read_bytes(),
                _TYPES.get(path.suffix, "application/octet-stream"),
            )
            for path in page.rglob("*")
            if path.is_file()
        }

    @property
    def address(self) -> str:
        """Where it is."""
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Site

    def do_GET(self) -> None:
        path = urllib.parse.urlsplit(self.path).path
        if self.path.startswith(_PROXY):
            self._reply(*_asked(f"{self.server.prometheus}/{self.path.removeprefix(_PROXY)}"))
        elif path == "/board.json":
            self._reply(200, json.dumps(self.server.board).encode(), "application/json")
        elif found := self.server.files.get("/index.html" if path == "/" else path):
            self._reply(200, *found)
        else:
            self._reply(404, b"not here\n", "text/plain")

    def _reply(self, status: int, body: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the library's
        pass


def _asked(url: str) -> tuple[int, bytes, str]:
    """What Prometheus answers; where it does not, an answer in its form."""
    try:
        with urllib.request.urlopen(url, timeout=_SECONDS) as answer:  # noqa: S310 - the user's own address
            return 200, answer.read(), "application/json"
    except urllib.error.HTTPError as error:
        return error.code, error.read(), "application/json"
    except OSError as error:
        said = {"status": "error", "error": f"Prometheus does not answer: {error}"}
        return 502, json.dumps(said).encode(), "application/json"


@contextmanager
def serving(page: Path, prometheus: str) -> Iterator[Site]:
    """A site that serves while this is entered."""
    site = Site(page, prometheus)
    thread = threading.Thread(target=site.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        site.shutdown()
        site.server_close()
        thread.join()
