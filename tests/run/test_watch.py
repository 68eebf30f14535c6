"""What a user is told of a running stack."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from quickstart import readings
from quickstart.fetch import FetchError
from quickstart.layout import Options, Ports
from quickstart.readings import EXPORTER_ERRORS, Health, Series
from quickstart.stack import Stack
from quickstart.storage import Storage
from quickstart.watch import Watch, learning, live_line


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def stack(tmp_path: Path, told: list[str]) -> Stack:
    """No program runs; it counts as started a minute ago."""
    one = Stack(Options(tmp_path, Ports.from_base(21000), "n1"), told.append)
    one.started = one.settled = time.time() - 60
    return one


def answer(monkeypatch: pytest.MonkeyPatch, found: list[Series]) -> None:
    monkeypatch.setattr(readings, "read", lambda port: found)


def test_a_full_disk_is_told_and_counted(stack: Stack, told: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    answer(monkeypatch, [])
    watch = Watch(stack)
    watch.storage = Storage(stack.options.data, time.monotonic(), lambda _: 0)
    watch.look()
    watch.look()
    assert told == [
        f"{stack.options.data} has 0.0 MiB left, 16 are needed: make room, or give another place with --data DIR"
    ]
    assert json.loads(watch.report())["errors"] == 1


def test_a_data_directory_that_went_away_is_told_and_counted(
    stack: Stack, told: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answer(monkeypatch, [])
    watch = Watch(stack)
    watch.look()
    tmp_path.rename(tmp_path.with_name("elsewhere"))
    watch.look()
    watch.look()
    assert len(told) == 1
    assert told[0].startswith(f"{tmp_path}: No such file or directory: ")
    assert watch.errors == 1


def test_a_prometheus_that_stores_nothing_is_told_counted_and_shown(
    stack: Stack, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def nobody(port: int) -> list[Series]:
        raise FetchError("timed out")

    monkeypatch.setattr(readings, "read", nobody)
    watch = Watch(stack)
    watch.storage = Storage(stack.options.data, time.monotonic() - 20)
    for _ in range(3):
        watch.look()
    assert len(told) == watch.errors == 1
    assert re.search(rf"stored nothing for \d+ s in {stack.options.data} ", told[0])
    assert "Prometheus stores nothing" in live_line(watch)
    assert "errors 1" in live_line(watch)


def test_every_error_is_told(stack: Stack, told: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.time()
    labels = {"collector": "cpu", "reason": "timeout"}
    watch = Watch(stack)
    answer(monkeypatch, [Series(EXPORTER_ERRORS, labels, (now - 3, now - 2), (0.0, 1.0))])
    watch.look()
    answer(monkeypatch, [Series(EXPORTER_ERRORS, labels, (now - 2, now - 1, now), (1.0, 2.0, 3.0))])
    watch.look()
    watch.close()
    assert [line.split(": ", 1)[1] for line in told] == [
        "collector cpu of the exporter failed (timeout)",
        "collector cpu of the exporter failed (timeout), 2 times since",
    ]
    assert watch.errors == watch.health.late == 3


@pytest.mark.parametrize(
    ("health", "words"),
    [
        (Health(), "waiting for the first rows"),
        (Health(learning_rows=10, learning_needed=240), "learning 10 of 240 rows"),
        (Health(learning_rows=340, learning_needed=240), "340 rows are learned, waiting for scores"),
        (Health(learning_rows=340, learning_needed=240, calibrated=True), "calibrated"),
    ],
)
def test_how_far_learning_has_come(health: Health, words: str) -> None:
    assert learning(health) == words
