"""Signals while the exporter starts, before `signals` takes over."""

import signal
import time
from pathlib import Path

import pytest

from tests.fakes.halfway import Halfway

SERVING = ("hwsonde_exporter", "--web.listen-address", "127.0.0.1:0")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_end_while_it_is_imported_it_does_so_without_a_word(tmp_path: Path, number: int) -> None:
    with Halfway(tmp_path, *SERVING) as start:
        assert start.end(number) == 0
    assert start.log() == ""


def test_a_reload_that_was_asked_for_meanwhile_is_done_once(tmp_path: Path) -> None:
    with Halfway(tmp_path, *SERVING) as start:
        for _ in range(3):
            start.process.send_signal(signal.SIGHUP)
        start.go()
        start.until(lambda: "configuration read again" in start.log())
        assert start.end(signal.SIGTERM) == 0
    assert start.log().count("configuration read again") == 1


def test_what_was_ignored_stays_so_until_it_serves(tmp_path: Path) -> None:
    with Halfway(tmp_path, *SERVING, ignored=True) as start:
        assert start.has("SigIgn", signal.SIGHUP)
        assert start.has("SigIgn", signal.SIGINT)
        assert start.has("SigCgt", signal.SIGTERM)


@pytest.mark.parametrize("arguments", [("once",), ("--once",), ("check",), ("--help",)])
def test_other_commands_are_left_alone(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    with Halfway(tmp_path, "hwsonde_exporter", *arguments) as start:
        assert not start.has("SigCgt", signal.SIGHUP)
        assert start.end(signal.SIGTERM) == -signal.SIGTERM


@pytest.mark.parametrize(
    ("number", "seconds"),
    [(signal.SIGTERM, 0.0), (signal.SIGINT, 0.05), (signal.SIGTERM, 0.15), (signal.SIGINT, 0.3), (signal.SIGTERM, 0.6)],
)
def test_at_any_moment_of_a_start_the_end_is_in_order(tmp_path: Path, number: int, seconds: float) -> None:
    with Halfway(tmp_path, *SERVING, held=False) as start:
        start.until(lambda: start.has("SigCgt", signal.SIGTERM))
        time.sleep(seconds)
        assert start.end(number) == 0
    assert "Traceback" not in start.log()
    assert "Exception" not in start.log()
