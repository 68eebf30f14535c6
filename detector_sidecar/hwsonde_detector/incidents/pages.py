"""Incidents over HTTP: ``/incidents``, ``/incidents/ID``, ``/incidents/ID.json`` and ``/api/v1/incidents``."""

from __future__ import annotations

import logging
import math
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlencode

from hwsonde_detector import __version__
from hwsonde_detector.clock import Clock
from hwsonde_detector.drawing import channel_chart, score_chart
from hwsonde_detector.errors import StateError
from hwsonde_detector.incidents.book import Book
from hwsonde_detector.incidents.entry import Entry, Mark, Query, State, select
from hwsonde_detector.incidents.evidence import evidence_files, packed
from hwsonde_detector.incidents.marking import Marker
from hwsonde_detector.incidents.veil import Veil
from hwsonde_detector.published import Noticeboard
from hwsonde_detector.redaction import Redactor
from hwsonde_detector.showing import SHARED, environment
from hwsonde_detector.types import Subsystem
from hwsonde_detector.types.naming import INCIDENT_FORM
from hwsonde_detector.web.answers import Answer, Request, json_answer, line
from hwsonde_detector.web.links import incident_links

log = logging.getLogger("hwsonde_detector.incidents")

_TEMPLATES = Path(__file__).parent / "templates"
_ROOT = "/incidents"
_API = "/api/v1/incidents"
_ONE = re.compile(rf"{_ROOT}/({INCIDENT_FORM})(\.json|\.tar\.gz)?")
_MARK = re.compile(rf"{_ROOT}/({INCIDENT_FORM})/mark")
_LONGEST = 200
_MOST_SIZE = 500
# Incidents of which the log has had its line; the oldest are forgotten.
_REMEMBERED = 1000
_HTML = "text/html; charset=utf-8"


class Alerts(Protocol):
    """What is known of alerts, without waiting for anybody."""

    def of(self, entry: Entry) -> dict[str, Any]:
        """Sentence and alerts of an incident's host."""


class NotAsked:
    """No Alertmanager is configured."""

    def of(self, entry: Entry) -> dict[str, Any]:
        """Say so."""
        del entry
        return {
            "state": "not asked",
            "sentence": "Not asked: alertmanager.url names no Alertmanager.",
            "alerts": [],
        }


