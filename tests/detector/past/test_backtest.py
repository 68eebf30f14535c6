"""The command as a whole: over archives and over a server, interrupted and not, with labels and presets."""

from __future__ import annotations

import io
import json
import os
import re
from pathlib import Path

import pytest

from hwsonde_detector.cli import main, make_parser
from hwsonde_detector.errors import ConfigError
from hwsonde_detector.past.program import Asked, run_backtest
from hwsonde_detector.past.unfinished import FOLDER
from hwsonde_detector.past.world import World
from hwsonde_detector.replay import replay
from hwsonde_detector.service.wiring import make_plan
from hwsonde_detector.sources.archive import ArchiveSource
from tests.detector.past.history import FAULT_FROM, FAULT_TO, SECONDS, START_MS, at, config, labels_file, results
from tests.detector.past.runs import FAULT, FIRST, HISTORY, LAST, NOW_MS, said, ticking, world
from tests.detector.sources import server as fake
from tests.detector.sources.answers import EMPTY


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


# --- presets


def test_presets_are_named_together_or_one_by_one():
    for given in (["--preset", "a", "b"], ["--preset", "a", "--preset", "b"]):
        assert make_parser().parse_args(["backtest", *given]).presets == ["a", "b"]
    assert make_parser().parse_args(["backtest"]).presets is None


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
