"""The real worker process and the real binding, on the stand-in library."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hwsonde_exporter.collectors.gpu import GpuCollector
from hwsonde_exporter.nvml.answer import Answer, WorkerState
from hwsonde_exporter.nvml.client import Client, NvmlSettings
from hwsonde_exporter.nvml.groups import GROUPS
from hwsonde_exporter.nvml.launcher import ChildProcess
from tests.nvml_shim.control import LIB_RM_VERSION_MISMATCH, Fault
from tests.nvml_shim.shim_host import ShimHost

EVERYTHING = (*GROUPS, "samples")


class Running:
    """A client on a recorded host."""

    def __init__(self, host: ShimHost, deadline: float = 0.5) -> None:
        self.host = host
        self.client = Client(NvmlSettings(library=host.library, deadline=deadline))

    def ask(self, *groups: str) -> Answer:
        """The answer of a worker that has started; nobody waits for one for long, but a busy machine takes long to start it."""
        deadline = time.monotonic() + 60
        while (answer := self.client.collect(groups or ("memory", "power", "ecc"))).state is WorkerState.STARTING:
            assert time.monotonic() < deadline, answer
        return answer

    def until(self, right: Callable[[Answer], bool], seconds: float = 60.0) -> Answer:
        """Ask until the answer is right."""
        deadline = time.monotonic() + seconds
        while True:
            answer = self.ask()
            if right(answer):
                return answer
            assert time.monotonic() < deadline, answer
            time.sleep(0.05)


def ups(answer: Answer) -> list[bool | None]:
    return [device.up for device in answer.devices]


@pytest.fixture
def h200(tmp_path: Path) -> Iterator[Running]:
    running = Running(ShimHost("h200", tmp_path / "shim"))
    yield running
    running.client.stop()


def alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def gone(process: int, seconds: float = 60.0) -> bool:
    deadline = time.monotonic() + seconds
    while alive(process) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive(process)


def test_all_groups_of_a_healthy_host_are_read_without_an_error(h200: Running) -> None:
    answer = h200.ask(*EVERYTHING)
    assert answer.state is WorkerState.RUNNING
    assert answer.gpus == 8
    assert ups(answer) == [True] * 8
    assert answer.driver["driver_version"] == h200.host.recording["system"]["nvmlSystemGetDriverVersion"]
    assert [device.uuid for device in answer.devices] == [h200.host.uuid(number) for number in range(8)]
    assert not h200.client.errors()
    assert {group for group, _ in h200.client.take_calls()} == set(EVERYTHING)


def test_a_lost_gpu_loses_its_readings_and_comes_back(h200: Running) -> None:
    h200.ask()
    h200.host.control.inject(Fault(device=1, error=15))
    answer = h200.until(lambda answer: not answer.devices[1].up)
    assert ups(answer) == [True, False, *[True] * 6]
    assert answer.devices[1].error == "gpu_is_lost"
    assert answer.devices[1].readings == ()
    h200.host.control.heal()
    assert h200.until(lambda answer: all(ups(answer))).devices[1].readings


def test_a_gpu_that_falls_out_between_two_calls_gives_nothing_of_what_it_said_before(h200: Running) -> None:
    h200.host.control.inject(Fault(device=2, function="nvmlDeviceGetTotalEccErrors", error=15))
    answer = h200.ask("memory", "ecc")
    assert (answer.devices[2].up, answer.devices[2].readings) == (False, ())
    assert answer.devices[3].up


def test_a_gpu_that_wants_a_reset_still_tells_what_it_can(h200: Running) -> None:
    h200.host.control.inject(Fault(device=2, function="nvmlDeviceGetUtilizationRates", error=16))
    device = h200.ask("memory", "utilization").devices[2]
    assert (device.up, device.error) == (False, "reset_required")
    assert {reading.name for reading in device.readings} >= {"memory_used_bytes"}


@pytest.mark.parametrize("hang", ["asleep", "deaf"])
def test_a_hung_call_costs_one_worker_and_in_the_end_one_group(h200: Running, hang: str) -> None:
    h200.ask()
    first = h200.host.control.last_process
    h200.host.control.inject(Fault(device=5, function="nvmlDeviceGetMemoryInfo_v2", hang=hang))  # type: ignore[arg-type]
    answer = h200.ask()
    assert ups(answer) == [*[True] * 5, False, True, True]
    assert gone(first)
    answer = h200.until(lambda answer: bool(answer.devices[5].up))
    assert set(answer.devices[5].skipped) == {"memory"}
    assert {reading.name for reading in answer.devices[5].readings} >= {"power_watts", "ecc_errors_total"}
    assert h200.client.restarts() == {"hung": 1, "crashed": 0}


def test_a_worker_that_is_killed_is_replaced(h200: Running) -> None:
    h200.ask()
    first = h200.host.control.last_process
    os.kill(first, signal.SIGKILL)
    h200.until(lambda answer: answer.state is WorkerState.RUNNING)
    assert h200.host.control.last_process != first
    assert h200.client.restarts()["crashed"] == 1


def test_the_driver_goes_and_comes_back(h200: Running) -> None:
    h200.ask()
    h200.host.control.unload_driver()
    answer = h200.until(lambda answer: answer.state is WorkerState.NO_DRIVER)
    assert ups(answer) == [False] * 8
    h200.host.control.load_driver()
    h200.until(lambda answer: ups(answer) == [True] * 8)
    h200.host.control.unload_driver(LIB_RM_VERSION_MISMATCH)
    h200.until(lambda answer: answer.state is WorkerState.MISMATCH)


def test_the_driver_may_come_later(tmp_path: Path) -> None:
    host = ShimHost("workstation", tmp_path / "shim")
    host.control.unload_driver()
    running = Running(host)
    assert running.ask().state is WorkerState.NO_DRIVER
    host.control.load_driver()
    running.until(lambda answer: ups(answer) == [True])
    running.client.stop()


def test_a_library_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "none.so").write_text("no library")
    host = ShimHost("workstation", tmp_path / "shim")
    host.library = tmp_path / "none.so"
    running = Running(host)
    answer = running.ask("memory")
    assert answer.state is WorkerState.NO_LIBRARY
    assert "--nvml.library" in answer.detail
    running.client.stop()


def test_gpus_are_known_by_uuid_when_the_driver_numbers_them_anew(h200: Running) -> None:
    h200.ask()
    h200.host.control.reset_gpu(3)
    h200.until(lambda answer: ups(answer) == [True] * 8)
    h200.host.control.remove_gpu(0)
    answer = h200.until(lambda answer: answer.gpus == 7)
    assert [(device.index, device.up) for device in answer.devices] == [(str(n), n > 0) for n in range(8)]
    assert answer.devices[0].error == "missing"
    h200.host.control.add_gpu(0)
    h200.until(lambda answer: ups(answer) == [True] * 8)


def test_events_arrive_while_the_main_thread_hangs_and_when_the_worker_is_gone(h200: Running) -> None:
    h200.ask()
    h200.host.control.xid(2, 79)
    h200.host.control.xid(2, 79)
    deadline = time.monotonic() + 60
    while len(h200.client.events()[0]) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    events, lost = h200.client.events()
    assert [(event.sequence, event.uuid, event.xid) for event in events] == [
        (1, h200.host.uuid(2), 79),
        (2, h200.host.uuid(2), 79),
    ]
    assert lost == 0
    first = h200.host.control.last_process
    h200.host.control.xid(4, 48)
    # It is in the socket, and nobody has taken it out.
    worker = h200.client._supervisor.worker
    assert isinstance(worker, ChildProcess)
    assert select.select([worker._events], [], [], 60)[0]
    os.kill(first, signal.SIGKILL)
    h200.until(lambda answer: h200.host.control.last_process != first and answer.state is WorkerState.RUNNING)
    assert [(event.sequence, event.xid) for event in h200.client.events(2)[0]] == [(3, 48)]


def test_the_worker_ends_with_its_parent_even_if_it_hangs(tmp_path: Path) -> None:
    host = ShimHost("workstation", tmp_path / "shim")
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from hwsonde_exporter.nvml.client import Client, NvmlSettings\n"
        "client = Client(NvmlSettings(library=Path(sys.argv[1]), deadline=30.0))\n"
        "while client.collect(('memory',)).gpus != 1:\n"
        "    assert client.known()[0].value == 'starting'\n"
        "print('ready', flush=True)\n"
        "sys.stdin.readline()\n"
        "client.collect(('power',))\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code, str(host.library)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdin is not None
    assert parent.stdout is not None
    assert parent.stdout.readline() == "ready\n"
    worker = host.control.last_process
    host.control.inject(Fault(hang="asleep"))
    parent.stdin.write("go\n")
    parent.stdin.flush()
    deadline = time.monotonic() + 60
    while not host.control.hanging and time.monotonic() < deadline:
        time.sleep(0.02)
    assert host.control.hanging
    assert alive(worker)
    parent.kill()
    parent.wait(10)
    assert gone(worker)
    parent.stdin.close()
    parent.stdout.close()


def test_a_slow_group_is_not_read_each_time_and_does_not_flap(tmp_path: Path) -> None:
    # The deadline is far off, so that only the call that is made slow is.
    running = Running(ShimHost("h200", tmp_path / "shim"), deadline=30.0)
    running.host.control.inject(Fault(device=0, function="nvmlDeviceGetMemoryInfo_v2", slow=0.3))
    left_out = []
    for _ in range(10):
        calls = running.host.control.calls("nvmlDeviceGetMemoryInfo_v2")
        device = running.ask("memory", "power").devices[0]
        assert {"memory_used_bytes", "power_watts"} <= {reading.name for reading in device.readings}
        left_out.append(running.host.control.calls("nvmlDeviceGetMemoryInfo_v2") < calls + 8)
    assert left_out[0] is False
    assert any(left_out)
    running.client.stop()


def test_the_exporter_itself_does_not_load_the_binding() -> None:
    code = (
        "import sys\n"
        "from hwsonde_exporter import cli\n"
        "from hwsonde_exporter.registry import load_collectors\n"
        "load_collectors()\n"
        "assert 'pynvml' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def resident(process: int) -> int:
    """Kilobytes of memory of a process."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1])
    raise AssertionError("no such process")


def test_the_workers_memory_does_not_grow(tmp_path: Path) -> None:
    host = ShimHost("workstation", tmp_path / "shim")
    running = Running(host, deadline=10.0)
    groups = (*GpuCollector.groups, "ecc", "processes")
    for _ in range(200):
        running.ask(*groups)
    before = resident(host.control.last_process)
    for _ in range(800):
        running.ask(*groups)
    assert resident(host.control.last_process) - before < 300
    running.client.stop()
