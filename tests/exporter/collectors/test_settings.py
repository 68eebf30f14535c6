"""Settings of the host: parsers, values, what is left out, and changes."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_exporter.collectors import _setting_pcie as pcie
from hwsonde_exporter.collectors._dcb import parse_dcb
from hwsonde_exporter.collectors._setting_kernel import parse_command_line, parse_nvidia_parameters
from hwsonde_exporter.collectors._setting_network import spread
from hwsonde_exporter.collectors._setting_rows import (
    MAX_VALUE,
    Row,
    agreed,
    bounded,
    inverted,
    kibibytes,
    listed,
    selected,
    switch,
)
from hwsonde_exporter.collectors._setting_services import parse_limits
from hwsonde_exporter.collectors._setting_storage import access, options
from hwsonde_exporter.collectors.filesystem import parse_mountinfo
from hwsonde_exporter.collectors.settings import AREAS, CHANGES, INFO, LAST_CHANGE, Changes, SettingsCollector
from hwsonde_exporter.errors import Reason, Unavailable
from hwsonde_exporter.host import FileReader, Host, Paths
from tests.exporter.collectors.hosts import fixture_host
from tests.exporter.collectors.setting_drivers import fixture_dcb, fixture_settings
from tests.fixtures.node192_settings import config_space


def collector(host: Host, now: Callable[[], float] = lambda: 0.0) -> SettingsCollector:
    made = SettingsCollector(host, ethtool=lambda _: fixture_settings(host), dcb=lambda _: fixture_dcb(host), wall=now)
    made.probe()
    return made


def settings_of(host: Host) -> dict[tuple[str, str], str]:
    return {
        (sample.labels[0], sample.labels[1]): sample.labels[2]
        for sample in collector(host).collect()
        if sample.metric is INFO
    }


def tree(folder: Path, files: dict[str, str]) -> Host:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n")
    return Host(Paths(folder / "proc", folder / "sys", folder / "root"))


# ---- values --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"), [("1", "on"), ("0", "off"), ("Y", "on"), ("N", "off"), ("2", "2"), ("", "")]
)
def test_switches_are_words(text: str, value: str) -> None:
    assert switch(text) == value


def test_values_are_brought_to_one_form() -> None:
    assert (inverted("0"), inverted("1"), inverted("x")) == ("on", "off", "x")
    assert selected("always [madvise] never") == "madvise"
    assert (selected("none"), selected("a b")) == ("none", "")
    assert (listed(""), listed("(null)"), listed("2-3")) == ("none", "none", "2-3")
    assert (kibibytes("128"), kibibytes("-1"), kibibytes("x")) == ("131072", "", "")


def test_parts_that_agree_give_one_value_and_others_are_counted() -> None:
    assert agreed(["a", "a", ""]) == "a"
    assert agreed(["b"] + ["a"] * 191) == "a:191 b:1"
    assert agreed(["", ""]) == agreed([]) == ""


@given(st.text(max_size=400), st.text(max_size=400))
def test_values_are_bounded_and_differ_where_the_texts_do(first: str, second: str) -> None:
    assert len(bounded(first)) <= MAX_VALUE
    assert (bounded(first) == bounded(second)) == (first == second)


@pytest.mark.parametrize(("cpus", "value"), [(1, "1"), (2, "2-3"), (3, "2-3"), (63, "32-63"), (64, "64-127")])
def test_a_spread_is_a_range(cpus: int, value: str) -> None:
    assert spread(cpus) == value


# ---- kernel --------------------------------------------------------------------------------------------------------


def test_of_the_command_line_only_known_parameters_are_shown() -> None:
    found = parse_command_line(
        b'root=UUID=8f14 iommu=pt nosmt nvme-core.io_timeout=255 isolcpus="managed_irq, 2-3" hugepages=1 hugepages=2 '
        b"mitigations= password=hunter2 nfsroot=192.0.2.1:/srv -- iommu=off\n"
    )
    assert found == {
        "iommu": "pt", "nosmt": "on", "nvme_core.io_timeout": "255", "isolcpus": "managed_irq, 2-3", "hugepages": "1 2",
        "mitigations": "",
    }  # fmt: skip


@given(st.binary(max_size=300))
def test_any_bytes_are_survived(data: bytes) -> None:
    for name, value in parse_command_line(data).items():
        assert name
        assert value.isprintable()
    parse_nvidia_parameters(data)
    parse_limits(data)
    parse_dcb(data)
    for mount in parse_mountinfo(data):
        access(mount)
        assert options(mount).isprintable()


def test_driver_parameters_are_chosen() -> None:
    data = b'DeviceFileUID: 1000\nEnableStreamMemOPs: 1\nRegistryDwords: ""\nEnableGpuFirmware 18\n'
    assert parse_nvidia_parameters(data) == {"EnableStreamMemOPs": "1", "RegistryDwords": "empty"}


def test_limits_are_the_soft_ones() -> None:
    data = b"Limit   Soft Limit  Hard Limit Units\nMax locked memory   67108864   unlimited   bytes\nMax open files   x   1   files\n"
    assert parse_limits(data) == {"memlock": "67108864"}


# ---- mounts --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("own", "shared", "expected"),
    [
        ("rw,relatime", "rw", "rw"),
        ("ro,relatime", "ro", "ro"),
        ("ro,relatime", "rw", "ro"),
        ("rw,relatime", "ro,errors=remount-ro", "forced ro"),
        ("rw,relatime", "rw,emergency_ro", "forced ro"),
        ("rw", "rw,shutdown", "forced ro"),
    ],
)
def test_who_made_it_read_only_shows(own: str, shared: str, expected: str) -> None:
    (mount,) = parse_mountinfo(f"28 1 8:1 / / {own} - ext4 /dev/sda1 {shared}\n".encode())
    assert access(mount) == expected


def test_a_server_that_allows_no_writing_forces_nothing() -> None:
    (mount,) = parse_mountinfo(b"62 28 0:45 / /mnt rw,relatime - nfs4 filer:/export ro,vers=4.2\n")
    assert access(mount) == "ro"


def test_options_hold_nothing_personal() -> None:
    line = (
        "50 28 0:60 / /home rw,relatime - nfs4 filer:/home rw,vers=4.2,addr=192.0.2.7,clientaddr=192.0.2.9,username=alice,"
        "rsize=1048576,hard,upperdir=/home/alice,size=814048k,nconnect=16\n"
    )
    (mount,) = parse_mountinfo(line.encode())
    assert options(mount) == "hard,nconnect=16,relatime,rsize=1048576,size=768MiB,vers=4.2"


# ---- PCI Express ---------------------------------------------------------------------------------------------------


def space(data: bytes) -> pcie.Read:
    return lambda place, size: data[place : place + size]


def test_registers_of_a_device() -> None:
    data = config_space(payload=256, request=4096, ordered=False, link=2, control=0x1D)
    assert pcie.parse_express(space(data)) == pcie.Express(256, 4096, True, True, "L1")
    assert pcie.parse_access_control(space(data)) == {"SourceValid", "ReqRedir", "CmpltRedir", "UpstreamFwd"}
    strict = config_space(payload=128, request=512, ordered=True, link=0)
    assert pcie.parse_express(space(strict)) == pcie.Express(128, 512, False, True, "off")
    assert pcie.parse_access_control(space(strict)) == frozenset()


@pytest.mark.parametrize("size", [0, 4, 64])
def test_without_permission_nothing_is_known(size: int) -> None:
    data = config_space(payload=256, request=512, ordered=False, link=0)[:size]
    assert pcie.parse_express(space(data)) is None
    assert pcie.parse_access_control(space(data)) is None


def test_a_device_that_does_not_answer_has_no_settings() -> None:
    dead = b"\xff" * 4096
    assert pcie.parse_express(space(dead)) is None
    assert pcie.parse_access_control(space(dead)) is None


@given(st.binary(max_size=600), st.integers(0, 300))
def test_any_registers_are_survived(data: bytes, place: int) -> None:
    sound = bytearray(config_space(payload=256, request=512, ordered=False, link=0, control=1))
    sound[place : place + len(data)] = data[: len(sound) - place]
    for registers in (data, bytes(sound)):
        express = pcie.parse_express(space(registers))
        assert express is None or express.max_payload in {None, 128, 256, 512, 1024, 2048, 4096}
        pcie.parse_access_control(space(registers))


def test_lists_of_capabilities_that_bite_their_tails_end() -> None:
    data = bytearray(config_space(payload=256, request=512, ordered=False, link=0, control=1))
    data[0x78], data[0x79] = 0x01, 0x60
    struct.pack_into("<I", data, 0x120, 0x0002 | 0x100 << 20)
    assert pcie.parse_express(space(bytes(data))) is None
    assert pcie.parse_access_control(space(bytes(data))) == frozenset()


def test_a_device_that_sleeps_is_not_woken(tmp_path: Path) -> None:
    base = tmp_path / "sys/bus/pci/devices/0000:01:00.0"
    host = tree(tmp_path, {f"sys/bus/pci/devices/0000:01:00.0/{name}": text for name, text in (
        ("class", "0x030200"), ("vendor", "0x10de"), ("power/runtime_status", "active"))})  # fmt: skip
    (base / "config").write_bytes(config_space(payload=256, request=512, ordered=False, link=0))
    assert list(pcie.pcie_rows(host))
    (base / "power/runtime_status").write_text("suspended\n")
    assert not list(pcie.pcie_rows(host))


# ---- the collector -------------------------------------------------------------------------------------------------


def test_what_somebody_forgot_shows() -> None:
    found = settings_of(fixture_host("node192"))
    assert found["cpu.governor", ""] == "performance:2 powersave:1"
    assert found["pcie.maximum_read_request_bytes", "0000:cb:00.0"] == "512"
    assert found["pcie.maximum_read_request_bytes", "0000:cd:00.0"] == "4096"
    assert found["pcie.access_control", "0000:bb:00.0"] == "CmpltRedir ReqRedir SourceValid UpstreamFwd"
    assert found["pcie.access_control", "0000:cb:00.0"] == "off"
    assert found["storage.read_ahead_bytes", "nvme3n1"] == "131072"
    assert found["rdma.roce_mode", "mlx5_7/1"] == "RoCE v1"
    assert found["network.priority_flow_control", "ens13np0"] == "none"
    assert found["network.interrupt_cpus", "ens1f1np1"] == "1"
    assert found["network.interrupt_locality", "ens1f1np1"] == "remote"
    assert found["module.nvidia_peermem", ""] == "not loaded"
    assert found["limit.memlock", "slurmd"] == "unlimited"
    assert found["time.service", ""] == "chrony"


@pytest.mark.parametrize("name", ["vm", "node192"])
def test_nothing_that_identifies_a_host_is_among_the_values(name: str) -> None:
    for (setting, device), value in settings_of(fixture_host(name)).items():
        assert setting.partition(".")[0] in AREAS
        for text in (setting, device, value):
            assert len(text) <= MAX_VALUE
            for secret in ("4118204a", "8f14e45f", "SN-4118204118", "abcdef", "filer", "192.0.2", "files.example"):
                assert secret not in text


class Refusing(FileReader):
    """A reader of a user who may not read some files."""

    def __init__(self, part: str) -> None:
        super().__init__()
        self.part = part

    def read(self, path: Path | str) -> bytes:
        if self.part in os.fspath(path):
            return super().read_once("/nonexistent")
        return super().read_once(path)

    read_once = read


def test_one_file_that_cannot_be_read_costs_its_row_only() -> None:
    everything = settings_of(fixture_host("node192"))
    for part, lost in (
        ("vm/swappiness", {("memory.swappiness", "")}),
        ("nvme1n1/queue/nr_requests", {("storage.queue_requests", "nvme1n1")}),
        ("proc/2100/limits", {("limit.memlock", "slurmd"), ("limit.open_files", "slurmd"), ("limit.stack", "slurmd")}),
    ):
        left = settings_of(fixture_host("node192", Refusing(part)))
        assert set(everything) - set(left) == lost
        assert all(everything[key] == value for key, value in left.items())


def test_a_container_without_the_hosts_network_shows_no_driver_and_says_so_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse(_: Path) -> None:
        raise Unavailable(Reason.NO_PERMISSION, "not the host's network namespace")

    made = SettingsCollector(fixture_host("node192"), ethtool=refuse, dcb=refuse)  # type: ignore[arg-type]
    with caplog.at_level("INFO"):
        made.probe()
        made.probe()
    assert len(caplog.messages) == 2
    assert all("not the host's network namespace" in message for message in caplog.messages)
    found = {sample.labels[0] for sample in made.collect() if sample.metric is INFO}
    assert "network.mtu_bytes" in found
    assert not found & {"network.ring_sizes", "network.trust", "network.driver"}


def test_a_host_without_files_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable) as caught:
        collector(tree(tmp_path, {}))
    assert caught.value.reason is Reason.NO_KERNEL_SUPPORT


def test_a_change_is_counted_with_its_time(tmp_path: Path) -> None:
    host = tree(tmp_path, {"proc/sys/kernel/osrelease": "6.1", "proc/sys/vm/swappiness": "60"})
    times = iter((1000.0, 1060.0, 1120.0, 1180.0))
    made = collector(host, lambda: next(times))

    def reading() -> tuple[dict[str, float], dict[str, float]]:
        samples = list(made.collect())
        return tuple(  # type: ignore[return-value]
            {sample.labels[0]: sample.value for sample in samples if sample.metric is metric}
            for metric in (CHANGES, LAST_CHANGE)
        )

    assert reading() == (dict.fromkeys(AREAS, 0), {})
    (tmp_path / "proc/sys/vm/swappiness").unlink()
    assert reading() == (dict.fromkeys(AREAS, 0), {}), "a file that cannot be read is no change"
    (tmp_path / "proc/sys/vm/swappiness").write_text("1\n")
    assert reading() == (dict.fromkeys(AREAS, 0) | {"memory": 1}, {"memory": 1120.0})
    assert reading() == (dict.fromkeys(AREAS, 0) | {"memory": 1}, {"memory": 1120.0})


def test_what_is_known_of_devices_that_come_and_go_is_bounded() -> None:
    changes = Changes()
    for number in range(30):
        changes.update([Row("mount.access", f"/home/{number}/{user}", "rw") for user in range(1000)], float(number))
    assert len(changes._known) < 12_000
    assert changes.counts["mount"] == 0


def test_surplus_pages_are_nobodys_setting(tmp_path: Path) -> None:
    base = "sys/kernel/mm/hugepages/hugepages-2048kB"
    host = tree(
        tmp_path, {"proc/sys/kernel/osrelease": "6", f"{base}/nr_hugepages": "80", f"{base}/surplus_hugepages": "16"}
    )
    assert settings_of(host)["memory.huge_pages", "2048kB"] == "64"


def test_every_setting_is_documented() -> None:
    text = (Path(__file__).parents[3] / "docs" / "settings.md").read_text()
    patterns = [word.replace("NAME", "*").replace("PARAMETER", "*") for word in text.split("`")[1::2]]
    known = [word for word in patterns if word.partition(".")[0] in AREAS]
    prefix = "memory.transparent_huge_pages"
    known += [f"{prefix}_defragmentation", f"{prefix}_shared"]
    for name in ("vm", "node192"):
        for setting, _ in settings_of(fixture_host(name)):
            assert any(fnmatchcase(setting, pattern) for pattern in known), setting
