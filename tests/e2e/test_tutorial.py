"""The tutorial's commands, as they are written there, against what `./run up` starts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from quickstart.layout import ROOT
from tests.docs.markdown import blocks
from tests.e2e.test_command import five_ports, up

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(300)]

TUTORIAL = ROOT / "docs" / "tutorial.md"
# Of `check` and `doctor` the status says what this machine is like.
STATUSES = {"check": {0, 1, 2}, "doctor": {0, 1}}
LINES = [
    line
    for block in blocks(TUTORIAL)
    if block.language == "sh"
    for line in block.lines
    if not line.startswith("./run")  # the first is running, the demo is tried in test_faults.py
]


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path]]:
    """First port and data directory of what was started, as soon as the detector knows a host."""
    base, data = five_ports(), tmp_path_factory.mktemp("tutorial")
    process = up(data, base)
    try:
        end = time.monotonic() + 90
        while b'"name":"local/' not in asked(f"http://127.0.0.1:{base + 1}/api/v1/hosts"):
            assert process.poll() is None, process.stderr and process.stderr.read()
            assert time.monotonic() < end, "the detector knows no host"
            time.sleep(0.5)
        yield base, data
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)


def asked(url: str) -> bytes:
    try:
        with urlopen(url, timeout=5) as answer:
            content: bytes = answer.read()
            return content
    except (URLError, OSError):
        return b""


def placed(line: str, base: int, data: Path, folder: Path) -> str:
    """The command with this start's ports, folders and Python in the place of the usual ones."""
    for offset in range(5):
        line = line.replace(f":{19880 + offset}", f":{base + offset}")
    for program in ("exporter", "detector"):
        line = line.replace(f".venv/bin/hwsonde-{program}", f"{sys.executable} -P -m hwsonde_{program}")
    return line.replace("~/.local/state/hwsonde", str(data)).replace("/tmp/hwsonde-report", str(folder / "report"))


def test_there_are_commands_to_try() -> None:
    assert len(LINES) >= 5


@pytest.mark.parametrize("line", LINES)
def test_a_command_works(line: str, stack: tuple[int, Path], tmp_path: Path) -> None:
    path = os.pathsep.join(str(ROOT / name) for name in (".", "exporter", "detector_sidecar"))
    done = subprocess.run(
        ["bash", "-c", placed(line, *stack, tmp_path)],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    allowed = next((STATUSES[word] for word in line.split() if word in STATUSES), {0})
    assert done.returncode in allowed, done.stdout + done.stderr
    assert done.stdout.strip()
    if " report " in line:
        assert (tmp_path / "report" / "report.html").stat().st_size > 1000
