"""Children, faults, ports, data directory: real processes, short ones."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from quickstart import faults, storage
from quickstart.child import LONGEST_DELAY, BackOff, Child, Program, bound_log, words
from quickstart.errors import QuickstartError
from quickstart.faults import Fault, available_memory, plan
from quickstart.layout import ROOT, Options, Ports, default_data
from quickstart.stack import Stack, check_prometheus, find_tool, port_is_free


def shell(text: str) -> Program:
    return Program("shell", ("bash", "-c", text), 0, "")


def eventually(true: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_child_has_its_own_group_and_its_log(tmp_path: Path) -> None:
    child = Child(shell("echo hello; echo there >&2; exec sleep 60"), tmp_path / "log", tmp_path)
    child.start()
    assert child.pid is not None
    eventually(lambda: child.last_words() == "there")
    assert os.getpgid(child.pid) == child.pid
    assert child.status() is None
    child.stop()
    assert child.status() == -signal.SIGTERM


def test_a_child_that_does_not_want_to_end_is_killed(tmp_path: Path) -> None:
    child = Child(shell("trap '' TERM; echo deaf; while :; do sleep 0.1; done"), tmp_path / "log", tmp_path)
    child.start()
    eventually(lambda: child.last_words() == "deaf")
    child.stop(0.2)
    assert child.status() == -signal.SIGKILL


def test_a_child_dies_with_a_supervisor_that_is_killed(tmp_path: Path) -> None:
    text = (
        "import sys, time; from pathlib import Path; from quickstart.child import Child, Program\n"
        "child = Child(Program('s', ('sleep', '60'), 0, ''), Path(sys.argv[1]), Path('/'))\n"
        "child.start(); print(child.pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", text, str(tmp_path / "log")],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "deploy")},
    )  # fmt: skip
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert alive(pid)
    parent.kill()
    parent.communicate()
    eventually(lambda: not alive(pid))


def test_a_program_that_does_not_exist(tmp_path: Path) -> None:
    child = Child(Program("none", ("/no/such/program",), 0, ""), tmp_path / "log", tmp_path)
    child.start()
    assert child.wait(60)
    assert child.status() == 1
    assert child.last_words() == "/no/such/program: No such file or directory"


PANIC = """\
ts=2026-03-01T09:00:00.000Z caller=main.go:583 level=warn msg="something else"
ts=2026-03-01T09:00:00.100Z caller=query_logger.go:86 level=error msg="Error opening query log file" err="open q: not a directory"
panic: Unable to create mmap-ed active query log

goroutine 1 [running]:
github.com/prometheus/prometheus/promql.NewActiveQueryTracker({0x7ffd8f3a5d5b, 0x1f}, 0x14, {0x3bf8a40, 0xc000a0c0a0})
	/app/promql/query_logger.go:121 +0x3cd
main.main()
	/app/cmd/prometheus/main.go:613 +0x6a93
"""
CRASH = """\
level=info msg=ready
fatal error: runtime: out of memory
[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x123]

goroutine 7 gp=0xc000 m=1 [running]:
github.com/oklog/run.(*Group).Run.func1({0xc000123, 0xc000456})
	/go/pkg/mod/github.com/oklog/run@v1.1.0/group.go:38 +0x2f
created by github.com/oklog/run.(*Group).Run in goroutine 1
	/go/pkg/mod/github.com/oklog/run@v1.1.0/group.go:37 +0x22a
