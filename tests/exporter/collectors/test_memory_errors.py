from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hwsonde_exporter.collectors.edac import EdacCollector
from hwsonde_exporter.collectors.hugepages import HugepagesCollector, size_label
from hwsonde_exporter.collectors.memory_failure import MemoryFailureCollector
from hwsonde_exporter.errors import ReadError, Reason, Unavailable
from hwsonde_exporter.host import Host, Paths
from tests.exporter.collectors.hosts import fixture_host, values
from tests.exporter.collectors.trees import Forbidden

MC = "sys/devices/system/edac/mc"
NODE = "sys/devices/system/node"


def put(tree: Path, name: str, text: str) -> Path:
    path = tree / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")
    return path


def host_of(tree: Path) -> Host:
    return Host(Paths(tree / "proc", tree / "sys", tree))


# ---- EDAC ----------------------------------------------------------------------------------------------------------


def test_node() -> None:
    collector = EdacCollector(fixture_host("node192"))
    collector.probe()
    answer = values(list(collector.collect()))
    label = "CPU_SrcID#1_MC#1_Chan#1_DIMM#0"
    assert answer["hwsonde_memory_edac_dimm_errors_total", "mc5", "dimm1", label, "corrected"] == 17
    assert answer["hwsonde_memory_edac_errors_total", "mc5", "corrected"] == 19
    assert answer["hwsonde_memory_edac_unlocated_errors_total", "mc5", "corrected"] == 2
    assert sum(answer.values()) == 17 + 19 + 2, "nothing else has errors"


def test_drivers_that_know_ranks(tmp_path: Path) -> None:
    put(tmp_path, f"{MC}/mc0/ce_count", "3")
    put(tmp_path, f"{MC}/mc0/rank7/dimm_ce_count", "3")
    put(tmp_path, f"{MC}/mc0/csrow0/ce_count", "3")
    put(tmp_path, f"{MC}/power/control", "auto")
    collector = EdacCollector(host_of(tmp_path))
    collector.probe()
    assert values(list(collector.collect())) == {
        ("hwsonde_memory_edac_errors_total", "mc0", "corrected"): 3,
        ("hwsonde_memory_edac_dimm_errors_total", "mc0", "rank7", "", "corrected"): 3,
    }


def test_labels_that_are_set_late_are_seen_after_the_next_probe(tmp_path: Path) -> None:
    put(tmp_path, f"{MC}/mc0/dimm0/dimm_ce_count", "0")
    put(tmp_path, f"{MC}/mc0/dimm0/dimm_label", "mc#0channel#0")
    collector = EdacCollector(host_of(tmp_path))
    collector.probe()
    assert next(iter(collector.collect())).labels[2] == "mc#0channel#0"
    put(tmp_path, f"{MC}/mc0/dimm0/dimm_label", "DIMM_A1")
    assert next(iter(collector.collect())).labels[2] == "mc#0channel#0"
    collector.probe()
    assert next(iter(collector.collect())).labels[2] == "DIMM_A1"


def test_one_odd_file_loses_its_own_series(tmp_path: Path) -> None:
    put(tmp_path, f"{MC}/mc0/ce_count", "x")
    put(tmp_path, f"{MC}/mc0/ue_count", "1")
    (tmp_path / f"{MC}/mc0/ce_noinfo_count").mkdir()
    assert len(list(EdacCollector(host_of(tmp_path)).collect())) == 1


def test_no_driver(tmp_path: Path) -> None:
    (tmp_path / MC).mkdir(parents=True)
    with pytest.raises(Unavailable, match="amd64_edac") as caught:
        EdacCollector(host_of(tmp_path)).probe()
    assert caught.value.reason is Reason.NO_HARDWARE
    with pytest.raises(ReadError):
        EdacCollector(host_of(tmp_path)).collect()


# ---- faulty pages --------------------------------------------------------------------------------------------------


def test_faulty_pages(tmp_path: Path) -> None:
    for name, count in (("total", 3), ("recovered", 2), ("ignored", 0), ("failed", 1), ("delayed", 0)):
        put(tmp_path, f"{NODE}/node1/memory_failure/{name}", str(count))
    put(tmp_path, f"{NODE}/node0/meminfo", "")
    collector = MemoryFailureCollector(host_of(tmp_path))
    collector.probe()
    answer = values(list(collector.collect()))
    name = "hwsonde_memory_failure_pages_total"
    assert answer == {
        (name, "1", "recovered"): 2,
        (name, "1", "ignored"): 0,
        (name, "1", "failed"): 1,
        (name, "1", "delayed"): 0,
    }


def test_a_kernel_that_does_not_count_them() -> None:
    collector = MemoryFailureCollector(fixture_host("vm"))
    with pytest.raises(Unavailable) as caught:
        collector.probe()
    assert caught.value.reason is Reason.NO_KERNEL_SUPPORT
    with pytest.raises(ReadError):
        collector.collect()


# ---- huge pages ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kibibytes", "label"),
    [(64, "64KiB"), (2048, "2MiB"), (32768, "32MiB"), (1 << 20, "1GiB"), (16 << 20, "16GiB"), (0, "0KiB"), (1, "1KiB")],
)
def test_sizes_are_for_people(kibibytes: int, label: str) -> None:
    assert size_label(kibibytes) == label


def test_pools() -> None:
    collector = HugepagesCollector(fixture_host("node192"))
    collector.probe()
    answer = values(list(collector.collect()))
    assert answer["hwsonde_memory_hugepages", "2MiB", "total"] == 4096
    assert answer["hwsonde_memory_hugepages", "2MiB", "reserved"] == 512
    assert answer["hwsonde_memory_hugepages", "1GiB", "free"] == 0


def test_odd_pools_are_left_out(tmp_path: Path) -> None:
    base = "sys/kernel/mm/hugepages"
    put(tmp_path, f"{base}/hugepages-2048kB/nr_hugepages", "7")
    put(tmp_path, f"{base}/hugepages-2048kB/free_hugepages", "x")
    put(tmp_path, f"{base}/hugepages-/nr_hugepages", "7")
    put(tmp_path, f"{base}/hugepages-2MB/nr_hugepages", "7")
    answer = values(list(HugepagesCollector(host_of(tmp_path)).collect()))
    assert answer == {("hwsonde_memory_hugepages", "2MiB", "total"): 7}


def test_no_pools(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        HugepagesCollector(host_of(tmp_path)).probe()
    with pytest.raises(ReadError):
        HugepagesCollector(host_of(tmp_path)).collect()


def test_no_permission(tmp_path: Path) -> None:
    put(tmp_path, f"{MC}/mc0/ue_count", "1")
    put(tmp_path, f"{MC}/mc0/ce_count", "1")
    host = replace(host_of(tmp_path), files=Forbidden("mc0/ue_count"))
    assert len(list(EdacCollector(host).collect())) == 1
