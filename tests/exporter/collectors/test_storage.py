from __future__ import annotations

from pathlib import Path

import pytest

from hwsonde_exporter.collectors.storage import (
    BUSY_SAMPLED,
    BYTES_SAMPLED,
    StorageCollector,
    parse_diskstats,
    parse_file_nr,
)
from hwsonde_exporter.host import FileReader, Host, Paths
from tests.exporter.collectors.fakes import memory_host
from tests.exporter.collectors.hosts import fixture_host, values

VDA = b"254 0 vda 10 1 20 3000 40 5 60 7000 8 9000 10000 11 12 13 14000 15 16000\n"


def test_parse_diskstats_takes_old_and_new_rows() -> None:
    data = b"8 0 sda 1 2 3\n8 1\n254 0 vda 5\n254 0 vda 6\n"
    assert parse_diskstats(data) == {b"sda": [b"1", b"2", b"3"], b"vda": [b"5"]}


def test_columns_go_where_they_belong() -> None:
    answer = values(list(StorageCollector(memory_host({"/proc/diskstats": VDA})[0]).collect()))
    name = "hwsonde_storage_{}_total".format
    assert [answer[name("requests"), "vda", kind] for kind in ("read", "write", "discard", "flush")] == [10, 40, 11, 15]
    assert [answer[name("bytes"), "vda", kind] for kind in ("read", "write", "discard")] == [
        20 * 512,
        60 * 512,
        13 * 512,
    ]
    assert [answer[name("request_seconds"), "vda", kind] for kind in ("read", "write", "discard", "flush")] == [
        3,
        7,
        14,
        16,
    ]
    assert [answer[name("merged_requests"), "vda", kind] for kind in ("read", "write")] == [1, 5]
    assert answer["hwsonde_storage_requests_in_flight", "vda"] == 8
    assert (answer[name("busy_seconds"), "vda"], answer[name("queue_seconds"), "vda"]) == (9, 10)


def test_an_old_kernel_gives_what_it_has() -> None:
    row = b" ".join(VDA.split()[:14]) + b"\n"
    answer = values(list(StorageCollector(memory_host({"/proc/diskstats": row})[0]).collect()))
    assert not [key for key in answer if "discard" in key or "flush" in key]
    assert answer["hwsonde_storage_queue_seconds_total", "vda"] == 10


@pytest.mark.parametrize("name", ["sda", "nvme0n1", "md127", "dm-3", "vdb", "sdaa"])
def test_whole_devices_are_shown_even_without_sysfs(name: str) -> None:
    host, _ = memory_host({"/proc/diskstats": VDA.replace(b"vda", name.encode())})
    assert {key[1] for key in values(list(StorageCollector(host).collect()))} == {name}


@pytest.mark.parametrize("name", ["sda1", "nvme0n1p2", "nvme0c1n1", "mmcblk0p1", "md0p1", "vdb15", "xvda1"])
def test_partitions_and_paths_are_left_out_even_without_sysfs(name: str) -> None:
    host, _ = memory_host({"/proc/diskstats": VDA.replace(b"vda", name.encode()) + VDA})
    assert {key[1] for key in values(list(StorageCollector(host).collect()))} == {"vda"}


def test_whole_disks_of_the_fixtures() -> None:
    for name, disks in (
        ("vm", {"vda", "loop1"}),
        ("node192", {"nvme0n1", "nvme1n1", "nvme2n1", "nvme3n1", "md0"}),
    ):
        answer = values(list(StorageCollector(fixture_host(name)).collect()))
        assert {key[1] for key in answer if key[0] == "hwsonde_storage_requests_total"} == disks


def test_a_disk_that_is_plugged_in_is_noticed(tmp_path: Path) -> None:
    for name in ("vda", "sdb!c"):
        (tmp_path / "block" / name).mkdir(parents=True)
    host, reader = memory_host({"/proc/diskstats": VDA})
    collector = StorageCollector(Host(Paths(Path("/proc"), tmp_path), reader))
    assert {labels[0] for _, labels, _ in collector.observe()} == {"vda"}
    # In sysfs the slash of a name is an exclamation mark; a partition has no folder there.
    reader.contents["/proc/diskstats"] = VDA + VDA.replace(b"vda", b"sdb/c") + VDA.replace(b"vda", b"vda1")
    assert {labels[0] for _, labels, _ in collector.observe()} == {"vda", "sdb/c"}
    assert host.files is reader


