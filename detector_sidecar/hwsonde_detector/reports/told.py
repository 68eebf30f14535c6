"""What the running detector told of, as far as its folder keeps it: whoever learns from the middle of an incident holds it for normal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from hwsonde_detector.config import Config
from hwsonde_detector.errors import StateError
from hwsonde_detector.explain.known import Known, Matter
from hwsonde_detector.explain.nextsteps import RUNBOOK
from hwsonde_detector.explain.report import Before
from hwsonde_detector.explain.vanished import UNSEEN, SeenFault, is_lost, runbook_of
from hwsonde_detector.explain.verdict import Moments, brief
from hwsonde_detector.hoststate import read_episode
from hwsonde_detector.incidents.entry import Entry, Mark, entry_of
from hwsonde_detector.incidents.store import FOLDER, Store
from hwsonde_detector.past.world import say
from hwsonde_detector.quality import read_data_fault
from hwsonde_detector.reports.opened import open_entries, seen_ms, with_open
from hwsonde_detector.state import peek_state
from hwsonde_detector.types import DataFaultEpisode, Entity, Episode

_KEPT = "kept by the detector"
# What was open in a state that is older than this at the beginning of the range may long be over: nobody judged since.
_STALE_MS = 3_600_000
_LONGEST = 300


@dataclass(frozen=True, slots=True)
class Told:
    """What is kept.

    Attributes
    ----------
    before
        Closed episodes, newest first.
    incidents
        All of them, open and closed.
    faults
        Data faults that were open.
    seen_ms
        Time of the newest row that the detector had seen when it saved what was open; None where that is not known.
    """

    before: Before = field(default_factory=Before)
    incidents: tuple[Entry, ...] = ()
    faults: tuple[DataFaultEpisode, ...] = ()
    seen_ms: int | None = None


def read_told(config: Config, err: TextIO) -> Told:
    """Read what the detector keeps, and change nothing; one line for what cannot be read."""
    folder = config.state.dir
    if folder is None:
        return Told()
    # The state first: what closes between the two is then in both, and in neither the other way round.
    engine, episodes = _from_state(folder, err)
    opened, faults, seen = _open(engine, err, shadow=config.mode == "shadow")
    store = Store(folder / FOLDER)
    try:
        if (folder / FOLDER).is_dir():
            store.peek()
    except (StateError, OSError) as error:
        say(err, f"hwsonde-detector: closed incidents are not known: {error}")
    closed = {entry.id: entry for entry in (entry_of(one, one.start_ms) for one in episodes)}
    closed |= {entry.id: entry for entry in store.entries()}
    found = with_open(list(closed.values()), opened, store.marked_early, seen)
    return Told(
        Before(episodes, _KEPT if episodes else ""),
        tuple(sorted(found, key=lambda entry: (entry.onset_ms, entry.id))),
        faults,
        seen,
    )


def _from_state(folder: Path, err: TextIO) -> tuple[Mapping[str, Any], tuple[Episode, ...]]:
    """The engine's part of the state, and closed episodes."""
    engine: Mapping[str, Any] = {}
    try:
        saved = peek_state(folder)
        if saved is None:
            return engine, ()
        engine = saved.get("engine", engine)
        return engine, tuple(read_episode(part) for part in saved["service"]["past"])
    except (StateError, KeyError, TypeError, ValueError) as error:
        say(err, f"hwsonde-detector: earlier episodes are not known: {error}")
        return engine, ()


def _open(
    engine: Mapping[str, Any], err: TextIO, *, shadow: bool
) -> tuple[list[Entry], tuple[DataFaultEpisode, ...], int | None]:
    """Incidents and data faults that were open, and up to when that is known."""
    if not engine:
        return [], (), None
    try:
        kept = [host.get("quality", {}).get("episode") for host in engine["hosts"]]
        faults = tuple(read_data_fault(part) for part in kept if part is not None)
        return open_entries(engine, shadow=shadow), faults, seen_ms(engine)
    except (KeyError, TypeError, ValueError) as error:
        say(
            err,
            f"hwsonde-detector: what is open is not known: the state lacks something ({type(error).__name__}: {error})",
        )
        return [], (), None


