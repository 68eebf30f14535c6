from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_exporter.collectors.md import MdCollector, member_state, parse_completed
from hwsonde_exporter.errors import Reason, Unavailable
from tests.exporter.collectors.hosts import values
from tests.exporter.collectors.trees import tree_host

NAME = "hwsonde_storage_md_{}".format
BASE = "sys/block/md127/md"
ARRAY = {
    f"{BASE}/level": "raid5", f"{BASE}/metadata_version": "1.2", f"{BASE}/array_state": "active", f"{BASE}/degraded": "1",
    f"{BASE}/raid_disks": "4 (3)", f"{BASE}/sync_action": "recover", f"{BASE}/sync_completed": "250 / 1000",
    f"{BASE}/sync_speed": "120000", f"{BASE}/mismatch_cnt": "8",
    f"{BASE}/dev-sda1/state": "in_sync", f"{BASE}/dev-sda1/slot": "0", f"{BASE}/dev-sda1/errors": "12",
    f"{BASE}/dev-sdb1/state": "in_sync,write_mostly", f"{BASE}/dev-sdb1/slot": "1", f"{BASE}/dev-sdb1/errors": "0",
    f"{BASE}/dev-sdc1/state": "spare", f"{BASE}/dev-sdc1/slot": "2", f"{BASE}/dev-sdc1/errors": "0",
    f"{BASE}/dev-sdd1/state": "faulty,write_error", f"{BASE}/dev-sdd1/slot": "none",
    f"{BASE}/dev-sde1/state": "spare", f"{BASE}/dev-sde1/slot": "none",
    f"{BASE}/dev-nvme0n1/state": "journal", f"{BASE}/dev-nvme0n1/slot": "journal",
}  # fmt: skip


def collected(tmp_path: Path, files: dict[str, str]) -> dict[tuple[str, ...], float]:
    collector = MdCollector(tree_host(tmp_path, files), timeout=30.0)
    collector.probe()
    return values(list(collector.collect()))


def test_a_rebuild_shows(tmp_path: Path) -> None:
    answer = collected(tmp_path, ARRAY)
    assert answer[NAME("info"), "md127", "raid5", "1.2"] == 1
    assert (answer[NAME("running"), "md127"], answer[NAME("stuck"), "md127"]) == (1, 0)
    assert (answer[NAME("degraded_devices"), "md127"], answer[NAME("required_members"), "md127"]) == (1, 4)
    actions = {key[2]: value for key, value in answer.items() if key[0] == NAME("sync_action")}
    assert [action for action, value in actions.items() if value] == ["recover"]
    assert len(actions) == 7
    assert answer[NAME("sync_completed_ratio"), "md127"] == 0.25
    assert answer[NAME("sync_bytes_per_second"), "md127"] == 120_000 * 1024
    assert answer[NAME("mismatched_bytes"), "md127"] == 4096
    members = {key[2]: value for key, value in answer.items() if key[0] == NAME("members")}
    assert members == {"active": 2, "recovering": 1, "spare": 1, "journal": 1, "failed": 1}
    assert answer[NAME("member_errors_total"), "md127", "sda1"] == 12


def test_without_a_rebuild_nothing_is_said_of_one(tmp_path: Path) -> None:
    files = ARRAY | {f"{BASE}/sync_action": "idle", f"{BASE}/sync_completed": "none", f"{BASE}/sync_speed": "none"}
    answer = collected(tmp_path, files)
    assert answer[NAME("sync_action"), "md127", "idle"] == 1
    assert not [key for key in answer if key[0] in {NAME("sync_completed_ratio"), NAME("sync_bytes_per_second")}]


@pytest.mark.parametrize("state", ["inactive", "broken", "suspended", "clear"])
def test_an_array_that_does_not_run(tmp_path: Path, state: str) -> None:
    assert collected(tmp_path, ARRAY | {f"{BASE}/array_state": state})[NAME("running"), "md127"] == 0


@pytest.mark.parametrize("metadata", ["external:imsm", "external:ddf"])
def test_a_container_of_arrays_is_inactive_and_well(tmp_path: Path, metadata: str) -> None:
    """Intel's VROC as the kernel shows it: a container of four disks, and the array in it."""
    inside = {f"{BASE.replace('127', '126')}{path.removeprefix(BASE)}": text for path, text in ARRAY.items()}
    inside["sys/block/md126/md/metadata_version"] = "external:/md127/0"
    container = {
        f"{BASE}/level": "", f"{BASE}/metadata_version": metadata, f"{BASE}/array_state": "inactive", f"{BASE}/raid_disks": "0",
        **{f"{BASE}/dev-nvme{number}n1/{file}": text for number in range(4) for file, text in (("state", "spare"), ("slot", "none"))},
    }  # fmt: skip
    answer = collected(tmp_path, inside | container)
    assert {key[1]: value for key, value in answer.items() if key[0] == NAME("running")} == {"md126": 1}
    assert answer[NAME("members"), "md127", "spare"] == 4
    assert answer[NAME("stuck"), "md127"] == 0
    assert (NAME("degraded_devices"), "md127") not in answer


@pytest.mark.parametrize("metadata", ["external:/md127/0", "external:-md127/0", "1.2", "none", ""])
def test_an_array_in_a_container_must_run(tmp_path: Path, metadata: str) -> None:
    stopped = ARRAY | {f"{BASE}/metadata_version": metadata, f"{BASE}/array_state": "inactive"}
    assert collected(tmp_path, stopped)[NAME("running"), "md127"] == 0


def test_arrays_are_told_by_name_and_no_array_is_no_hardware(tmp_path: Path) -> None:
    files = {f"sys/block/{name}/md/level": "raid1" for name in ("md_home", "md0", "sda", "mdadm", "dm-0")}
    assert {key[1] for key in collected(tmp_path / "some", files)} == {"md_home", "md0"}
    with pytest.raises(Unavailable) as caught:
        collected(tmp_path / "none", {"sys/block/sda/size": "1"})
    assert caught.value.reason is Reason.NO_HARDWARE


@pytest.mark.parametrize(
    ("line", "share"), [("0 / 8", 0), ("8 / 8", 1), ("9 / 8", None), ("1 / 0", None), ("none", None), ("delayed", None), ("-1 / 8", None)]
)  # fmt: skip
def test_parse_completed(line: str, share: float | None) -> None:
    assert parse_completed(line) == share


@given(st.text(max_size=40), st.text(max_size=10))
def test_any_line_is_survived(line: str, other: str) -> None:
    share = parse_completed(line)
    assert share is None or 0 <= share <= 1
    assert member_state(line, other) in {"active", "recovering", "spare", "journal", "failed"}
