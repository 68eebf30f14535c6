"""Pictures of boards, the parts that need no npm: the command line, the table, and what ends with which status."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from grafana import render_boards
from grafana.check_panels import panels
from grafana.generate import BOARDS, DETECTOR_URL, document
from grafana.render_boards import NAMES, THEMES, Wanted, duration, file_name, main, moment, parsed
from grafana.rendering.errors import RenderError
from grafana.rendering.table import Shown, markdown, verdict

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "grafana" / "render" / "src"
MADE = {board.name: document(board, DETECTOR_URL) for board in BOARDS}
GIVEN = ("--prometheus", "http://127.0.0.1:1", "--out")
FULL = Shown("fleet", "Now", "Hosts", "stat", 1)
EXCUSED = Shown("gpu", "State", "Errors", "table", 0, "no error was reported")
EMPTY = Shown("gpu", "Use", "Use", "timeseries", 0)
FAILED = Shown("host", "CPU", "Load", "timeseries", 0, "no load", "Error: refused")


def test_times_are_taken_in_four_forms() -> None:
    assert moment("now", 1000.0) == 1000
    assert moment("now-15m", 1000.0) == 100
    assert moment("1764504000.5", 0) == 1764504000.5
    assert moment("2025-11-30T12:00:00Z", 0) == moment("2025-11-30T12:00:00", 0) == 1764504000
    assert (duration("250ms"), duration("1s"), duration("2h"), duration("1d")) == (0.25, 1, 7200, 86400)
    for text in ("now-", "now-x", "yesterday", "15", "1w", ""):
        with pytest.raises(ValueError, match=r"duration|isoformat"):
            duration(text) if text in {"15", "1w"} else moment(text, 0)


def test_the_command_line_says_what_is_wanted(tmp_path: Path) -> None:
    more = [
        "--board=gpu",
        "--theme=light",
        "--var=node=n1",
        "--var=gpu=0|1",
        "--from=now-5m",
        "--scrape-interval=500ms",
        "--strict",
    ]
    wanted, strict = parsed([*GIVEN, str(tmp_path), *more], 1000.0)
    assert strict
    assert (wanted.boards, wanted.themes, wanted.variables) == (["gpu"], ["light"], {"node": "n1", "gpu": "0|1"})
    assert (wanted.start, wanted.end, wanted.scrape) == (700, 1000, 0.5)
    wanted, strict = parsed([*GIVEN, str(tmp_path)], 1000.0)
    assert not strict
    assert (wanted.boards, wanted.themes, wanted.start, wanted.end) == (NAMES, THEMES, 100, 1000)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--from=now", "--to=now-1h"], "is not before"),
        (["--from=yesterday"], "isoformat"),
        (["--scrape-interval=often"], "no duration"),
        (["--var=node"], "NAME=VALUE"),
        (["--board=pcie"], "invalid choice"),
    ],
)
def test_a_wrong_command_line_is_refused(
    more: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        parsed([*GIVEN, str(tmp_path), *more], 1000.0)
    assert ended.value.code == 2
    assert words in capsys.readouterr().err.splitlines()[-1]


def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, shown: Sequence[Shown] | Exception, *more: str) -> int:
    def render(wanted: Wanted) -> list[Shown]:
        if isinstance(shown, Exception):
            raise shown
        wanted.out.mkdir(exist_ok=True)
        return list(shown)

    monkeypatch.setattr(render_boards, "render", render)
    return main([*GIVEN, str(tmp_path / "out"), *more])


def test_full_and_excused_panels_end_well(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, tmp_path, [FULL, EXCUSED]) == 0
    said = capsys.readouterr()
    assert said.err == ""
    assert said.out.startswith("2 panels in ")
    assert (tmp_path / "out" / "panels.md").read_text() == (
        "| board | row | panel | shows |\n| --- | --- | --- | --- |\n"
        "| fleet | Now | Hosts | 1 number |\n| gpu | State | Errors | empty: no error was reported |\n"
    )
    assert [one["count"] for one in json.loads((tmp_path / "out" / "panels.json").read_text())] == [1, 0]


@pytest.mark.parametrize(
    ("shown", "more", "words"),
    [
        ([FULL, EMPTY, EXCUSED], [], ["1 of 3 panels", "gpu / Use (EMPTY)"]),
        ([FULL, FAILED], [], ["1 of 2 panels", "host / Load (fails: Error: refused)"]),
        ([FULL, EXCUSED], ["--strict"], ["1 of 2 panels", "gpu / Errors"]),
    ],
)
def test_an_empty_or_failed_panel_is_status_1_and_one_line(
    shown: list[Shown],
    more: list[str],
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(monkeypatch, tmp_path, shown, *more) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert all(word in line for word in words), line


@pytest.mark.parametrize("error", [RenderError("npm is not installed"), PermissionError(13, "Permission denied", "/x")])
def test_no_pictures_is_status_2_and_one_line(
    error: Exception, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, tmp_path, error) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("render_boards: ")


def test_what_a_table_says_by_itself_is_no_reason() -> None:
    report: dict[str, Any] = {
        "row": "State",
        "title": "x",
        "type": "table",
        "shown": 0,
        "excuse": "nothing",
        "error": "",
    }
    assert Shown.of("gpu", report).is_wrong()
    assert not Shown.of("gpu", {**report, "excuse": "no error"}).is_wrong()
    assert Shown.of("gpu", {**report, "excuse": "no error"}).is_wrong(strict=True)
    assert Shown.of("gpu", {**report, "shown": 3}).words() == "3 rows"


def test_a_panel_that_fails_in_both_themes_is_named_once() -> None:
    assert verdict([FAILED, FAILED]).count("host / Load") == 1
    assert verdict([FULL]) == ""
    assert markdown([Shown("b", "r", "t", "stat", 0, "", "two\nlines")]).count("\n") == 3


def test_files_are_called_after_board_and_theme() -> None:
    assert [file_name("gpu", theme) for theme in THEMES] == ["gpu.png", "gpu-light.png"]


# ---- nothing that a board says may be left out without a word ----


def named_in(name: str, text: str) -> set[str]:
    """Texts of an array in one of the page's modules."""
    found = re.search(rf"const {name} = \[(.*?)\];", text, re.DOTALL)
    assert found
    return set(re.findall(r"'(\w+)'", found[1]))


def test_the_page_draws_every_kind_of_panel_variable_and_transformation() -> None:
    drawn = set(re.findall(r"case '(\w+)':", (SOURCES / "panels.tsx").read_text()))
    assert {panel["type"] for board in MADE.values() for panel in panels(board)} == drawn
    used = {one["id"] for board in MADE.values() for panel in panels(board) for one in panel.get("transformations", [])}
    assert used == {"organize"}
    kinds = {variable["type"] for board in MADE.values() for variable in board["templating"]["list"]}
    assert kinds == {"datasource", "query", "textbox"}


def test_the_page_knows_every_option_of_a_field() -> None:
    fields = (SOURCES / "fields.ts").read_text()
    standard, custom = named_in("STANDARD", fields), named_in("CUSTOM", fields)
    known = standard | {f"custom.{name}" for name in custom}
    used: set[str] = set()
    for board in MADE.values():
        for panel in panels(board):
            config = panel["fieldConfig"]
            used |= config["defaults"].keys() - {"custom"}
            used |= {f"custom.{name}" for name in config["defaults"].get("custom", {})}
            for override in config["overrides"]:
                assert override["matcher"]["id"] == "byName"
                used |= {one["id"] for one in override["properties"]}
    assert used <= known, used - known
