"""Incidents over HTTP: lists, pages, JSON; nothing from outside becomes markup, nothing waits."""

from __future__ import annotations

import dataclasses
import json
import re
import tarfile
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector.incidents import pages
from hwsonde_detector.incidents.entry import Query
from hwsonde_detector.incidents.pages import Pages, read_query
from hwsonde_detector.redaction import Redactor
from hwsonde_detector.web.app import App, Metrics
from hwsonde_detector.web.links import incident_links
from tests.detector.web.data import HOSTILE, NOW, entity, fleet
from tests.detector.web.test_app import ask

from .made import SICK, book, run

ONSET = NOW - 100_000
VOID = {"meta", "link", "input", "br", "rect", "line", "circle", "path"}


class Shape(HTMLParser):
    """Sees that elements are closed in order, ids are there once, and fields and headings are as they must be."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open, self.ids, self.labels, self.fields, self.headings = [], [], [], [], []
        self.pointed: list[str] = []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if "id" in given:
            self.ids.append(given["id"])
        if tag == "label":
            self.labels.append(given["for"])
        if tag in ("select", "input") and given.get("type") != "hidden":
            self.fields.append(given["id"])
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if "aria-labelledby" in given:
            self.pointed += given["aria-labelledby"].split()
        assert "style" not in given, "the content security policy forbids it"
        assert not any(name.startswith("on") for name in given)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def sound(page: str) -> None:
    shape = Shape(page)
    assert len(shape.ids) == len(set(shape.ids))
    assert sorted(shape.labels) == sorted(shape.fields)
    assert set(shape.pointed) <= set(shape.ids)
    assert shape.headings[0] == 1
    assert shape.headings.count(1) == 1
    assert all(after <= before + 1 for before, after in zip(shape.headings, shape.headings[1:], strict=False))


def made(folder: Path | None = None, **more):
    known, history, clock = book(folder)
    board, _ = fleet()
    answering = Pages(known, board, clock, **more)
    return App(board, history, clock, Metrics("", lambda *_: b""), (answering,)), known, history


def text(app: App, path: str, status: int = 200) -> str:
    found = ask(app, path)
    assert found[0] == status, found
    return found[2].decode()


def test_an_incident_has_a_page_and_json_beside_it() -> None:
    app, known, history = made()
    run(known, history, ONSET, close=False)
    (entry,) = known.entries()
    page = text(app, f"/incidents/{entry.id}")
    sound(page)
    assert re.search(r"<h1[^>]*>a/node17 cpu: cpu_sampled_busy_ratio 98\.1 %, expected at most 29 %", page)
    for heading in (
        "Cause 1",
        "What to check next",
        "What changed first",
        "Compared with its peers",
        "Settings that differ",
        "Alerts",
    ):
        assert heading in page
    assert "&plusmn; 1 s" in page
    assert "Only a/node17 of the 3 hosts" in page
    assert "3 of" not in page
    assert "2 of 2 peers have performance" in page
    assert "Not asked" in page
    assert page.count("<svg") >= 2
    assert "live.js" in page
    document = json.loads(text(app, f"/incidents/{entry.id}.json"))
    assert document["incident"]["state"] == "open"
    assert document["causes"][0]["subsystem"] == "cpu"
    assert document["alerts"]["state"] == "not asked"
    assert "http://127.0.0.1:9090/graph?" in document["links"]["prometheus"]
    assert "g0.range_input" in document["links"]["prometheus"]
    assert "grafana" not in document["links"], "its address is none that a browser may follow"


def test_an_open_incident_can_be_taken_away_as_files() -> None:
    app, known, history = made(redactor=Redactor(["node"], b"key"))
    run(known, history, ONSET, close=False)
    name = known.entries()[0].id
    status, headers, body = ask(app, f"/incidents/{name}.tar.gz")
    assert (status, headers["Content-Type"]) == (200, "application/gzip")
    assert headers["Content-Disposition"] == f'attachment; filename="{name}.tar.gz"'
    with tarfile.open(fileobj=BytesIO(body)) as archive:
        files = {one.name: archive.extractfile(one).read() for one in archive.getmembers()}
    assert set(files) == {f"{name}/{one}" for one in ("incident.json", "summary.txt", "SHA256SUMS")}
    assert json.loads(files[f"{name}/incident.json"])["causes"]
    assert b"node17" not in b"".join(files.values())


def test_a_closed_incident_keeps_its_address_and_needs_no_script(tmp_path: Path) -> None:
    app, known, history = made(tmp_path)
    run(known, history, ONSET, close=False)
    name = known.entries()[0].id
    run(known, history, ONSET)
    known.start()
    known.stop()
    page = text(app, f"/incidents/{name}")
    sound(page)
    assert "Closed after 20 s" in page
    assert "<script" not in page


def test_lists_are_narrowed_and_paged() -> None:
    app, known, history = made()
    for place in range(5):
        run(known, history, ONSET + 100 * place)
    run(known, history, ONSET + 60_000, close=False)
    known.start()
    known.stop()
    listed = json.loads(text(app, "/api/v1/incidents"))
    assert (listed["found"], [one["state"] for one in listed["incidents"]]) == (6, ["open"] + ["closed"] * 5)
    page = text(app, "/incidents")
    sound(page)
    assert page.count('href="incidents/') == 6
    environ = {"REQUEST_METHOD": "GET", "PATH_INFO": "/incidents", "QUERY_STRING": "size=2&page=2&state=past"}
    body = b"".join(app(environ, lambda *_: None)).decode()
    sound(body)
    assert body.count('href="incidents/') == 2
    assert 'rel="prev" href="incidents?state=past&amp;size=2"' in body
    assert 'rel="next" href="incidents?state=past&amp;size=2&amp;page=3"' in body
    assert "page 2 of 3" in body
    environ["QUERY_STRING"] = "node=a%2Fnode17&size=2&state=past"
    body = b"".join(app(environ, lambda *_: None)).decode()
    sound(body)
    assert body.count('href="incidents/') == 2
    assert 'Only a/node17. <a href="incidents?state=past&amp;size=2">All hosts</a>' in body
    assert 'type="hidden" name="node" value="a/node17"' in body, "the form narrows further"
    assert 'rel="next" href="incidents?node=a%2Fnode17&amp;state=past&amp;size=2&amp;page=2"' in body
    environ["QUERY_STRING"] = "node=a%2Fnode1"
    assert b"".join(app(environ, lambda *_: None)).decode().count('href="incidents/') == 0


def test_nothing_from_outside_becomes_markup(tmp_path: Path) -> None:
    app, known, history = made(tmp_path)
    one = run(known, history, ONSET, host=SICK)
    hostile = dataclasses.replace(
        one, entity=entity(HOSTILE), identity=f"{HOSTILE}@1", title=HOSTILE, because=HOSTILE, end_ms=ONSET + 5000
    )
    known.resume([hostile])
    for entry in known.entries():
        page = text(app, f"/incidents/{entry.id}")
        sound(page)
        assert HOSTILE not in page
    page = text(app, "/incidents")
    assert HOSTILE not in page
    assert "&lt;script&gt;" in page


def test_hosts_are_shown_under_other_names_where_that_is_wanted(tmp_path: Path) -> None:
    app, known, history = made(tmp_path, redactor=Redactor(["node"], b"key"))
    run(known, history, ONSET)
    run(known, history, ONSET + 40_000, close=False)
    known.start()
    known.stop()
    names = [entry.id for entry in known.entries()]
    for path in (
        "/incidents",
        "/api/v1/incidents",
        *(f"/incidents/{name}{end}" for name in names for end in ("", ".json")),
    ):
        body = text(app, path)
        assert "a/node-" in body
        for name in ("node17", "node18", "node19"):
            assert name not in body, path
    listed = json.loads(text(app, "/api/v1/incidents"))["incidents"]
    assert listed[0]["labels"]["node"].startswith("node-")


def test_a_damaged_file_is_said_on_the_page_and_its_place_in_the_log_alone(tmp_path: Path, caplog) -> None:
    app, known, history = made(tmp_path)
    run(known, history, ONSET)
    known.start()
    known.stop()
    (file,) = tmp_path.glob("*.gz")
    file.write_bytes(b"nothing")
    page = text(app, f"/incidents/{known.entries()[0].id}")
    sound(page)
    assert "damaged" in page
    name = known.entries()[0].id
    said = text(app, f"/incidents/{name}.json")
    assert "list entry is all that is left" in json.loads(said)["damaged"]
    with tarfile.open(fileobj=BytesIO(ask(app, f"/incidents/{name}.tar.gz")[2])) as archive:
        packed = b"".join(archive.extractfile(one).read() for one in archive.getmembers()).decode()
    assert "list entry is all that is left" in packed
    for answer in (page, said, packed):
        assert str(tmp_path) not in answer
        assert file.name not in answer
    told = [record.message for record in caplog.records if str(file) in record.message]
    assert len(told) == 1, "one line, however often it is asked for"


def test_what_was_said_of_damaged_files_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog) -> None:
    monkeypatch.setattr(pages, "_REMEMBERED", 3)
    known, _, clock = book(tmp_path)
    made_pages = Pages(known, fleet()[0], clock)
    for place in (0, 1, 2, 3, 3, 4):
        made_pages._tell(f"n{place}", f"of {place}")
    assert list(made_pages._told) == ["n2", "n3", "n4"]
    assert [record.message for record in caplog.records] == [f"incidents: of {place}" for place in range(5)]


def test_a_file_that_cannot_be_read_is_said_without_its_place(tmp_path: Path) -> None:
    app, known, history = made(tmp_path)
    run(known, history, ONSET)
    known.start()
    known.stop()
    (file,) = tmp_path.glob("*.gz")
    file.unlink()
    file.mkdir()
    said = text(app, f"/incidents/{known.entries()[0].id}.json")
    assert "cannot be read" in json.loads(said)["damaged"]
    assert str(tmp_path) not in said


@pytest.mark.parametrize(
    "path", ["/incidents/", "/incidents/x", "/incidents/20261129T192341Z-000000000000", "/incidents/../state.npz"]
)
def test_what_there_is_not_is_one_line(path: str) -> None:
    app, _, _ = made()
    body = text(app, path, 404)
    assert body.count("\n") == 1


def test_nothing_is_changed_by_other_methods() -> None:
    app, known, history = made()
    run(known, history, ONSET, close=False)
    for path in ("/incidents", f"/incidents/{known.entries()[0].id}", "/api/v1/incidents"):
        assert ask(app, path, "DELETE")[0] == 405
        status, _, body = ask(app, path, "HEAD")
        assert (status, body) == (200, b"")


@given(st.text(max_size=60))
def test_any_query_is_read(query: str) -> None:
    asked = read_query(query)
    assert 1 <= asked.size <= 500
    assert asked.page >= 1


def test_queries_that_make_sense_are_kept() -> None:
    assert read_query("host=n%2017&state=open&subsystem=gpu&mark=noise&page=3") == Query(
        "open", "gpu", "noise", "n 17", 3
    )  # type: ignore[arg-type]
    assert read_query("state=maybe&subsystem=soul&mark=x&page=-1&size=99999") == Query(size=500)
    assert read_query("node=a%2Fn1&state=open") == Query("open", node="a/n1")  # type: ignore[arg-type]


def test_links_carry_the_time_of_the_incident() -> None:
    links = {"prometheus": "http://p:9090/", "grafana": "http://g:3000", "alertmanager": "http://a:9093"}
    closed = incident_links(links, SICK, ONSET, ONSET + 60_000)
    assert f"from={ONSET - 900_000}&to={ONSET + 960_000}" in closed["grafana"]
    assert "g0.range_input=1860s" in closed["prometheus"]
    assert "g0.end_input=" in closed["prometheus"]
    still = incident_links(links, SICK, ONSET, None)
    assert still["grafana"].endswith("to=now")
    assert "g0.end_input" not in still["prometheus"]
    assert still["alertmanager"] == "http://a:9093"


def test_a_list_reads_no_file_of_an_incident(tmp_path: Path) -> None:
    from .test_store import entry

    app, known, _ = made(tmp_path)
    for place in range(200):
        known.store._put(dataclasses.replace(entry(place), id=f"20261129T192341Z-{place:012x}"))
    assert not list(tmp_path.glob("*.gz")), "there is nothing that could be read"
    assert text(app, "/incidents").count('href="incidents/') == 50
