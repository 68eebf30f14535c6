"""Stretches of time, what belongs to a fault, and the label file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.faults.errors import BenchError
from benchmarks.faults.labels import (
    GRACE_MS,
    Benign,
    Book,
    Injection,
    Session,
    decode,
    encode,
    guards,
    inside,
    intersect,
    length,
    united,
    without,
)

SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=6)


def seconds(spans: list[tuple[int, int]]) -> set[int]:
    """The slow way: every moment by itself."""
    return {at for start, end in spans for at in range(start, end)}


def session(**more: object) -> Session:
    values: dict[str, object] = {"seed": 1, "load": "quiet", "node": "n", "about": {}, "plan": [("a", 1), ("b", 1)]}
    return Session(**{**values, **more})  # type: ignore[arg-type]


@given(SPANS, SPANS)
def test_stretches_are_what_their_moments_are(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> None:
    for found, wanted in (
        (united(one), seconds(one)),
        (intersect(one, other), seconds(one) & seconds(other)),
        (without(one, other), seconds(one) - seconds(other)),
    ):
        assert seconds(found) == wanted
        assert length(found) == len(wanted)
        assert found == sorted(found)
        assert all(inside(at, found) == (at in wanted) for at in range(41))


def test_a_fault_owns_its_time_and_the_grace_after_it() -> None:
    one = session(
        segments=[[0, 50_000], [90_000, 200_000]],
        injections=[
            Injection("a", 1, ("cpu",), "n", 10_000, 20_000, effective=True),
            Injection("b", 1, ("cpu",), "n", 45_000),
        ],
    )
    assert guards([one]) == [(10_000, 20_000 + GRACE_MS), (45_000, 50_000 + GRACE_MS)]


def test_nothing_is_judged_before_the_end_of_learning() -> None:
    assert session(segments=[[0, 50]]).observed() == []
    assert session(segments=[[0, 50], [70, 90]], learned_ms=30).observed() == [(30, 50), (70, 90)]


def test_a_session_comes_back_as_it_was() -> None:
    one = session(
        about={"cpus": 2},
        segments=[[1, 2]],
        learned_ms=2,
        injections=[Injection("a", 1, ("cpu", "network"), "n", 1, 2, effective=True, effect="x", harm=0.25)],
        benign=[Benign("restart", 1, 2)],
        skipped={"b": "why"},
        done=1,
        stage="inject",
    )
    assert decode(encode([one])) == [one]


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"version": 1, "sessions": [{}]}', '{"version": 1, "sessions": [{"odd": 1}]}', "\x00"]
)
def test_damaged_labels_are_one_clear_line(text: str) -> None:
    with pytest.raises(BenchError, match=r"^x.json: .*(damaged|version)[^\n]*$"):
        decode(text, "x.json")


def test_labels_of_another_version_say_so() -> None:
    with pytest.raises(BenchError, match="version 7"):
        decode(json.dumps({"version": 7, "sessions": []}))


def test_a_killed_run_leaves_its_fault_marked_and_goes_on(tmp_path: Path) -> None:
    book = Book(tmp_path / "labels.json")
    assert book.unfinished() is None
    book.sessions.append(
        session(stage="inject", done=1, segments=[[0, 33_000]], injections=[Injection("a", 1, ("cpu",), "n", 30_000)])
    )
    book.save()
    again = Book(tmp_path / "labels.json")
    found = again.unfinished()
    assert found is not None
    assert (found.injections[0].aborted, found.injections[0].end_ms) == (True, 33_000)
    assert found.done == 1
    found.stage = "done"
    again.save()
    assert Book(tmp_path / "labels.json").unfinished() is None


def test_the_file_is_never_half_written(tmp_path: Path) -> None:
    book = Book(tmp_path / "labels.json")
    book.sessions.append(session())
    for number in range(20):
        book.sessions[0].done = number
        book.save()
        assert decode((tmp_path / "labels.json").read_text())[0].done == number
    assert [path.name for path in tmp_path.iterdir()] == ["labels.json"]
