"""Takes a picture of each board, drawn by Grafana's own components from a running Prometheus.

``python -m grafana.render_boards --prometheus http://127.0.0.1:9090 --from now-15m --to now --out DIR`` writes ``BOARD.png`` and
``BOARD-light.png`` for each board, and what every panel shows as ``panels.md`` and ``panels.json``. It ends with status 1 and one line if
a panel fails, or is empty without a reason in the board, and with 2 if no picture can be taken.

For those who change boards: it needs npm, Chromium and Playwright, none of which hwsonde needs.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from grafana.generate import BOARDS, DETECTOR_URL, document
from grafana.rendering.browser import Look, Theme, board_picture, chromium
from grafana.rendering.bundle import built, default_cache
from grafana.rendering.errors import RenderError
from grafana.rendering.server import Site, ask, serving
from grafana.rendering.table import Shown, markdown, to_json, verdict

if TYPE_CHECKING:
    from playwright.sync_api import Browser

WIDTH = 1400
NAMES = tuple(board.name for board in BOARDS)
THEMES: tuple[Theme, ...] = get_args(Theme)
_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|[smhd])")
_BEFORE = re.compile(r"now(?:-(.+))?")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What pictures are taken.

    Attributes
    ----------
    prometheus
        Its address.
    out
        Folder for the pictures and the table.
    start, end
        The time that graphs show, in Unix seconds; tables and tiles show its end.
    boards, themes
        Which, in order.
    variables
        Values by name for all boards.
    of_board
        Values by name for one board, which win.
    scrape
        Scrape interval in seconds.
    width
        Of the pictures, in pixels.
    cache
        Where the built page is kept.
    """

    prometheus: str
    out: Path
    start: float
    end: float
    boards: Sequence[str] = NAMES
    themes: Sequence[Theme] = THEMES
    variables: Mapping[str, str] = field(default_factory=dict)
    of_board: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    scrape: float = 1.0
    width: int = WIDTH
    cache: Path = field(default_factory=default_cache)


def duration(text: str) -> float:
    """Seconds of a duration such as 15m or 250ms.

    Raises
    ------
    ValueError
        If it is none.
    """
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no duration such as 15m")
    return float(found[1]) * (0.001 if found[2] == "ms" else _UNITS[found[2]])


def moment(text: str, now: float) -> float:
    """Unix seconds of a time: ``now``, ``now-15m``, Unix seconds, or as 2026-11-30T12:00:00Z.

    Raises
    ------
    ValueError
        If it is none of them.
    """
    if before := _BEFORE.fullmatch(text):
        return now - (duration(before[1]) if before[1] else 0)
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    at = datetime.fromisoformat(text)
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()


def file_name(board: str, theme: Theme) -> str:
    """Name of a board's picture."""
    return f"{board}.png" if theme == "dark" else f"{board}-{theme}.png"


def render(wanted: Wanted) -> list[Shown]:
    """Take the pictures; gives what the panels of each board show in the first theme, and where another theme fails.

    Raises
    ------
    RenderError
        If Prometheus does not answer, there is no npm, Chromium or Playwright, or a page does not get ready.
    OSError
        If the folder cannot be written.
    """
    wanted.out.mkdir(parents=True, exist_ok=True)
    ask(wanted.prometheus)
    page = built(wanted.cache)
    with chromium() as browser, serving(page, wanted.prometheus) as site:
        return [
            one for board in BOARDS if board.name in wanted.boards for one in _board(browser, site, wanted, board.name)
        ]


def _board(browser: Browser, site: Site, wanted: Wanted, name: str) -> list[Shown]:
    site.board = document(next(board for board in BOARDS if board.name == name), DETECTOR_URL)
    variables = {**wanted.variables, **wanted.of_board.get(name, {})}
    shown: list[Shown] = []
    for theme in wanted.themes:
        look = Look(theme, wanted.start, wanted.end, wanted.scrape, variables)
        taken, reports = board_picture(browser, site.address, look, wanted.width)
        (wanted.out / file_name(name, theme)).write_bytes(taken)
        found = [Shown.of(name, report) for report in reports]
        shown += [one for one in found if one.error] if shown else found
    return shown


def save_table(shown: Sequence[Shown], out: Path) -> None:
    """Write the table beside the pictures; raises OSError."""
    (out / "panels.md").write_text(markdown(shown), encoding="utf-8")
    (out / "panels.json").write_text(to_json(shown), encoding="utf-8")


def _pairs(parser: argparse.ArgumentParser, given: Sequence[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in given]
    for name, sign, _ in pairs:
        if not sign or not name:
            parser.error(f"--var {name}: give it as NAME=VALUE")
    return {name: value for name, _, value in pairs}


def parsed(arguments: Sequence[str] | None, now: float) -> tuple[Wanted, bool]:
    """What the command line asks for, and whether no excuse counts."""
    parser = argparse.ArgumentParser(
        prog="python -m grafana.render_boards", description="Take a picture of each board."
    )
    parser.add_argument("--prometheus", required=True, metavar="URL", help="address of Prometheus")
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="folder for pictures and table")
    parser.add_argument(
        "--from",
        dest="start",
        default="now-15m",
        metavar="TIME",
        help="2026-11-30T12:00:00Z, Unix seconds, or now-15m (default)",
    )
    parser.add_argument("--to", dest="end", default="now", metavar="TIME", help="likewise (default: now)")
    parser.add_argument("--board", action="append", choices=NAMES, help="which board; may be repeated (default: all)")
    parser.add_argument(
        "--theme", action="append", choices=THEMES, help="dark or light; may be repeated (default: both)"
    )
    parser.add_argument(
        "--var",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="value of a variable, such as node=n1 (default: the first)",
    )
    parser.add_argument("--scrape-interval", default="1s", metavar="TIME", help="of Prometheus (default: 1s)")
    parser.add_argument("--width", type=int, default=WIDTH, help="of the pictures in pixels (default: %(default)s)")
    parser.add_argument(
        "--cache",
        type=Path,
        default=default_cache(),
        metavar="DIR",
        help="where the built page is kept (default: %(default)s)",
    )
    parser.add_argument("--strict", action="store_true", help="no reason for being empty counts")
    given = parser.parse_args(arguments)
    try:
        start, end = moment(given.start, now), moment(given.end, now)
        scrape = duration(given.scrape_interval)
    except ValueError as error:
        parser.error(str(error))
    if not start < end:
        parser.error(f"--from {given.start} is not before --to {given.end}")
    wanted = Wanted(
        prometheus=given.prometheus,
        out=given.out,
        start=start,
        end=end,
        boards=given.board or NAMES,
        themes=given.theme or THEMES,
        variables=_pairs(parser, given.var),
        scrape=scrape,
        width=given.width,
        cache=given.cache,
    )
    return wanted, given.strict


def main(arguments: Sequence[str] | None = None) -> int:
    """Take the pictures; gives the exit status."""
    wanted, strict = parsed(arguments, time.time())
    try:
        shown = render(wanted)
        save_table(shown, wanted.out)
    except (RenderError, OSError) as error:
        print(f"render_boards: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("render_boards: interrupted", file=sys.stderr)
        return 130
    print(f"{len(shown)} panels in {wanted.out}")
    if line := verdict(shown, strict=strict):
        print(f"render_boards: {line}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
