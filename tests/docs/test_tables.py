"""Tables are whole: each row is one line with as many cells as the head. Readers of Markdown show others torn, and say nothing."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.markdown import ROOT, pages, tables


def cells(line: str) -> int:
    """Number of cells of a row; 0 where it is none. A pipe behind a backslash is a character."""
    return len(re.findall(r"(?<!\\)\|", line)) - 1 if line.startswith("|") and line.endswith("|") else 0


def torn(page: Path) -> list[str]:
    return [line for table in tables(page) for line in table if cells(line) != cells(table[0])]


@pytest.mark.parametrize("page", pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_every_row_has_the_cells_of_the_head(page: Path) -> None:
    assert not torn(page)


def test_a_torn_row_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("| a | b |\n| --- | --- |\n| x \\| y | z |\n| 1 | `2\n/ 3` |\n| 4 |\n\nText | that is none.\n")
    assert torn(page) == ["| 1 | `2", "/ 3` |", "| 4 |"]
