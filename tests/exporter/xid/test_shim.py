"""XIDs by the whole way of the library: an event in the driver, the worker's thread, the collector, beside the kernel's log."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from hwsonde_exporter.collectors.gpu_xid import GpuXidCollector
from hwsonde_exporter.host import Host
from hwsonde_exporter.nvml.answer import WorkerState
from hwsonde_exporter.nvml.client import Client, NvmlSettings
from tests.exporter.collectors.hosts import values
from tests.exporter.nvml_hosts.gpu_host import kernel_files
from tests.exporter.xid.logs import Log, xid
from tests.nvml_shim.shim_host import ShimHost

ERRORS = "hwsonde_gpu_xid_errors_total"


@dataclass
class Bench:
    shim: ShimHost
    client: Client
    collector: GpuXidCollector
    log: Log
    found: dict[tuple[str, ...], float] = field(default_factory=dict)

    def address(self, device: int) -> str:
        bus_id = self.shim.recording["devices"][device]["calls"]["nvmlDeviceGetPciInfo_v3"]["busId"]
        return str(bus_id).lower().removeprefix("0000").rpartition(".")[0]

    def count(self, device: int, code: int) -> float | None:
        self.found = values(list(self.collector.collect()))
        return self.found.get((ERRORS, str(device), self.shim.uuid(device), str(code)))

    def wait(self, condition: Callable[[], object]) -> None:
        end = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < end, self.found
            time.sleep(0.05)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    shim = ShimHost("h200", tmp_path / "nvml")
    client = Client(NvmlSettings(library=shim.library, deadline=1.0, hertz=0.0))
    log = Log()
    collector = GpuXidCollector(Host(kernel_files(tmp_path / "host", shim.recording), nvml=client), log=log.open)
    collector.probe()
    yield Bench(shim, client, collector, log)
    client.stop()


def test_an_event_of_the_library_is_counted_once_with_its_line(bench: Bench) -> None:
    bench.wait(lambda: bench.count(3, 79) == 0)
    bench.shim.control.xid(3, 79)
    bench.log.write(xid(79, bench.address(3)))
    bench.wait(lambda: bench.count(3, 79) == 1)
    bench.client.collect(())
    for _ in range(4):
        time.sleep(0.1)
        assert bench.count(3, 79) == 1
    assert bench.found["hwsonde_gpu_xid_source_up", "nvml"] == 1


def test_events_are_neither_lost_nor_doubled_by_a_new_worker(bench: Bench) -> None:
    bench.wait(lambda: bench.count(0, 48) == 0)
    for _ in range(3):
        bench.shim.control.xid(0, 48)
    bench.wait(lambda: bench.count(0, 48) == 3)
    # Other settings end the worker; the next request starts another.
    bench.client.configure(replace(bench.client.settings, deadline=1.5))
    assert bench.count(0, 48) == 3
    bench.client.collect(())
    bench.wait(lambda: bench.client.collect(()).state is WorkerState.RUNNING)
    bench.shim.control.xid(0, 48)
    bench.wait(lambda: bench.count(0, 48) == 4)


def test_the_log_tells_while_there_is_no_worker(bench: Bench) -> None:
    bench.wait(lambda: bench.count(5, 119) == 0)
    bench.client.stop()
    bench.log.write(xid(119, bench.address(5)))
    bench.wait(lambda: bench.count(5, 119) == 1)
    assert bench.found["hwsonde_gpu_xid_source_up", "nvml"] == 0
