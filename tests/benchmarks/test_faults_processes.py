"""Real processes of the bench: they begin when told, end when they must, and leave nothing behind."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from benchmarks.faults.children import ROOT, Job, Process, last_words, run
from benchmarks.faults.errors import BenchError
from benchmarks.faults.kernel import Kernel
from benchmarks.faults.ledger import Ledger
from benchmarks.faults.meters import read_meter
from benchmarks.faults.stage import free_ports, scrape_configuration
from benchmarks.faults.workers.ring import all_reduce
from benchmarks.faults.workers.training import numpy_step
from benchmarks.faults.workload import Part, Workload, parts
from tests.benchmarks.faults_room import FakeChild

KERNEL = Kernel()
PATIENCE = 20.0


def until(true: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not true():
        assert time.monotonic() < end, f"{what}: not after {PATIENCE:.0f} s"
        time.sleep(0.02)


def gone(pid: int, started: int) -> bool:
    return KERNEL.started(pid) != started or KERNEL.state(pid) in {"Z", "X", ""}


@pytest.fixture
def spawned(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    made: list[Process] = []

    def spawn(worker: str, arguments: dict[str, object], **more: object) -> Process:
        job = Job(worker, arguments, **{"seconds": 60.0, "meter": str(tmp_path / "meter"), **more})  # type: ignore[arg-type]
        made.append(Process(job, tmp_path / "log", lambda pid: None))
        return made[-1]

    yield spawn
    for process in made:
        process.stop()


def test_a_worker_waits_then_works_then_ends(spawned: Callable[..., Process], tmp_path: Path) -> None:
    process = spawned("handles", {"rate": 500, "most": 200})
    time.sleep(0.3)
    assert read_meter(tmp_path / "meter") == 0
    process.go()
    until(lambda: read_meter(tmp_path / "meter") == 200, "the most that it may open")
    started = KERNEL.started(process.pid)
    process.stop()
    assert gone(process.pid, started)
    process.stop()


def test_what_a_worker_forked_ends_with_it(spawned: Callable[..., Process]) -> None:
    process = spawned("spin", {"number": 2})
    process.go()

    def members() -> list[int]:
        numbers = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
        groups = {pid: KERNEL.text(str(pid), "stat").rpartition(")")[2].split() for pid in numbers}
        return [pid for pid, part in groups.items() if len(part) > 2 and int(part[2]) == process.pid != pid]

    until(lambda: len(members()) == 2, "two processes that compute")
    children = [(pid, KERNEL.started(pid)) for pid in members()]
    os.kill(process.pid, signal.SIGKILL)
    until(lambda: all(gone(*child) for child in children), "their end")


def test_time_ends_a_worker_that_nobody_ends(spawned: Callable[..., Process]) -> None:
    process = spawned("spin", {"number": 1}, seconds=1.0)
    process.go()
    until(lambda: not process.alive(), "its end")


def test_a_stopped_process_can_be_ended(spawned: Callable[..., Process]) -> None:
    process = spawned("spin", {"number": 1})
    process.go()
    process.signal(signal.SIGSTOP)
    until(lambda: KERNEL.state(process.pid) == "T", "its stop")
    process.stop()
    assert not process.alive()


def test_a_worker_that_cannot_start_says_why(spawned: Callable[..., Process], tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"the worker paging did not start: /no/file: No such file"):
        spawned("paging", {"data": "/no/file"})
    with pytest.raises(BenchError, match="No such file"):
        spawned("spin", {"number": 1}, groups=("/no/cgroup.procs",))


def test_workers_die_with_the_bench(tmp_path: Path) -> None:
    script = textwrap.dedent("""
        import sys, time
        from pathlib import Path
        from benchmarks.faults.children import Job, Process
        process = Process(Job("spin", {"number": 1}), Path(sys.argv[1]) / "log", lambda pid: None)
        process.go()
        print(process.pid, flush=True)
        time.sleep(600)
    """)
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (ROOT, ROOT / "exporter", ROOT / "detector_sidecar"))),
    }
    bench = subprocess.Popen(
        [sys.executable, "-P", "-c", script, str(tmp_path)], stdout=subprocess.PIPE, cwd=ROOT, env=environment
    )
    try:
        assert bench.stdout is not None
        pid = int(bench.stdout.readline())
        started = KERNEL.started(pid)
        assert started
    finally:
        bench.kill()
        bench.wait()
        if bench.stdout is not None:
            bench.stdout.close()
    until(lambda: gone(pid, started), "the worker's end")


def test_short_commands_say_what_went_wrong() -> None:
    assert run([sys.executable, "-c", "print('x')"]) == "x\n"
    with pytest.raises(BenchError, match="no-such-command does not run"):
        run(["no-such-command"])
    with pytest.raises(BenchError, match="alas"):
        run([sys.executable, "-c", "import sys; sys.exit('alas')"])
    assert last_words(Path("/no/log")) == "nothing was said"


# --- what a killed run leaves


def sleeper() -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])


def test_leftovers_of_a_killed_run_are_found_and_removed(tmp_path: Path) -> None:
    scratch, place = tmp_path / "scratch", tmp_path / "ledger"
    scratch.mkdir()
    (scratch / "data").write_text("x")
    first = Ledger(place, KERNEL)
    first.__enter__()
    process = sleeper()
    first.process(process.pid)
    first.scratch(scratch)
    # As a kill does: the lock is given back, nothing is cleared, the last line is half written.
    with (place / "made.jsonl").open("a") as file:
        file.write('{"pid": 12')
    assert first._lock is not None
    first._lock.close()
    swept: list[str] = []

    def sweep() -> list[str]:
        swept.append("groups")
        return []

    with Ledger(place, KERNEL, sweep) as second:
        assert second.found == [f"process {process.pid}", f"folder {scratch}"]
        assert not scratch.exists()
        assert swept == ["groups"]
    assert process.wait(PATIENCE) == -signal.SIGKILL
    with Ledger(place, KERNEL) as third:
        assert third.found == []


def test_a_process_that_only_has_the_number_is_left_alone(tmp_path: Path) -> None:
    process = sleeper()
    try:
        tmp_path.joinpath("made.jsonl").write_text(
            json.dumps({"pid": process.pid, "started": KERNEL.started(process.pid) - 1}) + "\n"
        )
        with Ledger(tmp_path, KERNEL) as ledger:
            assert ledger.found == []
        assert process.poll() is None
    finally:
        process.kill()
        process.wait()


def test_two_benches_do_not_run_at_once(tmp_path: Path) -> None:
    with (
        Ledger(tmp_path, KERNEL),
        pytest.raises(BenchError, match="another fault bench runs"),
        Ledger(tmp_path, KERNEL),
    ):
        pass
    with Ledger(tmp_path, KERNEL):
        pass


def test_what_cannot_be_removed_is_said(tmp_path: Path) -> None:
    with Ledger(tmp_path, KERNEL, lambda: ["namespace x"]) as ledger:
        assert ledger.found == ["namespace x could not be removed"]


# --- the workload


def test_units_start_together_and_come_back(tmp_path: Path) -> None:
    diary: list[str] = []
    made: dict[str, FakeChild] = {}

    def spawn(part: Part) -> FakeChild:
        made[part.name] = child = FakeChild(len(diary) + 1, diary)
        diary.append(f"spawn {part.name}")
        return child

    workload = Workload(parts(tmp_path, tmp_path, ring=True, background=2), spawn)
    assert workload.units == ("training", "reader", "ring", "background")
    workload.start("ring")
    assert [line.split()[0] for line in diary] == ["spawn"] * 3 + ["go"] * 3
    assert workload.tend() == []
    made["ring1"].running = False
    assert workload.pid("ring1") == 0
    assert workload.tend() == ["ring"]
    assert all(workload.pid(f"ring{number}") for number in range(3))
    workload.stop_all()
    assert workload.tend() == []
    assert not any(child.running for child in made.values())


def test_each_member_of_the_ring_talks_to_the_next(tmp_path: Path) -> None:
    ring = [part for part in parts(tmp_path, tmp_path, ring=True, background=0) if part.unit == "ring"]
    listens = {part.arguments["listen"]: part.name for part in ring}
    assert [listens[part.arguments["next"]] for part in ring] == ["ring1", "ring2", "ring0"]
    assert parts(tmp_path, tmp_path, ring=False, background=0)[-1].name == "reader"


@pytest.mark.parametrize("size", [2, 3, 4])
def test_the_ring_adds_up(size: int) -> None:
    random = np.random.default_rng(1)
    values = [random.normal(0, 1, 40 * size).astype(np.float32) for _ in range(size)]
    wanted = np.sum(values, axis=0)
    cables = [socket.socketpair() for _ in range(size)]
    for pair in cables:
        for one in pair:
            one.setblocking(False)
    threads = [
        threading.Thread(target=all_reduce, args=(cables[me][0], cables[me - 1][1], values[me], me, size))
        for me in range(size)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    for pair in cables:
        for one in pair:
            one.close()
    for found in values:
        np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


def test_training_trains(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []
    real = np.subtract

    def subtract(old: object, change: object, out: object = None) -> object:
        seen.append(float(np.abs(np.asarray(change)).sum()))
        return real(old, change, out=out)  # type: ignore[call-overload]

    monkeypatch.setattr(np, "subtract", subtract)
    step = numpy_step()
    for _ in range(5):
        step()
    assert len(seen) == 10
    assert all(np.isfinite(seen))
    assert min(seen) > 0


def test_targets_keep_their_names_whatever_their_ports() -> None:
    document = scrape_configuration({"a": 1, "b": 2})
    static = document["scrape_configs"][0]["static_configs"]
    assert [one["targets"] for one in static] == [["127.0.0.1:1"], ["127.0.0.1:2"]]
    assert [one["labels"]["instance"] for one in static] == ["a:1", "b:1"]
    assert len(set(free_ports(5))) == 5
