"""Too few threads and too few descriptors: nothing ends for it, nothing spins, and all goes on when there are some again."""

import contextlib
import logging
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import hwsonde_exporter
from hwsonde_exporter import listening as listening_module
from hwsonde_exporter.errors import ThreadError
from hwsonde_exporter.exporter import Exporter
from hwsonde_exporter.lanes import Job, Lane
from hwsonde_exporter.listening import Listening, bounded_connections
from hwsonde_exporter.mesh.service import Mesh, MeshSettings
from hwsonde_exporter.sampler import Sampler
from hwsonde_exporter.signals import Ended, Signals
from hwsonde_exporter.threads import spawn
from hwsonde_exporter.workers import Workers
from tests.exporter.core.fakes import Clock, collector_kind, heat_of
from tests.exporter.core.test_runner import runner_of, values

ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(hwsonde_exporter.__file__).parents[1])}


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bool], None]]:
    """Switch a shortage of threads on and off; it is on."""
    real = threading.Thread.start

    def fail(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    def switch(on: bool) -> None:
        monkeypatch.setattr(threading.Thread, "start", fail if on else real)

    switch(True)
    yield switch
    switch(False)


def job_of(done: list[int], number: int = 0) -> Job:
    return Job(lambda _: done.append(number), time.monotonic() + 10)


def test_it_is_an_error_with_what_to_do(short: Any) -> None:
    with pytest.raises(ThreadError, match=r"raise TasksMax= and MemoryMax="):
        spawn("x", print)


def test_a_lane_gets_its_thread_when_there_is_one(short: Any, caplog: pytest.LogCaptureFixture) -> None:
    lane, done = Lane(time.monotonic), []
    jobs = [job_of(done, number) for number in range(2)]
    with caplog.at_level(logging.ERROR):
        lane.submit(jobs)
        lane.relieve(0.1)
        lane.relieve(0.1)
    assert len(caplog.records) == 1
    assert not jobs[0].done.wait(0.05)
    short(False)
    lane.relieve(0.1)
    assert all(job.done.wait(5) for job in jobs)
    assert done == [0, 1]
    lane.close()


def test_a_lane_that_cannot_be_relieved_keeps_the_thread_that_it_has(short: Any) -> None:
    short(False)
    gate, lane, done = threading.Event(), Lane(time.monotonic), []
    stuck = Job(lambda _: gate.wait(20), time.monotonic() + 10)
    lane.submit([stuck, job_of(done)])
    while stuck.started is None:
        time.sleep(0.01)
    short(True)
    lane.relieve(0.0)
    gate.set()
    after = job_of(done)
    lane.submit([after])
    assert after.done.wait(5)
    lane.close()


def test_a_scrape_is_answered_without_collectors_and_with_them_later(short: Any) -> None:
    runner = runner_of(collector_kind("a", heat_of(1.0)), timeout=0.1)
    assert values(runner.collect()) == {}
    short(False)
    deadline = time.monotonic() + 5
    while not values(runner.collect()) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert values(runner.collect()) == {"a": (1.0,)}
    runner.stop()


class Connection:
    def __init__(self) -> None:
        self.closed = threading.Event()

    def communicate(self) -> bool:
        return False

    def close(self) -> None:
        self.closed.set()


def test_a_pool_serves_with_the_threads_that_it_has(short: Any) -> None:
    pool = Workers(None, 3, 50)  # type: ignore[arg-type]
    with pytest.raises(ThreadError):
        pool.start()
    assert pool.size == 0
    short(False)
    pool.start()
    short(True)
    connections = [Connection() for _ in range(20)]
    for connection in connections:
        pool.put(connection)
    assert all(connection.closed.wait(5) for connection in connections)
    assert pool.size == 3
    pool.stop(5)
    assert pool.size == 0


def test_the_sampler_begins_when_there_is_a_thread(short: Any, caplog: pytest.LogCaptureFixture) -> None:
    ticks = threading.Event()
    kind = collector_kind("a", list, metrics=(), observe=lambda: ticks.set() or [], quantities=())
    with caplog.at_level(logging.ERROR):
        sampler = Sampler({"a": (kind, lambda: kind(None))}, 50.0, time.monotonic)  # type: ignore[dict-item]
        sampler.start()
        sampler.blocks()
        sampler.blocks()
    assert len(caplog.records) == 1
    short(False)
    sampler.blocks()
    assert ticks.wait(5)
    sampler.stop()


def test_the_mesh_probe_is_tried_again_with_the_same_settings(short: Any) -> None:
    mesh, settings = Mesh(), MeshSettings(listen=("127.0.0.1", 0))
    with pytest.raises(ThreadError):
        mesh.configure(settings)
    assert mesh.samples() is None
    short(False)
    mesh.configure(settings)
    deadline = time.monotonic() + 5
    while mesh.port is None and time.monotonic() < deadline:
        time.sleep(0.01)
    assert mesh.port
    mesh.stop()


def test_settings_that_lacked_a_thread_are_taken_over_when_they_come_again(short: Any) -> None:
    clock = Clock()
    kind = collector_kind("slow", heat_of(1.0), period=60.0)
    from hwsonde_exporter.cell import Clocks
    from hwsonde_exporter.exporter import ExporterSettings
    from hwsonde_exporter.host import Paths
    from hwsonde_exporter.runner import RunnerSettings

    clocks = Clocks(time.monotonic, clock)
    without = ExporterSettings(RunnerSettings(frozenset()), hertz=0.0)
    wanted = ExporterSettings(RunnerSettings(frozenset({"slow"})), hertz=0.0)
    exporter = Exporter({"slow": kind}, Paths(), without, clocks)
    exporter.start()
    with pytest.raises(ThreadError):
        exporter.configure(wanted)
    short(False)
    exporter.configure(wanted)
    exporter.settle(5)
    assert [state.success for state in exporter.states()] == [True]
    exporter.stop()


def test_no_more_connections_than_leave_descriptors_for_collectors(monkeypatch: pytest.MonkeyPatch) -> None:
    for soft, expected in ((16, 8), (64, 16), (1024, 256), (resource.RLIM_INFINITY, 256)):
        monkeypatch.setattr(resource, "getrlimit", lambda _, soft=soft: (soft, soft))
        assert bounded_connections(256) == expected
    assert bounded_connections(3) == 3


@contextlib.contextmanager
def no_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    lowest = os.open("/dev/null", os.O_RDONLY)
    os.close(lowest)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_shortage_of_descriptors_is_a_pause_and_one_line(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses, room = [], []
    monkeypatch.setattr(listening_module.time, "sleep", pauses.append)
    listening = Listening(socket.create_server(("127.0.0.1", 0)), lambda: room.append(1))
    with listening, socket.create_connection(listening.getsockname()):
        with caplog.at_level(logging.ERROR), no_descriptors():
            for _ in range(3):
                with pytest.raises(BlockingIOError):
                    listening.accept()
        assert (len(pauses), len(room), len(caplog.records)) == (3, 3, 1)
        accepted, _ = listening.accept()
        accepted.close()


def test_any_other_error_is_as_it_was() -> None:
    listening = Listening(socket.create_server(("127.0.0.1", 0)), list)
    listening.settimeout(0.01)
    with listening, pytest.raises(TimeoutError):
        listening.accept()


def test_served_with_few_descriptors_it_neither_spins_nor_fills_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    code = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (56, 56));"
        "from hwsonde_exporter.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    with log.open("wb") as stream:
        process = subprocess.Popen(
            [sys.executable, "-c", code, "--web.listen-address", "127.0.0.1:0"], env=ENVIRONMENT, stderr=stream
        )
    held = []
    try:
        deadline = time.monotonic() + 20
        while "serves http" not in log.read_text() and time.monotonic() < deadline:
            time.sleep(0.02)
        port = int(log.read_text().partition("127.0.0.1:")[2].partition("/")[0])
        with contextlib.suppress(TimeoutError):
            for _ in range(120):
                held.append(socket.create_connection(("127.0.0.1", port), timeout=1))  # noqa: PERF401  (what there is, is kept)
        before = cpu_seconds(process.pid)
        time.sleep(1.0)
        assert cpu_seconds(process.pid) - before < 0.5
        for connection in held:
            connection.close()
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
                connection.sendall(b"GET /-/healthy HTTP/1.0\r\n\r\n")
                if b"healthy" in connection.recv(1000):
                    break
        else:
            pytest.fail(f"it does not answer again: {log.read_text()[-1000:]}")
        assert log.read_text().count("no connection can be accepted") <= 1
        assert len(log.read_text().splitlines()) < 100
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch) -> Iterator[Signals]:
    numbers = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    monkeypatch.setattr("hwsonde_exporter.signals.spawn", lambda *_: None)  # nobody ends the tests
    yield Signals()
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def test_a_signal_to_end_goes_before_a_storm_of_reloads(signals: Signals) -> None:
    signals.started()
    assert signals.wait(0.0) is None
    for _ in range(500):
        os.kill(os.getpid(), signal.SIGHUP)
    assert signals.wait(1.0) == signal.SIGHUP
    assert signals.wait(0.0) is None
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGHUP):
        os.kill(os.getpid(), number)
    assert signals.wait(1.0) == signal.SIGTERM


