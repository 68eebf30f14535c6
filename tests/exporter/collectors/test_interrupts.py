from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_exporter.collectors.interrupts import KINDS, MACHINE_CHECKS, InterruptsCollector, parse_interrupts
from hwsonde_exporter.errors import ReadError, Reason, Unavailable
from tests.exporter.collectors.fakes import memory_host
from tests.exporter.collectors.hosts import fixture_host, values

TABLE = b"""\
           CPU0       CPU2
  0:         38          0  IO-APIC    2-edge      timer
121:       9000         12  PCI-MSIX-0000:01:00.0    0-edge      nvme0q0
NMI:          1          2   Non-maskable interrupts
MCE:          0          3   Machine check exceptions
ERR:          4
MIS:          0
"""
ARM = b"""\
           CPU0       CPU1
 11:       8000       9000     GICv3  27 Level     arch_timer
IPI0:        10         20       Rescheduling interrupts
IPI1:       300        400       Function call interrupts
IPI2:         0          0       CPU stop interrupts
Err:          7
"""


def test_rows_are_by_cpu() -> None:
    assert parse_interrupts(TABLE) == {
        (KINDS, ("non_maskable",)): {0: 1, 2: 2},
        (MACHINE_CHECKS, ()): {0: 0, 2: 3},
        (KINDS, ("controller_error",)): {-1: 4},
    }


def test_arm_rows_are_known_by_their_text() -> None:
    assert parse_interrupts(ARM) == {
        (KINDS, ("rescheduling",)): {0: 10, 1: 20},
        (KINDS, ("function_call",)): {0: 300, 1: 400},
        (KINDS, ("controller_error",)): {-1: 7},
    }


@pytest.mark.parametrize(
    "row", [b"MCE:  0 x  Machine check exceptions\n", b"MCE: 5 Machine check exceptions\n", b"MCE 1 2\n", b"MCE: 1 2"]
)
def test_a_row_that_is_not_understood_is_left_out(row: bytes) -> None:
    assert parse_interrupts(b"  CPU0 CPU1\n" + row) == {}


@given(st.binary(max_size=400))
def test_anything_is_parsed(data: bytes) -> None:
    for junk in (data, TABLE + data, data + TABLE, TABLE[: len(data)]):
        for counts in parse_interrupts(junk).values():
            assert all(count >= 0 for count in counts.values())


def test_node() -> None:
    answer = values(list(InterruptsCollector(fixture_host("node192")).collect()))
    assert answer["hwsonde_cpu_machine_check_exceptions_total",] == 0
    assert answer["hwsonde_cpu_thermal_interrupts_total",] == 6 * 96
    assert answer["hwsonde_cpu_interrupts_by_kind_total", "machine_check_poll"] == 2880 * 192


def test_a_cpu_that_goes_takes_nothing_along() -> None:
    host, reader = memory_host({"/proc/interrupts": TABLE})
    collector = InterruptsCollector(host)
    key = ("hwsonde_cpu_machine_check_exceptions_total",)
    assert values(list(collector.collect()))[key] == 3
    reader.contents["/proc/interrupts"] = b"  CPU0\nMCE:  1  Machine check exceptions\n"
    assert values(list(collector.collect()))[key] == 4
    reader.contents["/proc/interrupts"] = b"  CPU0 CPU2\nMCE:  1  5  Machine check exceptions\n"
    assert values(list(collector.collect()))[key] == 6


def test_a_table_without_known_rows() -> None:
    host, reader = memory_host({"/proc/interrupts": b"  CPU0\n  1:   5  XT-PIC timer\n"})
    with pytest.raises(Unavailable) as caught:
        InterruptsCollector(host).probe()
    assert caught.value.reason is Reason.NO_KERNEL_SUPPORT
    with pytest.raises(ReadError):
        InterruptsCollector(host).collect()
    reader.contents["/proc/interrupts"] = b""
    with pytest.raises(Unavailable, match="masked") as masked:
        InterruptsCollector(host).probe()
    assert masked.value.reason is Reason.NO_PERMISSION
    reader.contents.clear()
    InterruptsCollector(host).probe()
    with pytest.raises(ReadError, match="No such file"):
        InterruptsCollector(host).collect()
