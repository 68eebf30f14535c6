"""The committed reference is what the code says."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from hwsonde_exporter import reference

DOCS = Path(__file__).resolve().parents[3] / "docs"
HOW = "run: python -m hwsonde_exporter.reference docs/metrics.md docs/metric_catalogue.csv"


def test_page_is_current() -> None:
    assert (DOCS / "metrics.md").read_text(encoding="utf-8") == reference.to_markdown(reference.rows()), HOW


def test_table_is_current() -> None:
    assert (DOCS / "metric_catalogue.csv").read_text(encoding="utf-8") == reference.to_csv(reference.rows()), HOW


def test_each_name_has_one_row() -> None:
    names = [row.name for row in reference.rows()]
    assert len(names) == len(set(names)) > 150


def test_each_row_says_where_its_value_comes_from() -> None:
    assert not [row.name for row in reference.rows() if not row.source or not row.collector or not row.help]


def test_unit_is_in_the_name() -> None:
    rows = [row for row in reference.rows() if row.unit]
    assert not [row.name for row in rows if row.unit not in row.name]


def test_table_reads_back() -> None:
    rows = reference.rows()
    read = list(csv.reader(reference.to_csv(rows).splitlines()))
    assert [reference.Row(*row) for row in read[1:]] == rows


def test_bars_do_not_break_the_page() -> None:
    row = reference.Row("hwsonde_a", "gauge", "", "b,c", "d|e", "cpu", "cpu", "F.")
    assert "| `hwsonde_a` | gauge | b, c | cpu | F. | d\\|e |" in reference.to_markdown([row])


def test_wrong_arguments_and_places_are_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reference.main(["one"]) == 2
    assert reference.main([str(tmp_path / "missing" / "a.md"), str(tmp_path / "b.csv")]) == 2
    problems = capsys.readouterr().err.splitlines()
    assert problems[0].startswith("usage: ")
    assert "No such file" in problems[1]


def test_both_files_are_written(tmp_path: Path) -> None:
    paths = [tmp_path / "a.md", tmp_path / "b.csv"]
    assert reference.main([str(path) for path in paths]) == 0
    assert [path.read_bytes()[:6] for path in paths] == [b"# Metr", b"name,t"]