def known_told(
    spans: Mapping[Entity, tuple[int, int]],
    told: Told,
    episodes: Sequence[Episode],
    faults: Iterable[SeenFault],
    moments: Moments,
    base: str,
) -> tuple[Known, ...]:
    """What of it belongs to the hosts and the time that count, and is not found again.

    Parameters
    ----------
    spans
        The hosts, and of each the time that counts.
    told
        What is kept.
    episodes, faults
        What was found when the range was scored again.
    moments
        How times of the range are written.
    base
        Address of the detector's page; empty where it is not known.
    """
    again = {(one.entity, one.kind) for one in faults}
    return (
        *_incidents(spans, told, episodes, moments, base),
        *(
            _fault(one, moments)
            for one in told.faults
            if one.kind in UNSEEN
            and one.entity in spans
            and (one.entity, one.kind) not in again
            and _touches(one.onset_ms, one.end_ms, spans[one.entity], told.seen_ms)
        ),
    )


def _incidents(
    spans: Mapping[Entity, tuple[int, int]], told: Told, episodes: Sequence[Episode], moments: Moments, base: str
) -> Iterator[Known]:
    for entry in told.incidents:
        span = spans.get(entry.entity)
        if span is None or not _touches(entry.onset_ms, entry.end_ms, span, told.seen_ms):
            continue
        if not any(_same(entry, one) for one in episodes):
            yield _incident(entry, moments, base)


def _touches(onset_ms: int, end_ms: int | None, span: tuple[int, int], seen: int | None) -> bool:
    if onset_ms > span[1]:
        return False
    if end_ms is not None:
        return end_ms > span[0]
    return seen is None or seen > span[0] - _STALE_MS


def _same(entry: Entry, episode: Episode) -> bool:
    """Whether an incident was found again: with other models it may have begun at another moment."""
    if entry.identity == episode.identity:
        return True
    over = episode.end_ms is not None and episode.end_ms < entry.onset_ms
    before = entry.end_ms is not None and entry.end_ms < episode.onset_ms
    return entry.entity == episode.entity and entry.subsystem == episode.subsystem and not over and not before


def _incident(entry: Entry, moments: Moments, base: str) -> Known:
    page = f"{base.rstrip('/')}/incidents/{entry.id}" if base else f"incidents/{entry.id}"
    remark = f"; it counted as normal ({brief(entry.normal)})" if entry.normal else ""
    remark += "; somebody called it noise" if entry.mark is Mark.NOISE else ""
    return Known(
        Matter.INCIDENT,
        (entry.entity,),
        entry.onset_ms,
        entry.end_ms,
        f"The detector told of an incident {_when(entry.onset_ms, entry.end_ms, moments)}: "
        f"{brief(entry.title, _LONGEST)}{remark} ({page}).",
        device=entry.device,
        runbook=RUNBOOK,
        page=page,
    )


def _fault(one: DataFaultEpisode, moments: Moments) -> Known:
    return Known(
        Matter.DATA_FAULT,
        (one.entity,),
        one.onset_ms,
        one.end_ms,
        f"The detector told of a data fault {_when(one.onset_ms, one.end_ms, moments)}: {brief(one.title, _LONGEST)}.",
        cause=bool(one.evidence) and is_lost(one.kind, one.evidence[0].device),
        device=one.evidence[0].device if one.evidence else None,
        runbook=runbook_of(one.kind),
    )


def _when(onset_ms: int, end_ms: int | None, moments: Moments) -> str:
    """The dates, too, where it began on another day than the range."""
    written = Moments(min(onset_ms, moments.start_ms), max(end_ms or 0, moments.end_ms))
    if end_ms is None:
        return f"that has been open since {written.text(onset_ms)}"
    return f"that was open from {written.text(onset_ms)} to {written.text(end_ms)}"
