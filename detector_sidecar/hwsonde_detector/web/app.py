"""The HTTP interface as a WSGI application. Reads what the loop published, changes nothing."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2
import orjson

from hwsonde_detector.clock import Clock
from hwsonde_detector.published import Noticeboard, Published
from hwsonde_detector.web import documents
from hwsonde_detector.web.history import History

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

_HERE = Path(__file__).parent
_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}
_HOSTS = "/api/v1/hosts/"
_SECURITY = (
    (
        "Content-Security-Policy",
        "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src 'none'",
    ),
    ("X-Content-Type-Options", "nosniff"),
    ("Referrer-Policy", "no-referrer"),
)
# A loop that has not turned for so long is stuck: the longest read and the longest step are far below it.
_STUCK_S = 120.0


@dataclass(frozen=True, slots=True)
class Metrics:
    """How /metrics is rendered, given by the service so that this room needs no other one."""

    content_type: str
    render: Callable[[Published, float, int], bytes]


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, type and body of a response."""

    status: HTTPStatus
    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = (("Cache-Control", "no-store"),)


def _line(status: HTTPStatus, text: str, *headers: tuple[str, str]) -> Answer:
    return Answer(status, "text/plain; charset=utf-8", f"{text}\n".encode(), (("Cache-Control", "no-store"), *headers))


class App:
    """Routes: ``/``, ``/metrics``, ``/-/healthy``, ``/-/ready``, ``/api/v1/hosts``, ``/api/v1/hosts/NAME``, ``/api/v1/episodes``, ``/static/NAME``.

    Parameters
    ----------
    board
        What the loop published last.
    history
        Scores of the recent past.
    clock
        Time.
    metrics
        Renders /metrics.
    """

    def __init__(self, board: Noticeboard, history: History, clock: Clock, metrics: Metrics) -> None:
        self._board = board
        self._history = history
        self._clock = clock
        self._metrics = metrics
        # All files are read once: a request names an entry of this table, never a path.
        self._static = {
            path.name: Answer(HTTPStatus.OK, _TYPES[path.suffix], path.read_bytes(), (("Cache-Control", "no-cache"),))
            for folder in ("static", "vendor")
            for path in sorted((_HERE / folder).iterdir())
            if path.suffix in _TYPES
        }
        loader = jinja2.FileSystemLoader(_HERE / "templates")
        self._page = jinja2.Environment(loader=loader, autoescape=True, undefined=jinja2.StrictUndefined).get_template(
            "page.html"
        )
        self._routes: dict[str, Callable[[], Answer]] = {
            "/": self._html,
            "/metrics": self._text,
            "/-/healthy": self._healthy,
            "/-/ready": self._ready,
            "/api/v1/hosts": self._hosts,
            "/api/v1/episodes": self._episodes,
        }

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        method = environ.get("REQUEST_METHOD", "GET")
        answer = self.answer(method, environ.get("PATH_INFO", ""))
        headers = [
            ("Content-Type", answer.content_type),
            ("Content-Length", str(len(answer.body))),
            *answer.headers,
            *_SECURITY,
        ]
        start_response(f"{answer.status.value} {answer.status.phrase}", headers)
        return [] if method == "HEAD" else [answer.body]

    def answer(self, method: str, raw_path: str) -> Answer:
        """Answer to a method and a path as WSGI gives it (bytes in Latin-1)."""
        if method not in ("GET", "HEAD"):
            return _line(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD are answered here", ("Allow", "GET, HEAD"))
        try:
            path = raw_path.encode("latin-1").decode("utf-8")
        except UnicodeError:
            return _line(HTTPStatus.BAD_REQUEST, "the path is not UTF-8")
        if route := self._routes.get(path):
            return route()
        if path.startswith(_HOSTS):
            return self._host(path.removeprefix(_HOSTS))
        found = self._static.get(path.removeprefix("/static/")) if path.startswith("/static/") else None
        return found or _line(HTTPStatus.NOT_FOUND, "there is no such page; begin at /")

    def _html(self) -> Answer:
        board = self._board.get()
        page = self._page.render(
            hosts=self._host_document(board),
            episodes=documents.episodes(board),
            age=documents.duration(self._clock.now_ms() - board.started_ms),
        )
        return Answer(HTTPStatus.OK, "text/html; charset=utf-8", page.encode("utf-8", "replace"))

    def _text(self) -> Answer:
        body = self._metrics.render(self._board.get(), self._clock.monotonic(), self._clock.now_ms())
        return Answer(HTTPStatus.OK, self._metrics.content_type, body)

    def _healthy(self) -> Answer:
        board = self._board.get()
        age = self._clock.monotonic() - board.taken
        if age > max(_STUCK_S, 3 * board.tick_ms / 1000):
            return _line(HTTPStatus.SERVICE_UNAVAILABLE, f"the loop has not turned for {age:.0f} s")
        return _line(HTTPStatus.OK, "healthy")

    def _ready(self) -> Answer:
        board = self._board.get()
        if not board.source.answered:
            return _line(HTTPStatus.SERVICE_UNAVAILABLE, documents.source(board, self._clock.now_ms())["text"])
        return _line(HTTPStatus.OK, "ready")

    def _hosts(self) -> Answer:
        return _json(self._host_document(self._board.get()))

    def _host_document(self, board: Published) -> dict[str, object]:
        return documents.hosts(board, self._history, self._clock.monotonic(), self._clock.now_ms())

    def _host(self, name: str) -> Answer:
        board, monotonic, now_ms = self._board.get(), self._clock.monotonic(), self._clock.now_ms()
        # The server leaves an encoded slash as it is, so that it can be told from one that parts the path.
        found = documents.host(board, self._history, re.sub("%2f", "/", name, flags=re.IGNORECASE), monotonic, now_ms)
        return _json(found) if found is not None else _line(HTTPStatus.NOT_FOUND, "no host of this name is known")

    def _episodes(self) -> Answer:
        return _json(documents.episodes(self._board.get()))


def _json(document: object) -> Answer:
    try:
        body = orjson.dumps(document)
    except TypeError:
        # Label values may hold lone surrogates, which no JSON text can; they are shown as a replacement character.
        body = orjson.dumps(_clean(document))
    return Answer(HTTPStatus.OK, "application/json", body)


def _clean(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_clean(key): _clean(inner) for key, inner in value.items()}
    return [_clean(inner) for inner in value] if isinstance(value, list | tuple) else value
