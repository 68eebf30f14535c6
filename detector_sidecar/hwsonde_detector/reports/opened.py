"""Open incidents, read from the saved state: the store keeps an incident only once it is closed, the state keeps it until then. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from hwsonde_detector.hoststate import read_entity, read_episode
from hwsonde_detector.hushing import NORMAL
from hwsonde_detector.incidents.entry import Entry, Said, entry_of, marked
from hwsonde_detector.types import Entity, Episode


def open_entries(engine: Mapping[str, Any], *, shadow: bool) -> list[Entry]:
    """Incidents that were open, and told or not told because they count as normal, when the state was saved.

    When one was told of is not in the state: as after a restart of the detector, that is when its episode began.

    Parameters
    ----------
    engine
        The engine's part of the state's document.
    shadow
        Whether nobody is paged.

    Raises
    ------
    KeyError, TypeError, ValueError
        Something is missing or of another kind.
    """
    fleet, normal = engine.get("fleet", {}), engine.get("hushing", {})
    # What waits for a verdict, or follows another one, is not told.
    untold = {read_entity(entity) for part in ("held", "muted") for entity, *_ in fleet.get(part, ())}
    told: dict[Entity, Episode] = {}
    for host in engine["hosts"]:
        entity = read_entity(host["entity"])
        if host.get("episode") is not None and entity not in untold:
            told[entity] = read_episode(host["episode"])
    told |= {read_entity(entity): read_episode(part) for entity, part in fleet.get("peers", ())}
    return [
        entry_of(one, one.start_ms, shadow=shadow, normal=str(normal.get(one.identity, ""))) for one in told.values()
    ]


def seen_ms(engine: Mapping[str, Any]) -> int | None:
    """Time of the newest row of the state: of what came later it knows nothing. None where no host has a row."""
    rows = (host.get("last_row_ms") for host in engine["hosts"])
    return max((int(one) for one in rows if one is not None), default=None)


def with_open(
    closed: Sequence[Entry], opened: Iterable[Entry], early: Callable[[str], Said | None], seen: int | None
) -> list[Entry]:
    """All incidents, each once.

    Parameters
    ----------
    closed
        Those of the store.
    opened
        Those of the state.
    early
        Gives what was said of one that is not closed.
    seen
        As `seen_ms` of the state: what closed later is over, though the state still has it open.
    """
    known = {entry.id: entry for entry in closed}
    for entry in opened:
        before = known.get(entry.id)
        if before is None:
            said = early(entry.id)
            known[entry.id] = marked(entry, *said) if said is not None else entry
        elif not entry.normal and _told_again(before, seen):
            known[entry.id] = replace(before, end_ms=None, because="", normal="")
    return list(known.values())


def _told_again(before: Entry, seen: int | None) -> bool:
    """Whether it was closed because it began to count as normal, has outlasted that and was told of again.

    Whatever else closed it, it is over: the state is saved now and then, and so may be older than the store.
    """
    later = seen is not None and before.end_ms is not None and before.end_ms > seen
    return before.because.startswith(NORMAL) and not later