class Pages:
    """Answers for incidents.

    Parameters
    ----------
    book
        What is known of them.
    board
        What the loop published last.
    clock
        Time.
    alerts
        What is known of alerts.
    redactor
        What is shown under another name.
    marker
        Who may mark; None: nobody.
    """

    def __init__(
        self,
        book: Book,
        board: Noticeboard,
        clock: Clock,
        alerts: Alerts | None = None,
        redactor: Redactor | None = None,
        marker: Marker | None = None,
    ) -> None:
        self._marker = marker
        self._told: OrderedDict[str, None] = OrderedDict()
        self._veil = Veil(redactor or Redactor())
        self._book = book
        self._board = board
        self._clock = clock
        self._alerts = alerts or NotAsked()
        made = environment(_TEMPLATES, SHARED)
        self._list = made.get_template("list.html")
        self._marking = made.get_template("mark.html")
        self._incident = made.get_template("incident.html")

    def answer(self, request: Request) -> Answer | None:
        """Answer to a path of ours; None for any other."""
        route: Callable[[], Answer] | None = None
        if request.path == _ROOT:
            route = lambda: self._list_page(request)  # noqa: E731 - a route is a function without parameters
        elif request.path == _API:
            route = lambda: self._list_json(request)  # noqa: E731
        elif found := _ONE.fullmatch(request.path):
            name, extension = found[1], found[2]
            route = lambda: self._one(name, request, extension or "")  # noqa: E731
        elif found := _MARK.fullmatch(request.path):
            return self._mark(found[1], request)
        elif request.path.startswith(f"{_ROOT}/"):
            return line(HTTPStatus.NOT_FOUND, "there is no such incident; see /incidents")
        if route is None:
            return None
        if request.method not in ("GET", "HEAD"):
            return line(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD are answered here", ("Allow", "GET, HEAD"))
        return route()

    def _list_page(self, request: Request) -> Answer:
        query, now_ms = read_query(request.query), self._clock.now_ms()
        listed = select(self._veil.entries(self._book.entries()), query)
        page = self._list.render(
            root="",
            version=__version__,
            shadow=self._board.get().shadow,
            asked=query,
            query=_written(query, query.page),
            everywhere=_written(replace(query, node=""), 1),
            subsystems=[str(one) for one in Subsystem],
            entries=listed.entries,
            found=listed.found,
            page=listed.page,
            pages=listed.pages,
            before=_written(query, listed.page - 1) if listed.page > 1 else "",
            after=_written(query, listed.page + 1) if listed.page < listed.pages else "",
            now_ms=now_ms,
        )
        return _html(page)

    def _list_json(self, request: Request) -> Answer:
        query = read_query(request.query)
        listed = select(self._veil.entries(self._book.entries()), query)
        return json_answer(
            {
                "now_ms": self._clock.now_ms(),
                "found": listed.found,
                "page": listed.page,
                "pages": listed.pages,
                "incidents": [summary(entry) for entry in listed.entries],
            }
        )

    def _mark(self, name: str, request: Request) -> Answer:
        """Show the question to whoever follows a link, and take the answer: only POST changes anything, since programs follow links too."""
        if request.method not in ("GET", "HEAD", "POST"):
            return line(
                HTTPStatus.METHOD_NOT_ALLOWED, "only GET and POST are answered here", ("Allow", "GET, HEAD, POST")
            )
        sent = request.method == "POST"
        text = request.body.decode("utf-8", "replace") if sent else request.query
        given = dict(parse_qsl(text[:2000], errors="replace"))
        marker, token, entry = self._marker, given.get("token", ""), self._book.get(name)
        if entry is None:
            return line(HTTPStatus.NOT_FOUND, "there is no such incident, or it is not kept any more; see /incidents")
        if marker is None or not marker.allows(name, token):
            return line(HTTPStatus.FORBIDDEN, "this link or form holds no more; open the incident's page again")
        if not sent:
            return self._mark_page(entry, token, done=False)
        if given.get("mark") not in (Mark.USEFUL, Mark.NOISE):
            return line(HTTPStatus.BAD_REQUEST, "mark is missing; allowed: useful or noise")
        mark = Mark(given["mark"])
        try:
            found = self._book.mark(name, mark, request.user)
        except StateError as error:
            # It holds for the time being, and the log of the detector says the same.
            log.warning("incidents: %s", error)
            found = self._book.get(name)
        marker.heard(entry, mark)
        return self._mark_page(found or entry, token, done=True)

    def _mark_page(self, entry: Entry, token: str, *, done: bool) -> Answer:
        (shown,) = self._veil.entries([entry])
        page = self._marking.render(
            root="../../",
            version=__version__,
            shadow=self._board.get().shadow,
            heading="Marked" if done else "Was this page useful?",
            one=shown,
            token=token,
            done=done,
        )
        return _html(page)

    def _one(self, name: str, request: Request, extension: str) -> Answer:
        entry = self._book.get(name)
        if entry is None:
            return line(HTTPStatus.NOT_FOUND, "there is no such incident, or it is not kept any more; see /incidents")
        damaged = ""
        try:
            document = self._book.document(name) or {}
        except StateError as error:
            document, damaged = {}, error.shown
            self._tell(name, str(error))
        links = incident_links(dict(self._board.get().links), entry.entity, entry.onset_ms, entry.end_ms)
        alerts = self._alerts.of(entry)
        entry, document, said, shown = self._veil.incident(entry, document, alerts, links)
        document.pop("hosts_named", None)
        if extension:
            whole = {"incident": summary(entry), "alerts": said, "links": shown, **document, "damaged": damaged}
            return json_answer(whole) if extension == ".json" else _evidence(entry, whole)
        # Only who has shown who he is gets a form: without users the page is read-only.
        token = self._marker.form(name) if self._marker is not None and request.user else ""
        return _html(self._render(entry, document, damaged, said, shown, token))

    def _tell(self, name: str, text: str) -> None:
        """One line in the log for each incident, however often it is asked for."""
        if name in self._told:
            return
        self._told[name] = None
        while len(self._told) > _REMEMBERED:
            self._told.popitem(last=False)
        log.warning("incidents: %s", text)

    def _render(
        self,
        entry: Entry,
        document: Mapping[str, Any],
        damaged: str,
        alerts: Mapping[str, Any],
        links: Mapping[str, str],
        token: str,
    ) -> str:
        causes = document.get("causes", [])
        return self._incident.render(
            root="../",
            version=__version__,
            shadow=self._board.get().shadow,
            one=entry,
            now_ms=self._clock.now_ms(),
            uncertainty_ms=document.get("uncertainty_ms", 0),
            host_fragment=urlencode({"host": entry.host}),
            links=links,
            damaged=damaged,
            known=bool(document),
            causes=causes,
            settings=document.get("settings", []),
            coverage=document.get("coverage", {}),
            heard_late=document.get("heard_late", False) and document.get("heard_from_ms") is not None,
            heard_from_ms=document.get("heard_from_ms"),
            order=causes[0]["moved"] if causes else [],
            others=causes[0]["others"] if causes else None,
            compared_by=document.get("compared_by", []),
            channel_chart=channel_chart,
            timeline=_timeline(entry, document, self._clock.now_ms()),
            alerts=alerts,
            token=token,
        )


def summary(entry: Entry) -> dict[str, Any]:
    """An incident as programs read it."""
    device = entry.device
    return {
        "id": entry.id,
        "identity": entry.identity,
        "host": entry.host,
        "labels": dict(entry.entity.labels),
        "state": "open" if entry.end_ms is None else "closed",
        "title": entry.title,
        "subsystem": entry.subsystem,
        "scope": entry.scope,
        "device": None if device is None else {"class": device.kind, "name": device.name},
        "onset_ms": entry.onset_ms,
        "start_ms": entry.start_ms,
        "told_ms": entry.told_ms,
        "end_ms": entry.end_ms,
        "peak": entry.peak if math.isfinite(entry.peak) else None,
        "because": entry.because,
        "shadow": entry.shadow,
        "normal": entry.normal,
        "mark": str(entry.mark),
        "marked_ms": entry.marked_ms or None,
        "page": f"incidents/{entry.id}",
    }


def read_query(text: str) -> Query:
    """What a list is asked for; what makes no sense is passed over."""
    given = dict(parse_qsl(text[:2000], keep_blank_values=True, errors="replace"))
    state = given.get("state", "")
    mark = given.get("mark", "")
    subsystem = given.get("subsystem", "")
    return Query(
        state=State(state) if state in set(State) else State.ANY,
        subsystem=subsystem if subsystem in set(Subsystem) else "",
        mark=mark if mark in set(Mark) else "",
        host=given.get("host", "")[:_LONGEST].strip(),
        node=given.get("node", ""),
        page=_whole(given.get("page", ""), 1, 10**6),
        size=_whole(given.get("size", ""), 50, _MOST_SIZE),
    )


def _whole(text: str, default: int, most: int) -> int:
    return min(max(int(text), 1), most) if text.isascii() and text.isdigit() and len(text) < 10 else default


def _written(query: Query, page: int) -> str:
    given = {
        "node": query.node,
        "host": query.host,
        "state": query.state,
        "subsystem": query.subsystem,
        "mark": query.mark,
    }
    kept = {name: str(value) for name, value in given.items() if value}
    if query.size != Query().size:
        kept["size"] = str(query.size)
    return urlencode({**kept, "page": str(page)} if page != 1 else kept)


def _timeline(entry: Entry, document: Mapping[str, Any], now_ms: int) -> Any:  # noqa: ANN401 - a chart, None without one
    scores = document.get("scores")
    if not scores or len(scores["times"]) < 2:
        return None
    times = scores["times"]
    return score_chart(
        {
            "times": times,
            "scores": [value or 0.0 for value in scores["fused"]],
            "gaps": [],
            "calibrated_from_ms": times[0],
            "episodes": [{"start_ms": entry.onset_ms, "end_ms": entry.end_ms if entry.end_ms is not None else now_ms}],
        },
        times[0],
        times[-1],
    )


def _html(page: str) -> Answer:
    # Forms of these pages go back to where they came from.
    return Answer(HTTPStatus.OK, _HTML, page.encode("utf-8", "replace"), forms=True)


def _evidence(entry: Entry, document: Mapping[str, Any]) -> Answer:
    note = "Raw samples are not among the files; `hwsonde-detector evidence ID` adds them once the incident is closed."
    content = packed(entry, evidence_files(document, __version__, (note,)))
    name = ("Content-Disposition", f'attachment; filename="{entry.id}.tar.gz"')
    return Answer(HTTPStatus.OK, "application/gzip", content, (("Cache-Control", "no-store"), name))
