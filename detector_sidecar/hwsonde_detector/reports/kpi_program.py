"""`hwsonde-detector kpi`: the figures of a stretch of time as JSON and as a page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hwsonde_detector import __version__
from hwsonde_detector.config import Config
from hwsonde_detector.errors import ConfigError, StateError
from hwsonde_detector.hoststate import read_entity
from hwsonde_detector.past.when import parse_range
from hwsonde_detector.past.world import World
from hwsonde_detector.reports.evidence import kept, redactor_of
from hwsonde_detector.reports.kpi import Span, figures
from hwsonde_detector.reports.program import as_json
from hwsonde_detector.showing import SHARED, environment, palette
from hwsonde_detector.state import peek_state

_HERE = Path(__file__).parent / "templates"


@dataclass(frozen=True, slots=True)
class KpiAsked:
    """The options of the command, as they were given."""

    out: Path
    first: str = "-30d"
    last: str = "now"


def run_kpi(config: Config, asked: KpiAsked, world: World) -> int:
    """Write both files; give the exit status.

    Raises
    ------
    ConfigError, StateError
        One line that says what to do.
    """
    start_ms, end_ms = parse_range(asked.first, asked.last, world.now_ms())
    entries = kept(config).entries()
    redactor = redactor_of(config, config.web.redact)
    shown = [replace(entry, entity=redactor.entity(entry.entity)) for entry in entries]
    found = figures(shown, Span(start_ms, end_ms), _watched(config, world), __version__)
    try:
        asked.out.mkdir(parents=True, exist_ok=True)
        (asked.out / "kpi.json").write_bytes(as_json(found))
        (asked.out / "kpi.html").write_bytes(kpi_page(found))
    except OSError as error:
        raise ConfigError(
            f"--out: {asked.out}: it cannot be written: {error.strerror or error}; name another folder"
        ) from None
    rate = found["pages_per_100_node_days"]
    world.out.write(
        f"{found['incidents']} incidents, {'no rate' if rate is None else f'{rate:g} pages per 100 node-days'}; "
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


def _watched(config: Config, world: World) -> list[int]:
    """How long each host of the state was judged, ms."""
    try:
        found = peek_state(config.state.dir) if config.state.dir is not None else None
        hosts = found["engine"]["hosts"] if found is not None else []
        known = {read_entity(host["entity"]): int(host["watch"]["watched_ms"]) for host in hosts}
    except (StateError, KeyError, TypeError, ValueError) as error:
        world.err.write(f"hwsonde-detector: how long hosts were watched is not known: {error}\n")
        return []
    return list(known.values())