def test_one_disk_in_place_of_another_is_noticed() -> None:
    host, reader = memory_host({"/proc/diskstats": VDA})
    collector = StorageCollector(host)
    collector.observe()
    reader.contents["/proc/diskstats"] = VDA.replace(b"vda", b"vdb")
    collector.observe()
    assert {labels[0] for _, labels, _ in collector.observe()} == {"vdb"}


def test_a_row_that_was_cut_is_not_observed() -> None:
    host, reader = memory_host({"/proc/diskstats": VDA})
    collector = StorageCollector(host)
    assert len(collector.observe()) == 3
    reader.contents["/proc/diskstats"] = VDA[:-9]
    assert list(collector.observe()) == []


def test_of_more_disks_than_there_is_room_for_the_first_are_read_and_the_others_counted_now_and_then(
    tmp_path: Path,
) -> None:
    sizes = []

    class Counting(FileReader):
        def read_start(self, path: Path | str, most: int) -> bytes:
            data = super().read_start(path, most)
            sizes.append(len(data))
            return data

    table = tmp_path / "proc/diskstats"
    table.parent.mkdir()
    # A partition between two disks takes no room.
    rows = [VDA.replace(b"vda", name) for number in range(600) for name in (b"dm-%d" % number, b"sda%d" % number)]
    table.write_bytes(b"".join(rows))
    collector = StorageCollector(Host(Paths(tmp_path / "proc", tmp_path), Counting()))
    collector.most = 30
    first = collector.observe()
    assert {labels[0] for _, labels, _ in first} == {f"dm-{number}" for number in range(10)}
    assert (collector.left_out, sizes) == (590 * 3, [])
    for _ in range(99):
        assert list(collector.observe()) == list(first)
    assert len(sizes) == 99
    assert max(sizes) < 24 * len(rows[-1])
    collector.most = 10_000
    assert len(collector.observe()) == 600 * 3
    assert (len(sizes), collector.left_out) == (99, 0)


def test_observe_gives_bytes_and_busy_seconds() -> None:
    collector = StorageCollector(
        memory_host({"/proc/diskstats": VDA + VDA.replace(b"vda 10 1 20 3000 40", b"vdb 0 1 20 3 0")})[0]
    )
    assert list(collector.observe()) == [
        (BYTES_SAMPLED, ("vda", "read"), 20 * 512),
        (BYTES_SAMPLED, ("vda", "write"), 60 * 512),
        (BUSY_SAMPLED, ("vda",), 9),
    ]


def test_identity_never_holds_a_serial_number(tmp_path: Path) -> None:
    folder = tmp_path / "block/nvme0n1"
    (folder / "device").mkdir(parents=True)
    (folder / "queue").mkdir()
    (folder / "device/model").write_text("EXAMPLE  SSD \n")
    (folder / "device/serial").write_text("S3CR3T\n")
    (folder / "queue/scheduler").write_text("none [mq-deadline] bfq\n")
    host, reader = memory_host({"/proc/diskstats": VDA.replace(b"vda", b"nvme0n1")})

    class Both(FileReader):
        def read(self, path: Path | str) -> bytes:
            return reader.read(path)

    samples = list(StorageCollector(Host(Paths(Path("/proc"), tmp_path), Both())).collect())
    assert values(samples)["hwsonde_storage_device_info", "nvme0n1", "EXAMPLE SSD", "", "", "mq-deadline"] == 1
    assert "S3CR3T" not in repr(samples)
    assert host.files is reader


def test_parse_file_nr() -> None:
    assert parse_file_nr(b"593\t0\t2466170\n") == (593, 2466170)
    assert parse_file_nr(b"593\t0\t9223372036854775807\n") == (593, None)
    assert parse_file_nr(b"593\n") == (None, None)
