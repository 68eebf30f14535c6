"""How counted errors are told."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from quickstart.notes import GATHER_SECONDS, Mishap, Notes, line


def test_a_line_says_when_what_and_how_often() -> None:
    at = time.mktime((2026, 3, 1, 21, 5, 9, 0, 0, -1))
    assert line(Mishap(at, "a step failed")) == "error at 21:05:09: a step failed"
    assert line(Mishap(at, "a step failed", 3)) == "error at 21:05:09: a step failed, 3 times since"


def test_the_first_of_a_kind_comes_at_once_and_the_rest_together() -> None:
    notes = Notes()
    assert notes.take([Mishap(0, "a"), Mishap(1, "b", 2)], 100) == [line(Mishap(0, "a")), line(Mishap(1, "b", 2))]
    assert notes.take([Mishap(2, "a")], 102) == []
    assert notes.take([Mishap(3, "a", 4)], 103) == []
    assert notes.take([], 100 + GATHER_SECONDS - 0.1) == []
    assert notes.take([], 100 + GATHER_SECONDS) == [line(Mishap(2, "a", 5))]
    assert notes.take([], 1000) == []


def test_what_still_waits_is_told_at_the_end() -> None:
    notes = Notes()
    notes.take([Mishap(0, "a")], 100)
    notes.take([Mishap(2, "a")], 102)
    assert notes.rest() == [line(Mishap(2, "a"))]
    assert notes.rest() == []


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 5), st.floats(0, 50)), max_size=40))
def test_every_error_is_told_once(steps: list[tuple[str, int, float]]) -> None:
    notes, now, told = Notes(), 0.0, []
    for words, count, passed in steps:
        now += passed
        told += notes.take([Mishap(now, words, count)], now)
    told += notes.rest()
    counts = [int(text.split(", ")[1].split()[0]) if ", " in text else 1 for text in told]
    assert sum(counts) == sum(count for _, count, _ in steps)
