from __future__ import annotations

from pathlib import Path

import pytest

from hwsonde_exporter.collectors.resctrl import ResctrlCollector
from hwsonde_exporter.errors import ReadError, Reason, Unavailable
from hwsonde_exporter.host import Host, Paths
from tests.exporter.collectors.hosts import fixture_host, values

OCCUPANCY, TRAFFIC = "hwsonde_cpu_llc_occupancy_bytes", "hwsonde_memory_resctrl_bytes_total"


def put(tree: Path, name: str, text: str) -> None:
    path = tree / "sys/fs/resctrl" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    put(tmp_path, "info/L3_MON/num_rmids", "448")
    put(tmp_path, "cpus", "ffff")
    put(tmp_path, "mon_data/mon_L3_00/llc_occupancy", "1000")
    put(tmp_path, "mon_data/mon_L3_00/mbm_total_bytes", "5000")
    return tmp_path


def collector_of(tree: Path) -> ResctrlCollector:
    return ResctrlCollector(Host(Paths(tree / "proc", tree / "sys", tree)))


def read(collector: ResctrlCollector) -> dict[tuple[str, ...], float]:
    return values(list(collector.collect()))


def test_node() -> None:
    collector = ResctrlCollector(fixture_host("node192"))
    collector.probe()
    answer = read(collector)
    assert answer[OCCUPANCY, "0"] == 98304000 + 5242880
    assert answer[TRAFFIC, "0", "local"] == 700123456789012 + 900000
    assert answer[OCCUPANCY, "1"] == 90112000, "the group has no counter there"


def test_groups_come_and_go(tree: Path) -> None:
    collector = collector_of(tree)
    collector.probe()
    assert read(collector) == {(OCCUPANCY, "0"): 1000, (TRAFFIC, "0", "total"): 5000}
    put(tree, "job/mon_data/mon_L3_00/mbm_total_bytes", "100")
    put(tree, "job/mon_groups/x", "")
    assert read(collector)[TRAFFIC, "0", "total"] == 5000
    put(tree, "job/mon_data/mon_L3_00/mbm_total_bytes", "350")
    assert read(collector)[TRAFFIC, "0", "total"] == 5250
    (tree / "sys/fs/resctrl/job/mon_data/mon_L3_00/mbm_total_bytes").unlink()
    put(tree, "mon_data/mon_L3_00/mbm_total_bytes", "5001")
    assert read(collector)[TRAFFIC, "0", "total"] == 5251


@pytest.mark.parametrize("text", ["Unavailable", "Unassigned", "Error", "", "-5", "12x"])
def test_what_is_not_known_now_is_left_out(tree: Path, text: str) -> None:
    put(tree, "mon_data/mon_L3_00/mbm_total_bytes", text)
    assert read(collector_of(tree)) == {(OCCUPANCY, "0"): 1000}


def test_other_folders_are_no_caches(tree: Path) -> None:
    put(tree, "mon_data/mon_PERF_PKG_00/core_energy", "1.5")
    put(tree, "mon_data/mon_L3_0x/llc_occupancy", "7")
    assert set(read(collector_of(tree))) == {(OCCUPANCY, "0"), (TRAFFIC, "0", "total")}


def test_why_it_cannot_work(tmp_path: Path) -> None:
    for made, reason, words in (
        (None, Reason.NO_HARDWARE, "virtual machine"),
        ("", Reason.NO_KERNEL_SUPPORT, "mount -t resctrl"),
        ("info/L3", Reason.NO_HARDWARE, "neither"),
    ):
        if made is not None:
            (tmp_path / "sys/fs/resctrl" / made).mkdir(parents=True)
        with pytest.raises(Unavailable, match=words) as caught:
            collector_of(tmp_path).probe()
        assert caught.value.reason is reason


def test_no_values_at_all(tree: Path) -> None:
    put(tree, "mon_data/mon_L3_00/mbm_total_bytes", "Error")
    put(tree, "mon_data/mon_L3_00/llc_occupancy", "Error")
    with pytest.raises(ReadError):
        collector_of(tree).collect()
