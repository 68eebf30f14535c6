from __future__ import annotations

import errno
import fcntl
import os
import struct
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_exporter.collectors import _nvme_ioctl
from hwsonde_exporter.collectors._nvme_ioctl import SmartError, parse_smart_log, read_smart_log
from hwsonde_exporter.collectors.nvme import NvmeCollector
from hwsonde_exporter.errors import Reason, Unavailable
from tests.exporter.collectors.hosts import smart_log, values
from tests.exporter.collectors.trees import tree_host

NAME = "hwsonde_storage_nvme_{}".format
AVAILABLE = NAME("smart_available")
BASE = "sys/class/nvme/nvme0"
DISK = {
    f"{BASE}/state": "live",
    f"{BASE}/model": "Disk  1 ",
    f"{BASE}/transport": "pcie",
    f"{BASE}/address": "0000:01:00.0",
}
WARM = {f"{BASE}/hwmon3/temp1_input": "38850", f"{BASE}/hwmon3/temp3_input": "-5150"}


def collected(tmp_path: Path, files: dict[str, str], ask: _nvme_ioctl.Ask = smart_log) -> dict[tuple[str, ...], float]:
    collector = NvmeCollector(tree_host(tmp_path, files), ask=ask, timeout=30.0)
    collector.probe()
    return values(list(collector.collect()))


def refuse(reason: str) -> _nvme_ioctl.Ask:
    def ask(path: str) -> bytes:
        raise SmartError(reason)

    return ask


def test_the_command_is_what_the_kernel_expects() -> None:
    """linux/nvme_ioctl.h: 72 bytes, whose number and direction are part of the request's code."""
    assert _nvme_ioctl.COMMAND.size == 72
    assert 3 << 30 | _nvme_ioctl.COMMAND.size << 16 | ord("N") << 8 | 0x41 == _nvme_ioctl.ADMIN_COMMAND


