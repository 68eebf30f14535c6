"""The table of XIDs: complete, within what labels may hold, and consistent with itself."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

from hwsonde_exporter.nvml.xid import (
    LAST,
    PRECREATED,
    TABLE,
    Advice,
    Origin,
    Severity,
    explain,
    switch_advice,
    switch_unit,
)
from hwsonde_exporter.nvml.xid_page import main, page

PAGE = Path(__file__).resolve().parents[3] / "docs" / "xid.md"


def test_every_documented_code_is_there_once() -> None:
    assert sorted(TABLE) == list(range(1, LAST + 1))
    assert LAST == 172
    assert all(code == row.code for code, row in TABLE.items())


def test_names_are_told_apart_and_fit_a_label() -> None:
    assert [name for name, times in Counter(row.name for row in TABLE.values()).items() if times > 1] == []
    for row in TABLE.values():
        assert 4 <= len(row.name) <= 80, row
        assert row.name.isascii(), row
        assert row.name.isprintable(), row
        assert not row.name.endswith("."), row


def test_advice_is_one_short_sentence() -> None:
    assert all(len(advice) <= 110 and advice.isascii() and not advice.endswith(".") for advice in Advice)
    assert {row.advice for row in TABLE.values()} == set(Advice)


def test_faults_of_programs_never_page() -> None:
    """Jobs that end the normal way leave XIDs by the hundred; nobody is to be woken for them."""
    for row in TABLE.values():
        if row.origin is Origin.APPLICATION:
            assert row.severity is Severity.INFO, row


@pytest.mark.parametrize("code", [13, 31, 43, 45, 63, 92, 94, 154])
def test_codes_that_do_not_page(code: int) -> None:
    assert TABLE[code].severity is not Severity.CRITICAL


@pytest.mark.parametrize("code", [48, 62, 64, 74, 79, 95, 109, 110, 119, 120, 140, 143, 158])
def test_codes_that_page(code: int) -> None:
    assert TABLE[code].severity is Severity.CRITICAL
    assert TABLE[code].advice not in {Advice.NOTHING, Advice.FOLLOW}


def test_what_pages_exists_before_it_happens() -> None:
    assert {code for code, row in TABLE.items() if row.severity is Severity.CRITICAL} <= set(PRECREATED)
    assert len(PRECREATED) <= 30  # times the GPUs of a host
    assert list(PRECREATED) == sorted(set(PRECREATED))


def test_a_code_that_nobody_documented_is_explained_as_such() -> None:
    assert explain(79).name == "GPU fell off the bus"
    assert (explain(500).code, explain(500).name, explain(500).severity) == (500, "not documented", Severity.WARNING)


def test_switch_codes_are_told_by_their_thousands() -> None:
    assert switch_unit(20009) == "link, data and physical layer: link has many errors"
    assert switch_unit(20003) == "link, data and physical layer"
    assert switch_unit(99999) == "not documented"
    texts = {switch_advice(code, severity) for code in (10004, 11004, 24007) for severity in ("fatal", "nonfatal")}
    assert all(re.fullmatch(r"[a-z][ -~]{10,110}", text) for text in texts)
    assert "reset" in switch_advice(24007, "fatal")
    assert "nothing" in switch_advice(24007, "nonfatal")


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run: python -m hwsonde_exporter.nvml.xid_page docs/xid.md"


def test_the_page_argues_by_what_the_table_says() -> None:
    """Codes named as paging page, and those named as not paging do not."""
    text = page()
    argued = text[text.index("Why these page") : text.index("These have a series")]
    for line in re.split(r"^- ", argued, flags=re.MULTILINE)[1:]:
        first = line.partition(":")[0]
        codes = re.findall(r"\d+", first)
        if " to " in first:
            codes = [str(code) for code in range(int(codes[0]), int(codes[1]) + 1)]
        pages = {TABLE[int(code)].severity is Severity.CRITICAL for code in codes}
        assert pages == {"not" not in first}, line


def test_the_page_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path / "xid.md")]) == 0
    assert (tmp_path / "xid.md").read_text(encoding="utf-8") == page()
    assert main([]) == 2
    assert main([str(tmp_path / "no" / "xid.md")]) == 2
    assert "No such file" in capsys.readouterr().err
