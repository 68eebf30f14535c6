"""What is said of something that fails: at once, but little where it goes back and forth, and in the end how it is."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from hwsonde_detector.service.trouble import Trouble


class Said:
    """One trouble, by a clock that a test moves, and the lines about it with their times."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self.trouble, self.at = Trouble("source", "answers again"), 1000.0
        self.lines: list[tuple[float, str]] = []
        self._caplog = caplog

    def try_once(self, failure: str | None, seconds: float = 2.0) -> None:
        self._caplog.clear()
        if failure is None:
            self.trouble.worked(int(self.at * 1000), self.at)
        else:
            self.trouble.failed(failure, int(self.at * 1000), self.at)
        self.lines += [(self.at, record.getMessage()) for record in self._caplog.records]
        self.at += seconds


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture) -> Iterator[Said]:
    caplog.set_level(logging.INFO, "hwsonde_detector")
    return Said(caplog)


def most_in_a_minute(lines: list[tuple[float, str]]) -> int:
    return max(sum(at <= other < at + 60 for other, _ in lines) for at, _ in lines)


def test_a_failure_and_its_end_are_told_at_once(said: Said) -> None:
    for failure in (None, "refused", "refused", "refused", None, None):
        said.try_once(failure)
    assert said.lines == [(1002.0, "source: refused"), (1008.0, "source answers again after 6.0 s and 3 tries")]


def test_one_that_answers_now_and_then_gets_a_few_lines_a_minute(said: Said) -> None:
    for count in range(300):
        said.try_once("500" if count % 2 else None)
    assert most_in_a_minute(said.lines) == 3
    assert len(said.lines) >= 10
    assert any("it changed" in line for _, line in said.lines)


def test_reasons_that_change_each_time_get_a_few_lines_a_minute(said: Said) -> None:
    for count in range(300):
        said.try_once(f"cut after {count} bytes", 4.0)
    assert most_in_a_minute(said.lines) == 3
    assert said.lines[1][1] == "source: still failing, now: cut after 1 bytes"


@pytest.mark.parametrize("last", ["500", None])
@pytest.mark.parametrize("turns", [1, 2, 3, 6, 7, 20, 31])
def test_how_it_is_in_the_end_is_told_within_a_minute(said: Said, turns: int, last: str | None) -> None:
    for count in range(turns):
        said.try_once("404" if count % 2 else None)
    held = said.at
    for _ in range(31):
        said.try_once(last)
    if last is None:
        assert not said.trouble.failing
        assert not said.lines or "answers again" in said.lines[-1][1]
    else:
        assert "500" in said.lines[-1][1]
    assert not said.lines or said.lines[-1][0] <= held + 60
    lines = list(said.lines)
    for _ in range(60):
        said.try_once(last)
    assert said.lines == lines


def test_what_was_not_told_is_counted(said: Said) -> None:
    for failure in ("a", None, "a", None, "a", None):
        said.try_once(failure)
    assert [line.partition(" after")[0] for _, line in said.lines] == ["source: a", "source answers again", "source: a"]
    said.try_once(None, 60.0)
    said.try_once(None)
    assert (
        said.lines[-1][1] == "source answers again after 2.0 s and 1 tries (it changed 2 times before without a line)"
    )
