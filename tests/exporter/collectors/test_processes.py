from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_exporter.collectors.processes import ProcessesCollector, parse_state
from hwsonde_exporter.errors import ReadError, Reason, Unavailable
from hwsonde_exporter.host import Host, Paths
from tests.exporter.collectors.hosts import values

NAME = "hwsonde_cpu_processes"


def host_of(tree: Path) -> Host:
    return Host(Paths(tree / "proc", tree / "sys", tree))


def add(tree: Path, pid: int, stat: str | None) -> None:
    folder = tree / "proc" / str(pid)
    folder.mkdir(parents=True)
    if stat is not None:
        (folder / "stat").write_text(stat)


@pytest.mark.parametrize(
    ("data", "state"),
    [
        (b"1 (systemd) S 0 1 1 0\n", "sleeping"), (b"9 (a) b) D 2 0\n", "uninterruptible"), (b"9 (x) R (y) Z 2 0\n", "zombie"),
        (b"9 () I 2\n", "idle"), (b"9 (a) t 1\n", "traced"), (b"9 (a) W 1\n", "running"), (b"9 (a) Q 1\n", None),
        (b"9 (a) S", None), (b"9 a S 1\n", None), (b"", None), (b"9 (a) SS 1\n", None),
    ],
)  # fmt: skip
def test_state_is_behind_the_last_parenthesis(data: bytes, state: str | None) -> None:
    assert parse_state(data) == state


@given(st.binary(max_size=200))
def test_anything_is_parsed(data: bytes) -> None:
    assert parse_state(data) is None or b") " in data


def test_processes_are_counted_and_every_state_is_given(tmp_path: Path) -> None:
    add(tmp_path, 1, "1 (systemd) S 0 1\n")
    add(tmp_path, 2, "2 (a) D 1 1\n")
    add(tmp_path, 3, "3 (b) D 1 1\n")
    add(tmp_path, 4, None)  # ended meanwhile
    add(tmp_path, 5, "garbage")
    (tmp_path / "proc/self").mkdir()
    answer = values(list(ProcessesCollector(host_of(tmp_path)).collect()))
    assert answer[NAME, "uninterruptible"] == 2
    assert answer[NAME, "sleeping"] == 1
    assert answer[NAME, "zombie"] == 0
    assert sum(answer.values()) == 3


def test_hidden_processes_are_told(tmp_path: Path) -> None:
    add(tmp_path, 1, None)
    add(tmp_path, 7, "7 (exporter) R 1 1\n")
    with pytest.raises(Unavailable, match="hidepid") as caught:
        ProcessesCollector(host_of(tmp_path)).probe()
    assert caught.value.reason is Reason.NO_PERMISSION


def test_no_processes_at_all(tmp_path: Path) -> None:
    collector = ProcessesCollector(host_of(tmp_path))
    collector.probe()
    with pytest.raises(ReadError, match=r"--path\.procfs"):
        collector.collect()


def test_a_stopped_process_of_this_machine() -> None:
    host = Host()
    collector = ProcessesCollector(host)
    collector.probe()
    child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
    try:
        os.kill(child.pid, signal.SIGSTOP)
        os.waitpid(child.pid, os.WUNTRACED)
        answer = values(list(collector.collect()))
    finally:
        child.kill()
        child.wait()
        host.files.close()
    assert answer[NAME, "stopped"] >= 1
    assert answer[NAME, "running"] >= 1
