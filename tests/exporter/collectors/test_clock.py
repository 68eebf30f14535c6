from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from hwsonde_exporter.collectors.clock import ClockCollector
from hwsonde_exporter.collectors.host import Clock, _Timex, clock_of, read_clock
from hwsonde_exporter.errors import ReadError
from tests.exporter.collectors.hosts import CLOCK, values
from tests.exporter.collectors.trees import tree_host

SOURCE = "sys/devices/system/clocksource/clocksource0"


@pytest.mark.skipif(ctypes.sizeof(ctypes.c_long) != 8, reason="the layout of 64-bit machines")
def test_layout_of_the_kernels_structure() -> None:
    assert ctypes.sizeof(_Timex) == 208
    assert (_Timex.status.offset, _Timex.tai.offset) == (40, 160)


@pytest.mark.parametrize(("state", "leap"), [(0, 0), (1, 1), (2, -1), (3, 0), (4, 0), (5, 0)])
def test_leap_seconds(state: int, leap: int) -> None:
    assert clock_of(state, 0x2001, 0, (0, 0), 0, 37) == Clock(state != 5, 0, 0, 0, 0, leap, 37)


def test_the_kernel_answers() -> None:
    clock = read_clock()
    assert clock.leap in {-1, 0, 1}
    assert 0 <= clock.tai < 1000


def test_source_and_hardware_clocks(tmp_path: Path) -> None:
    files = {f"{SOURCE}/current_clocksource": "hpet ", f"{SOURCE}/available_clocksource": "tsc hpet acpi_pm "}
    files |= {"sys/class/ptp/ptp0/clock_name": "mlx5_ptp", "sys/class/ptp/ptp0/device": "-> ../../../0000:17:00.0"}
    collector = ClockCollector(tree_host(tmp_path, files), clock=lambda: Clock(True, 0, 0, 0, 0, leap=-1, tai=37))
    collector.probe()
    assert values(list(collector.collect())) == {
        ("hwsonde_host_clock_source_info", "hpet", "tsc hpet acpi_pm"): 1,
        ("hwsonde_host_clock_ptp_info", "ptp0", "mlx5_ptp", "0000:17:00.0"): 1,
        ("hwsonde_host_clock_leap_announced_seconds",): -1,
        ("hwsonde_host_clock_tai_offset_seconds",): 37,
    }


def test_atomic_time_that_nobody_set_is_not_known(tmp_path: Path) -> None:
    collector = ClockCollector(tree_host(tmp_path, {}), clock=lambda: CLOCK)
    assert values(list(collector.collect())) == {("hwsonde_host_clock_leap_announced_seconds",): 0}


def test_a_kernel_without_the_call_loses_only_the_clock(tmp_path: Path) -> None:
    def refuse() -> Clock:
        raise ReadError("adjtimex: Function not implemented")

    collector = ClockCollector(tree_host(tmp_path, {f"{SOURCE}/current_clocksource": "tsc"}), clock=refuse)
    assert values(list(collector.collect())) == {("hwsonde_host_clock_source_info", "tsc", ""): 1}
