"""Edges of the collectors of GPUs: counters that are set back, GPUs of other drivers, libraries that are deaf."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hwsonde_exporter.collectors._gpu_collector import nvidia_gpus
from hwsonde_exporter.collectors._gpu_rows import Converter
from hwsonde_exporter.collectors.gpu_xid import GpuXidCollector
from hwsonde_exporter.host import Host, Paths
from hwsonde_exporter.nvml.answer import Answer, Event, Reading, WorkerState
from hwsonde_exporter.nvml.client import NvmlSettings
from tests.exporter.collectors.hosts import fixture_host, values
from tests.exporter.nvml.test_gpu_collectors import ROWS, device, shown
from tests.exporter.xid.logs import Log

SOURCE = "hwsonde_gpu_xid_source_up"


# ---- counters ------------------------------------------------------------------------------------------------------


def growth(*steps: tuple[int, int]) -> list[float]:
    """Bytes that were counted after each step of a counter of 32 bits and of the energy beside it."""
    converter, found = Converter(ROWS), []
    for sent, energy in steps:
        readings = (
            Reading("energy_joules_total", (), energy),
            Reading("pcie_bytes_total@32", ("transmit",), sent),
        )
        found.append(shown(converter.samples([device(*readings)]))["pcie_bytes_total", "transmit"])
    return found


def test_a_reset_is_told_from_a_wrap_by_the_counters_that_do_not_wrap() -> None:
    wrapped = growth((4_000_000_000, 9_000_000), (5_000, 9_100_000))
    assert wrapped == [0, (1 << 32) - 4_000_000_000 + 5_000]
    reset = growth((1_000_000, 9_000_000), (5_000, 100), (6_000, 200))
    assert reset == [0, 5_000, 6_000]


def test_a_gpu_that_was_away_when_it_was_reset_does_not_jump_either() -> None:
    converter = Converter(ROWS)
    first = (Reading("energy_joules_total", (), 9_000_000), Reading("pcie_bytes_total@32", ("transmit",), 1_000_000))
    again = (Reading("energy_joules_total", (), 100), Reading("pcie_bytes_total@32", ("transmit",), 5_000))
    converter.samples([device(*first)])
    converter.samples([device(up=False)])
    assert shown(converter.samples([device(*again)]))["pcie_bytes_total", "transmit"] == 5_000


# ---- whose GPUs ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("driver", "counted"), [("nvidia", 1), ("", 1), ("vfio-pci", 0), ("nouveau", 0)])
def test_gpus_that_another_driver_holds_are_not_missed(driver: str, counted: int, tmp_path: Path) -> None:
    """A card that a virtual machine was given is on the bus, and NVIDIA's driver need not find it."""
    folder = tmp_path / "bus/pci/devices/0000:3b:00.0"
    folder.mkdir(parents=True)
    for name, content in (("vendor", "0x10de"), ("class", "0x030200")):
        (folder / name).write_text(f"{content}\n")
    if driver:
        (folder / "driver").symlink_to(f"../../../../bus/pci/drivers/{driver}")
    assert nvidia_gpus(Host(Paths(tmp_path, tmp_path, tmp_path))) == counted


# ---- who listens ---------------------------------------------------------------------------------------------------


class Library:
    """A client of a library that hears, or does not."""

    def __init__(self) -> None:
        self.settings = NvmlSettings(library=Path("/none"))
        self.state = WorkerState.STOPPED
        self.listening = True
        self.asked = 0
        self.quiet = 0.0

    def known(self) -> tuple[WorkerState, list[tuple[str, str, str]]]:
        return self.state, [("0", "GPU-a", "0000:3a:00.0")]

    def events(self, after: int = 0) -> tuple[Sequence[Event], int]:
        return [], 0

    def idle(self) -> float:
        return self.quiet

    def collect(self, groups: Sequence[str], every: float = 0.0) -> Answer:
        self.asked += 1
        self.quiet = 0.0
        self.state = WorkerState.RUNNING
        return Answer(self.state)


def collector(library: Library) -> GpuXidCollector:
    host = fixture_host("node192")
    nvml: Any = library
    return GpuXidCollector(Host(host.paths, host.files, nvml=nvml), log=Log().open)


def test_a_library_that_works_and_hears_nothing_is_no_source() -> None:
    library = Library()
    xid = collector(library)
    xid.probe()
    assert values(list(xid.collect()))[SOURCE, "nvml"] == 1
    library.listening = False
    assert values(list(xid.collect()))[SOURCE, "nvml"] == 0


def test_where_nobody_else_asks_the_worker_is_started_and_replaced_all_the_same() -> None:
    library = Library()
    xid = collector(library)
    xid.probe()
    assert library.asked == 1
    library.state = WorkerState.CRASHED
    library.quiet = 5.0
    xid.collect()
    assert library.asked == 1, "others will ask"
    library.quiet = 21.0
    found = values(list(xid.collect()))
    assert library.asked == 2
    assert found[SOURCE, "nvml"] == 1
