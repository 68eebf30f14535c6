"""The command on recorded archives: planted faults, clean ranges, jobs, episodes, names that mean harm, and mistakes."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout
from datetime import UTC, datetime
from html.parser import HTMLParser

import pytest

from hwsonde_detector.cli import main
from tests.detector.reports.fleet import END_S, HOSTS, LEARN_S, START_MS, configured, disk_of, record, series

JOBS = [("slurm:7", node, 0, 400) for node in ("n1", "n2")] + [("slurm:8", "n3", 160, 230)]
BEGIN = 200


pytestmark = pytest.mark.usefixtures("quiet_logger")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A fleet in which a disk of n1 begins to fail, and one in which nothing does."""
    place = tmp_path_factory.mktemp("fleet")
    configured(place)
    record(place / "sick", series(disk_of("n1", BEGIN), jobs=JOBS))
    record(place / "well", series(jobs=JOBS))
    return place


def at(second: int) -> str:
    return datetime.fromtimestamp(START_MS / 1000 + second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def report(folder, out, archive: str, *arguments: str, first: int | None = LEARN_S) -> dict:
    begin = () if first is None else ("--from", at(first))
    given = [
        "report",
        "--config.file",
        str(folder / "config.yaml"),
        "--archive",
        str(folder / archive),
        "--out",
        str(out),
    ]
    assert main([*given, *begin, *arguments]) == 0
    return json.loads((out / "report.json").read_bytes())


@pytest.fixture(scope="module")
def explained(folder, tmp_path_factory):
    """What is found in the sick fleet, what is said of it, and where it lies."""
    out, said = tmp_path_factory.mktemp("out"), io.StringIO()
    with redirect_stdout(said):
        found = report(folder, out, "sick")
    return found, said.getvalue(), out


class Page(HTMLParser):
    """What a browser would find in a page: elements, addresses, handlers."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.handlers: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [
            value or "" for name, value in attrs if name in ("src", "href", "xlink:href", "action", "data")
        ]
        self.handlers += [name for name, _ in attrs if name.startswith("on")]
        if tag not in ("meta", "link", "br", "img", "input"):
            self._open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self._open.pop()

    def handle_endtag(self, tag):
        assert self._open.pop() == tag

    def handle_data(self, data):
        if "style" not in self._open:
            self.text += data


def test_a_planted_fault_is_explained(explained):
    found, said, out = explained
    assert said.splitlines() == [found["verdict"]["sentence"], f"written: {out}/report.json, {out}/report.html"]
    assert found["verdict"]["kind"] == "fault"
    assert found["verdict"]["sentence"].startswith("lab/n1: storage nvme1n1: ")
    cause = found["causes"][0]
    assert (cause["subsystem"], cause["device"]) == ("storage", {"class": "disk", "name": "nvme1n1"})
    assert "device=nvme1n1" in cause["channels"][0]["channel"]
    assert cause["channels"][0]["direction"] == "high"
    assert abs(cause["hosts"][0]["onset_ms"] - (START_MS + 1000 * BEGIN)) <= 2000
    assert cause["others"]["sentence"].startswith(
        "Only lab/n1 of the 2 hosts of lab/slurm:7 shows it; 1 stayed at or below "
    )
    chart = cause["channels"][0]["chart"]
    assert chart["times"][0] < START_MS + 1000 * BEGIN < chart["times"][-1]
    before = [
        value for at_ms, value in zip(chart["times"], chart["values"], strict=True) if at_ms < START_MS + 1000 * BEGIN
    ]
    after = [
        value
        for at_ms, value in zip(chart["times"], chart["values"], strict=True)
        if at_ms > START_MS + 1000 * (BEGIN + 1)
    ]
    assert max(before) < cause["channels"][0]["upper"] < min(after)
    assert found["learning"]["from_ms"] == START_MS
    page = Page((out / "report.html").read_text())
    assert found["verdict"]["sentence"] in page.text
    assert page.tags.count("svg") >= 3 + sum(one["chart"] is not None for one in cause["channels"])
    assert page.addresses == page.handlers == []
    assert "script" not in page.tags


def test_a_clean_range_says_so_with_its_coverage(folder, tmp_path):
    found = report(folder, tmp_path, "well")
    assert found["verdict"]["kind"] == "clean"
    assert found["verdict"]["sentence"].startswith("Not the hardware: 3 hosts, ")
    assert found["causes"] == []
    assert "Not the hardware" in Page((tmp_path / "report.html").read_text()).text


def test_without_time_to_learn_nothing_is_known(folder, tmp_path):
    found = report(folder, tmp_path, "well", "--learn", "10s", "--to", at(LEARN_S + 60))
    assert found["verdict"]["kind"] == "unknown"
    assert found["coverage"]["hosts_without_calibration"] == ["lab/n1", "lab/n2", "lab/n3"]
    assert found["learning"]["from_ms"] >= START_MS + 1000 * (LEARN_S - 16)


def test_one_host(folder, tmp_path):
    found = report(folder, tmp_path, "sick", "--entity", "n2")
    assert found["verdict"]["kind"] == "clean"
    assert [host["host"] for host in found["coverage"]["by_host"]] == ["lab/n2"]
    assert found["asked"]["topic"] == "host"


def test_the_hosts_and_the_time_of_a_job(folder, tmp_path):
    found = report(folder, tmp_path, "sick", "--job", "8")
    assert found["verdict"]["kind"] == "clean"
    assert (found["asked"]["start_ms"], found["asked"]["end_ms"]) == (START_MS + 159_999, START_MS + 230_000)
    assert [host["host"] for host in found["coverage"]["by_host"]] == ["lab/n3"]
    other = report(folder, tmp_path, "sick", "--job", "slurm:7")
    assert other["verdict"]["kind"] == "fault"
    assert [host["host"] for host in other["coverage"]["by_host"]] == ["lab/n1", "lab/n2"]


def test_one_episode_by_its_name(folder, tmp_path, explained):
    name = explained[0]["episodes"][0]["identity"]
    found = report(folder, tmp_path, "sick", "--episode", name, first=None)
    assert found["asked"] == {
        "topic": "episode",
        "name": name,
        "start_ms": found["asked"]["start_ms"],
        "end_ms": START_MS + 1000 * (END_S - 1) + 150,
    }
    assert found["verdict"]["kind"] == "fault"
    near = name.rpartition("@")[0] + "@" + at(BEGIN + 30)
    assert report(folder, tmp_path, "sick", "--episode", near)["asked"]["name"] == name


def test_the_same_archive_gives_the_same_bytes(folder, tmp_path, explained):
    report(folder, tmp_path, "sick")
    for name in ("report.json", "report.html"):
        assert (tmp_path / name).read_bytes() == (explained[2] / name).read_bytes()


# Too short a time for any model: quick.
SHORT = ("--from", str(START_MS // 1000 + 20), "--to", str(START_MS // 1000 + 30))
HOSTILE = {
    "markup": '<script>alert(1)</script><img src=x onerror="alert(2)">\'"&',
    "newline": "n1\n</style><b>\r\n\x1b[31m\x00\u202egnp",
    "long": "x" * 10_000,
    "template": "{{ 7 * 7 }}{% for a in b %}",
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_names_that_mean_harm_are_only_names(tmp_path, capsys, kind):
    configured(tmp_path)
    text = HOSTILE[kind]
    made = series(
        disk_of("n1", BEGIN),
        rename=lambda node: text if node == "n1" else node,
        jobs=[(text, "n1", 0, 400), (text, "n2", 0, 400)],
    )
    record(tmp_path / "bad", made)
    found = report(tmp_path, tmp_path / "out", "bad")
    said = capsys.readouterr().out
    assert found["verdict"]["kind"] == "fault"
    assert [host["host"] for host in found["causes"][0]["hosts"]] == [f"lab/{text}"]
    content = (tmp_path / "out" / "report.html").read_text()
    page = Page(content)
    assert set(page.tags).isdisjoint({"script", "img", "b", "iframe", "object", "link"})
    assert page.tags.count("style") == 1
    assert page.addresses == page.handlers == []
    assert "\x1b" not in content + said
    assert "\u202e" not in content + said
    assert kind != "template" or "{{ 7 * 7 }}" in page.text
    assert len(said) < 3000
    assert said.count("\n") == 2
    assert max(len(word) for word in page.text.split()) < 700


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--from", "soon"], "--from: 'soon' is no time"),
        (["--from", "2027-01-15T10:00:00Z", "--to", "2027-01-15T09:00:00Z"], "--from: 2027-01-15T10:00:00Z is not before --to"),
        (["--entity", "n9", *SHORT], "--entity: 'n9' was not heard in this time; heard: 'lab/n1', 'lab/n2' and 'lab/n3'"),
        (["--entity", "lab", *SHORT], "--entity: 'lab' may be lab/n1, lab/n2 and lab/n3; give one of them"),
        (["--job", "slurm:99"], "--job: no host has series of 'slurm:99' in this time"),
        (["--job", "x" * 5000], "--job: no host has series of 'xxx"),
        (["--episode", "n1"], "--episode: 'n1' has no time in it"),
        (["--episode", "lab/n9@2020-01-01T00:00:00Z", "--from", "FIRST"], "was not found when the range was scored again; found: 'lab/n1@"),
        (["--learn", "long"], "--learn: 'long' is not usable"),
        (["--archive", "/none"], "/none: the archive cannot be read"),
        (["--out", "/dev/null/x"], "--out: /dev/null/x: results cannot be written there"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(folder, tmp_path, capsys, arguments, says):
    arguments = [at(LEARN_S) if one == "FIRST" else one for one in arguments]
    given = [
        "report",
        "--config.file",
        str(folder / "config.yaml"),
        "--archive",
        str(folder / "sick"),
        "--out",
        str(tmp_path / "out"),
    ]
    assert main([*given, *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("hwsonde-detector: ")
    assert says in line
    assert len(line) < 400


def test_a_prometheus_needs_a_beginning_and_no_future(folder, tmp_path, capsys):
    given = ["report", "--config.file", str(folder / "config.yaml"), "--out", str(tmp_path)]
    assert main(given) == 2
    assert "--from: it is missing" in capsys.readouterr().err
    assert main([*given, "--from", "-1h", "--to", "2100-01-01T00:00:00Z"]) == 2
    assert "lies in the future" in capsys.readouterr().err
    assert main([*given, "--from", "-1h"]) == 2
    assert "127.0.0.1:1: connection refused" in capsys.readouterr().err


def test_only_one_topic_at_a_time(folder, capsys):
    with pytest.raises(SystemExit) as caught:
        main(["report", "--entity", "a", "--job", "b"])
    assert caught.value.code == 2
    assert "not allowed with" in capsys.readouterr().err


def test_what_is_there_stays_where_a_file_cannot_be_written(folder, tmp_path, capsys):
    (tmp_path / "report.html").mkdir()
    (tmp_path / "report.html" / "full").write_text("")
    assert main(
        ["report", "--config.file", str(folder / "config.yaml"), "--archive", str(folder / "well"), "--out", str(tmp_path), "--from", at(200)]
    ) == 2  # fmt: skip
    assert "--out: " in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html", "report.json"]


def test_progress_is_a_line_now_and_then(monkeypatch):
    from hwsonde_detector.past.progress import Progress

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    clock = iter([0.0, 0.1, 1.0, 2.0])
    err = Terminal()
    progress = Progress(err, 0, 10_000, lambda: next(clock), "report")
    for now_ms in (1000, 5000, 9000):
        progress.show(now_ms)
    progress.close()
    assert err.getvalue().split("\r")[1:3] == [
        "report: 50 %, at 1970-01-01T00:00:05Z, about 1s left",
        "report: 90 %, at 1970-01-01T00:00:09Z, about 0s left",
    ]
    assert err.getvalue().endswith("\r")


def test_all_hosts_are_read_in_order(folder, tmp_path):
    found = report(folder, tmp_path, "sick", "--to", at(LEARN_S + 20))
    assert [host["host"] for host in found["coverage"]["by_host"]] == [f"lab/{node}" for node in HOSTS]


def test_a_fault_that_spreads_names_its_first_host(tmp_path):
    configured(tmp_path)
    first, then = disk_of("n2", BEGIN), disk_of("n1", BEGIN + 15)
    made = series(lambda node, name, second, value: then(node, name, second, first(node, name, second, value)))
    record(tmp_path / "spread", made)
    found = report(tmp_path, tmp_path / "out", "spread")
    (cause,) = found["causes"]
    assert [host["host"] for host in cause["hosts"]] == ["lab/n2", "lab/n1"]
    assert cause["order"] == "lab/n2 was first; lab/n1 15 s later (plus or minus 1 s)."
    assert found["verdict"]["sentence"].startswith("lab/n2, then lab/n1: storage nvme1n1: ")


def test_what_the_detector_keeps_is_known_and_left_as_it_is(tmp_path):
    from hwsonde_detector.config import load_config
    from hwsonde_detector.explain.report import Before
    from hwsonde_detector.hoststate import episode_document
    from hwsonde_detector.reports.told import Told, read_told
    from hwsonde_detector.state import save_state
    from hwsonde_detector.types import Subsystem
    from tests.detector.explain.planted import T0, channel, fault, host

    episode, _ = fault(host("n1"), T0, 30, {channel("psi", Subsystem.MEMORY): 1.0})
    path = configured(tmp_path)
    err = io.StringIO()
    assert read_told(load_config(path, {}), err) == Told()
    path.write_text(path.read_text().replace("dir: null", "dir: kept"))
    config = load_config(path, {})
    assert read_told(config, err) == Told()
    save_state(tmp_path / "kept", {"service": {"past": [episode_document(episode)]}}, {})
    told = read_told(config, err)
    assert told.before == Before((episode,), "kept by the detector")
    assert [one.identity for one in told.incidents] == [episode.identity]
    save_state(tmp_path / "kept", {"service": {}}, {})
    assert err.getvalue() == ""
    assert read_told(config, err) == Told()
    (tmp_path / "kept" / "state.npz").write_bytes(b"damaged")
    assert read_told(config, err) == Told()
    assert err.getvalue().count("hwsonde-detector: earlier episodes are not known: ") == err.getvalue().count("\n") == 2
    assert (tmp_path / "kept" / "state.npz").read_bytes() == b"damaged"