def test_the_log_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel writes to the address in the command: so does this one."""
    device = tmp_path / "nvme0"
    device.touch()

    def ioctl(descriptor: int, request: int, command: bytearray, mutate: bool) -> int:
        opcode, flags, _, nsid, _, _, _, address, _, size, cdw10, *rest = _nvme_ioctl.COMMAND.unpack(command)
        assert (request, opcode, flags, nsid, size) == (0xC0484E41, 2, 0, 0xFFFFFFFF, 512)
        assert cdw10 == 127 << 16 | 2
        assert not any(rest), "no time limit of its own, which would make the kernel reset a slow device"
        assert Path(f"/proc/self/fd/{descriptor}").readlink() == device
        (_nvme_ioctl.ctypes.c_char * 512).from_address(address).raw = bytes(range(256)) * 2
        return 0

    monkeypatch.setattr(fcntl, "ioctl", ioctl)
    before = {path.name for path in Path("/proc/self/fd").iterdir()}
    assert read_smart_log(str(device)) == bytes(range(256)) * 2
    assert {path.name for path in Path("/proc/self/fd").iterdir()} <= before


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (errno.EACCES, "no_permission"), (errno.EPERM, "no_permission"), (errno.ENODEV, "no_device_node"),
        (errno.EWOULDBLOCK, "not_live"), (errno.ENOTTY, "not_supported"), (errno.EIO, "error"),
    ],
)  # fmt: skip
def test_errors_of_the_kernel_have_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: int, reason: str
) -> None:
    def ioctl(*_: object) -> int:
        raise OSError(error, os.strerror(error))

    (tmp_path / "nvme0").touch()
    monkeypatch.setattr(fcntl, "ioctl", ioctl)
    with pytest.raises(SmartError) as caught:
        read_smart_log(str(tmp_path / "nvme0"))
    assert caught.value.reason == reason


def test_a_status_of_the_device_is_a_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "nvme0").touch()
    monkeypatch.setattr(fcntl, "ioctl", lambda *_: 0x4002)
    with pytest.raises(SmartError, match="refused"):
        read_smart_log(str(tmp_path / "nvme0"))


def test_no_device_node_and_no_nvme_device(tmp_path: Path) -> None:
    with pytest.raises(SmartError, match="no_device_node"):
        read_smart_log(str(tmp_path / "nvme9"))
    # The real system call on a file that is no such device.
    (tmp_path / "nvme0").touch()
    with pytest.raises(SmartError, match="not_supported"):
        read_smart_log(str(tmp_path / "nvme0"))


def test_fields_are_where_the_specification_puts_them() -> None:
    log = bytearray(512)
    log[0], log[3], log[4], log[5] = 0b100010, 80, 10, 130
    struct.pack_into("<H", log, 1, 311)
    for place in range(10):
        log[32 + 16 * place] = place + 1
    log[39] = 1  # 2^56 more data units read
    struct.pack_into("<II8H", log, 192, 91, 92, *range(300, 308))
    struct.pack_into("<IIII", log, 216, 93, 94, 95, 96)
    parsed = parse_smart_log(bytes(log))
    assert parsed.warnings == (False, True, False, False, False, True)
    assert parsed.temperatures == {"composite": 37.85, **{f"sensor_{n}": round(25.85 + n, 2) for n in range(1, 9)}}
    assert (parsed.spare, parsed.spare_threshold, parsed.used) == (80, 10, 130)
    assert list(parsed.counts.values()) == [(1 << 56) + 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 91, 92, 93, 94, 95, 96]


@pytest.mark.parametrize(
    ("data", "reason"),
    [(b"", "garbled"), (bytes(100), "garbled"), (b"\xff" * 512, "garbled"), (bytes(512), "not_supported")],
)
def test_a_log_that_says_nothing_is_refused(data: bytes, reason: str) -> None:
    with pytest.raises(SmartError) as caught:
        parse_smart_log(data)
    assert caught.value.reason == reason


def test_what_a_device_does_not_tell_is_left_out() -> None:
    log = bytearray(512)
    log[5] = 1
    log[128:144] = b"\xff" * 16
    struct.pack_into("<8H", log, 200, 0xFFFF, 1, *[0] * 6)
    parsed = parse_smart_log(bytes(log))
    assert (parsed.spare, parsed.spare_threshold, parsed.temperatures) == (None, None, {})
    assert "power_on_hours" not in parsed.counts
    log[0] = 1  # now it says that the spare is used up
    assert parse_smart_log(bytes(log)).spare == 0
    log[3] = 200
    assert parse_smart_log(bytes(log)).spare is None


@given(st.binary(max_size=600))
def test_any_log_is_parsed_or_refused(data: bytes) -> None:
    try:
        parsed = parse_smart_log(data)
    except SmartError:
        return
    assert all(-40 <= value <= 150 for value in parsed.temperatures.values())
    assert all(0 <= value < 1 << 64 for value in parsed.counts.values())


def test_values_are_in_base_units(tmp_path: Path) -> None:
    answer = collected(tmp_path, DISK)
    assert answer[NAME("live"), "nvme0"] == 1
    assert answer[NAME("info"), "nvme0", "Disk 1", "", "pcie", "0000:01:00.0", ""] == 1
    assert answer[NAME("data_bytes_total"), "nvme0", "read"] == 481_204_118 * 512_000
    assert answer[NAME("power_on_seconds_total"), "nvme0"] == 20_411 * 3600
    assert answer[NAME("busy_seconds_total"), "nvme0"] == 41_204 * 60
    assert (answer[NAME("spare_ratio"), "nvme0"], answer[NAME("wear_ratio"), "nvme0"]) == (1, 0.07)
    assert answer[NAME("temperature_celsius"), "nvme0", "composite"] == 38.85
    assert answer[AVAILABLE, "nvme0", ""] == 1


def test_without_privilege_the_temperature_comes_from_the_kernel_and_the_reason_is_given(tmp_path: Path) -> None:
    answer = collected(tmp_path, DISK | WARM, refuse("no_permission"))
    assert answer[AVAILABLE, "nvme0", "no_permission"] == 0
    assert answer[NAME("temperature_celsius"), "nvme0", "composite"] == 38.85
    assert answer[NAME("temperature_celsius"), "nvme0", "sensor_2"] == -5.15
    assert not [key for key in answer if key[0] == NAME("wear_ratio")]


def test_sensors_below_the_pci_device_are_found(tmp_path: Path) -> None:
    answer = collected(tmp_path, DISK | {f"{BASE}/device/hwmon/hwmon0/temp1_input": "40000"}, refuse("no_permission"))
    assert answer[NAME("temperature_celsius"), "nvme0", "composite"] == 40


def test_the_temperature_is_asked_for_once(tmp_path: Path) -> None:
    """What hwmon says is the same log, asked for again; it lies here as nonsense, and nobody sees it."""
    answer = collected(tmp_path, DISK | {f"{BASE}/hwmon3/temp1_input": "99000"})
    assert answer[NAME("temperature_celsius"), "nvme0", "composite"] == 38.85


@pytest.mark.parametrize("text", ["65261850", "-273150", "", "1e3", "٣٣", "- 5", "9" * 400])
def test_temperatures_that_cannot_be_are_left_out(tmp_path: Path, text: str) -> None:
    files = DISK | {
        f"{BASE}/hwmon3/temp1_input": text,
        f"{BASE}/hwmon3/temp1_max": text,
        f"{BASE}/hwmon3/temp1_crit": "0",
    }
    answer = collected(tmp_path, files, refuse("no_permission"))
    assert not [key for key in answer if "temperature" in key[0]]


@pytest.mark.parametrize("state", ["resetting", "connecting", "dead", "deleting (no IO)"])
def test_a_controller_that_is_not_live_is_not_asked(tmp_path: Path, state: str) -> None:
    asked: list[str] = []

    def ask(path: str) -> bytes:
        asked.append(path)
        return smart_log(path)

    answer = collected(tmp_path, DISK | WARM | {f"{BASE}/state": state}, ask)
    assert (answer[NAME("live"), "nvme0"], answer[AVAILABLE, "nvme0", "not_live"]) == (0, 0)
    assert not [key for key in answer if "temperature" in key[0]]
    assert asked == []


def test_the_address_of_a_remote_disk_is_nobodys_label(tmp_path: Path) -> None:
    files = DISK | {f"{BASE}/transport": "tcp", f"{BASE}/address": "traddr=192.0.2.1,trsvcid=4420"}
    assert (NAME("info"), "nvme0", "Disk 1", "", "tcp", "", "") in collected(tmp_path, files)


def test_one_that_hangs_is_stuck_and_harms_no_other(tmp_path: Path) -> None:
    release, asked = threading.Event(), []

    def ask(path: str) -> bytes:
        asked.append(path)
        if path.endswith("nvme1"):
            release.wait(30)
        return smart_log(path)

    files = DISK | {"sys/class/nvme/nvme1/state": "live"}
    collector = NvmeCollector(tree_host(tmp_path, files), ask=ask, timeout=0.2)
    try:
        for _ in range(3):
            answer = values(list(collector.collect()))
            assert (answer[NAME("stuck"), "nvme0"], answer[NAME("stuck"), "nvme1"]) == (0, 1)
            assert (answer[AVAILABLE, "nvme0", ""], answer[AVAILABLE, "nvme1", "no_answer"]) == (1, 0)
            assert answer[NAME("live"), "nvme1"] == 1
        assert asked.count(f"{tmp_path}/root/dev/nvme1") == 1
    finally:
        threads = list(collector._asker.hanging.values())
        release.set()
        for thread in threads:
            thread.join(10)
    assert values(list(collector.collect()))[NAME("stuck"), "nvme1"] == 0


def test_without_a_controller_it_says_so(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        NvmeCollector(tree_host(tmp_path, {"sys/class/nvme/power": "x"})).probe()
    assert caught.value.reason is Reason.NO_HARDWARE


def test_a_replaced_disk_shows_after_the_next_probe(tmp_path: Path) -> None:
    collector = NvmeCollector(tree_host(tmp_path, DISK), ask=smart_log, timeout=30.0)
    list(collector.collect())
    (tmp_path / BASE / "model").write_text("Other\n")
    collector.probe()
    assert any("Other" in sample.labels for sample in collector.collect())
