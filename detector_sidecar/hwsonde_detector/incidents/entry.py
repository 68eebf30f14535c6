"""What a list of incidents knows of each of them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, TypeAlias

from hwsonde_detector.types import Device, Entity, Episode
from hwsonde_detector.types.naming import incident_id


class Mark(StrEnum):
    """What a person said of an incident."""

    NONE = ""
    USEFUL = "useful"
    NOISE = "noise"


# What was said, when, and by whom.
Said: TypeAlias = tuple[Mark, int, str]


class State(StrEnum):
    """Which incidents are asked for."""

    ANY = ""
    OPEN = "open"
    PAST = "past"


@dataclass(frozen=True, slots=True)
class Entry:
    """One incident in a list.

    Attributes
    ----------
    id, identity
        `hwsonde_detector.types.naming.incident_id`, and the episode's own name.
    entity, subsystem, scope, device, title, start_ms, onset_ms, end_ms, peak, because
        As in `hwsonde_detector.types.Episode`; ``end_ms`` is None while it is open.
    told_ms
        When it was told of: the sample time at which the page went out.
    shadow
        Nobody was paged, because the mode was shadow.
    normal
        Why it counted as normal and nobody was paged: a silence or a maintenance window; empty otherwise.
    mark, marked_ms, marked_by
        What a person said of it, when, and who (empty: not known).
    """

    id: str
    identity: str
    entity: Entity
    subsystem: str
    scope: str
    device: Device | None
    title: str
    start_ms: int
    onset_ms: int
    end_ms: int | None
    peak: float
    because: str = ""
    told_ms: int = 0
    shadow: bool = False
    normal: str = ""
    mark: Mark = Mark.NONE
    marked_ms: int = 0
    marked_by: str = ""

    @property
    def host(self) -> str:
        """What the host is called."""
        return str(self.entity) or "unnamed"

    @property
    def paged(self) -> bool:
        """Whether anybody was paged."""
        return not self.shadow and not self.normal


def entry_of(episode: Episode, told_ms: int, *, shadow: bool = False, normal: str = "") -> Entry:
    """What a list knows of an episode that was told of at ``told_ms``."""
    return Entry(
        id=incident_id(episode.identity, episode.onset_ms),
        identity=episode.identity,
        entity=episode.entity,
        subsystem=str(episode.subsystem),
        scope=str(episode.scope),
        device=episode.device,
        title=episode.title,
        start_ms=episode.start_ms,
        onset_ms=episode.onset_ms,
        end_ms=episode.end_ms,
        peak=episode.peak,
        because=episode.because,
        told_ms=told_ms,
        shadow=shadow,
        normal=normal,
    )


def entry_document(entry: Entry) -> dict[str, Any]:
    """Give an entry as JSON values."""
    device = entry.device
    return {
        "id": entry.id,
        "identity": entry.identity,
        "entity": [list(pair) for pair in entry.entity.labels],
        "subsystem": entry.subsystem,
        "scope": entry.scope,
        "device": None if device is None else [device.kind, device.name],
        "title": entry.title,
        "start_ms": entry.start_ms,
        "onset_ms": entry.onset_ms,
        "end_ms": entry.end_ms,
        "peak": entry.peak,
        "because": entry.because,
        "told_ms": entry.told_ms,
        "shadow": entry.shadow,
        "normal": entry.normal,
        "mark": str(entry.mark),
        "marked_ms": entry.marked_ms,
        "marked_by": entry.marked_by,
    }


def read_entry(part: Mapping[str, Any]) -> Entry:
    """Take back what `entry_document` gave; raises KeyError, ValueError or TypeError where something is missing or of another kind."""
    device = part["device"]
    end_ms = part["end_ms"]
    return Entry(
        id=str(part["id"]),
        identity=str(part["identity"]),
        entity=Entity(tuple((str(name), str(value)) for name, value in part["entity"])),
        subsystem=str(part["subsystem"]),
        scope=str(part["scope"]),
        device=None if device is None else Device(str(device[0]), str(device[1])),
        title=str(part["title"]),
        start_ms=int(part["start_ms"]),
        onset_ms=int(part["onset_ms"]),
        end_ms=None if end_ms is None else int(end_ms),
        peak=float(part["peak"]),
        because=str(part["because"]),
        told_ms=int(part["told_ms"]),
        shadow=bool(part["shadow"]),
        normal=str(part["normal"]),
        mark=Mark(part["mark"]),
        marked_ms=int(part["marked_ms"]),
        marked_by=str(part["marked_by"]),
    )


def marked(entry: Entry, mark: Mark, at_ms: int, by: str) -> Entry:
    """The entry with what a person said of it."""
    return replace(entry, mark=mark, marked_ms=at_ms, marked_by=by)


@dataclass(frozen=True, slots=True)
class Query:
    """Which incidents of a list are wanted.

    Attributes
    ----------
    state, subsystem, mark
        Only such; empty: any.
    host
        Part of the host's name or of the title, any case; empty: any.
    page, size
        Which page, from 1 on, and how many make one.
    node
        The host's whole name, as links of alerts give it; empty: any.
    """

    state: State = State.ANY
    subsystem: str = ""
    mark: str = ""
    host: str = ""
    page: int = 1
    size: int = 50
    node: str = ""

    def takes(self, entry: Entry) -> bool:
        """Whether an incident is wanted."""
        if self.state is State.OPEN and entry.end_ms is not None:
            return False
        if self.state is State.PAST and entry.end_ms is None:
            return False
        if self.subsystem and entry.subsystem != self.subsystem:
            return False
        if self.mark and entry.mark != self.mark:
            return False
        if self.node and entry.host != self.node:
            return False
        word = self.host.casefold()
        return not word or word in entry.host.casefold() or word in entry.title.casefold()


@dataclass(frozen=True, slots=True)
class Listed:
    """One page of a list: its entries, newest first, how many there are in all, and how many pages."""

    entries: tuple[Entry, ...]
    found: int
    pages: int
    page: int


def select(entries: Iterable[Entry], query: Query) -> Listed:
    """The page that is asked for; one beyond the last is the last one."""
    found = [entry for entry in entries if query.takes(entry)]
    pages = max(-(-len(found) // query.size), 1)
    page = min(max(query.page, 1), pages)
    return Listed(tuple(found[(page - 1) * query.size : page * query.size]), len(found), pages, page)


def retained(entries: Sequence[Entry], now_ms: int, most: int, keep_ms: int) -> tuple[list[Entry], list[Entry]]:
    """Which entries stay and which go: the newest ``most`` whose end is not longer ago than ``keep_ms``.

    Parameters
    ----------
    entries
        Newest first.
    now_ms
        The present.
    most, keep_ms
        How many, and how long.
    """
    stay: list[Entry] = []
    go: list[Entry] = []
    for entry in entries:
        old = entry.end_ms is not None and now_ms - entry.end_ms > keep_ms
        (go if old or len(stay) >= most else stay).append(entry)
    return stay, go
