"""The real node_exporter beside ours on this host: what both measure must agree.

Ours is scraped before and after theirs, so a counter of theirs must lie between our two values, with no tolerance but that of
its own digits.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import requests

from tests.exporter.parity.table import Exposition, Row, parse, rows

ROOT = Path(__file__).resolve().parents[3]
ROWS = rows()
# Of 120 rows that can be compared, those that any Linux host has.
LEAST_COMPARED = 85
# Gauges that breathe while nobody looks, and those that a single process moves.
BREATH = {"gauge": 0.02, "volatile": 0.5}
SLACK = {"gauge": 4 << 20, "volatile": 8 << 20}
SMALL_SLACK = {"gauge": 0.3, "volatile": 60.0}
TRIES = 4


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def get(port: int) -> Exposition:
    answer = requests.get(f"http://127.0.0.1:{port}/metrics", timeout=20)
    answer.raise_for_status()
    return parse(answer.text)


@pytest.fixture(scope="module")
def ports() -> Iterator[tuple[int, int]]:
    """Ours and theirs, running."""
    peer = shutil.which("prometheus-node-exporter") or shutil.which("node_exporter")
    assert peer is not None, "node_exporter is not installed: start by ./run test, which installs it"
    ours, theirs = free_port(), free_port()
    commands = [
        [sys.executable, "-P", "-m", "hwsonde_exporter", f"--web.listen-address=127.0.0.1:{ours}"],
        [peer, f"--web.listen-address=127.0.0.1:{theirs}", "--collector.schedstat", "--collector.softirqs"],
    ]
    known = subprocess.run([peer, "--help"], capture_output=True, text=True, check=False)
    if "collector.softirqs" not in known.stdout + known.stderr:
        commands[1].pop()
    programs = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) for command in commands]
    try:
        for port in (ours, theirs):
            wait_for(port)
        yield ours, theirs
    finally:
        for program in programs:
            program.terminate()
        for program in programs:
            program.wait(10)


def wait_for(port: int) -> None:
    end = time.monotonic() + 20
    while True:
        try:
            found = get(port)
            # Sizes of filesystems are measured in the background.
            if any(name.endswith(("filesystem_size_bytes", "filesystem_readonly")) for name in found):
                return
        except requests.RequestException:
            pass
        assert time.monotonic() < end, f"nothing answers on port {port}"
        time.sleep(0.1)


def disagreements(row: Row, before: Exposition, theirs: Exposition, after: Exposition) -> list[str] | None:
    """What is wrong with one row; None where theirs says nothing on this host."""
    assert row.ours is not None
    first, last = row.ours.sums(before, row.by), row.ours.sums(after, row.by)
    peer = row.theirs.sums(theirs, row.by)
    shared = first.keys() & last.keys() & peer.keys()
    if not peer:
        return None
    if not shared:
        return [f"{row.theirs.name}{dict(row.theirs.labels)} is there, ours is not"]
    wrong = []
    for key in shared:
        low, high = sorted((first[key], last[key]))
        # Their floats and ours may round the same count differently.
        slack = 1e-9 * abs(high) + 1e-9
        if row.kind in BREATH:
            small = SMALL_SLACK[row.kind] if high < 1 << 16 else SLACK[row.kind]
            slack = BREATH[row.kind] * abs(high) + small
        if not low - slack <= peer[key] <= high + slack:
            wrong.append(f"{row.theirs.name}{dict(row.theirs.labels)}{key}: {peer[key]} not in {low} to {high}")
    return wrong


def test_both_say_the_same(ports: tuple[int, int]) -> None:
    ours, theirs = ports
    compared: set[int] = set()
    wrong: dict[int, list[str]] = {}
    for _ in range(TRIES):
        before = get(ours)
        time.sleep(0.2)  # scrapes within a tenth of a second share their values
        peer = get(theirs)
        time.sleep(0.2)
        after = get(ours)
        for number, row in enumerate(ROWS):
            if row.ours is None or not row.kind:
                continue
            found = disagreements(row, before, peer, after)
            if found is not None:
                compared.add(number)
                if found:
                    wrong.setdefault(number, []).extend(found)
    # A gauge may jump between two scrapes; a value that means something else is wrong every time.
    steady = [found for number, found in wrong.items() if ROWS[number].kind in {"counter", "constant"}]
    always = [found for number, found in wrong.items() if len(found) >= TRIES]
    assert steady + always == [], "\n".join(map(str, steady + always))
    assert len(compared) >= LEAST_COMPARED, len(compared)
