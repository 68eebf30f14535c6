"""Incidents from the first window to the disk and back."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector.incidents import book as books
from hwsonde_detector.incidents.book import Book
from hwsonde_detector.incidents.entry import Mark
from hwsonde_detector.incidents.lines import Line
from hwsonde_detector.incidents.watching import Watched, Watching
from hwsonde_detector.types import EpisodeEvent, Hushed, Outputs, Phase

from .made import FINDING, NOW, SICK, book, episode, run, score, step

ONSET = NOW - 100_000
DAY = 86_400_000


def written(made: Book) -> None:
    made.start()
    made.stop()


def test_an_open_incident_is_explained_from_what_was_seen() -> None:
    made, history, _ = book()
    one = run(made, history, ONSET, close=False)
    (entry,) = made.entries()
    assert (entry.identity, entry.end_ms, entry.told_ms) == (one.identity, None, ONSET + 3000)
    document = made.document(entry.id)
    assert document is not None
    (cause, *_) = document["causes"]
    assert cause["subsystem"] == "cpu"
    assert cause["next"]
    busy = cause["channels"][0]
    assert busy["channel"] == "cpu_sampled_busy_ratio"
    chart = busy["chart"]
    assert chart["values"][0] == 0.2, "the rows before the onset are shown"
    assert chart["values"][-1] == 0.98
    assert [one["at_ms"] for one in cause["moved"]] == [ONSET, ONSET + 5000]
    assert cause["moved"][0]["uncertainty_ms"] == 1000
    assert cause["others"]["sentence"].startswith("Only a/node17 of the 3 hosts of a/h100 shows it; 2 stayed")
    assert document["settings"][0]["setting"] == FINDING.setting
    assert document["scores"]["times"][0] < ONSET
    assert max(document["scores"]["fused"]) == pytest.approx(2.6, abs=1e-3)
    assert not document["heard_late"]


def test_a_closed_incident_outlasts_a_restart(tmp_path: Path) -> None:
    made, history, _ = book(tmp_path)
    one = run(made, history, ONSET)
    before = made.document(made.entries()[0].id)
    written(made)
    again, _, _ = book(tmp_path)
    (entry,) = again.entries()
    assert (entry.identity, entry.end_ms) == (one.identity, ONSET + 20_000)
    assert again.document(entry.id) == before
    assert made.entries() == again.entries()


def test_what_only_the_state_knows_is_kept_once(tmp_path: Path) -> None:
    past = [episode(ONSET + 1000 * place, end_ms=ONSET + 1000 * place + 500) for place in (3, 2, 1)]
    made, _, _ = book(tmp_path)
    made.resume(past)
    assert [entry.identity for entry in made.entries()] == [one.identity for one in past]
    written_ns = {file.name: file.stat().st_mtime_ns for file in tmp_path.glob("*.gz")}
    again, _, _ = book(tmp_path)
    again.resume(past)
    assert {file.name: file.stat().st_mtime_ns for file in tmp_path.glob("*.gz")} == written_ns
    document = again.document(again.entries()[0].id)
    assert document["causes"][0]["channels"], "what the episode carries itself is shown"
    assert document["heard_late"]


def test_a_mark_on_an_open_incident_stays_when_it_closes(tmp_path: Path) -> None:
    made, history, _ = book(tmp_path)
    one = run(made, history, ONSET, close=False)
    name = made.entries()[0].id
    assert made.mark(name, Mark.NOISE, "ann").mark is Mark.NOISE
    assert made.mark("20261129T192341Z-000000000000", Mark.NOISE, "") is None
    ended = replace(one, end_ms=ONSET + 30_000)
    made.take(step(ONSET + 30_000, events=(EpisodeEvent(Phase.CLOSED, ONSET + 30_000, ended),)))
    written(made)
    (entry,) = book(tmp_path)[0].entries()
    assert (entry.mark, entry.marked_by) == (Mark.NOISE, "ann")


def test_a_full_disk_is_told_once_and_loses_nothing_of_the_present(tmp_path: Path, caplog) -> None:
    made, history, _ = book(tmp_path / "kept")
    for place in range(2):
        run(made, history, ONSET + 40_000 * place)
    for entry in made.entries():
        (tmp_path / "kept" / f"{entry.id}.json.gz.new").mkdir()
    written(made)
    assert len([record for record in caplog.records if "not written" in record.message]) == 1
    assert all(made.document(entry.id)["causes"] for entry in made.entries())


class FullDisk:
    """Nothing reaches the disk until there is room."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = True
        monkeypatch.setattr(os, "fsync", self.fsync)

    def fsync(self, number: int) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")


