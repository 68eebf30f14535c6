from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_exporter.collectors.lustre import LustreCollector, parse_stats
from hwsonde_exporter.collectors.zfs import ZfsCollector, parse_kstat
from hwsonde_exporter.errors import Reason, Unavailable
from tests.exporter.collectors.hosts import values
from tests.exporter.collectors.trees import tree_host

ZFS = "hwsonde_storage_zfs_{}".format
LUSTRE = "hwsonde_storage_lustre_{}".format
KSTAT = "proc/spl/kstat/zfs"
ARC = (
    "13 1 0x01 123 33456 8123456789 811204118204\nname                            type data\nhits                            4    9000\n"
    "misses                          4    1000\nc                               4    4096\nc_max                           4    8192\n"
    "size                            4    4000\nmemory_throttle_count           4    2\nl2_hits                         4    0\n"
    "l2_misses                       4    1000\nl2_size                         4    {l2}\narc_need_free                   3    -5"
)
STATS = "snapshot_time 1763863911.118204411 secs.nsecs\nread_bytes 10 samples [bytes] 0 4096 {read} 9\nopen 4 samples [{unit}] 1 9 2000000 3"


def test_cache_and_pools(tmp_path: Path) -> None:
    files = {
        f"{KSTAT}/arcstats": ARC.format(l2=0),
        f"{KSTAT}/tank/state": "DEGRADED",
        f"{KSTAT}/tank/io": "x",
        f"{KSTAT}/dbgmsg": "x",
    }
    collector = ZfsCollector(tree_host(tmp_path, files))
    collector.probe()
    answer = values(list(collector.collect()))
    assert (answer[ZFS("arc_accesses_total"), "hit"], answer[ZFS("arc_accesses_total"), "miss"]) == (9000, 1000)
    sizes = [answer[(ZFS(f"arc_{name}_bytes"),)] for name in ("size", "target", "limit")]
    assert sizes == [4000, 4096, 8192]
    assert answer[(ZFS("arc_throttles_total"),)] == 2
    states = {key[2]: value for key, value in answer.items() if key[:2] == (ZFS("pool_state"), "tank")}
    assert [state for state, value in states.items() if value] == ["degraded"]
    assert len(states) == 7
    assert not [key for key in answer if "l2arc" in key[0]]


def test_cache_devices_where_there_are_any(tmp_path: Path) -> None:
    answer = values(list(ZfsCollector(tree_host(tmp_path, {f"{KSTAT}/arcstats": ARC.format(l2=77)})).collect()))
    assert answer[(ZFS("l2arc_size_bytes"),)] == 77
    assert answer[ZFS("l2arc_accesses_total"), "miss"] == 1000


def test_without_zfs_or_lustre_they_say_so(tmp_path: Path) -> None:
    host = tree_host(tmp_path, {"proc/stat": "x"})
    with pytest.raises(Unavailable) as caught:
        ZfsCollector(host).probe()
    assert caught.value.reason is Reason.NO_KERNEL_SUPPORT
    with pytest.raises(Unavailable) as caught:
        LustreCollector(host).probe()
    assert caught.value.reason is Reason.NO_HARDWARE
    with pytest.raises(Unavailable) as caught:
        LustreCollector(tree_host(tmp_path / "b", {"sys/fs/lustre/llite/lfs-1/uuid": "x"})).probe()
    assert caught.value.reason is Reason.NO_PERMISSION


@pytest.mark.parametrize("folder", ["proc/fs/lustre/llite", "sys/kernel/debug/lustre/llite"])
def test_lustre_of_each_age(tmp_path: Path, folder: str) -> None:
    collector = LustreCollector(
        tree_host(tmp_path, {f"{folder}/lfs-ffff8f2c41d3e800/stats": STATS.format(read=500, unit="usec")})
    )
    collector.probe()
    assert values(list(collector.collect())) == {
        (LUSTRE("bytes_total"), "lfs", "read"): 500,
        (LUSTRE("operations_total"), "lfs", "read"): 10,
        (LUSTRE("operations_total"), "lfs", "open"): 4,
        (LUSTRE("operation_seconds_total"), "lfs", "open"): 2,
    }


def test_an_old_lustre_tells_no_times(tmp_path: Path) -> None:
    host = tree_host(tmp_path, {"proc/fs/lustre/llite/a-b-0123456789ab/stats": STATS.format(read=5, unit="regs")})
    answer = values(list(LustreCollector(host).collect()))
    assert answer[LUSTRE("operations_total"), "a-b", "open"] == 4
    assert not [key for key in answer if "seconds" in key[0]]


def test_mounts_of_one_filesystem_are_added_up_and_the_sum_never_falls(tmp_path: Path) -> None:
    folder = "proc/fs/lustre/llite"
    both = {f"{folder}/lfs-ffff8f2c41d3e80{n}/stats": STATS.format(read=500, unit="usec") for n in (1, 2)}
    collector = LustreCollector(tree_host(tmp_path, both))
    key = LUSTRE("bytes_total"), "lfs", "read"
    assert values(list(collector.collect()))[key] == 1000
    (tmp_path / folder / "lfs-ffff8f2c41d3e801/stats").unlink()
    (tmp_path / folder / "lfs-ffff8f2c41d3e802/stats").write_text(STATS.format(read=600, unit="usec") + "\n")
    assert values(list(collector.collect()))[key] == 1100


@given(st.binary(max_size=300), st.integers(0, 300))
def test_garbled_tables_never_raise(junk: bytes, cut: int) -> None:
    for text, parse in (
        (ARC.format(l2=1).encode(), parse_kstat),
        (STATS.format(read=1, unit="usec").encode(), parse_stats),
    ):
        assert all(value >= 0 for value in parse(text[:cut] + junk + text[cut:]).values())
