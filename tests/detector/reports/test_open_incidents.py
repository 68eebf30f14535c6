"""The figures of a month count incidents that are open: the store has none of them, the saved state has."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from hwsonde_detector.config.loading import parse_config
from hwsonde_detector.engines.local import LocalEngine
from hwsonde_detector.hoststate import episode_document
from hwsonde_detector.incidents.entry import Entry, Mark, entry_of
from hwsonde_detector.incidents.store import FOLDER, Store
from hwsonde_detector.incidents.watchtime import WatchedDays
from hwsonde_detector.past.world import World
from hwsonde_detector.reports import kpi_program
from hwsonde_detector.reports.kpi import Span, figures
from hwsonde_detector.reports.kpi_program import KpiAsked, run_kpi
from hwsonde_detector.reports.opened import open_entries, seen_ms, with_open
from hwsonde_detector.showing import when
from hwsonde_detector.state import save_state
from hwsonde_detector.types import Entity, Scope
from tests.detector.incidents.made import book, episode
from tests.detector.incidents.test_real_engine import fault
from tests.detector.worker.hosts import PLAN, batches, rates

DAY = 86_400_000
NOW = 1_796_000_000_000
HOUR = 3_600_000
HOSTS = tuple(Entity((("cluster", "a"), ("node", f"n{place}"))) for place in range(5))


def pairs(host: Entity) -> list[list[str]]:
    return [list(pair) for pair in host.labels]


def opened(place: int, onset_ms: int = NOW - HOUR, **more: object):
    return episode(onset_ms, HOSTS[place], **more)


def engine(*open_ones, **fleet: object) -> dict[str, object]:
    """The engine's part of a state: all hosts, some of them with an open episode of their own."""
    by_host = {one.entity: one for one in open_ones}
    hosts = [
        {
            "entity": pairs(host),
            "watch": {"watched_ms": 10 * DAY, "pages": 0},
            "last_row_ms": NOW,
            "episode": episode_document(by_host[host]) if host in by_host else None,
        }
        for host in HOSTS
    ]
    return {"hosts": hosts, "fleet": {"held": [], "muted": [], "peers": [], **fleet}, "hushing": {}}


def found(document: dict[str, object], *, shadow: bool = False) -> list[tuple[str, str]]:
    return [(entry.host, entry.normal) for entry in open_entries(document, shadow=shadow)]


def test_the_worker_s_own_state_gives_what_the_book_shows() -> None:
    made, history, clock = book()
    running = LocalEngine(PLAN)
    for batch, now_ms in batches(rates(175, fault=fault)):
        outputs = running.step(batch, now_ms)
        history.take(outputs)
        made.take(outputs)
        clock.now = now_ms
    document = json.loads(json.dumps(running.snapshot()[0]))
    (known,) = made.entries()
    (entry,) = open_entries(document, shadow=False)
    assert entry == replace(known, told_ms=known.start_ms, peak=entry.peak)
    assert entry.end_ms is None
    assert entry.peak == pytest.approx(known.peak)


def test_what_is_not_told_is_no_incident() -> None:
    held, muted, peer = opened(0), opened(1), opened(2, scope=Scope.JOB)
    document = engine(
        held,
        muted,
        opened(3),
        held=[[pairs(HOSTS[0]), [NOW, episode_document(held), NOW]]],
        muted=[[pairs(HOSTS[1]), [pairs(HOSTS[3]), NOW]]],
        peers=[[pairs(HOSTS[2]), episode_document(peer)]],
    )
    assert found(document) == [("a/n3", ""), ("a/n2", "")]
    assert [entry.scope for entry in open_entries(document, shadow=False)] == ["host", "job"]


def test_a_host_has_one_incident_at_a_time() -> None:
    """Peers told first; the host's own episode follows that one."""
    document = engine(
        opened(1), muted=[[pairs(HOSTS[1]), [pairs(HOSTS[1]), NOW]]], peers=[[pairs(HOSTS[1]), episode_document(opened(1, NOW - 5000))]]
    )  # fmt: skip
    (entry,) = open_entries(document, shadow=False)
    assert entry.onset_ms == NOW - 5000


