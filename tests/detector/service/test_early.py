"""Signals while the service starts, before `service.signals` takes over."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from tests.fakes.halfway import Halfway


def configured(folder: Path) -> tuple[str, ...]:
    file = folder / "detector.yaml"
    file.write_text(
        "source: {url: 'http://127.0.0.1:1', history: 0s}\nweb: {listen: '127.0.0.1:0'}\n"
        f"state: {{dir: '{folder / 'state'}'}}\n"
    )
    return ("hwsonde_detector", "run", "--config.file", str(file))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_end_while_it_is_imported_it_does_so_without_a_word(tmp_path: Path, number: int) -> None:
    with Halfway(tmp_path, *configured(tmp_path)) as start:
        assert start.end(number) == 0
    assert start.log() == ""
    assert not (tmp_path / "state").exists()


def test_a_reload_that_was_asked_for_meanwhile_is_done_once(tmp_path: Path) -> None:
    with Halfway(tmp_path, *configured(tmp_path)) as start:
        for _ in range(3):
            start.process.send_signal(signal.SIGHUP)
        start.go()
        start.until(lambda: "reload: the new configuration is in force" in start.log())
        assert start.end(signal.SIGTERM) == 0
    assert start.log().count("reload:") == 1


def test_what_was_ignored_stays_so_until_the_service_runs(tmp_path: Path) -> None:
    with Halfway(tmp_path, *configured(tmp_path), ignored=True) as start:
        assert start.has("SigIgn", signal.SIGHUP)
        assert start.has("SigIgn", signal.SIGINT)
        assert start.has("SigCgt", signal.SIGTERM)


@pytest.mark.parametrize("arguments", [("check-config", "none.yaml"), ("run", "--help"), ("report",), ()])
def test_other_commands_are_left_alone(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    with Halfway(tmp_path, "hwsonde_detector", *arguments) as start:
        assert not start.has("SigCgt", signal.SIGHUP)
        assert start.end(signal.SIGTERM) == -signal.SIGTERM


@pytest.mark.parametrize(
    ("number", "seconds"),
    [
        (signal.SIGTERM, 0.0),
        (signal.SIGINT, 0.1),
        (signal.SIGTERM, 0.3),
        (signal.SIGINT, 0.6),
        (signal.SIGTERM, 0.9),
        (signal.SIGINT, 1.2),
        (signal.SIGTERM, 1.5),
        (signal.SIGTERM, 2.0),
    ],
)
def test_at_any_moment_of_a_start_the_end_is_in_order(tmp_path: Path, number: int, seconds: float) -> None:
    with Halfway(tmp_path, *configured(tmp_path), held=False) as start:
        start.until(lambda: start.has("SigCgt", signal.SIGTERM))
        time.sleep(seconds)
        assert start.end(number) == 0
    assert "Traceback" not in start.log()
    assert "Exception" not in start.log()
