"""`hwsonde-detector kpi`: the figures of a stretch of time as JSON and as a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hwsonde_detector import __version__
from hwsonde_detector.config import Config
from hwsonde_detector.errors import ConfigError, StateError
from hwsonde_detector.hoststate import read_entity
from hwsonde_detector.incidents.entry import Entry
from hwsonde_detector.past.when import parse_range
from hwsonde_detector.past.world import World
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
    """What the state says: how long each host was judged, ms, which incidents are open, and the time of its newest row."""

    watched_ms: list[int] = field(default_factory=list)
    opened: list[Entry] = field(default_factory=list)
    seen_ms: int | None = None


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
    saved = _from_state(config, world)
    store = kept(config)
    entries = with_open(store.entries(), saved.opened, store.marked_early, saved.seen_ms)
    redactor = redactor_of(config, config.web.redact)
    shown = [replace(entry, entity=redactor.entity(entry.entity)) for entry in entries]
    # Of a detector that stopped nobody knows how long its open incidents lasted.
    known_ms = now_ms if saved.seen_ms is None else min(now_ms, saved.seen_ms)
    found = figures(shown, Span(start_ms, end_ms, known_ms), saved.watched_ms, __version__)
    try:
        asked.out.mkdir(parents=True, exist_ok=True)
        (asked.out / "kpi.json").write_bytes(as_json(found))
        (asked.out / "kpi.html").write_bytes(kpi_page(found))
    except OSError as error:
        raise ConfigError(
            f"--out: {asked.out}: it cannot be written: {error.strerror or error}; name another folder"
        ) from None
    rate = found["pages_per_100_node_days"]
    still = f"{found['open']} of them open when last heard of, at {when(found['known_ms'])}, " if found["open"] else ""
    world.out.write(
        f"{found['incidents']} incidents, {still}{'no rate' if rate is None else f'{rate:g} pages per 100 node-days'}; "
        f"written: {asked.out / 'kpi.json'}, {asked.out / 'kpi.html'}\n"
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


def _from_state(config: Config, world: World) -> _Saved:
    """Nothing, and one line, where the state cannot be read."""
    try:
        found = peek_state(config.state.dir) if config.state.dir is not None else None
        engine = found["engine"] if found is not None else {"hosts": []}
        watched = {read_entity(host["entity"]): int(host["watch"]["watched_ms"]) for host in engine["hosts"]}
        return _Saved(list(watched.values()), open_entries(engine, shadow=config.mode == "shadow"), seen_ms(engine))
    except (StateError, KeyError, TypeError, ValueError) as error:
        said = (
            f"{error}"
            if isinstance(error, StateError)
            else f"the state lacks something ({type(error).__name__}: {error})"
        )
        world.err.write(f"hwsonde-detector: how long hosts were watched and what is open is not known: {said}\n")
        return _Saved()
