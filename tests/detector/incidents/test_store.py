"""Closed incidents on disk: they come back, whatever happened to the files."""

from __future__ import annotations

import os
import re
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hwsonde_detector.errors import StateError
from hwsonde_detector.incidents.entry import (
    Entry,
    Mark,
    Query,
    State,
    entry_document,
    entry_of,
    read_entry,
    retained,
    select,
)
from hwsonde_detector.incidents.store import Store
from hwsonde_detector.types import Device, Subsystem

from .made import HOSTS, NOW, episode

DAY = 86_400_000


def entry(place: int, **more: object) -> Entry:
    host = HOSTS[place % len(HOSTS)]
    begin = NOW - 1_000_000 + 7000 * place
    made = entry_of(episode(begin, host, end_ms=begin + 5000), begin + 3000)
    return replace(made, **more)


def filled(folder: Path, count: int = 5, **kept: int) -> Store:
    store = Store(folder, **kept)
    assert store.open(NOW) == []
    for place in range(count):
        store.add(entry(place), {"place": place, "bad": float("nan")}, NOW)
    return store


def opened(folder: Path, now_ms: int = NOW, **kept: int) -> tuple[Store, list[str]]:
    store = Store(folder, **kept)
    return store, store.open(now_ms)


def test_incidents_and_marks_come_back_newest_first(tmp_path: Path) -> None:
    store = filled(tmp_path)
    store.mark(entry(1).id, Mark.NOISE, NOW, "ann")
    again, said = opened(tmp_path)
    assert said == []
    assert [one.id for one in again.entries()] == [entry(place).id for place in (4, 3, 2, 1, 0)]
    assert again.entries() == store.entries()
    known = again.get(entry(1).id)
    assert known is not None
    assert (known.mark, known.marked_ms, known.marked_by) == (Mark.NOISE, NOW, "ann")
    assert again.document(entry(3).id)["place"] == 3
    assert again.document("none") is None


def test_what_was_said_of_an_open_incident_is_kept_until_it_closes(tmp_path: Path) -> None:
    filled(tmp_path, 1).mark(entry(7).id, Mark.USEFUL, NOW, "")
    again, _ = opened(tmp_path)
    assert again.get(entry(7).id) is None
    assert again.marked_early(entry(7).id) == (Mark.USEFUL, NOW, "")
    third, _ = opened(tmp_path)
    third.add(entry(7), {}, NOW)
    assert third.get(entry(7).id).mark is Mark.USEFUL
    assert opened(tmp_path)[0].get(entry(7).id).mark is Mark.USEFUL


def test_one_that_closes_once_more_keeps_what_was_said(tmp_path: Path) -> None:
    store = filled(tmp_path, 1)
    store.mark(entry(0).id, Mark.USEFUL, NOW, "ann")
    store.add(entry(0, peak=9.0), {}, NOW)
    known = opened(tmp_path)[0].get(entry(0).id)
    assert (known.mark, known.marked_by, known.peak) == (Mark.USEFUL, "ann", 9.0)


def test_who_reads_does_not_wait_for_the_disk(tmp_path: Path, monkeypatch) -> None:
    store = filled(tmp_path, 1)
    began, go_on = threading.Event(), threading.Event()

    def slow(descriptor: int) -> None:
        began.set()
        go_on.wait(20)

    monkeypatch.setattr("os.fsync", slow)
    writing = threading.Thread(target=store.add, args=(entry(1), {"place": 1}, NOW))
    writing.start()
    assert began.wait(20)
    asked = threading.Thread(target=lambda: (store.entries(), store.get("x"), store.marks(), store.marked_early("x")))
    asked.start()
    asked.join(10)
    waited = asked.is_alive()
    assert store.document(entry(1).id) == {"place": 1}
    go_on.set()
    writing.join()
    asked.join()
    assert not waited
    assert len(store.entries()) == 2


