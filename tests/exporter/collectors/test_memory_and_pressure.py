from __future__ import annotations

import pytest

from hwsonde_exporter.collectors.memory import FAULTS_SAMPLED, MemoryCollector, parse_node_meminfo
from hwsonde_exporter.collectors.pressure import CPU_SAMPLED, PressureCollector, parse_pressure
from hwsonde_exporter.errors import Reason, Unavailable
from tests.exporter.collectors.fakes import memory_host
from tests.exporter.collectors.hosts import fixture_host, values

VMSTAT = b"nr_free_pages 1\npgfault %d\npgmajfault %d\npgpgin 3\n"


def test_meminfo_is_in_bytes() -> None:
    host, _ = memory_host({"/proc/meminfo": b"MemTotal:   24684084 kB\nSwapTotal: 0 kB\nOdd: 1 kB\nMemFree: x kB\n"})
    answer = values(list(MemoryCollector(host).collect()))
    assert answer == {("hwsonde_memory_size_bytes",): 24684084 * 1024, ("hwsonde_memory_swap_size_bytes",): 0}


def test_minor_faults_are_all_less_the_major_ones() -> None:
    host, reader = memory_host({"/proc/vmstat": VMSTAT % (1000, 10)})
    collector = MemoryCollector(host)
    key = ("hwsonde_memory_page_faults_total", "minor")
    assert values(list(collector.collect()))[key] == 990
    reader.contents["/proc/vmstat"] = VMSTAT % (1001, 12)  # the two are not counted at the same moment
    assert values(list(collector.collect()))[key] == 990
    reader.contents["/proc/vmstat"] = VMSTAT % (1003, 12)
    assert values(list(collector.collect()))[key] == 991
    assert list(collector.observe()) == [(FAULTS_SAMPLED, ("minor",), 991), (FAULTS_SAMPLED, ("major",), 12)]


def test_paged_bytes_are_kibibytes() -> None:
    host, _ = memory_host({"/proc/vmstat": VMSTAT % (1, 1)})
    assert values(list(MemoryCollector(host).collect()))["hwsonde_memory_paged_bytes_total", "in"] == 3 * 1024


def test_pinned_pages_are_never_negative() -> None:
    host, reader = memory_host({"/proc/vmstat": b"nr_foll_pin_acquired 10\nnr_foll_pin_released 4\n"})
    key = ("hwsonde_memory_pinned_pages",)
    assert values(list(MemoryCollector(host).collect()))[key] == 6
    reader.contents["/proc/vmstat"] = b"nr_foll_pin_acquired 4\nnr_foll_pin_released 10\n"
    assert values(list(MemoryCollector(host).collect()))[key] == 0


def test_parse_node_meminfo() -> None:
    assert parse_node_meminfo(b"Node 0 MemTotal: 12 kB\nodd\nNode 0 MemFree: 3 kB\n") == {
        b"MemTotal": 12,
        b"MemFree": 3,
    }


def test_nodes_are_told_apart_only_where_there_are_several() -> None:
    series = {}
    for name in ("vm", "node192"):
        collector = MemoryCollector(fixture_host(name))
        collector.probe()
        series[name] = values(list(collector.collect()))
    assert not [key for key in series["vm"] if "numa_size" in key[0]]
    sizes = [series["node192"]["hwsonde_memory_numa_size_bytes", str(node)] for node in range(4)]
    assert sum(sizes) == series["node192"][("hwsonde_memory_size_bytes",)]


def test_parse_pressure() -> None:
    data = b"some avg10=3.89 avg60=1.68 avg300=0.84 total=10647658\nfull avg10=0.00 total=x\nodd total=5\n"
    assert parse_pressure(data) == {"some": 10647658}


def test_pressure_is_in_seconds() -> None:
    host, _ = memory_host(
        {"/proc/pressure/cpu": b"some avg10=0.00 avg60=0.00 avg300=0.00 total=1500000\nfull total=0\n"}
    )
    collector = PressureCollector(host)
    assert values(list(collector.collect())) == {("hwsonde_cpu_pressure_waiting_seconds_total",): 1.5}
    assert list(collector.observe()) == [(CPU_SAMPLED, (), 1.5)]


def test_a_kernel_without_pressure_is_told() -> None:
    with pytest.raises(Unavailable) as caught:
        PressureCollector(memory_host({})[0]).probe()
    assert caught.value.reason is Reason.NO_KERNEL_SUPPORT
    assert "psi=1" in caught.value.detail
