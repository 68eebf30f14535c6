"""Runs that are interrupted, by a kill, a signal or a server, and go on."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import count

import pytest

from hwsonde_detector.errors import ConfigError, SourcePartial
from hwsonde_detector.past.program import INTERRUPTED, Asked, run_backtest
from hwsonde_detector.past.unfinished import FOLDER
from hwsonde_detector.past.world import World
from tests.detector.past.history import START_MS, at, config, labels_file, results
from tests.detector.past.runs import FAULT, FIRST, HISTORY, LAST, NOW_MS, said, ticking, world
from tests.detector.sources.answers import answer


class Killed(BaseException):
    """The process is gone: nothing is tidied up."""


def killed_after(batches: int) -> Callable[[], bool]:
    numbers = count(1)

    def stopped() -> bool:
        if next(numbers) == batches:
            raise Killed
        return False

    return stopped


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