def patiently(holds: Callable[[], bool]) -> None:
    ends = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.01)


def infos(caplog) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelname == "INFO"]


@pytest.mark.parametrize("when", ["after a while", "at the end", "with the next one"])
def test_what_met_a_full_disk_is_written_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog, when: str
) -> None:
    caplog.set_level("INFO", "hwsonde_detector.incidents")
    made, history, _ = book(tmp_path)
    for place in range(2):
        run(made, history, ONSET + 40_000 * place)
    documents = {entry.id: made.document(entry.id) for entry in made.entries()}
    disk = FullDisk(monkeypatch)
    if when == "after a while":
        monkeypatch.setattr(books, "_FORGET_S", 0.02)
    made.start()
    try:
        patiently(lambda: not made._closing)
        assert len([record for record in caplog.records if "not written" in record.message]) == 1
        disk.full = False
        if when == "with the next one":
            run(made, history, ONSET + 80_000)
        if when != "at the end":
            patiently(lambda: bool(infos(caplog)))
            assert len(list(tmp_path.glob("*.json.gz"))) == len(made.entries())
    finally:
        made.stop()
    assert infos(caplog) == ["incidents: are written again, with 2 that could not be before"]
    again, _, _ = book(tmp_path)
    assert again.entries() == made.entries()
    assert {name: again.document(name) for name in documents} == documents


def test_what_a_newer_version_kept_is_told_once_and_the_present_goes_on_in_memory(tmp_path: Path, caplog) -> None:
    (tmp_path / "index.log").write_bytes(b"hwsonde incidents 2\nwhat we do not know\n")
    made, history, _ = book(tmp_path)
    made.resume([episode(ONSET - 1000, end_ms=ONSET - 500)])
    run(made, history, ONSET)
    written(made)
    assert len(made.entries()) == 2
    assert all(made.document(entry.id)["causes"] for entry in made.entries())
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "version 2 is newer" in caplog.text
    assert [(file.name, file.stat().st_size) for file in tmp_path.iterdir()] == [("index.log", 40)]


def test_listeners_hear_of_each_incident_twice() -> None:
    made, history, _ = book()
    heard = []
    made.listeners.append(lambda entry, what: heard.append((what, entry.end_ms)))
    run(made, history, ONSET)
    assert heard == [("opened", None), ("closed", ONSET + 20_000)]


@pytest.mark.parametrize("lost", [False, True])
def test_relearning_ends_what_is_open(*, lost: bool) -> None:
    made, history, clock = book()
    run(made, history, ONSET, close=False)
    made.clear(())
    (entry,) = made.entries()
    assert entry.end_ms is None, "nobody was lost"
    made.clear({SICK} if lost else None)
    written(made)
    (entry,) = made.entries()
    assert (entry.end_ms, entry.because) == (clock.now_ms(), "learned anew")


def test_what_is_kept_of_a_long_incident_is_bounded_and_keeps_its_beginning() -> None:
    watched = Watched(episode(0), 0)
    watched.hear(score(SICK, 1000 * second, 2.0) for second in range(20_000))
    ends = [one.end_ms for one in watched.scores]
    assert len(ends) <= 480
    assert ends[:100] == list(range(0, 100_000, 1000))
    assert ends == sorted(set(ends))
    assert ends[-1] > 19_000_000


@given(st.lists(st.floats(-1e9, 1e9), min_size=1, max_size=3000))
def test_a_line_is_bounded_and_keeps_its_extremes(values: list[float]) -> None:
    line = Line(40)
    for place, value in enumerate(values):
        line.add(place, value)
    assert len(line.times) <= 40
    assert line.times == sorted(set(line.times))
    rounded = [float(f"{value:.6g}") for value in values]
    assert (min(line.values), max(line.values)) == (min(rounded), max(rounded))


def test_a_host_that_is_gone_leaves_nothing_behind() -> None:
    watching = Watching()
    watching.take(step(NOW))
    watching.take(Outputs(gone=(SICK,)))
    assert SICK not in watching.before
    assert SICK not in watching.circles


def test_ten_thousand_steps_do_not_grow() -> None:
    watching = Watching()
    for second in range(300):
        watching.take(step(NOW + 1000 * second, open_one=episode(NOW), loud=True))
    watched = watching.open[episode(NOW).identity]
    assert max(len(line.times) for line in watched.lines.values()) <= 480
    assert max(map(len, watching.before.values())) <= 16


