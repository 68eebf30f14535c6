"""`hwsonde-detector kpi`: the figures of a stretch of time as JSON and as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hwsonde_detector import __version__
from hwsonde_detector.config import Config
from hwsonde_detector.errors import StateError
from hwsonde_detector.hoststate import read_entity
from hwsonde_detector.incidents.entry import Entry
from hwsonde_detector.incidents.watchtime import WatchedDays, read_days
from hwsonde_detector.past.when import parse_range
from hwsonde_detector.past.world import World, usable, write_result
from hwsonde_detector.reports.evidence import kept, redactor_of
from hwsonde_detector.reports.kpi import Span, figures
from hwsonde_detector.reports.opened import open_entries, seen_ms, with_open
from hwsonde_detector.reports.program import as_json
from hwsonde_detector.showing import SHARED, environment, palette, when
from hwsonde_detector.state import peek_state

_HERE = Path(__file__).parent / "templates"


@dataclass(frozen=True, slots=True)
class KpiAsked:
    """The options of the command, as they were given."""

    out: Path
    first: str = "-30d"
    last: str = "now"


@dataclass(frozen=True, slots=True)
class _Saved:
    """What the state says: how long hosts were judged, which incidents are open, and the time of its newest row; and why it says nothing."""

    watched: WatchedDays = field(default_factory=WatchedDays)
    opened: list[Entry] = field(default_factory=list)
    seen_ms: int | None = None
    failure: str = ""


def run_kpi(config: Config, asked: KpiAsked, world: World) -> int:
    """Write both files; give the exit status.

    Raises
    ------
    ConfigError, StateError
        One line that says what to do.
    """
    now_ms = world.now_ms()
    start_ms, end_ms = parse_range(asked.first, asked.last, now_ms)
    # The state first: what closes between the two is then in both, and in neither the other way round.
    saved = _from_state(config)
    store = kept(config)
    entries = with_open(store.entries(), saved.opened, store.marked_early, saved.seen_ms)
    redactor = redactor_of(config, config.web.redact)
    shown = [replace(entry, entity=redactor.entity(entry.entity)) for entry in entries]
    # Of a detector that stopped nobody knows how long its open incidents lasted.
    known_ms = now_ms if saved.seen_ms is None else min(now_ms, saved.seen_ms)
    span = Span(start_ms, end_ms, known_ms, _kept_ms(config, store.entries(), now_ms))
    found = figures(shown, span, saved.watched, __version__)
    folder = usable(asked.out)
    written = [
        write_result(folder / "kpi.json", as_json(found)),
        write_result(folder / "kpi.html", kpi_page(found)),
    ]
    if line := saved.failure or _left_out(found):
        world.err.write(f"hwsonde-detector: {line}\n")
    rate = found["pages_per_100_node_days"]
    still = f"{found['open']} of them open when last heard of, at {when(found['known_ms'])}, " if found["open"] else ""
    world.out.write(
        f"{found['incidents']} incidents, {still}{'no rate' if rate is None else f'{rate:g} pages per 100 node-days'}; "
        f"written: {', '.join(map(str, written))}\n"
    )
    return 0


def kpi_page(document: Mapping[str, Any]) -> bytes:
    """UTF-8 of the page, which needs nothing else."""
    text = (
        environment(_HERE, SHARED)
        .get_template("kpi.html")
        .render(kpi=document, palette=palette(), style=(_HERE / "report.css").read_text(encoding="utf-8"))
    )
    return text.encode("utf-8", "replace")


def _kept_ms(config: Config, closed: Sequence[Entry], now_ms: int) -> int:
    """Since when all incidents are kept, by their age and by their number."""
    by_age = now_ms - config.incidents.keep_for
    full = len(closed) >= config.incidents.keep
    return max(by_age, min(entry.told_ms for entry in closed)) if full else by_age


def _left_out(found: Mapping[str, Any]) -> str:
    """What of the range the rate does not speak of; empty where it is all of it."""
    if found["rate_from_ms"] is None:
        return "how long hosts were watched in this range is not known: there is no rate"
    if found["rate_from_ms"] == found["start_ms"]:
        return ""
    return f"the range begins before what is kept of incidents and of watched time: the rate is from {when(found['rate_from_ms'])} on"


def _from_state(config: Config) -> _Saved:
    """Nothing, and why, where the state cannot be read."""
    try:
        found = peek_state(config.state.dir) if config.state.dir is not None else None
        found = found if found is not None else {"engine": {"hosts": []}, "service": {}}
        engine = found["engine"]
        hosts = {read_entity(host["entity"]) for host in engine["hosts"]}
        # States of versions that did not keep it by day lack it.
        watched = WatchedDays(read_days(found["service"].get("watched", ())), len(hosts))
        return _Saved(watched, open_entries(engine, shadow=config.mode == "shadow"), seen_ms(engine))
    except (StateError, KeyError, TypeError, ValueError) as error:
        said = (
            f"{error}"
            if isinstance(error, StateError)
            else f"the state lacks something ({type(error).__name__}: {error})"
        )
        return _Saved(failure=f"how long hosts were watched and what is open is not known: {said}")
