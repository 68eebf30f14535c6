"""Sections of the configuration about incidents: what is kept, Alertmanager, and maintenance."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from pydantic import Field

from hwsonde_detector.config.addresses import Selector, Url
from hwsonde_detector.config.identity import Basic, Bearer, Tls
from hwsonde_detector.config.section import Section
from hwsonde_detector.config.values import (
    Choice,
    FilePath,
    Items,
    Real,
    RefusedError,
    Rule,
    Span,
    Switch,
    Text,
    Whole,
    format_duration,
    parse_duration,
    shown,
)
from hwsonde_detector.types import Scope, Subsystem
from hwsonde_detector.types.guidance import Matcher, Normal
from hwsonde_detector.types.patterns import compiled

SECOND = 1000
HOUR = 3600 * SECOND
_MATCHER = re.compile(r'\s*([a-zA-Z_][a-zA-Z0-9_]*)\s*(=~|!~|!=|=)\s*"((?:[^"\\\n]|\\.)*)"\s*(?:,|\Z)', re.ASCII)
_MAINTENANCE = re.compile(
    r"(?P<hosts>.+?)\s+from\s+(?P<start>\S+)\s+for\s+(?P<length>\S+)(?:\s+every\s+(?P<every>\S+))?\s*"
)


class Incidents(Section):
    """What is kept of closed incidents, beside the state and for as long as that is kept anywhere."""

    keep: Annotated[int, Whole(1, 100_000)] = Field(default=5000, description="How many: the newest ones.")
    keep_for: Annotated[int, Span(HOUR, 3650 * 24 * HOUR)] = Field(
        default=90 * 24 * HOUR, description="For how long after their end."
    )


@dataclass(frozen=True, slots=True)
class Marker(Selector):
    """Matchers that a silence must have."""

    def parse(self, value: object, base: Path) -> str:
        """Check the form, and that each can be read."""
        text = Selector.parse(self, value, base)
        if text:
            parse_matchers(text)
        return text


class Alertmanager(Section):
    """The Alertmanager that incidents' pages tell of, and whose silences may say that a behaviour is normal.

    It is asked beside the loop and never waited for.
    """

    url: Annotated[str, Url()] | None = Field(default=None, description="Its address; null: it is not asked.")
    every: Annotated[int, Span(SECOND, HOUR)] = Field(default=15 * SECOND, description="How often it is asked.")
    timeout: Annotated[int, Span(50, 60 * SECOND)] = Field(
        default=5 * SECOND, description="How long one answer may take."
    )
    normal: Annotated[str, Marker()] = Field(
        default='hwsonde_normal="true"',
        description="A silence with this matcher, and further ones on entity labels, says that what those hosts do is normal until it ends; "
        "empty: silences say nothing.",
    )
    basic: Basic | None = Field(default=None, description="HTTP basic authentication.")
    bearer: Bearer | None = Field(default=None, description="A bearer token.")
    tls: Tls = Field(default=Tls(), description="Certificates.")


class Automation(Section):
    """A program that is told of incidents as they are paged, to drain or cordon a host. Without `command` and `webhook` nothing is.

    Of two detectors that judge the same hosts only one may have it without `dry_run`: each would act.
    """

    dry_run: Annotated[bool, Switch()] = Field(
        default=True, description="Nothing is done; the log and `state.dir/automation.log` say what would be."
    )
    command: Annotated[tuple[str, ...], Items(Text(r"[^\x00-\x1f]+", "text on one line"), 0, 50)] = Field(
        default=(),
        description="Program and arguments, run without a shell; `{host}`, `{id}`, `{subsystem}`, `{device}` and entity labels such as "
        "`{node}` are replaced.",
    )
    webhook: Annotated[str, Url()] | None = Field(
        default=None, description="Address that the incident is sent to as JSON."
    )
    token_file: Annotated[Path, FilePath()] | None = Field(
        default=None, description="File with a token for the webhook, sent as `Authorization: Bearer`."
    )
    timeout: Annotated[int, Span(SECOND, HOUR)] = Field(
        default=60 * SECOND, description="How long one action may take."
    )
    per_hour: Annotated[int, Whole(1, 1000)] = Field(
        default=4, description="At most so many incidents are acted on in an hour."
    )
    hosts: Annotated[int, Whole(1, 1000)] = Field(default=3, description="At most so many different hosts")
    hosts_in: Annotated[int, Span(HOUR, 30 * 24 * HOUR)] = Field(default=24 * HOUR, description="in such a time.")
    scopes: Annotated[tuple[str, ...], Items(Choice(tuple(Scope)), 1, len(Scope))] = Field(
        default=("device", "host"),
        description="Incidents that reach so far. A whole job or a fabric is no host's fault.",
    )
    subsystems: Annotated[tuple[str, ...], Items(Choice(tuple(Subsystem)), 0, len(Subsystem))] = Field(
        default=(), description="Parts that count; empty: all."
    )
    least_peak: Annotated[float, Real(1, 1e6)] = Field(
        default=1.0, description="Score that an incident must have reached when it is told of."
    )


@dataclass(frozen=True, slots=True)
class Maintenance:
    """A window in which what some hosts do is normal; repeated each ``every_ms`` where that is given."""

    text: str
    matchers: tuple[Matcher, ...]
    start_ms: int
    length_ms: int
    every_ms: int | None = None

    def normal(self, name: str, now_ms: int) -> Normal:
        """The window that is open at a time, or else the next one."""
        start_ms = self.start_ms
        if self.every_ms is not None and now_ms > start_ms:
            start_ms += (now_ms - start_ms) // self.every_ms * self.every_ms
        return Normal(self.matchers, start_ms, start_ms + self.length_ms, "maintenance", f"maintenance {name}")


@dataclass(frozen=True, slots=True)
class MaintenanceText(Rule):
    """A window, written in one line."""

    @property
    def allowed(self) -> str:
        """The form, with an example."""
        form = 'cluster="a",node=~"n1.*" from 2026-11-29T22:00:00Z for 4h every 7d'
        return f"HOSTS from TIME for DURATION, and every DURATION where it comes again: {form}"

    def parse(self, value: object, base: Path) -> Maintenance:
        """Read the line."""
        del base
        found = _MAINTENANCE.fullmatch(value) if isinstance(value, str) else None
        if found is None or not isinstance(value, str):
            raise RefusedError(f"{shown(value)} is no maintenance window")
        every = parse_duration(found["every"]) if found["every"] else None
        length = parse_duration(found["length"])
        if length <= 0:
            raise RefusedError(f"{shown(value)} lasts no time at all")
        if every is not None and every < length:
            raise RefusedError(f"it lasts {format_duration(length)} and comes again each {format_duration(every)}")
        return Maintenance(value, parse_matchers(found["hosts"]), _instant(found["start"]), length, every)

    def show(self, value: object) -> str:
        """Give the line."""
        return value.text if isinstance(value, Maintenance) else str(value)


def parse_matchers(text: str) -> tuple[Matcher, ...]:
    """Matchers of a selector without braces; raises `RefusedError`."""
    found, at = [], 0
    while at < len(text.rstrip()):
        one = _MATCHER.match(text, at)
        if one is None:
            raise RefusedError(f"{shown(text)} names no hosts by matchers of their labels")
        value = re.sub(r"\\(.)", lambda escaped: {"n": "\n"}.get(escaped[1], escaped[1]), one[3])
        regex = one[2] in {"=~", "!~"}
        if regex:
            value = one[3].replace("\\\\", "\\")
            if compiled(value) is None:
                raise RefusedError(
                    f"{shown(one[3])} is no regular expression that can be read here: classes such as [[:lower:]], \\p, \\z and \\Q cannot"
                )
        found.append(Matcher(one[1], value, regex, one[2] in {"=", "=~"}))
        at = one.end()
    if not found:
        raise RefusedError("it names no hosts")
    return tuple(found)


def _instant(text: str) -> int:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise RefusedError(f"{shown(text)} is no time") from None
    if at.tzinfo is None:
        raise RefusedError(f"{shown(text)} has no time zone, such as Z")
    return round(at.astimezone(UTC).timestamp() * 1000)