def test_what_counts_as_normal_and_the_shadow_are_no_pages() -> None:
    document = engine(opened(0), opened(1))
    document["hushing"] = {opened(1).identity: "silence 7"}
    assert found(document) == [("a/n0", ""), ("a/n1", "silence 7")]
    assert [entry.paged for entry in open_entries(document, shadow=False)] == [True, False]
    assert not any(entry.paged for entry in open_entries(document, shadow=True))


def test_a_state_of_an_older_version_has_none() -> None:
    assert open_entries({"hosts": [{"entity": pairs(HOSTS[0])}]}, shadow=False) == []


def test_each_incident_is_there_once_and_keeps_what_was_said_of_it() -> None:
    gone, again, normal = (entry_of(opened(place, end_ms=NOW), NOW - 10) for place in range(3))
    again = replace(again, mark=Mark.USEFUL, because="counts as normal: silence 1")
    still = {place: entry_of(opened(place), NOW - HOUR) for place in (1, 2, 3)}
    still[2] = replace(still[2], normal="silence 2")
    merged = with_open([gone, again, normal], still.values(), {still[3].id: (Mark.NOISE, NOW, "ann")}.get, NOW)
    by_host = {entry.host: entry for entry in merged}
    assert len(merged) == len(by_host) == 4
    assert by_host["a/n0"] == gone
    assert (by_host["a/n1"].end_ms, by_host["a/n1"].mark, by_host["a/n1"].told_ms) == (None, Mark.USEFUL, NOW - 10)
    assert by_host["a/n2"] == normal, "it was paged, has ended for those who were, and counts as normal since"
    assert (by_host["a/n3"].end_ms, by_host["a/n3"].mark, by_host["a/n3"].marked_by) == (None, Mark.NOISE, "ann")


@pytest.mark.parametrize(
    ("because", "end_ms", "over"),
    [
        ("quiet", NOW - 10, True),
        ("learned anew", NOW - 10, True),
        ("", NOW - 10, True),
        ("counts as normal: silence 1", NOW + 1, True),
        ("counts as normal: silence 1", NOW - 10, False),
    ],
)
def test_what_closed_after_the_state_was_saved_stays_closed(because: str, end_ms: int, over: bool) -> None:
    closed = entry_of(opened(0, end_ms=end_ms, because=because), NOW - HOUR)
    (entry,) = with_open([closed], [entry_of(opened(0), NOW - HOUR)], lambda _: None, NOW)
    assert (entry == closed) is over
    assert (entry.end_ms is None) is not over


def test_the_newest_row_of_a_state() -> None:
    document = engine()
    document["hosts"][1]["last_row_ms"] = NOW + 5
    document["hosts"][2]["last_row_ms"] = None
    assert seen_ms(document) == NOW + 5
    assert seen_ms({"hosts": [{"last_row_ms": None}]}) is None


def test_an_open_incident_lasts_until_now_and_no_longer() -> None:
    entries: list[Entry] = [entry_of(opened(0, NOW - 2 * HOUR), NOW - 2 * HOUR)]
    assert figures(entries, Span(NOW - DAY, NOW + DAY, NOW), WatchedDays(), "0")["host_hours"] == 2.0
    assert figures(entries, Span(NOW - DAY, NOW - HOUR, NOW - HOUR), WatchedDays(), "0")["host_hours"] == 1.0
    assert figures(entries, Span(NOW - DAY, NOW + HOUR), WatchedDays(), "0")["host_hours"] == 3.0


