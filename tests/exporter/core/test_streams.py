"""Commands whose output goes nowhere, or is not to be had, and that are interrupted."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import hwsonde_exporter
from hwsonde_exporter import capture as capture_module
from hwsonde_exporter import check as check_module
from hwsonde_exporter import streams
from hwsonde_exporter.capture import _write as write_capture
from hwsonde_exporter.errors import ConfigError
from hwsonde_exporter.recording import Tree

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(hwsonde_exporter.__file__).parents[1])}
# Without it a text is kept until the end, as usual.
ENVIRONMENT.pop("PYTHONUNBUFFERED", None)
COMMAND = f"{sys.executable} -m hwsonde_exporter"
QUIET = "--log.level=error"
# `check` says what it finds on the machine at hand: with everything passed over it is healthy anywhere.
HEALTHY = "check --ignore '*'"
UNHEALTHY = "check --free 1"


def shell(line: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", line], env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("command", [f"once {QUIET}", "--help", "--version", HEALTHY])
@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_a_closed_stream_is_no_error(command: str, closed: str) -> None:
    done = shell(f"{COMMAND} {command} {closed}")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("command", [f"once {QUIET}", "--help", "--version"])
def test_a_full_disk_is_one_line_and_status_2(command: str) -> None:
    done = shell(f"{COMMAND} {command} >/dev/full")
    assert done.returncode == 2
    assert done.stderr == "hwsonde-exporter: standard output or a file: No space left on device\n"


@pytest.mark.parametrize(("command", "status"), [(HEALTHY, 0), (UNHEALTHY, 1)])
@pytest.mark.parametrize("output", [">&-", ">/dev/full", "| true", ">/dev/full 2>/dev/full"])
def test_the_status_of_a_check_is_what_was_found_whoever_reads_the_reasons(
    command: str, status: int, output: str
) -> None:
    done = shell(f"{COMMAND} {command} {output}; exit ${{PIPESTATUS[0]}}")
    assert done.returncode == status
    assert "Traceback" not in done.stderr


def test_a_baseline_that_nobody_gets_is_an_error() -> None:
    done = shell(f"{COMMAND} check --quiet --timeout 20 --write-baseline - >/dev/full")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "baseline cannot be written" in done.stderr


@pytest.mark.parametrize("command", ["once", "doctor", "check --timeout 5", "capture %s"])
def test_an_interrupt_ends_a_command_without_a_traceback(command: str, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    target = tmp_path / "captured"
    # The module of the command is loaded, then it waits: for a collector that hangs.
    code = (
        "import os, sys, time; from hwsonde_exporter import cli, cell\n"
        "def hang(*_):\n    open(os.environ['STARTED'], 'w').close(); time.sleep(60)\n"
        "cell.Cell._attempt = hang; sys.exit(cli.main())"
    )
    words = (command % target if "%" in command else command).split()
    # A process that a shell has put into the background ignores the signal, and so would its child.
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words],
        env={**ENVIRONMENT, "STARTED": str(fifo)},
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509  (no threads here)
    )
    fifo.open().close()
    time.sleep(0.1)  # so that the command waits for the collectors
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=20)
    assert (process.returncode, "Traceback" in error) == (130, False)
    assert not target.exists()


def test_what_an_encoding_lacks_is_shown_by_its_number() -> None:
    code = "from hwsonde_exporter import streams; streams.open_all(); print('\\u00e9\\udcff')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**ENVIRONMENT, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout == "\\xe9\\udcff\n"


def test_a_stream_that_failed_takes_everything_from_then_on(tmp_path: Path) -> None:
    with open("/dev/full", "w") as stream:
        problem = streams.tell(stream, "x")
        assert problem is not None
        assert problem.errno == errno.ENOSPC
        assert streams.tell(stream, "x") is None


class FullError(OSError):
    def __init__(self, *_: object) -> None:
        super().__init__(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("name", ["captured", "captured.tar.gz"])
@pytest.mark.parametrize("error", [FullError, KeyboardInterrupt])
@pytest.mark.parametrize("there", [False, True])
def test_half_a_capture_is_not_left_behind(
    name: str, error: type[BaseException], there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / name
    if there and name == "captured":
        target.mkdir()
    tree = Tree()
    tree.put(("proc", "stat"), b"cpu 1\n")
    tree.put(("sys", "class", "net", "eth0"), "../../devices/eth0")

    def ordered(tree: Tree) -> object:
        yield ("proc", "stat"), b"cpu 1\n"
        raise error

    monkeypatch.setattr(capture_module, "_ordered", ordered)
    with pytest.raises(error):
        write_capture(tree, b"", target)
    left = [target] if there and name == "captured" else []
    assert list(tmp_path.iterdir()) == left
    assert not left or not list(target.iterdir())


def test_half_a_baseline_is_not_left_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "chmod", lambda *_: (_ for _ in ()).throw(FullError()))
    with pytest.raises(ConfigError, match="No space left on device; see --write-baseline"):
        check_module._write(str(tmp_path / "base"), "x")
    assert list(tmp_path.iterdir()) == []
