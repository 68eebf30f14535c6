"""The HTTP interface as a WSGI application. Reads what the loop published, changes nothing."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

import jinja2

from hwsonde_detector.clock import Clock
from hwsonde_detector.published import Noticeboard, Published
from hwsonde_detector.redaction import Redactor, replaced
from hwsonde_detector.web import documents
from hwsonde_detector.web.answers import Answer, Pages, Request, json_answer, line
from hwsonde_detector.web.guard import Guard
from hwsonde_detector.web.history import History

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

_HERE = Path(__file__).parent
_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}
_HOSTS = "/api/v1/hosts/"
_POLICY = "default-src 'self'; base-uri 'none'; form-action {}; frame-ancestors 'none'; object-src 'none'"
_SECURITY = (("X-Content-Type-Options", "nosniff"), ("Referrer-Policy", "no-referrer"))
_MOST_BODY = 4096
# So many answers are made at once: more of them would only take the interpreter from the loop. Reading and sending are not counted.
_TURNS = 4
_MILLISECONDS = re.compile(r"\d{1,16}", re.ASCII)
_LATEST = "9" * 16
# A loop that has shown no sign of life for so long is stuck: the longest read, and the longest work on one host in a step, are far below it.
_STUCK_S = 120.0


@dataclass(frozen=True, slots=True)
class Metrics:
    """How /metrics is rendered, given by the service so that this room needs no other one."""

    content_type: str
    render: Callable[[Published, float, int], bytes]


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
    more
        Further parts, asked in order for what is none of these.
    guard
        Who may read.
    redactor
        What is shown under another name.
    """

    def __init__(
        self,
        board: Noticeboard,
        history: History,
        clock: Clock,
        metrics: Metrics,
        more: Sequence[Pages] = (),
        guard: Guard | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        self._turns = threading.BoundedSemaphore(_TURNS)
        self._redactor = redactor or Redactor()
        self._more = tuple(more)
        self._guard = guard or Guard()
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
            "/favicon.ico": lambda: Answer(HTTPStatus.NO_CONTENT, "image/x-icon", b""),
            "/metrics": self._text,
            "/-/healthy": self._healthy,
            "/-/ready": self._ready,
            "/api/v1/hosts": self._hosts,
            "/api/v1/episodes": self._episodes,
        }

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request."""
        method, raw_path = environ.get("REQUEST_METHOD", "GET"), environ.get("PATH_INFO", "")
        # Read in any case: what stays in the connection would be taken for the next request.
        body = _body(environ)
        user, refusal = self._guard.admit(raw_path, environ.get("HTTP_AUTHORIZATION"), environ.get("REMOTE_ADDR", ""))
        with self._turns:
            answer = refusal or self.answer(method, raw_path, environ.get("QUERY_STRING", ""), body, user)
        headers = [
            ("Content-Type", answer.content_type),
            ("Content-Length", str(len(answer.body))),
            *answer.headers,
            ("Content-Security-Policy", _POLICY.format("'self'" if answer.forms else "'none'")),
            *_SECURITY,
            *self._guard.headers,
        ]
        start_response(f"{answer.status.value} {answer.status.phrase}", headers)
        return [] if method == "HEAD" else [answer.body]

    def answer(self, method: str, raw_path: str, query: str = "", body: bytes = b"", user: str = "") -> Answer:
        """Answer to a method and a path as WSGI gives it (bytes in Latin-1)."""
        try:
            path = raw_path.encode("latin-1").decode("utf-8")
        except UnicodeError:
            return line(HTTPStatus.BAD_REQUEST, "the path is not UTF-8")
        for part in self._more:
            if found := part.answer(Request(method, path, query, body, user)):
                return found
        if method not in ("GET", "HEAD"):
            return line(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD are answered here", ("Allow", "GET, HEAD"))
        if route := self._routes.get(path):
            return route()
        if path.startswith(_HOSTS):
            return self._host(path.removeprefix(_HOSTS), query)
        static = self._static.get(path.removeprefix("/static/")) if path.startswith("/static/") else None
        return static or line(HTTPStatus.NOT_FOUND, "there is no such page; begin at /")

    def _html(self) -> Answer:
        board = self._board.get()
        page = self._page.render(
            hosts=self._host_document(board),
            episodes=self._shown(documents.episodes(board), board),
            age=documents.duration(self._clock.now_ms() - board.started_ms),
        )
        return Answer(HTTPStatus.OK, "text/html; charset=utf-8", page.encode("utf-8", "replace"))

    def _text(self) -> Answer:
        body = self._metrics.render(self._board.get(), self._clock.monotonic(), self._clock.now_ms())
        return Answer(HTTPStatus.OK, self._metrics.content_type, body)

    def _healthy(self) -> Answer:
        board = self._board.get()
        age = self._clock.monotonic() - self._board.alive()
        if age > max(_STUCK_S, 3 * board.tick_ms / 1000):
            return line(HTTPStatus.SERVICE_UNAVAILABLE, f"the loop has shown no sign of life for {age:.0f} s")
        return line(HTTPStatus.OK, "healthy")

    def _ready(self) -> Answer:
        board = self._board.get()
        if not board.source.answered and (self._guard.asks or self._redactor.active):
            # Whoever needs no password for this must not learn an address from it.
            return line(HTTPStatus.SERVICE_UNAVAILABLE, "not ready: nothing was read yet")
        if not board.source.answered:
            return line(HTTPStatus.SERVICE_UNAVAILABLE, documents.source(board, self._clock.now_ms())["text"])
        return line(HTTPStatus.OK, "ready")

    def _hosts(self) -> Answer:
        return json_answer(self._host_document(self._board.get()))

    def _host_document(self, board: Published) -> Any:  # noqa: ANN401 - JSON values
        found = documents.hosts(board, self._history, self._clock.monotonic(), self._clock.now_ms())
        return self._shown(found, board)

    def _host(self, name: str, query: str) -> Answer:
        try:
            span = _span(query)
        except ValueError:
            return line(HTTPStatus.BAD_REQUEST, "from and to are whole numbers of milliseconds, from not after to")
        board, monotonic, now_ms = self._board.get(), self._clock.monotonic(), self._clock.now_ms()
        # The server leaves an encoded slash as it is, so that it can be told from one that parts the path.
        name = re.sub("%2f", "/", name, flags=re.IGNORECASE)
        if self._redactor.active:
            called = {documents.name_of(self._redactor.entity(one.entity)): one.entity for one in board.hosts}
            name = documents.name_of(called[name]) if name in called else ""
        found = documents.host(board, self._history, name, monotonic, now_ms, span)
        if found is None:
            return line(HTTPStatus.NOT_FOUND, "no host of this name is known")
        return json_answer(self._shown({**found, "links": {}} if self._redactor.active else found, board))

    def _episodes(self) -> Answer:
        board = self._board.get()
        return json_answer(self._shown(documents.episodes(board), board))

    def _shown(self, document: Any, board: Published) -> Any:  # noqa: ANN401 - JSON values
        """A document as it may be shown."""
        if not self._redactor.active:
            return document
        entities = [*(host.entity for host in board.hosts), *(one.entity for one in board.past)]
        return replaced(document, self._redactor.known(entities))


def _span(query: str) -> tuple[int, int] | None:
    """The range of time that is asked for, ms; None where none is. Raises ValueError where it makes no sense."""
    given = dict(parse_qsl(query[:2000], keep_blank_values=True, errors="replace"))
    if "from" not in given and "to" not in given:
        return None
    texts = given.get("from", "0"), given.get("to", _LATEST)
    if not all(_MILLISECONDS.fullmatch(text) for text in texts):
        raise ValueError("no number")
    start_ms, end_ms = map(int, texts)
    if start_ms > end_ms:
        raise ValueError("no range")
    return start_ms, end_ms


def _body(environ: WSGIEnvironment) -> bytes:
    """What was sent, if it is short enough for any form of ours; else nothing."""
    try:
        length = int(environ.get("CONTENT_LENGTH") or 0)
    except ValueError:
        return b""
    return bytes(environ["wsgi.input"].read(length)) if 0 < length <= _MOST_BODY else b""
