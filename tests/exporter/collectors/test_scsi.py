from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_exporter.collectors.scsi import ScsiCollector, parse_count
from hwsonde_exporter.errors import Reason, Unavailable
from tests.exporter.collectors.hosts import fixture_host, values
from tests.exporter.collectors.trees import tree_host

NAME = "hwsonde_storage_scsi_{}".format


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ("0x0", 0), ("0x1a2", 418), ("0xffffffff80000001", 0x80000001), ("1a2", None), ("0x", None), ("", None), ("-0x1", None),
        ("0x1g", None), ("0x" + "1" * 17, None),
    ],
)  # fmt: skip
def test_parse_count(line: str, count: int | None) -> None:
    assert parse_count(line) == count


@given(st.text(max_size=30))
def test_any_line_is_a_count_or_none(line: str) -> None:
    count = parse_count(line)
    assert count is None or 0 <= count < 1 << 32


def test_errors_and_state_of_the_disks_that_count_them(tmp_path: Path) -> None:
    files = {
        "sys/block/sda/device/state": "running", "sys/block/sda/device/iorequest_cnt": "0x10", "sys/block/sda/device/iodone_cnt": "0xf",
        "sys/block/sda/device/ioerr_cnt": "0x2", "sys/block/sdb/device/state": "offline", "sys/block/sdb/device/ioerr_cnt": "0x3",
        "sys/block/sdb/device/iotmo_cnt": "0x4", "sys/block/nvme0n1/device/state": "live",
    }  # fmt: skip
    collector = ScsiCollector(tree_host(tmp_path, files))
    collector.probe()
    answer = values(list(collector.collect()))
    assert answer == {
        (NAME("running"), "sda"): 1, (NAME("requests_total"), "sda"): 16, (NAME("completed_total"), "sda"): 15,
        (NAME("errors_total"), "sda"): 2, (NAME("running"), "sdb"): 0, (NAME("errors_total"), "sdb"): 3,
        (NAME("timeouts_total"), "sdb"): 4,
    }  # fmt: skip


def test_without_such_a_disk_it_says_so() -> None:
    with pytest.raises(Unavailable) as caught:
        ScsiCollector(fixture_host("node192")).probe()
    assert caught.value.reason is Reason.NO_HARDWARE