def test_only_the_newest_are_kept_and_none_for_too_long(tmp_path: Path) -> None:
    store = filled(tmp_path, 9, most=4)
    assert [one.id for one in store.entries()] == [entry(place).id for place in (8, 7, 6, 5)]
    assert len(list(tmp_path.glob("*.json.gz"))) == 4
    again, said = opened(tmp_path, NOW + 2 * DAY, keep_ms=DAY)
    assert (said, again.entries(), list(tmp_path.glob("*.json.gz"))) == ([], (), [])


@pytest.mark.parametrize("cut", [1, 40, 200])
def test_a_line_that_a_crash_cut_off_is_taken_from_the_incidents_own_file(tmp_path: Path, cut: int) -> None:
    filled(tmp_path)
    index = tmp_path / "index.log"
    os.truncate(index, index.stat().st_size - cut)
    again, said = opened(tmp_path)
    assert len(again.entries()) == 5
    assert len(said) <= 1
    assert opened(tmp_path)[1] == []


@settings(max_examples=25)
@given(st.data())
def test_whatever_happens_to_the_index_no_incident_is_lost(tmp_path_factory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("kept")
    filled(folder, 3)
    index = folder / "index.log"
    content = bytearray(index.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    assume(not re.match(rb"hwsonde incidents [2-9]\n", content))
    index.write_bytes(content)
    again, _ = opened(folder)
    assert {one.id for one in again.entries()} == {entry(place).id for place in range(3)}
    again.add(entry(3), {}, NOW)
    assert len(opened(folder)[0].entries()) == 4


def lines_of(folder: Path) -> list[bytes]:
    return (folder / "index.log").read_bytes().splitlines()


def test_the_index_does_not_grow_with_marks(tmp_path: Path) -> None:
    store = filled(tmp_path, 3)
    most = 0
    for place in range(500):
        store.mark(entry(place % 4).id, (Mark.NOISE, Mark.USEFUL)[place % 2], NOW + place, "ann")
        most = max(most, len(lines_of(tmp_path)))
    assert 8 < most < 100
    again, said = opened(tmp_path)
    assert (said, again.entries(), again.marks()) == ([], store.entries(), store.marks())
    assert again.marked_early(entry(3).id) == store.marked_early(entry(3).id) == (Mark.USEFUL, NOW + 499, "ann")


def test_the_index_does_not_grow_with_what_is_forgotten(tmp_path: Path) -> None:
    store = filled(tmp_path, 0, most=4)
    most = 0
    for place in range(150):
        store.add(entry(place), {}, NOW)
        most = max(most, len(lines_of(tmp_path)))
    assert 10 < most < 100
    assert opened(tmp_path)[0].entries() == store.entries()


def test_an_index_that_cannot_be_written_anew_grows_on_and_loses_nothing(tmp_path: Path, caplog) -> None:
    store = filled(tmp_path, 1)
    (tmp_path / "index.log.new").mkdir()
    for place in range(150):
        store.mark(entry(0).id, Mark.NOISE, NOW + place, "ann")
    assert len(lines_of(tmp_path)) > 150
    said = [record.message for record in caplog.records if "not written anew" in record.message]
    assert len(said) == 2, "not tried again with every mark"
    (tmp_path / "index.log.new").rmdir()
    known = opened(tmp_path)[0].get(entry(0).id)
    assert known is not None
    assert known.marked_ms == NOW + 149
    assert len(lines_of(tmp_path)) == 2


def newer(folder: Path) -> dict[str, bytes]:
    filled(folder, 3)
    index = folder / "index.log"
    index.write_bytes(index.read_bytes().replace(b"incidents 1\n", b"incidents 2\n", 1) + b"what we do not know\n")
    (folder / f"{entry(1).id}.json.gz").write_bytes(b"as it is there")
    (folder / "index.log.new").write_bytes(b"half")
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_what_a_newer_version_wrote_is_left_as_it_is(tmp_path: Path) -> None:
    before = newer(tmp_path)
    store, said = opened(tmp_path, most=2)
    (line,) = said
    assert "\n" not in line
    assert "index.log: version 2 is newer than this program's 1; it is left as it is" in line
    for place in range(4, 8):
        store.add(entry(place), {"place": place}, NOW)
    store.mark(entry(7).id, Mark.NOISE, NOW, "ann")
    assert [one.id for one in store.entries()] == [entry(7).id, entry(6).id]
    assert store.document(entry(7).id) == {"place": 7}
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_who_only_looks_at_a_newer_version_is_told_so(tmp_path: Path) -> None:
    before = newer(tmp_path)
    with pytest.raises(StateError, match="version 2 is newer than this program's 1") as caught:
        Store(tmp_path).peek()
    assert "\n" not in str(caught.value)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == before


def test_who_only_looks_passes_damaged_lines_over_with_one_line(tmp_path: Path, caplog) -> None:
    filled(tmp_path)
    index = tmp_path / "index.log"
    whole = index.read_bytes()
    index.write_bytes(whole + b"00000000 {")
    store = Store(tmp_path)
    store.peek()
    assert len(store.entries()) == 5
    assert caplog.text == "", "the last line is being written"
    lines = whole.splitlines(keepends=True)
    index.write_bytes(b"".join([lines[0], lines[1].replace(b"7", b"8", 1), lines[2], b"rubbish\n", *lines[3:]]))
    store.peek()
    assert len(store.entries()) == 4
    assert [record.message.rpartition(": ")[2] for record in caplog.records] == ["2"]
    assert index.read_bytes().count(b"rubbish") == 1, "who looks changes nothing"


def test_a_lost_index_is_made_again_and_a_damaged_file_costs_only_itself(tmp_path: Path) -> None:
    filled(tmp_path)
    (tmp_path / "index.log").unlink()
    bad = tmp_path / f"{entry(2).id}.json.gz"
    bad.write_bytes(bad.read_bytes()[:-20])
    (tmp_path / "left.json.gz.new").write_bytes(b"half")
    again, said = opened(tmp_path)
    assert len(again.entries()) == 4
    assert len(said) == 2
    assert "damaged" in said[0]
    assert not list(tmp_path.glob("*.new"))


def test_a_damaged_document_is_one_line_and_the_entry_stays(tmp_path: Path) -> None:
    store = filled(tmp_path)
    file = tmp_path / f"{entry(2).id}.json.gz"
    file.write_bytes(file.read_bytes()[:40])
    with pytest.raises(StateError, match="damaged") as caught:
        store.document(entry(2).id)
    assert "\n" not in str(caught.value)
    assert store.get(entry(2).id) is not None
    file.unlink()
    assert store.document(entry(2).id) is None


def test_a_folder_that_cannot_be_written_is_one_line_and_nothing_is_lost_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(StateError, match=r"state\.dir"):
        Store(tmp_path / "file" / "inside").open(NOW)
    store = filled(tmp_path / "kept", 1)
    (tmp_path / "kept" / f"{entry(1).id}.json.gz.new").mkdir()
    with pytest.raises(StateError, match="make room"):
        store.add(entry(1), {"place": 1}, NOW)
    assert store.document(entry(1).id) == {"place": 1}
    assert len(store.entries()) == 2


def test_what_could_not_be_written_is_written_later(tmp_path: Path) -> None:
    """Also a mark, and an incident whose explanation did not fit into memory any more; one that is gone by then is not."""
    store = filled(tmp_path, 1, most=4)
    index, aside = tmp_path / "index.log", tmp_path / "aside"
    index.rename(aside)
    index.mkdir()
    for place in range(1, 6):
        with pytest.raises(StateError, match="make room"):
            store.add(entry(place), {"place": place}, NOW)
    assert len(store._owed) == 4, "one is gone"
    for place in (3, 7):
        with pytest.raises(StateError, match="make room"):
            store.mark(entry(place).id, Mark.NOISE, NOW, "ann")
    with pytest.raises(StateError, match=r"incident .* not written .*; make room"):
        store.write_again()
    (tmp_path / f"{entry(2).id}.json.gz").unlink()
    store._memory.pop(entry(2).id)
    index.rmdir()
    aside.rename(index)
    assert store.write_again() == 5
    assert store.write_again() == 0
    again, said = opened(tmp_path, most=4)
    assert said == []
    assert [one.id for one in again.entries()] == [entry(place).id for place in (5, 4, 3, 2)]
    assert again.entries() == store.entries()
    assert again.get(entry(3).id).mark is Mark.NOISE
    assert again.marked_early(entry(7).id) == (Mark.NOISE, NOW, "ann")
    kept = [again.document(entry(place).id) for place in (5, 4, 3, 2)]
    assert kept == [{"place": 5}, {"place": 4}, {"place": 3}, None]


def test_one_that_cannot_be_written_at_all_does_not_keep_the_others_from_it(tmp_path: Path) -> None:
    store = filled(tmp_path, 0)
    blocks = [tmp_path / f"{entry(place).id}.json.gz.new" for place in range(3)]
    for place, block in enumerate(blocks):
        block.mkdir()
        with pytest.raises(StateError):
            store.add(entry(place), {"place": place}, NOW)
    for block in blocks[1:]:
        block.rmdir()
    for _ in range(2):
        with pytest.raises(StateError, match=entry(0).id):
            store.write_again()
    assert {one.id for one in opened(tmp_path)[0].entries()} == {entry(1).id, entry(2).id}


def test_without_a_folder_all_is_kept_in_memory() -> None:
    store = Store(None, most=3)
    assert store.open(NOW) == []
    for place in range(5):
        store.add(entry(place), {"place": place}, NOW)
    assert [store.document(one.id)["place"] for one in store.entries()] == [4, 3, 2]
    store.mark(entry(4).id, Mark.NOISE, NOW, "")
    assert store.get(entry(4).id).mark is Mark.NOISE


@given(
    title=st.text(max_size=30),
    mark=st.sampled_from(Mark),
    device=st.none() | st.builds(Device, st.text(max_size=5), st.text(max_size=5)),
    end=st.none() | st.integers(0, 2**50),
    subsystem=st.sampled_from(Subsystem),
)
def test_an_entry_comes_back_from_its_document(title, mark, device, end, subsystem) -> None:
    one = entry(1, title=title, mark=mark, device=device, end_ms=end, subsystem=str(subsystem))
    assert read_entry(entry_document(one)) == one


@given(st.integers(0, 40), st.integers(1, 12), st.integers(-3, 60))
def test_pages_of_a_list_hold_every_incident_once(count: int, size: int, page: int) -> None:
    entries = [entry(place) for place in range(count)]
    pages = select(entries, Query(size=size)).pages
    seen = [one for number in range(1, pages + 1) for one in select(entries, Query(size=size, page=number)).entries]
    assert seen == entries
    assert 1 <= select(entries, Query(size=size, page=page)).page <= pages


def test_a_list_is_narrowed_by_state_part_host_and_mark() -> None:
    entries = [entry(0), entry(1, end_ms=None), entry(2, mark=Mark.NOISE, subsystem="gpu")]

    def found(**asked: object) -> list[Entry]:
        return list(select(entries, Query(**asked)).entries)

    assert found(state=State.OPEN) == entries[1:2]
    assert found(state=State.PAST) == [entries[0], entries[2]]
    assert found(subsystem="gpu") == found(mark="noise") == entries[2:]
    assert found(host="NODE18") == entries[1:2]
    assert found(host="busy_ratio") == entries
    assert found(node=entries[1].host) == entries[1:2]
    assert found(node=entries[1].host[:-1]) == found(node=entries[1].host.upper()) == []


@given(st.lists(st.integers(0, 100), max_size=20), st.integers(1, 10), st.integers(0, 100))
def test_retention_splits_and_loses_nothing(ends: list[int], most: int, keep: int) -> None:
    entries = [entry(place, end_ms=end) for place, end in enumerate(ends)]
    stay, go = retained(entries, 100, most, keep)
    assert sorted([*stay, *go], key=lambda one: one.id) == sorted(entries, key=lambda one: one.id)
    assert len(stay) <= most
    assert all(100 - one.end_ms <= keep for one in stay)