rax    0x0
rip    0x46e2a1
exit status 2
"""


@pytest.mark.parametrize(
    ("tail", "said"),
    [
        ("", ""),
        ("a\n\n  b  \n\n", "b"),
        (
            PANIC,
            f"panic: Unable to create mmap-ed active query log, after {PANIC.splitlines()[1]}",
        ),
        (PANIC.split("\n", 2)[2], "panic: Unable to create mmap-ed active query log"),
        (CRASH, "fatal error: runtime: out of memory"),
        (CRASH + "level=error msg=later\n", "level=error msg=later"),
        ("main.main()\n\t/app/main.go:613 +0x6a93\n", "/app/main.go:613 +0x6a93"),
        (
            'Traceback (most recent call last):\n  File "x.py", line 1\nOSError: [Errno 28] full\n',
            "OSError: [Errno 28] full",
        ),
        ("x" * 1000, "x" * 400),
    ],
)
def test_last_words_are_no_stack(tail: str, said: str) -> None:
    assert words(tail) == said


def test_back_off_grows_and_begins_anew_after_a_steady_minute() -> None:
    back_off = BackOff()
    assert [back_off.next_delay(0.5) for _ in range(7)] == [1, 2, 4, 8, 16, LONGEST_DELAY, LONGEST_DELAY]
    assert back_off.next_delay(61) == 1


def test_a_log_stays_bounded(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"a" * 60 + b"b" * 60)
    assert not bound_log(path, 120)
    assert bound_log(path, 100)
    assert path.read_bytes() == b""
    assert (tmp_path / "log.old").read_bytes() == b"b" * 50
    assert not bound_log(tmp_path / "none", 100)


@pytest.mark.parametrize("kind", ["cpu", "disk", "memory"])
def test_a_fault_begins_and_ends_by_itself(tmp_path: Path, kind: str) -> None:
    what = faults.Plan(kind, kind, 2 if kind != "memory" else 64 << 20, "")
    before = time.time()
    with Fault(what, 0.3, tmp_path) as fault:
        assert before <= fault.began <= time.time()
        eventually(fault.over)
        assert fault.ended is not None
        assert fault.ended - fault.began >= 0.3
    assert list(tmp_path.iterdir()) == []


def test_a_fault_is_ended_with_all_of_its_processes(tmp_path: Path) -> None:
    with Fault(faults.Plan("cpu", "cpu", 3, ""), 60, tmp_path) as fault:
        leader = fault.pid
        workers = [
            int(pid) for pid in Path(f"/proc/{leader}/task/{leader}/children").read_text(encoding="ascii").split()
        ]
        assert len(workers) == 3
    eventually(lambda: not any(alive(pid) for pid in [leader, *workers]))


def test_a_fault_that_cannot_be_made(tmp_path: Path) -> None:
    not_a_folder = tmp_path / "file"
    not_a_folder.write_text("", encoding="utf-8")
    with (
        pytest.raises(QuickstartError, match="could not be made"),
        Fault(faults.Plan("disk", "storage", 1, ""), 5, not_a_folder) as fault,
    ):
        eventually(fault.over)


def test_sizes_of_faults() -> None:
    assert plan("cpu", 2, 0).number == 8
    assert plan("disk", 2, 0).subsystem == "storage"
    assert plan("memory", 2, 8 << 30).number == 4 << 30
    assert plan("memory", 2, 1 << 40).number == 16 << 30
    with pytest.raises(QuickstartError, match="2 GiB"):
        plan("memory", 2, (2 << 30) - 1)
    with pytest.raises(QuickstartError, match="choose cpu, disk or memory"):
        plan("fire", 2, 0)


def test_available_memory() -> None:
    assert available_memory("MemTotal: 4 kB\nMemAvailable:   2048 kB\n") == 2 << 20
    assert available_memory("") == 0


def test_ports() -> None:
    assert Ports.from_base(20000).named() == {
        "exporter": 20000, "detector": 20001, "prometheus": 20002, "alertmanager": 20003, "events": 20004,
    }  # fmt: skip
    for base in (0, 80, 65535):
        with pytest.raises(QuickstartError, match="port-base"):
            Ports.from_base(base)


def test_a_port_is_free_or_not() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        assert not port_is_free(other.getsockname()[1])
        port = other.getsockname()[1]
    assert port_is_free(port)


def options(data: Path, ports: Ports) -> Options:
    return Options(data, ports, "n1")


@pytest.fixture
def free_ports() -> Ports:
    probes = [socket.socket() for _ in range(5)]
    for probe in probes:
        probe.bind(("127.0.0.1", 0))
    numbers = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return Ports(*numbers)


def test_a_taken_port_is_named_and_nothing_is_started(tmp_path: Path, free_ports: Ports) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", free_ports.alertmanager))
        other.listen()
        stack = Stack(options(tmp_path / "data", free_ports), print)
        with pytest.raises(
            QuickstartError, match=rf"port {free_ports.alertmanager} \(alertmanager\) is taken.*--port-base"
        ):
            stack.start()
    assert stack.children == {}


def test_two_on_one_data_directory(tmp_path: Path, free_ports: Ports) -> None:
    first, second = (Stack(options(tmp_path / "data", free_ports), print) for _ in range(2))
    first._prepare()
    with pytest.raises(QuickstartError, match=r"another hwsonde runs on .*--data"):
        second.start()
    first.stop()
    second._prepare()
    second.stop()


def test_a_data_directory_that_cannot_be_made(tmp_path: Path, free_ports: Ports) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(QuickstartError, match=r"cannot be written.*--data"):
        Stack(options(tmp_path / "file" / "data", free_ports), print).start()


def test_a_log_that_cannot_be_written_is_one_line_and_nothing_is_started(tmp_path: Path, free_ports: Ports) -> None:
    (tmp_path / "data" / "logs" / "exporter.log").mkdir(parents=True)
    stack = Stack(options(tmp_path / "data", free_ports), print)
    with pytest.raises(QuickstartError, match=r"exporter\.log is a directory where a file must be.*--data"):
        stack.start()
    assert stack.children == {}


def test_a_full_disk_is_one_line_at_the_start(
    tmp_path: Path, free_ports: Ports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "lack", lambda directory: f"{directory} has 1.0 MiB left")
    with pytest.raises(QuickstartError, match=r"data has 1\.0 MiB left"):
        Stack(options(tmp_path / "data", free_ports), print).start()


def test_a_configuration_that_cannot_be_written_is_one_line(tmp_path: Path, free_ports: Ports) -> None:
    place = tmp_path / "data" / "config" / "prometheus.yml"
    place.mkdir(parents=True)
    with pytest.raises(QuickstartError, match=rf"^{place}: Is a directory: .*--data"):
        Stack(options(tmp_path / "data", free_ports), print).start()


def test_a_program_that_cannot_be_started_again_is_counted_and_tried_again(tmp_path: Path, free_ports: Ports) -> None:
    notes: list[str] = []
    stack = Stack(options(tmp_path / "data", free_ports), notes.append)
    stack.options.logs.mkdir(parents=True)
    for name, text in (("mortal", "echo bye; exit 3"), ("other", "exec sleep 60")):
        stack.children[name] = Child(shell(text), stack.options.logs / f"{name}.log", tmp_path)
        stack.run(name)
    eventually(lambda: stack.children["mortal"].status() == 3)
    (tmp_path / "data").rename(tmp_path / "elsewhere")
    stack.tend()
    stack._due["mortal"] = 0.0
    stack.tend()
    assert (stack.restarts, stack.failed_starts) == (1, 1)
    assert notes[0].startswith("mortal ended with status 3, starting it again in 1 s (log: ")
    assert notes[1] == (
        f"mortal cannot be started: {stack.options.logs}/mortal.log: No such file or directory; trying again in 2 s"
    )
    stack._due["mortal"] += 60
    stack.tend()
    assert (stack.restarts, stack.failed_starts) == (1, 1), "not before its time"
    assert stack.children["other"].status() is None

    dead = stack.children["mortal"].pid
    (tmp_path / "elsewhere").rename(tmp_path / "data")
    stack._due["mortal"] = 0.0
    stack.tend()
    assert stack.children["mortal"].pid != dead
    eventually(lambda: stack.children["mortal"].last_words() == "bye")
    assert (stack.restarts, stack.failed_starts, len(notes)) == (1, 1, 2)
    stack.stop()


def test_a_program_that_cannot_be_started_at_first_ends_everything(
    tmp_path: Path, free_ports: Ports, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    stack = Stack(options(tmp_path, free_ports), print)
    stack.children["shell"] = Child(shell("true"), tmp_path / "log", tmp_path)
    monkeypatch.setattr("quickstart.child.subprocess.Popen", refused)
    with pytest.raises(QuickstartError, match="shell cannot be started: Resource temporarily unavailable"):
        stack.run("shell")


def test_what_an_earlier_process_said_are_no_last_words(tmp_path: Path) -> None:
    program = shell("test -e mute || echo old; exit 3")
    child = Child(program, tmp_path / "log", tmp_path)
    child.start()
    assert child.wait(60)
    assert child.last_words() == "old"
    (tmp_path / "mute").touch()
    child.start()
    assert child.wait(60)
    assert child.last_words() == ""
    (tmp_path / "mute").unlink()
    child.start()
    assert child.wait(60)
    assert child.last_words() == "old"


def test_last_words_outlast_a_cut_of_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "log").write_bytes(b"old\n")
    child = Child(
        shell("echo before; touch said; until test -e cut; do sleep 0.02; done; echo after"), tmp_path / "log", tmp_path
    )
    child.start()
    eventually((tmp_path / "said").exists)
    monkeypatch.setattr("quickstart.child.bound_log", lambda path: bound_log(path, 8))
    child.bound_log()
    (tmp_path / "cut").touch()
    assert child.wait(60)
    assert child.last_words() == "after"


def test_a_program_that_ends_without_a_word_is_told_by_its_status(tmp_path: Path, free_ports: Ports) -> None:
    stack = Stack(options(tmp_path, free_ports), print)
    stack.children["mute"] = Child(
        Program("mute", ("bash", "-c", "exit 3"), free_ports.exporter, "/"), tmp_path / "log", tmp_path
    )
    (tmp_path / "log").write_text("old\n")
    stack.run("mute")
    with pytest.raises(QuickstartError, match="mute ended at its start: it said nothing, status 3"):
        stack.wait_ready(["mute"])


def test_the_place_of_data_follows_xdg() -> None:
    assert default_data({"HOME": "/home/u"}) == Path("/home/u/.local/state/hwsonde")
    assert default_data({"HOME": "/home/u", "XDG_STATE_HOME": "/s"}) == Path("/s/hwsonde")
    assert default_data({"HOME": "/home/u", "XDG_STATE_HOME": "relative"}) == Path("/home/u/.local/state/hwsonde")


def test_tools() -> None:
    assert find_tool(("no-such-tool", "bash"), "bash").endswith("/bash")
    with pytest.raises(QuickstartError, match="install the package thing"):
        find_tool(("no-such-tool",), "thing")


def test_old_prometheus() -> None:
    check_prometheus("prometheus, version 2.42.0+ds (branch: debian/sid)")
    check_prometheus("prometheus, version 3.1.0")
    check_prometheus("built from a branch")
    with pytest.raises(QuickstartError, match=r"2\.31 is too old"):
        check_prometheus("prometheus, version 2.31.2+ds")
