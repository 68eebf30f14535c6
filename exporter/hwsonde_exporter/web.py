"""The HTTP interface, as a WSGI application."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import parse_qs

from hwsonde_exporter.exposition import Block, negotiate, render
from hwsonde_exporter.landing import landing_page
from hwsonde_exporter.state import State

_LOG = logging.getLogger(__name__)

_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    500: "Internal Server Error",
    503: "Service Unavailable",
}
_MAX_QUERY_FIELDS = 200
# A little less than a connection has for a request.
MAX_SCRAPE_SECONDS = 14.0
_TIMEOUT_HEADER = "HTTP_X_PROMETHEUS_SCRAPE_TIMEOUT_SECONDS"

Environ = Mapping[str, Any]
StartResponse = Callable[[str, list[tuple[str, str]]], Any]


class Scraped(Protocol):
    """What the interface needs of the exporter; see `hwsonde_exporter.exporter.Exporter`."""

    ready: bool

    @property
    def names(self) -> frozenset[str]:
        """Every name that a scrape may ask for."""

    @property
    def enabled(self) -> frozenset[str]:
        """The names that a scrape gets if it does not say."""

    def scrape(self, names: frozenset[str] | None, timeout: float | None) -> list[Block]:
        """Give everything that is known now of these names."""

    def refused(self) -> None:
        """Count a scrape that was refused."""

    def states(self) -> list[State]:
        """Give the state of every collector."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, body and headers of an answer."""

    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"
    headers: tuple[tuple[str, str], ...] = field(default=())


class BadQueryError(Exception):
    """The query of a scrape asks for what there is not; the message is one line for the user."""


