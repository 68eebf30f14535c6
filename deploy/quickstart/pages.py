"""Pages that went out: read from the stand-in's log, or counted by Alertmanager where PagerDuty itself gets them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from quickstart.fetch import get

_SENT = re.compile(
    r'^alertmanager_notifications(_failed)?_total\{[^}]*integration="pagerduty"[^}]*\} (\S+)$', re.MULTILINE
)


class Event(NamedTuple):
    """One event that was accepted: ``action`` is trigger or resolve; ``received`` in seconds since the epoch."""

    received: float
    action: str
    key: str
    summary: str
    alert: str
    subsystem: str


def parse_event(line: str) -> Event | None:
    """One line of the stand-in's log; None for an event that was refused, and for a line that a full disk cut short."""
    try:
        entry = json.loads(line)
    except ValueError:
        return None
    if not isinstance(entry, dict) or not entry.get("ok"):
        return None
    body: dict[str, Any] = entry["body"]
    payload = body.get("payload") or {}
    return Event(
        float(entry["received"]),
        str(body.get("event_action", "")),
        str(body.get("dedup_key", "")),
        str(payload.get("summary", "")),
        str(payload.get("class", "")),
        str(payload.get("component", "")),
    )


@dataclass(slots=True)
class EventLog:
    """Reads what was appended to the stand-in's log since the last look; what is there at first belongs to earlier runs."""

    path: Path
    _offset: int = 0

    def __post_init__(self) -> None:
        with suppress(OSError):
            self._offset = self.path.stat().st_size

    def new(self) -> list[Event]:
        """Events of whole lines that were not given before."""
        try:
            with self.path.open("rb") as log:
                log.seek(self._offset)
                data = log.read()
        except OSError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        events = (parse_event(line) for line in whole.decode(errors="replace").splitlines())
        return [event for event in events if event is not None]


@dataclass(slots=True)
class PageBook:
    """Counts pages as the one on call does: a trigger for a key that is open already only adds to that page."""

    sent: int = 0
    open: set[str] = field(default_factory=set)

    def add(self, events: Iterable[Event]) -> None:
        """Take events in the order in which they were received."""
        for event in events:
            if event.action == "trigger" and event.key not in self.open:
                self.sent += 1
                self.open.add(event.key)
            elif event.action == "resolve":
                self.open.discard(event.key)


def delivered(metrics: str) -> int:
    """Notifications that PagerDuty took (pages, additions and resolves), from Alertmanager's own metrics."""
    total = 0.0
    for failed, value in _SENT.findall(metrics):
        total += -float(value) if failed else float(value)
    return max(0, int(total))


def notifications(port: int) -> int:
    """Like `delivered`, asked of the Alertmanager on this port; raises `quickstart.fetch.FetchError`."""
    return delivered(get(port, "/metrics").decode(errors="replace"))
