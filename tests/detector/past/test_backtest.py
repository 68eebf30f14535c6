"""The command as a whole: over archives and over a server, interrupted and not, with labels and presets."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from hwsonde_detector.cli import main
from hwsonde_detector.errors import ConfigError, SourcePartial
from hwsonde_detector.past.program import INTERRUPTED, Asked, run_backtest
from hwsonde_detector.past.unfinished import FOLDER
from hwsonde_detector.past.world import World
from hwsonde_detector.replay import replay
from hwsonde_detector.service.wiring import make_plan
from hwsonde_detector.sources.archive import ArchiveSource
from tests.detector.past.history import (
    FAULT_FROM,
    FAULT_TO,
    SECONDS,
    START_MS,
    History,
    at,
    config,
    labels_file,
    results,
)
from tests.detector.sources import server as fake
from tests.detector.sources.answers import EMPTY, answer

HISTORY = History()
NOW_MS = START_MS + SECONDS * 1000
FIRST, LAST = at(300), at(680)
FAULT = ("n1", FAULT_FROM, FAULT_TO, "slow disk", "storage")


class Killed(BaseException):
    """The process is gone: nothing is tidied up."""


def world(stopped: Callable[[], bool] = lambda: False, monotonic: Callable[[], float] = lambda: 0.0) -> World:
    return World(lambda: NOW_MS, monotonic, stopped, lambda _: None, io.StringIO(), io.StringIO())


def said(one: World) -> tuple[str, str]:
    assert isinstance(one.out, io.StringIO)
    assert isinstance(one.err, io.StringIO)
    return one.out.getvalue(), one.err.getvalue()


@pytest.fixture(scope="module")
def archive(tmp_path_factory) -> Path:
    return HISTORY.archive(tmp_path_factory.mktemp("archive") / "a.archive", every_ms=5000)


@pytest.fixture(scope="module")
def whole(archive, tmp_path_factory) -> tuple[Path, World]:
    """An uninterrupted run over the archive, with a label."""
    folder = tmp_path_factory.mktemp("whole")
    one = world()
    labels = labels_file(folder, FAULT)
    asked = Asked(FIRST, LAST, folder / "out", archive=archive, labels=labels)
    assert run_backtest(config(folder), asked, one) == 0
    return folder / "out", one


def test_a_planted_fault_is_found_and_counted(whole):
    folder, one = whole
    document = results(folder)
    assert (document["from"], document["to"]) == ("2026-11-01T00:05:00Z", "2026-11-01T00:11:20Z")
    assert (document["source"], document["labels"]) == ("a.archive", "faults.csv")
    (preset,) = document["presets"]
    assert preset["name"] == "configured"
    assert [host["host"] for host in preset["hosts"]] == ["lab/n1", "lab/n2"]
    assert preset["windows"] == preset["calibrated_windows"] == 2 * 380
    assert (preset["judged_ratio"], preset["time_ratio"], preset["skipped_windows"]) == (1.0, 1.0, {})
    found = [one for one in preset["episodes"] if one["found"]]
    assert [(one["host"], one["subsystem"], one["found"]) for one in found] == [("lab/n1", "storage", ["slow disk"])]
    assert found[0]["sentence"].startswith("lab/n1 storage")
    faults = preset["faults"]
    assert faults["found"]["count"] == faults["found"]["total"] == faults["judged"] == 1
    assert 2 <= faults["seconds_to_detect"]["median"] <= 8
    assert faults["first_subsystem_right"]["ratio"] == 1.0
    false = [one for one in preset["episodes"] if one["false"]]
    assert faults["false_pages"]["count"] == len(false)
    assert preset["pages"]["count"] == len(found) + len(false)
    assert preset["pages"]["node_days"] == pytest.approx(2 * 380 / 86_400)
    # The fault and ten scrapes around it are no time for false pages.
    assert faults["false_pages"]["node_days"] == pytest.approx((2 * 380 - (FAULT_TO - FAULT_FROM + 21)) / 86_400)
    out, err = said(one)
    assert "faults found: 1 of 1, 100 %" in out
    assert f"written: {folder}/backtest.json, {folder}/backtest.html" in out
    assert err == ""
    assert not (folder / FOLDER).exists()


def test_it_equals_the_replay_of_the_archive(whole, archive):
    (preset,) = results(whole[0])["presets"]
    lines = [json.loads(line) for line in replay(ArchiveSource(archive).records(), make_plan(config(whole[0].parent)))]
    begin, end = START_MS + 300_000, START_MS + 680_000
    scores = [one for one in lines if one["kind"] == "score" and begin < one["end_ms"] <= end]
    assert len(scores) == preset["windows"]
    for host in preset["hosts"]:
        own = [one["fused"] for one in scores if one["entity"] == host["labels"]]
        assert max(peak for peak in host["peaks"] if peak is not None) == pytest.approx(max(own), abs=1e-4)
    opened = [one["episode"] for one in lines if one["kind"] == "event" and one["phase"] == "opened"]
    opened = [one for one in opened if begin < one["start_ms"] <= end]
    assert [(one["identity"], one["start_ms"], one["title"]) for one in opened] == [
        (one["identity"], one["start_ms"], one["sentence"]) for one in preset["episodes"]
    ]


def test_the_same_history_out_of_a_server_gives_the_same_pages(whole, server, tmp_path):
    server.play(HISTORY.served())
    one = world()
    asked = Asked(FIRST, LAST, tmp_path / "out", labels=labels_file(tmp_path, FAULT))
    assert run_backtest(config(tmp_path, server.url), asked, one) == 0
    (mine,), (theirs,) = results(tmp_path / "out")["presets"], results(whole[0])["presets"]
    assert [(x["identity"], x["start"], x["sentence"]) for x in mine["episodes"]] == [
        (x["identity"], x["start"], x["sentence"]) for x in theirs["episodes"]
    ]
    assert mine["windows"] == theirs["windows"]
    assert mine["faults"]["seconds_to_detect"] == theirs["faults"]["seconds_to_detect"]


# --- interrupted runs


def killed_after(batches: int) -> Callable[[], bool]:
    numbers = count(1)

    def stopped() -> bool:
        if next(numbers) == batches:
            raise Killed
        return False

    return stopped


def ticking(seconds: float) -> Callable[[], float]:
    """A clock that goes on by so much whenever it is looked at."""
    numbers: Iterator[int] = count()
    return lambda: seconds * next(numbers)


@pytest.mark.parametrize(("batches", "seconds"), [(1, 31), (103, 7), (128, 31)])
def test_a_killed_run_goes_on_with_the_same_results(whole, archive, tmp_path, batches, seconds):
    settings = config(tmp_path)
    asked = Asked(FIRST, LAST, tmp_path / "out", archive=archive, labels=labels_file(tmp_path, FAULT))
    with pytest.raises(Killed):
        run_backtest(settings, asked, world(killed_after(batches), ticking(seconds)))
    assert not (tmp_path / "out" / "backtest.json").exists()
    again = world(monotonic=ticking(seconds))
    assert run_backtest(settings, asked, again) == 0
    assert "going on with the interrupted run, at 2026-11-01T00:" in said(again)[1]
    for name in ("backtest.json", "backtest.html"):
        assert (tmp_path / "out" / name).read_bytes() == (whole[0] / name).read_bytes()


def test_it_goes_on_from_a_server_without_asking_for_the_past_again(server, tmp_path):
    server.play(HISTORY.served())
    settings = config(tmp_path, server.url)
    asked = Asked(FIRST, LAST, tmp_path / "one")
    assert run_backtest(settings, asked, world()) == 0
    asked = Asked(FIRST, LAST, tmp_path / "two")
    stops = iter([False] * 8 + [True])
    assert run_backtest(settings, asked, world(lambda: next(stops))) == INTERRUPTED
    before = len(server.asked)
    assert run_backtest(settings, asked, world()) == 0
    forms = [one.form for one in server.asked[before:]]
    earliest = min(float(form["time"]) - int(form["query"].rsplit("[")[1][:-2]) for form in forms)
    # It was stopped after its ninth tick.
    assert earliest == START_MS / 1000 + 540
    assert (tmp_path / "one/backtest.json").read_bytes() == (tmp_path / "two/backtest.json").read_bytes()


def test_a_relative_range_stays_when_it_goes_on_later(server, tmp_path):
    server.play(HISTORY.served())
    settings = config(tmp_path, server.url)
    asked = Asked("-400s", "now", tmp_path / "out")
    stops = iter([False] * 3 + [True])
    assert run_backtest(settings, asked, world(lambda: next(stops))) == INTERRUPTED
    later = World(lambda: NOW_MS + 3_600_000, lambda: 0.0, lambda: False, lambda _: None, io.StringIO(), io.StringIO())
    assert run_backtest(settings, asked, later) == 0
    assert results(tmp_path / "out")["to_ms"] == NOW_MS


def test_a_failing_server_leaves_a_run_that_goes_on(server, tmp_path):
    partial = answer([], warnings=["store gateway: gone"])
    asked_so_far = []

    def later(handler):
        asked_so_far.append(handler)
        if len(asked_so_far) > 2:
            handler.reply(partial)
        return len(asked_so_far) > 2

    server.play(HISTORY.served(later))
    # The learning begins long before there is anything, so that there are three answers.
    asked = Asked(FIRST, LAST, tmp_path / "out", learn="2h")
    with pytest.raises(
        SourcePartial, match=r"the answer is partial: store gateway: gone; the same command goes on from 20"
    ):
        run_backtest(config(tmp_path, server.url), asked, world())
    server.play(HISTORY.served())
    assert run_backtest(config(tmp_path, server.url), asked, world()) == 0
    assert results(tmp_path / "out")["presets"][0]["windows"] == 2 * 380


def test_another_run_in_the_same_folder_is_not_lost_without_a_word(archive, tmp_path):
    settings = config(tmp_path)
    asked = Asked(FIRST, LAST, tmp_path / "out", archive=archive)
    stops = iter([False] * 9 + [True])
    assert run_backtest(settings, asked, world(lambda: next(stops))) == INTERRUPTED
    other = Asked(at(310), LAST, tmp_path / "out", archive=archive, labels=labels_file(tmp_path, FAULT))
    with pytest.raises(
        ConfigError, match=r"asked otherwise \(--from, --labels, the configuration, the labels or the version\)"
    ):
        run_backtest(settings, other, world())
    anew = Asked(at(310), LAST, tmp_path / "out", archive=archive, anew=True)
    one = world()
    assert run_backtest(settings, anew, one) == 0
    assert "going on" not in said(one)[1]


@pytest.mark.parametrize("spoil", ["cut", "flip", "empty"])
def test_a_damaged_interrupted_run_begins_anew(whole, archive, tmp_path, spoil, caplog):
    settings = config(tmp_path)
    asked = Asked(FIRST, LAST, tmp_path / "out", archive=archive, labels=labels_file(tmp_path, FAULT))
    stops = iter([False] * 9 + [True])
    assert run_backtest(settings, asked, world(lambda: next(stops))) == INTERRUPTED
    kept = tmp_path / "out" / FOLDER / "state.npz"
    data = bytearray(kept.read_bytes())
    data[len(data) // 2] ^= 1
    kept.write_bytes({"cut": bytes(data[:-9]), "flip": bytes(data), "empty": b""}[spoil])
    one = world()
    assert run_backtest(settings, asked, one) == 0
    assert "going on" not in said(one)[1]
    (line,) = [record.getMessage() for record in caplog.records]
    assert "the run begins anew" in line
    assert (tmp_path / "out/backtest.json").read_bytes() == (whole[0] / "backtest.json").read_bytes()


def test_a_signal_ends_it_and_the_same_command_goes_on(whole, archive, tmp_path):
    config(tmp_path)
    command = [
        sys.executable,
        "-m",
        "hwsonde_detector",
        "backtest",
        "--from",
        FIRST,
        "--to",
        LAST,
        "--archive",
        str(archive),
    ]
    command += ["--labels", str(labels_file(tmp_path, FAULT)), "--out", "out", "--config.file", "detector.yml"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
    # It has begun once its folder is there; where it is then does not matter.
    ends = time.monotonic() + 60
    while not (tmp_path / "out").exists() and process.poll() is None:
        assert time.monotonic() < ends
        time.sleep(0.01)
    time.sleep(0.3)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    if process.returncode != 0:
        assert process.returncode == INTERRUPTED
        assert "the same command goes on from there" in err
        assert not (tmp_path / "out/backtest.json").exists()
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100, check=False
        )
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "out/backtest.json").read_bytes() == (whole[0] / "backtest.json").read_bytes()


# --- presets


@pytest.mark.slow
def test_presets_side_by_side(whole, archive, tmp_path):
    (tmp_path / "deaf.yaml").write_text("episodes: {raise_at: 90}\nsource: {url: 'http://127.0.0.1:9'}\nmode: shadow\n")
    (tmp_path / "few.yaml").write_text("subsystems: [cpu, memory]\ndetectors: {members: [zscore, mahalanobis]}\n")
    asked = Asked(
        FIRST, LAST, tmp_path / "out", archive=archive, labels=labels_file(tmp_path, FAULT),
        presets=("configured", str(tmp_path / "deaf.yaml"), str(tmp_path / "few.yaml")),
    )  # fmt: skip
    assert run_backtest(config(tmp_path), asked, world()) == 0
    configured, deaf, few = results(tmp_path / "out")["presets"]
    assert [one["name"] for one in (configured, deaf, few)] == ["configured", "deaf", "few"]
    # One preset does not know of the other.
    assert configured == results(whole[0])["presets"][0]
    assert (deaf["pages"]["count"], deaf["faults"]["found"]["count"]) == (0, 0)
    assert (deaf["windows"], few["windows"]) == (configured["windows"], configured["windows"])
    assert few["faults"]["found"]["count"] == 0
    page = (tmp_path / "out/backtest.html").read_text()
    assert all(f"<h2>{name}</h2>" in page for name in ("configured", "deaf", "few"))


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (("nine",), r"--preset: 'nine' is not known; allowed: configured"),
        (("none.yaml",), r"--preset: none\.yaml: it cannot be read: No such file"),
        (("configured", "configured"), r"--preset: configured is named twice"),
        (("bad.yaml",), r"bad\.yaml:1: window\.rows: 'x' is no whole number"),
        (("clash.yaml",), r"--preset: clash\.yaml: learning\.calibrated_rows: 120 is less than learning\.first_rows"),
        (("pipe.yaml",), r"--preset: pipe\.yaml: it cannot be read: it is no regular file"),
    ],
)
def test_presets_that_cannot_be(tmp_path, monkeypatch, archive, names, says):
    monkeypatch.chdir(tmp_path)
    Path("bad.yaml").write_text("window: {rows: x}\n")
    # Good by itself, but not over this configuration.
    Path("clash.yaml").write_text("learning: {first_rows: 200}\n")
    os.mkfifo("pipe.yaml")
    with pytest.raises(ConfigError, match=says):
        run_backtest(config(tmp_path), Asked(FIRST, LAST, tmp_path / "out", archive=archive, presets=names), world())


# --- what is asked wrongly, and what is not there


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--from", "-6h", "--to", "-7h"], "--from: .* is not before --to"),
        (["--from", "soon"], "--from: 'soon' is no time; allowed: RFC 3339"),
        ([], "--from: it is missing; say where to begin"),
        (["--from", "-1h", "--to", "2200-01-01T00:00:00Z"], "--to: 2200-01-01T00:00:00Z lies in the future"),
        (["--from", "-1h", "--learn", "much"], "--learn: 'much' is not usable; allowed: a duration"),
        (["--from", "-1h", "--step", "1ms"], "--step: '1ms' is not usable; allowed: a duration of at least 100ms"),
        (["--from", "-1h", "--step", "1s", "--archive", "a"], "--step: an archive is read as it was recorded"),
        (["--from", "-1h", "--archive", "none"], "none: the archive cannot be read"),
        (["--from", "-1h", "--labels", "none.csv"], "--labels: none.csv: it cannot be read: No such file"),
        (["--from", "-1h", "--labels", "pipe"], "--labels: pipe: it cannot be read: it is no regular file"),
        (["--from", "-1h", "--labels", "bad.csv"], "bad.csv:2: start: 'x' is no moment"),
        (["--from", "-1h", "--out", "bad.csv"], "--out: bad.csv: results cannot be written there"),
        (["--from", "-1h", "--source.url", "http://127.0.0.1:1"], "127.0.0.1:1: connection refused"),
        (["--from", "-1h", "--config.file", "/none"], "/none: the configuration file cannot be read"),
    ],
)
def test_bad_input_is_one_line(capsys, tmp_path, monkeypatch, more, says):
    monkeypatch.chdir(tmp_path)
    Path("bad.csv").write_text("entity,start,end\nn1,x,2\n")
    os.mkfifo("pipe")
    assert main(["backtest", *more]) == 2
    (line,) = capsys.readouterr().err.splitlines()

    assert re.search(says, line)
    assert line.startswith("hwsonde-detector: ")


def test_an_empty_range_is_said_and_leaves_nothing(server, tmp_path):
    server.play(fake.good(EMPTY))
    with pytest.raises(
        ConfigError, match="no host was heard from 2026-11-01T00:05:00Z to 2026-11-01T00:11:20Z; check the range"
    ):
        run_backtest(config(tmp_path, server.url), Asked(FIRST, LAST, tmp_path / "out"), world())
    assert list((tmp_path / "out").iterdir()) == []


def test_a_range_that_was_never_judged_is_not_called_clean(archive, tmp_path):
    one = world()
    asked = Asked(at(300), at(320), tmp_path / "out", archive=archive, learn="10s")
    assert run_backtest(config(tmp_path), asked, one) == 0
    (preset,) = results(tmp_path / "out")["presets"]
    assert (preset["windows"], preset["pages"]["per_100_node_days"]) == (0, None)
    assert "configured: not known: no window of 2 hosts was judged" in said(one)[0]
    assert "0 in no calibrated time: no rate can be told" in said(one)[0]


def test_what_the_figures_leave_out_is_told(archive, tmp_path):
    labels = labels_file(tmp_path, ("n9", 400, 410, "x", ""), ("n1", 10, 20, "x", ""), ("n1", 310, 311, "x", "cpu"))
    one = world()
    asked = Asked(FIRST, at(400), tmp_path / "out", archive=archive, labels=labels, learn="90s")
    assert run_backtest(config(tmp_path), asked, one) == 0
    err = said(one)[1].splitlines()
    assert any("windows were judged before enough was learned" in line for line in err)
    assert "hwsonde-detector: faults.csv:2: n9 is no host of the range; the label is left out" in err
    assert "hwsonde-detector: 1 of the labels begin outside of the range and are left out" in err
    assert any("1 of 1 faults happened while no calibrated window was judged" in line for line in err)
    page = (tmp_path / "out/backtest.html").read_text()
    assert all(line.removeprefix("hwsonde-detector: ") in page for line in err)


def test_an_archive_as_a_whole_needs_no_range(archive, tmp_path):
    assert run_backtest(config(tmp_path), Asked(None, "now", tmp_path / "out", archive=archive), world()) == 0
    document = results(tmp_path / "out")
    assert document["from_ms"] == START_MS - 1
    assert document["to_ms"] == START_MS + (SECONDS - 5) * 1000 + 150
    (preset,) = document["presets"]
    assert 0 < preset["calibrated_windows"] < preset["windows"] < 2 * SECONDS
    # Back from the archive's end, not from today.
    assert run_backtest(config(tmp_path), Asked("-60s", "now", tmp_path / "out", archive=archive), world()) == 0
    assert results(tmp_path / "out")["from_ms"] == document["to_ms"] - 60_000


def test_the_results_cannot_be_kept_on_a_full_disk(archive, tmp_path, monkeypatch):
    def full(self, data):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(ConfigError, match=r"backtest\.json: it cannot be written: No space left on device"):
        run_backtest(config(tmp_path), Asked(FIRST, at(310), tmp_path / "out", archive=archive), world())
    assert not (tmp_path / "out/backtest.json").exists()


# --- progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_on_a_terminal_and_in_a_log(archive, tmp_path):
    settings = config(tmp_path)
    shown = Terminal()
    one = World(lambda: NOW_MS, ticking(1), lambda: False, lambda _: None, io.StringIO(), shown)
    assert run_backtest(settings, Asked(FIRST, at(330), tmp_path / "out", archive=archive), one) == 0
    lines = shown.getvalue().split("\r")
    assert any(line.startswith("backtest: 50 %, at 2026-11-01T00:02:4") and "left" in line for line in lines)
    assert shown.getvalue().endswith("\r")
    assert lines[-2].strip() == ""
    log = world(monotonic=ticking(10))
    assert run_backtest(settings, Asked(FIRST, at(330), tmp_path / "out", archive=archive), log) == 0
    told = said(log)[1].splitlines()
    assert 3 <= len(told) <= 330
    assert all(line.startswith("backtest: ") for line in told)
