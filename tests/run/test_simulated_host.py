"""The simulated host of the end-to-end tests: what it writes could be a real host's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hwsonde_exporter.collectors.cpu import CpuCollector
from hwsonde_exporter.collectors.memory import MemoryCollector
from hwsonde_exporter.collectors.pressure import PressureCollector
from hwsonde_exporter.host import Host, Paths
from hwsonde_exporter.registry import Collector
from tests.e2e.simulated import SimulatedHost
from tests.exporter.collectors.hosts import values

Values = dict[tuple[str, ...], float]
KINDS: tuple[type[Collector], ...] = (CpuCollector, MemoryCollector, PressureCollector)


@pytest.fixture
def simulated(tmp_path: Path) -> Iterator[SimulatedHost]:
    host = SimulatedHost(tmp_path / "vm")
    yield host
    host.stop()


def read(host: SimulatedHost) -> Values:
    seen = Host(Paths(host.folder / "proc", host.folder / "sys", host.folder / "root"))
    found: Values = {}
    for kind in KINDS:
        collector = kind(seen)
        collector.probe()
        found |= values(list(collector.collect()))
    seen.files.close()
    return found


def passed(host: SimulatedHost, seconds: float) -> tuple[Values, Values]:
    before = read(host)
    for _ in range(round(seconds * 10)):
        host.tick(0.1)
    return before, read(host)


def cpu_seconds(before: Values, after: Values, *modes: str) -> float:
    keys = [key for key in after if key[0] == "hwsonde_cpu_seconds_total" and (not modes or key[2] in modes)]
    assert keys
    return sum(after[key] - before[key] for key in keys)


def test_its_cpus_are_charged_for_the_time_that_passes_and_no_counter_falls(simulated: SimulatedHost) -> None:
    before, after = passed(simulated, 20)
    assert cpu_seconds(before, after) == pytest.approx(40, abs=0.3)
    assert 30 < cpu_seconds(before, after, "idle") < 39
    fallen = [key for key in before if key[0].endswith("_total") and after[key] < before[key]]
    assert fallen == []
    assert before.keys() == after.keys()


def test_a_cpu_fault_leaves_nothing_idle_and_ends(simulated: SimulatedHost) -> None:
    with simulated.cpu_fault() as fault:
        before, after = passed(simulated, 10)
        assert cpu_seconds(before, after, "idle") == 0
        waited = ("hwsonde_cpu_pressure_waiting_seconds_total",)
        assert after[waited] - before[waited] > 8
        assert after[("hwsonde_cpu_processes_running",)] >= 9
    assert fault.ended is not None
    before, after = passed(simulated, 10)
    assert cpu_seconds(before, after, "idle") > 15


def test_the_same_seed_writes_the_same_files(tmp_path: Path) -> None:
    both = [SimulatedHost(tmp_path / name) for name in ("one", "two")]
    for host in both:
        host.tick(0.1)
        host.tick(0.1)
    assert read(both[0]) == read(both[1])
    for host in both:
        host.stop()
