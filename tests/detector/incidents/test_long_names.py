"""Hosts with long names under other names: what is shortened, escaped or cut is still found, and nothing of a name is left anywhere."""

from __future__ import annotations

import json
import tarfile
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector.explain.titles import title
from hwsonde_detector.explain.verdict import brief
from hwsonde_detector.incidents.evidence import evidence_files
from hwsonde_detector.incidents.pages import Pages
from hwsonde_detector.redaction import Redactor, Replacing, replaced
from hwsonde_detector.signals.layout import channel_name
from hwsonde_detector.types import Channel, Contribution, Device, Entity, Subsystem
from hwsonde_detector.web.app import App, Metrics
from tests.detector.web.data import NOW, entity, fleet
from tests.detector.web.test_app import ask

from . import made
from .made import book, run

ONSET = NOW - 100_000
# Hosts whose names differ in the middle, which is what shortening leaves out, and one whose name is all its own.
LONG = tuple(
    entity(f"rack-of-the-{what}-building-{'x' * 90}-{what}-position-of-the-machine-{what}")
    for what in ("amber", "birch", "cedar")
)
WORDS = ("amber", "birch", "cedar", "building", "position", "machine", "rack-of")
REDACTOR = Redactor(["node"], b"key")


@pytest.fixture
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A detector with an incident that is over and one that is open, seen under other names."""
    monkeypatch.setattr(made, "HOSTS", LONG)
    monkeypatch.setattr(made, "SICK", LONG[0])
    known, history, clock = book(tmp_path)
    run(known, history, ONSET, host=LONG[0])
    run(known, history, ONSET + 40_000, close=False, host=LONG[0])
    known.start()
    known.stop()
    board, _ = fleet()
    pages = Pages(known, board, clock, redactor=REDACTOR)
    return App(board, history, clock, Metrics("", lambda *_: b""), (pages,)), known


def test_nothing_of_a_long_name_is_left_on_any_page_or_in_any_file(shown) -> None:
    app, known = shown
    for entry in known.entries():
        for end in ("", ".json", ".tar.gz"):
            status, _, body = ask(app, f"/incidents/{entry.id}{end}")
            assert status == 200
            if end == ".tar.gz":
                with tarfile.open(fileobj=BytesIO(body)) as archive:
                    body = b"".join(archive.extractfile(one).read() for one in archive.getmembers())
            text = body.decode()
            assert "a/node-" in text
            assert [word for word in WORDS if word in text] == [], end
    for path in ("/incidents", "/api/v1/incidents"):
        assert [word for word in WORDS if word in ask(app, path)[2].decode()] == []


def test_sentences_hold_names_whole_and_pages_show_them_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made, "HOSTS", LONG)
    monkeypatch.setattr(made, "SICK", LONG[0])
    known, history, clock = book(tmp_path)
    run(known, history, ONSET, close=False, host=LONG[0])
    (entry,) = known.entries()
    cause = known.document(entry.id)["causes"][0]
    assert cause["sentence"].startswith(f"{LONG[0]}: ")
    assert str(LONG[0]) in cause["others"]["sentence"]
    assert str(LONG[0]) in cause["before"]["sentence"]
    app = App(fleet()[0], history, clock, Metrics("", lambda *_: b""), (Pages(known, fleet()[0], clock),))
    page = ask(app, f"/incidents/{entry.id}")[2].decode()
    assert "of the 3 hosts of a/h100" in page, "what a sentence says is shown beside its names"


def test_documents_that_were_kept_with_shortened_names_show_none(shown) -> None:
    """Versions before shortened names in what they kept, and that is read on."""
    _, known = shown
    entry = next(one for one in known.entries() if one.end_ms is not None)
    kept = known.document(entry.id)
    text = json.dumps(kept)
    for host in LONG:
        text = text.replace(str(host), json.dumps(brief(str(host)))[1:-1])
    old = json.loads(text)
    assert "…" in old["causes"][0]["sentence"]
    names = REDACTOR.known(LONG)
    said = json.dumps(replaced({**old, "hosts_named": []}, names), ensure_ascii=False)
    assert [word for word in WORDS if word in said] == []
    assert names[dict(LONG[0].labels)["node"]] in said


KNOWN = {
    "gpu-node-of-hall-seven-0017": "node-1",
    "gpu-node-of-hall-seven-0018": "node-2",
    'odd "name" \\ of it': "node-3",
    "other": "node-4",
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("lab/gpu-node…seven-0017: busy", "lab/node-1…: busy"),
        ("lab/gpu-node…seven-0018: busy", "lab/node-2…: busy"),
        ("gpu-node-of-hall-seven-0017, then gpu-node-of-hall-s…", "node-1, then …"),
        ("ends in oth…", "ends in node-4…"),
        ("ends in oth...", "ends in node-4..."),
        ("…ther is gone", "…node-4 is gone"),
        ("gpu-node…ther", "…node-4"),
        ('{mount="odd \\"name\\" \\\\ of it"}', '{mount="node-3"}'),
        ('so odd "name" \\ of it is', "so node-3 is"),
        ('cut at odd "na…', "cut at node-3…"),
        ("nothing of the kind… is here", "nothing of the kind… is here"),
    ],
)  # fmt: skip
def test_what_is_left_of_a_value_is_replaced(text: str, expected: str) -> None:
    assert replaced(text, KNOWN) == expected


@given(st.sampled_from(LONG), st.integers(30, 140), st.text("ab. ", max_size=20))
def test_a_shortened_name_never_shows(host: Entity, most: int, after: str) -> None:
    said = replaced(f"since 02:14:07Z {brief(str(host), most)} {after}", REDACTOR.known(LONG))
    assert [word for word in WORDS if word in said] == []


@pytest.mark.parametrize("place", range(20, 140, 7))
def test_titles_that_are_bounded_show_nothing_of_a_value(place: int) -> None:
    value = "secret-mount-point-of-somebody"
    channel = Channel(channel_name("m", [("a", "y" * place), ("mountpoint", value)]), Subsystem.STORAGE, None)
    top = [Contribution(channel, 1.0, 5.0, 2.0, 0.0, 1.0)]
    said = title(entity("n1"), Subsystem.STORAGE, top, NOW, [Device("disk", f"{'z' * place}/{value}")])
    left = replaced(said, {value: "mountpoint-1"})
    assert not any(one in left for one in ("secret", "mount-p", "somebody")), left


def test_values_that_json_escapes_in_names_of_channels_are_found() -> None:
    value = 'C:\\data "old"'
    name = channel_name("m", [("mountpoint", value)])
    assert value not in name
    assert replaced({"channel": name}, {value: "mountpoint-1"}) == {"channel": 'm{mountpoint="mountpoint-1"}'}


def test_a_summary_is_made_of_what_was_known_and_then_replaced() -> None:
    """A host that is called like a key of the document costs nothing."""
    incident = {"incident": dict.fromkeys(("id", "state", "host", "subsystem", "title", "identity"), "title") | {
        "device": None, "onset_ms": NOW, "told_ms": NOW, "end_ms": None,
    }}  # fmt: skip
    files = evidence_files(incident, "0", (), Replacing({"title": "node-1"}))
    assert b"node-1" in files["summary.txt"]
    assert b"host      node-1" in files["summary.txt"]


def test_many_values_cost_little_where_nothing_was_shortened(monkeypatch: pytest.MonkeyPatch) -> None:
    replacing = Replacing({f"n{place}": f"node-{place}" for place in range(1000)})
    monkeypatch.setattr(Replacing, "_mended", None)
    assert replacing.of(["n17 is busy"] * 3) == ["node-17 is busy"] * 3