def test_closing_hundreds_at_once_does_not_hold_the_loop(tmp_path: Path) -> None:
    made, history, _ = book(tmp_path)
    history.take(step(ONSET))
    events = []
    for place in range(100):
        one = episode(ONSET + place, end_ms=NOW)
        events.append(EpisodeEvent(Phase.CLOSED, NOW, one))
    began = time.process_time()
    made.take(step(NOW, events=tuple(events)))
    alone = time.process_time() - began
    began = time.process_time()
    written(made)
    assert alone < time.process_time() - began, "explaining and writing belong to another thread"
    assert len(made.entries()) == 100


def hushed(at_ms: int, one, phase: Phase, *, shown: bool = True) -> Outputs:
    made = step(at_ms, loud=True)
    reports = tuple(
        replace(report, normal=((one, "silence 1"),)) if shown and report.entity == one.entity else report
        for report in made.reports
    )
    return replace(made, reports=reports, hushed=(Hushed(EpisodeEvent(phase, at_ms, one), "silence", "silence 1"),))


def test_what_counts_as_normal_is_kept_and_told_to_nobody(tmp_path: Path) -> None:
    made, _, _ = book(tmp_path)
    heard = []
    made.listeners.append(lambda entry, what: heard.append(what))
    one = episode(ONSET)
    made.take(hushed(ONSET + 3000, one, Phase.OPENED))
    (entry,) = made.entries()
    assert (entry.normal, entry.paged, entry.end_ms) == ("silence 1", False, None)
    made.take(hushed(ONSET + 9000, replace(one, end_ms=ONSET + 9000), Phase.CLOSED, shown=False))
    written(made)
    assert heard == []
    (entry,) = book(tmp_path)[0].entries()
    assert (entry.normal, entry.end_ms) == ("silence 1", ONSET + 9000)


def test_one_that_outlasts_its_silence_is_told_then() -> None:
    made, _, _ = book()
    heard = []
    made.listeners.append(lambda entry, what: heard.append((what, entry.told_ms)))
    one = episode(ONSET)
    made.take(hushed(ONSET + 3000, one, Phase.OPENED))
    made.take(step(ONSET + 9000, open_one=one, events=(EpisodeEvent(Phase.OPENED, ONSET + 9000, one),), loud=True))
    (entry,) = made.entries()
    assert (entry.normal, entry.told_ms) == ("", ONSET + 9000)
    assert heard == [("opened", ONSET + 9000)]


def test_one_that_was_paged_stays_one_that_was_paged() -> None:
    made, _, _ = book()
    one = episode(ONSET)
    made.take(step(ONSET + 3000, open_one=one, events=(EpisodeEvent(Phase.OPENED, ONSET + 3000, one),), loud=True))
    ended = EpisodeEvent(Phase.CLOSED, ONSET + 5000, replace(one, end_ms=ONSET + 5000, because="counts as normal"))
    made.take(replace(hushed(ONSET + 5000, one, Phase.OPENED), events=(ended,)))
    written(made)
    assert [entry.normal for entry in made.entries()] == [""]
    made.take(hushed(ONSET + 9000, replace(one, end_ms=ONSET + 9000), Phase.CLOSED, shown=False))
    assert [(entry.normal, entry.end_ms) for entry in made.entries()] == [("", ONSET + 9000)]


def test_where_nothing_closes_what_is_too_old_goes_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(books, "_FORGET_S", 0.02)
    made, history, clock = book(tmp_path, keep_ms=7 * DAY)
    run(made, history, ONSET)
    run(made, history, ONSET + 3 * DAY)
    made.start()
    try:
        ends = time.monotonic() + 30
        while len(list(tmp_path.glob("*.json.gz"))) < 2:
            assert time.monotonic() < ends
            time.sleep(0.01)
        clock.now = NOW + 8 * DAY
        while len(made.entries()) > 1 or len(list(tmp_path.glob("*.json.gz"))) > 1:
            assert time.monotonic() < ends
            time.sleep(0.01)
    finally:
        made.stop()
    (entry,) = made.entries()
    assert entry.onset_ms == ONSET + 3 * DAY
    again, _, _ = book(tmp_path, keep_ms=365 * DAY)
    assert [one.id for one in again.entries()] == [entry.id], "it is gone from the disk"