def test_while_starting_a_signal_to_end_is_raised_and_one_to_reload_waits(signals: Signals) -> None:
    os.kill(os.getpid(), signal.SIGHUP)
    with pytest.raises(Ended) as ended:
        signal.raise_signal(signal.SIGTERM)
    assert ended.value.number == signal.SIGTERM
    signals.started()
    assert signals.wait(0.0) == signal.SIGHUP


@pytest.mark.parametrize("state", ["starting", "reloading", "log_full"])
def test_it_ends_within_a_second_in_every_state(state: str, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    code = {
        # The main thread waits for a lock that nobody gives back, in a call that no signal gets out of.
        "starting": "from hwsonde_exporter import runner; runner.Runner.start = hang",
        "reloading": "from hwsonde_exporter import service; service._reload = hang",
        "log_full": "import logging; threading.Thread(target=flood, daemon=True).start()",
    }[state]
    program = (
        "import os, sys, threading, time\n"
        "def hang(*_):\n"
        f"    os.write({writing}, b'x'); lock = threading.Lock(); lock.acquire()\n"
        "    while True:\n"
        "        try:\n            lock.acquire()\n        except BaseException:\n            pass\n"
        "def flood():\n"
        "    time.sleep(1)\n"
        f"    os.set_blocking(2, True); os.write({writing}, b'x')\n"
        "    while True:\n        logging.getLogger().error('x' * 1000)\n"
        f"{code}\n"
        "from hwsonde_exporter.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, "--web.listen-address", "127.0.0.1:0"],
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        pass_fds=(writing,),
    )
    try:
        if state == "reloading":
            time.sleep(1.5)
            process.send_signal(signal.SIGHUP)
        assert os.read(reading, 1) == b"x"
        time.sleep(0.3)
        began = time.monotonic()
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
        # Within a second on a quiet machine; this one may be busy.
        assert time.monotonic() - began < 3
    finally:
        process.kill()
        os.close(reading)
        os.close(writing)
        if process.stderr is not None:
            process.stderr.close()