class Application:
    """Serves ``/metrics``, ``/``, ``/-/healthy`` and ``/-/ready``.

    Parameters
    ----------
    exporter
        What is published.
    host
        Name of this host, for the landing page, or what gives it; empty where it is not to be shown.
    max_scrapes
        How many scrapes may be under way at once; those beyond get 503.
    compress
        Makes a gzip stream of bytes, or None if answers are never compressed.
    timeout_offset
        As in `scrape_timeout`.
    """

    def __init__(
        self,
        exporter: Scraped,
        host: str | Callable[[], str],
        max_scrapes: int = 4,
        compress: Callable[[bytes], bytes] | None = None,
        timeout_offset: float = 0.5,
    ) -> None:
        self._exporter = exporter
        self._host = host
        self._compress = compress
        self._max_scrapes = max_scrapes
        self._timeout_offset = timeout_offset
        self._slots = threading.BoundedSemaphore(max_scrapes)
        self._pages: dict[str, Callable[[Environ], Answer]] = {
            "/": self._landing,
            "/metrics": self._metrics,
            "/-/healthy": self._healthy,
            "/-/ready": self._ready,
        }

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer one request; whatever goes wrong is one line, here and in the log."""
        try:
            answer = self._answer(environ)
        except Exception:  # noqa: BLE001  (no answer may carry a traceback)
            _LOG.exception("request for %r failed", environ.get("PATH_INFO"))
            answer = Answer(500, b"internal error; the exporter's log says more\n")
        headers = [
            ("Content-Type", answer.content_type),
            ("Content-Length", str(len(answer.body))),
            ("X-Content-Type-Options", "nosniff"),
            *answer.headers,
        ]
        start_response(f"{answer.status} {_REASONS[answer.status]}", headers)
        return [] if environ["REQUEST_METHOD"] == "HEAD" else [answer.body]

    def _answer(self, environ: Environ) -> Answer:
        page = self._pages.get(environ["PATH_INFO"])
        if page is None:
            return Answer(404, b"not found; there are / /metrics /-/healthy /-/ready\n")
        if environ["REQUEST_METHOD"] not in {"GET", "HEAD"}:
            return Answer(405, b"only GET and HEAD are answered\n", headers=(("Allow", "GET, HEAD"),))
        return page(environ)

    def _metrics(self, environ: Environ) -> Answer:
        try:
            names = chosen_names(environ.get("QUERY_STRING", ""), self._exporter.names, self._exporter.enabled)
        except BadQueryError as error:
            return Answer(400, f"{error}\n".encode())
        if not self._slots.acquire(blocking=False):
            self._exporter.refused()
            text = f"{self._max_scrapes} scrapes are under way already; scrape less often or raise --web.max-scrapes\n"
            return Answer(503, text.encode(), headers=(("Retry-After", "1"),))
        try:
            blocks = self._exporter.scrape(names, scrape_timeout(environ.get(_TIMEOUT_HEADER), self._timeout_offset))
        finally:
            self._slots.release()
        form = negotiate(environ.get("HTTP_ACCEPT"))
        body = render(blocks, form)
        headers = [("Vary", "Accept, Accept-Encoding"), ("Cache-Control", "no-store")]
        if self._compress is not None and accepts_gzip(environ.get("HTTP_ACCEPT_ENCODING")):
            body = self._compress(body)
            headers.append(("Content-Encoding", "gzip"))
        return Answer(200, body, form.value, tuple(headers))

    def _landing(self, _: Environ) -> Answer:
        host = self._host if isinstance(self._host, str) else self._host()
        page = landing_page(self._exporter.states(), host).encode("utf-8", "backslashreplace")
        policy = ("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
        return Answer(200, page, "text/html; charset=utf-8", (policy,))

    def _healthy(self, _: Environ) -> Answer:
        return Answer(200, b"healthy\n")

    def _ready(self, _: Environ) -> Answer:
        return Answer(200, b"ready\n") if self._exporter.ready else Answer(503, b"not ready\n")


def chosen_names(query: str, names: frozenset[str], enabled: frozenset[str]) -> frozenset[str] | None:
    """Names that ``collect[]`` and ``exclude[]`` leave; None if the query says neither.

    Raises
    ------
    BadQueryError
        If a name is unknown or switched off, or the query cannot be read.
    """
    if not query:
        return None
    try:
        fields = parse_qs(query, keep_blank_values=True, max_num_fields=_MAX_QUERY_FIELDS)
    except ValueError:
        raise BadQueryError(f"the query has more than {_MAX_QUERY_FIELDS} fields") from None
    collect, exclude = fields.get("collect[]"), fields.get("exclude[]")
    if collect and exclude:
        # As node_exporter: what both together should mean is anybody's guess.
        raise BadQueryError("collect[] and exclude[] exclude each other; use one of them")
    for name in (*(collect or ()), *(exclude or ())):
        if name not in names:
            raise BadQueryError(f"no collector is called {_shortened(name)}; there are {', '.join(sorted(names))}")
    for name in collect or ():
        if name not in enabled:
            raise BadQueryError(f"collector {name} is switched off; --collector.{name} switches it on")
    if collect is None and exclude is None:
        return None
    return enabled - frozenset(exclude or ()) if collect is None else frozenset(collect)


def scrape_timeout(header: str | None, offset: float = 0.5) -> float | None:
    """Seconds to wait for collectors so that the answer arrives within Prometheus's own scrape timeout.

    ``offset`` seconds are left for rendering and the network, a fifth of the timeout at most: a scrape each second must not
    lose half of it. However long a client says that it waits, it gets `MAX_SCRAPE_SECONDS` at most, since it holds one of a few
    places meanwhile. None if there is no sound header.
    """
    try:
        seconds = float(header or "")
    except ValueError:
        return None
    if not 0 < seconds < float("inf"):
        return None
    return min(seconds - min(0.2 * seconds, offset), MAX_SCRAPE_SECONDS)


def accepts_gzip(header: str | None) -> bool:
    """Whether an Accept-Encoding header admits gzip, and does not like the bare text better."""
    weights = _codings(header)
    gzip = weights.get("gzip", weights.get("x-gzip", weights.get("*", 0.0)))
    return gzip > 0 and gzip >= weights.get("identity", 0.0)


def _codings(header: str | None) -> dict[str, float]:
    """Weight of each content coding that is named; one that cannot be read counts as refused."""
    weights: dict[str, float] = {}
    for item in (header or "").lower().split(","):
        coding, *parameters = (part.strip() for part in item.split(";"))
        pairs = dict(part.replace(" ", "").split("=", 1) for part in parameters if "=" in part)
        if coding:
            weights.setdefault(coding, _weight(pairs.get("q", "1")))
    return weights


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        return 0.0
    return weight if 0.0 <= weight <= 1.0 else 0.0


def _shortened(name: str) -> str:
    text = repr(name)
    return text if len(text) <= 60 else f"{text[:60]}..."
