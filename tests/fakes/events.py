"""A stand-in for PagerDuty's Events API v2, on loopback.

``python -m tests.fakes.events --port 19884 --log events.jsonl`` runs it alone; `EventsServer` runs it inside a test. It refuses what
PagerDuty refuses, so that a page that would be lost there is lost here too. Standard library only.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

MAX_BODY = 512 << 10
MAX_SUMMARY = 1024
MAX_KEY = 255
KEPT = 1000
_HREF = re.compile(r"https?://[^\s/]")
_ROUTING_KEY = re.compile(r"[A-Za-z0-9]{32}\Z")
_ACTIONS = ("trigger", "acknowledge", "resolve")
_SEVERITIES = ("critical", "error", "warning", "info")


def problems(event: object) -> list[str]:
    """Say what PagerDuty would refuse in a decoded event; an empty list means that it takes it."""
    if not isinstance(event, dict):
        return ["the body must be a JSON object"]
    found = []
    key = event.get("routing_key")
    if not isinstance(key, str) or not _ROUTING_KEY.match(key):
        found.append("'routing_key' must be the 32 characters of an integration key")
    action = event.get("event_action")
    if action not in _ACTIONS:
        found.append(f"'event_action' must be one of {', '.join(_ACTIONS)}")
    dedup_key = event.get("dedup_key")
    if dedup_key is not None and (not isinstance(dedup_key, str) or len(dedup_key) > MAX_KEY):
        found.append(f"'dedup_key' must be a text of at most {MAX_KEY} characters")
    if action != "trigger" and action in _ACTIONS and not dedup_key:
        found.append(f"'dedup_key' is missing or blank; {action} needs it")
    if action == "trigger":
        found += _payload_problems(event.get("payload"))
    return found + _link_problems(event.get("links", []))


def _payload_problems(payload: object) -> list[str]:
    if not isinstance(payload, dict):
        return ["'payload' is missing; trigger needs it"]
    found = []
    summary = payload.get("summary")
    if not isinstance(summary, str) or not summary.strip():
        found.append("'payload.summary' is missing or blank")
    elif len(summary) > MAX_SUMMARY:
        found.append(f"'payload.summary' is longer than {MAX_SUMMARY} characters")
    source = payload.get("source")
    if not isinstance(source, str) or not source.strip():
        found.append("'payload.source' is missing or blank")
    if payload.get("severity") not in _SEVERITIES:
        found.append(f"'payload.severity' must be one of {', '.join(_SEVERITIES)}")
    return found


def _link_problems(links: object) -> list[str]:
    if not isinstance(links, list):
        return ["'links' must be a list"]
    wrong = [link for link in links if not isinstance(link, dict) or not _HREF.match(str(link.get("href")))]
    return ["each of 'links' must have an http or https 'href'"] if wrong else []


def masked(event: object) -> object:
    """Give the event without the secret: only the last four characters of the routing key are kept."""
    if isinstance(event, dict) and "routing_key" in event:
        key = event["routing_key"]
        tail = key[-4:] if isinstance(key, str) and len(key) > 8 else ""
        return {**event, "routing_key": f"****{tail}"}
    return event


@dataclass(frozen=True, slots=True)
class Received:
    """One request to the events address: ``received`` in seconds since the epoch, what was answered, and the masked body."""

    received: float
    ok: bool
    status: int
    errors: list[str]
    body: object


@dataclass(slots=True)
class Inbox:
    """What was received, and how it is answered. Safe for several threads."""

    log: Path | None = None
    clock: Callable[[], float] = time.time
    _received: deque[Received] = field(default_factory=lambda: deque(maxlen=KEPT))
    _refusals: deque[int] = field(default_factory=deque)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def refuse(self, status: int, times: int) -> None:
        """Answer the next ``times`` events with ``status`` (429 or 500 to 599), whatever they hold."""
        if status != 429 and not 500 <= status <= 599:
            raise ValueError(
                f"status {status}: give 429 or 500 to 599, what PagerDuty answers when it cannot take an event now"
            )
        if not 0 <= times <= KEPT:
            raise ValueError(f"times {times}: give 0 to {KEPT}")
        with self._lock:
            self._refusals = deque([status] * times)

    def take(self, data: bytes) -> tuple[int, dict[str, object]]:
        """Judge one request; give the status and the answer."""
        try:
            event: Any = json.loads(data)
            errors = problems(event)
        except (ValueError, RecursionError):
            event, errors = None, ["the body is not JSON"]
        with self._lock:
            status = self._refusals.popleft() if self._refusals else (400 if errors else 202)
            entry = Received(self.clock(), status == 202, status, errors, masked(event))
            self._received.append(entry)
            if self.log is not None:
                with self.log.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(entry)) + "\n")
        if status == 202:
            key = event.get("dedup_key") or f"made-{int(entry.received * 1e6):x}"
            return status, {"status": "success", "message": "Event processed", "dedup_key": key}
        if status == 400:
            return status, {"status": "invalid event", "message": "Event object is invalid", "errors": errors}
        return status, {"status": "throttle exceeded" if status == 429 else "error", "message": "Try again later"}

    def events(self) -> list[dict[str, Any]]:
        """Everything received, oldest first; at most the newest 1,000."""
        with self._lock:
            return [asdict(entry) for entry in self._received]


class _Handler(BaseHTTPRequestHandler):
    """Answers for one connection; the server carries the inbox."""

    protocol_version = "HTTP/1.1"
    timeout = 10  # a client that sends half a request must not hold its thread for ever
    inbox: ClassVar[Inbox]

    def do_GET(self) -> None:
        if self.path == "/-/healthy":
            self._answer(200, {"status": "ok"})
        elif self.path in {"/", "/events"}:
            self._answer(200, self.inbox.events())
        else:
            self._answer(404, {"message": "try /events, /-/healthy, or POST /v2/enqueue"})

    def do_POST(self) -> None:
        body = self._body()
        if body is None:
            return
        if self.path == "/v2/enqueue":
            self._answer(*self.inbox.take(body))
        elif self.path == "/refuse":
            self._refuse(body)
        else:
            self._answer(404, {"message": "events go to /v2/enqueue"})

    def _refuse(self, body: bytes) -> None:
        try:
            wish = json.loads(body)
            self.inbox.refuse(int(wish["status"]), int(wish["times"]))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            self._answer(400, {"message": f'give {{"status": 429, "times": 3}}: {error}'})
        else:
            self._answer(200, {"status": "ok"})

    def _body(self) -> bytes | None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > MAX_BODY:
            self.close_connection = True
            self._answer(
                413 if length.isdecimal() else 411, {"message": f"give a Content-Length of at most {MAX_BODY}"}
            )
            return None
        return self.rfile.read(int(length))

    def _answer(self, status: int, document: object) -> None:
        data = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the library's
        """Say nothing: the events are the record."""


class EventsServer:
    """The receiver on loopback, in a thread of its own; a context manager.

    Parameters
    ----------
    port
        0 takes a free one.
    log
        File that gets one JSON line for each request; None keeps them in memory only.

    Raises
    ------
    OSError
        If the port is taken.
    """

    def __init__(self, port: int = 0, log: Path | None = None) -> None:
        self.inbox = Inbox(log)
        handler = type("Handler", (_Handler,), {"inbox": self.inbox})
        self.server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self.server.daemon_threads = True
        self._thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self.server.server_address[1])

    @property
    def url(self) -> str:
        """Address that events are posted to."""
        return f"http://127.0.0.1:{self.port}/v2/enqueue"

    def events(self) -> list[dict[str, Any]]:
        """Everything received, oldest first."""
        return self.inbox.events()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.server.shutdown()
        self.server.server_close()
        self._thread.join()


def main(arguments: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or SIGINT; status 2 and one line when the port or the log cannot be had."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fakes.events", description="A stand-in for PagerDuty's Events API v2."
    )
    parser.add_argument("--port", type=int, required=True, help="port on 127.0.0.1; 0 takes a free one")
    parser.add_argument("--log", type=Path, help="file that gets one JSON line for each event")
    given = parser.parse_args(arguments)
    try:
        if given.log is not None:
            given.log.touch()
        receiver = EventsServer(given.port, given.log)
    except (OSError, OverflowError) as error:
        print(f"events: port {given.port} or log {given.log} cannot be used: {error}", file=sys.stderr)
        return 2

    def stop(number: int, frame: object) -> None:
        raise SystemExit(0)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    print(f"events: POST to {receiver.url}, read at http://127.0.0.1:{receiver.port}/events", flush=True)
    # Nothing asks this loop to end but a signal, which wakes it; so it need not wake by itself.
    receiver.server.serve_forever(poll_interval=3600)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
