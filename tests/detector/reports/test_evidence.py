"""An incident's files in one archive, and the figures of a month."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector.cli import main
from hwsonde_detector.incidents.book import Book, Mode
from hwsonde_detector.incidents.entry import Mark, entry_of
from hwsonde_detector.incidents.evidence import packed
from hwsonde_detector.incidents.store import Store
from hwsonde_detector.incidents.watchtime import Day, WatchedDays
from hwsonde_detector.reports.kpi import Span, figures
from hwsonde_detector.reports.kpi_program import kpi_page
from hwsonde_detector.state import save_state
from hwsonde_detector.types import Entity
from hwsonde_detector.web.history import History
from tests.detector.incidents.made import episode
from tests.detector.incidents.test_pages import Shape
from tests.detector.reports.fleet import START_MS, configured, disk_of, record, series
from tests.detector.web.data import StillClock

HOST = Entity((("cluster", "lab"), ("node", "n1")))
ONSET = START_MS + 100_000
DAY = 86_400_000


pytestmark = pytest.mark.usefixtures("quiet_logger")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("evidence")
    configured(place)
    config = place / "config.yaml"
    text = config.read_text().replace("dir: null", f"dir: {place / 'state'}")
    config.write_text(f"{text}incidents: {{keep_for: 3650d}}\n")
    record(place / "sick", series(disk_of("n1", 100), seconds=130))
    one = episode(ONSET, HOST, end_ms=ONSET + 20_000)
    made = Book(Store(place / "state" / "incidents"), History(), StillClock(ONSET + DAY), Mode(version="0.1"))
    made.resume([one])
    watched = [{"entity": [["node", f"n{place}"]], "watch": {"watched_ms": 10 * DAY, "pages": 1}} for place in range(3)]
    midnight, hour = (START_MS // DAY + 1) * DAY, 3_600_000
    days = [[START_MS, midnight, 3 * (midnight - START_MS), 0], [midnight, midnight + DAY, 3 * DAY, hour]]
    save_state(place / "state", {"engine": {"hosts": watched}, "service": {"watched": days}}, {})
    return place


def run(*arguments: str) -> tuple[int, str]:
    out = io.StringIO()
    with redirect_stdout(out):
        status = main(list(arguments))
    return status, out.getvalue()


def name_of(folder: Path) -> str:
    store = Store(folder / "state" / "incidents")
    store.peek()
    return store.entries()[0].id


def evidence(folder: Path, out: Path, *more: str) -> dict[str, bytes]:
    status, said = run(
        "evidence", name_of(folder), "--config.file", str(folder / "config.yaml"), "--archive", str(folder / "sick"),
        "--out", str(out), *more,
    )  # fmt: skip
    assert (status, said.count("\n")) == (0, 1)
    with tarfile.open(out) as archive:
        members = archive.getmembers()
        assert all(member.isreg() and member.uid == 0 and not member.name.startswith(("/", ".")) for member in members)
        assert {member.name.partition("/")[0] for member in members} == {name_of(folder)}
        return {member.name.partition("/")[2]: archive.extractfile(member).read() for member in members}


def test_an_archive_holds_the_incident_its_samples_and_their_sums(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "kernel").write_text("nvme1: I/O error on n1\x1b[2K\n")
    before = {
        file: file.read_bytes() for file in (folder / "state").rglob("*") if file.is_file() and file.name != "web.key"
    }
    files = evidence(folder, tmp_path / "a.tar.gz", "--kernel-log", str(tmp_path / "kernel"))
    assert set(files) == {"incident.json", "summary.txt", "samples.jsonl", "kernel.log", "SHA256SUMS"}
    for line in files["SHA256SUMS"].decode().splitlines():
        digest, _, name = line.partition("  ")
        assert hashlib.sha256(files[name]).hexdigest() == digest
    incident = json.loads(files["incident.json"])
    assert incident["incident"]["host"] == "lab/n1"
    assert incident["causes"][0]["subsystem"] == "cpu"
    samples = [json.loads(line) for line in files["samples.jsonl"].splitlines()]
    assert {one["metric"]["node"] for one in samples} == {"n1"}
    assert sum(len(one["values"]) for one in samples) > 1000
    assert "\x1b" not in files["kernel.log"].decode()
    assert b"next: " in files["summary.txt"]
    assert before == {file: file.read_bytes() for file in before}, "the detector's state is only read"
    again = evidence(folder, tmp_path / "b.tar.gz", "--kernel-log", str(tmp_path / "kernel"))
    assert again == files
    assert (tmp_path / "a.tar.gz").read_bytes() == (tmp_path / "b.tar.gz").read_bytes()


def test_names_are_replaced_in_every_file(folder: Path, tmp_path: Path) -> None:
    import re

    (tmp_path / "kernel").write_text("host n1 and its address n1:9880\n")
    more = ("--redact", "node", "--redact", "instance", "--kernel-log", str(tmp_path / "kernel"))
    files = evidence(folder, tmp_path / "a.tar.gz", *more)
    for name, content in files.items():
        assert not re.search(r"(?<![\w])n1(?![\w])", content.decode()), name
    assert b"Values of the label node are replaced" in files["summary.txt"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("evidence", "20261129T192341Z-000000000000"), "is not among the 1 closed incidents"),
        (("evidence", "x", "--state.dir", "/nonexistent"), "there are no incidents"),
        (("evidence", "ID", "--no-samples", "--kernel-log", "/nonexistent"), "--kernel-log"),
        (("evidence", "ID", "--no-samples", "--out", "/nonexistent/a"), "--out"),
        (("kpi", "--from", "yesterday"), "is no time"),
        (("kpi", "--out", "/dev/null/a"), "--out"),
    ],
)
def test_mistakes_are_one_line(folder: Path, capsys, given: tuple[str, ...], said: str) -> None:
    given = tuple(name_of(folder) if one == "ID" else one for one in given)
    assert main([*given, "--config.file", str(folder / "config.yaml")]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_the_figures_are_written_as_json_and_as_a_page(folder: Path, tmp_path: Path) -> None:
    first, last = str(START_MS // 1000), str(START_MS // 1000 + 86_400)
    given = ("--from", first, "--to", last, "--out", str(tmp_path / "kpi"))
    status, said = run("kpi", "--config.file", str(folder / "config.yaml"), *given)
    assert status == 0
    assert said.startswith("1 incidents, 33.333 pages per 100 node-days")
    found = json.loads((tmp_path / "kpi" / "kpi.json").read_bytes())
    assert (found["hosts"], found["node_days"], found["detect_ms"]["median"]) == (3, 3.0, 3000)
    page = (tmp_path / "kpi" / "kpi.html").read_text()
    Shape(page)
    assert "33.33" in page
    assert "lab/n1" in page


def entry(place: int, **more: object):
    begin = 1_000_000 + 10_000 * place
    made = entry_of(episode(begin, HOST, end_ms=begin + 4000 + place), begin + 1000 + place)
    return replace(made, **more)


def test_figures_count_what_was_told_in_the_range_and_paged() -> None:
    entries = [
        entry(0, mark=Mark.USEFUL),
        entry(1, mark=Mark.NOISE, subsystem="gpu"),
        entry(2, mark=Mark.USEFUL, end_ms=None),
        entry(3, shadow=True),
        entry(4, normal="silence"),
        entry(500),
    ]
    watched = WatchedDays((Day(1_000_000, 1_060_000, 90_000),), 2)
    found = figures(entries, Span(1_000_000, 1_060_000), watched, "0")
    assert (found["incidents"], found["open"], found["shadow"], found["normal"]) == (3, 1, 1, 1)
    assert found["useful_share"] == pytest.approx(2 / 3)
    assert found["detect_ms"] == {"median": 1001, "p90": 1002, "longest": 1002}
    assert found["resolve_ms"] == {"median": 4000, "p90": 4001, "longest": 4001}
    assert [row["name"] for row in found["by_subsystem"]] == ["cpu", "gpu"]
    assert found["by_subsystem"][0]["incidents"] == 2
    assert found["node_days"] == round(90_000 / DAY, 3)


def test_without_anything_the_figures_say_so() -> None:
    found = figures([], Span(0, DAY), WatchedDays(), "0")
    assert (found["incidents"], found["pages_per_100_node_days"], found["useful_share"], found["detect_ms"]) == (0, None, None, None)  # fmt: skip
    page = kpi_page(found).decode()
    Shape(page)
    assert "not known" in page


@given(st.lists(st.integers(0, 100), max_size=30))
def test_hours_and_numbers_of_groups_add_up(places: list[int]) -> None:
    entries = [replace(entry(place), subsystem="gpu" if place % 2 else "cpu") for place in places]
    found = figures(entries, Span(0, 10**9), WatchedDays(), "0")
    for name in ("by_subsystem", "by_scope"):
        assert sum(row["incidents"] for row in found[name]) == found["incidents"] == len(places)
        assert sum(row["host_hours"] for row in found[name]) == pytest.approx(found["host_hours"], abs=2e-3)


@given(st.dictionaries(st.sampled_from(["a.json", "b", "c.txt"]), st.binary(max_size=100)))
def test_what_is_packed_comes_out_again(files: dict[str, bytes]) -> None:
    content = packed(entry(0), files)
    assert content == packed(entry(0), dict(reversed(files.items())))
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        found = {one.name.partition("/")[2]: archive.extractfile(one).read() for one in archive.getmembers()}
    assert found.pop("SHA256SUMS").decode().count("\n") == len(files)
    assert found == files
