"""The commands `up` and `demo` as a user meets them: standard output, status, and what is left running."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from quickstart.layout import ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

KEYS = [
    "exporter_series",
    "collectors_ok",
    "windows_scored",
    "max_score",
    "calibrated",
    "alerts_firing",
    "pages_sent",
    "errors",
]


def five_ports() -> int:
    """First of five free ports in a row."""
    for base in range(23000, 60000, 10):
        sockets = [socket.socket() for _ in range(5)]
        try:
            for offset, one in enumerate(sockets):
                one.bind(("127.0.0.1", base + offset))
        except OSError:
            continue
        else:
            return base
        finally:
            for one in sockets:
                one.close()
    raise AssertionError("no five free ports in a row")


def up(data: Path, base: int, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "quickstart", "up", f"--data={data}", f"--port-base={base}", *more],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'deploy'}"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )


def running(data: Path) -> list[str]:
    """Commands of processes that speak of this data directory."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = place.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(data) in command:
            found.append(command)
    return found


def ended(data: Path) -> None:
    end = time.monotonic() + 10
    while left := running(data):
        assert time.monotonic() < end, left
        time.sleep(0.05)


def wait_for_introduction(process: subprocess.Popen[str]) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("Data and logs"):
            return
    raise AssertionError("it ended before it was up")


def deadlines(err: str) -> int:
    """Errors that are told as deadlines that were missed, which befalls any program on a starved host."""
    told = re.findall(r"^error at \S+: .*(?:was not answered within|\(timeout\)).*$", err, re.MULTILINE)
    counts = [re.search(r", (\d+) times since$", line) for line in told]
    return sum(int(count[1]) if count else 1 for count in counts)


def test_up_for_a_while_prints_one_line_of_json(tmp_path: Path) -> None:
    process = up(tmp_path / "data", five_ports(), "--for=8")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out.count("\n") == 1
    health = json.loads(out)
    assert list(health) == KEYS
    assert health["exporter_series"] >= 300
    assert health["collectors_ok"] >= 6
    late = deadlines(err)
    assert health["errors"] == late <= 3, f"{err}load average {os.getloadavg()}"
    assert (health["calibrated"], health["alerts_firing"], health["pages_sent"]) == (False, 0, 0)
    assert "stand-in" in err
    assert "Traceback" not in err
    assert running(tmp_path / "data") == []


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        pytest.param(signal.SIGINT, marks=pytest.mark.slow),
        pytest.param(signal.SIGHUP, marks=pytest.mark.slow),
    ],
)
def test_up_ends_everything_on_a_signal(tmp_path: Path, number: signal.Signals) -> None:
    data = tmp_path / "data"
    process = up(data, five_ports())
    wait_for_introduction(process)
    assert len(running(data)) >= 4
    began = time.monotonic()
    # As a terminal does: the whole foreground group gets it, and impatient people send it twice.
    os.killpg(process.pid, number)
    os.killpg(process.pid, number)
    out, err = process.communicate(timeout=30)
    assert time.monotonic() - began < 8
    assert process.returncode == 0, err
    assert out == ""
    assert "Traceback" not in err
    assert running(data) == []


def test_nothing_outlives_a_killed_supervisor(tmp_path: Path) -> None:
    data = tmp_path / "data"
    process = up(data, five_ports())
    wait_for_introduction(process)
    process.kill()
    process.communicate(timeout=10)
    ended(data)


def test_a_taken_port_is_one_line(tmp_path: Path) -> None:
    base = five_ports()
    with socket.socket() as other:
        other.bind(("127.0.0.1", base + 2))
        other.listen()
        process = up(tmp_path / "data", base)
        out, err = process.communicate(timeout=30)
    assert process.returncode == 1
    assert out == ""
    assert err == f"run: port {base + 2} (prometheus) is taken: choose others with --port-base N\n"
    assert running(tmp_path / "data") == []