def days(first_ms: int, last_ms: int = NOW, hosts: int = 5, *, shadow: bool = False) -> list[list[int]]:
    """What the detector saves of hosts that were watched all the time."""
    edges = [first_ms, *range((first_ms // DAY + 1) * DAY, last_ms, DAY), last_ms]
    return [
        [begin, end, 0 if shadow else hosts * (end - begin), hosts * (end - begin) if shadow else 0]
        for begin, end in pairwise(edges)
    ]


def kpi(folder: Path, config: str = "") -> tuple[dict, str, str]:
    out, err = io.StringIO(), io.StringIO()
    world = World(lambda: NOW, lambda: 0.0, out=out, err=err)
    asked = KpiAsked(folder / "kpi", "-30d", "now")
    assert run_kpi(parse_config(f"state: {{dir: {folder}}}\n{config}".encode(), "f"), asked, world) == 0
    page = (folder / "kpi" / "kpi.html").read_text()
    return json.loads((folder / "kpi" / "kpi.json").read_bytes()), out.getvalue() + page, err.getvalue()


def kept(folder: Path, document: dict[str, object]) -> None:
    store = Store(folder / FOLDER)
    store.open(NOW)
    store.add(entry_of(opened(4, NOW - 5 * HOUR, end_ms=NOW - 4 * HOUR), NOW - 5 * HOUR), {}, NOW)
    store.mark(entry_of(opened(0), 0).id, Mark.USEFUL, NOW, "ann")
    save_state(folder, {"engine": document, "service": {"watched": days(NOW - 31 * DAY)}}, {})


def test_the_command_counts_open_and_closed_ones(tmp_path: Path) -> None:
    kept(tmp_path, engine(opened(0)))
    figured, said, err = kpi(tmp_path)
    assert err == ""
    assert (figured["incidents"], figured["open"], figured["useful"], figured["host_hours"]) == (2, 1, 1, 2.0)
    assert (figured["resolve_ms"]["longest"], figured["hosts"]) == (HOUR, 5)
    assert said.startswith(f"2 incidents, 1 of them open when last heard of, at {when(NOW)}, ")
    assert [row["name"] for row in figured["by_host"]] == ["a/n0", "a/n4"]
    hidden, page, _ = kpi(tmp_path, "web: {redact: [node]}")
    assert hidden["open"] == 1
    assert "n0" not in page
    silent, _, _ = kpi(tmp_path, "mode: shadow")
    assert (silent["open"], silent["shadow"]) == (0, 1)


def test_hours_of_a_detector_that_stopped_do_not_grow(tmp_path: Path) -> None:
    document = engine(opened(0, NOW - 20 * DAY))
    for host in document["hosts"]:
        host["last_row_ms"] = NOW - 20 * DAY + HOUR
    kept(tmp_path, document)
    figured, said, _ = kpi(tmp_path)
    assert (figured["open"], figured["host_hours"]) == (1, 2.0)
    stopped = NOW - 20 * DAY + HOUR
    assert figured["known_ms"] == stopped
    assert said.count(f"1 of them open when last heard of, at {when(stopped)}") == 2, "in the line and on the page"


def test_what_closes_while_both_are_read_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The detector closes an incident, and saves, between the first and the second that the command reads."""
    kept(tmp_path, engine(opened(0)))

    def first(name: str) -> None:
        read = getattr(kpi_program, name)

        def reads(*given: object) -> object:
            answer = read(*given)
            if not reading:
                store = Store(tmp_path / FOLDER)
                store.open(NOW)
                store.add(entry_of(opened(0, end_ms=NOW - 10, because="quiet"), NOW - HOUR), {}, NOW)
                save_state(tmp_path, {"engine": engine(), "service": {"watched": days(NOW - 31 * DAY)}}, {})
            reading.append(name)
            return answer

        monkeypatch.setattr(kpi_program, name, reads)

    reading: list[str] = []
    first("kept")
    first("peek_state")
    figured, _, _ = kpi(tmp_path)
    assert sorted(reading) == ["kept", "peek_state"]
    assert (figured["incidents"], figured["open"]) == (2, 0)


def test_a_state_that_cannot_be_read_is_one_line_and_closed_ones_still_count(tmp_path: Path) -> None:
    kept(tmp_path, {"hosts": [{"entity": None}]})
    figured, _, err = kpi(tmp_path)
    assert (figured["incidents"], figured["open"], figured["hosts"]) == (1, 0, 0)
    assert err.count("\n") == 1
    assert "what is open is not known" in err
