from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_exporter.collectors._pci import chain_of, kind_of, parse_aer, parse_speed, parse_width, slot_of
from hwsonde_exporter.collectors.pcie import PcieCollector
from hwsonde_exporter.errors import ReadError, Reason, Unavailable
from hwsonde_exporter.host import Host
from tests.exporter.collectors.hosts import fixture_host, values
from tests.exporter.collectors.trees import Forbidden, tree_host
from tests.fixtures.make_node192 import Tree
from tests.fixtures.node192_board import aer, function, link

ROOT = "sys/devices/pci0000:00"
PORT = f"{ROOT}/0000:00:01.0"
GPU = f"{PORT}/0000:01:00.0"


def answer(host: Host) -> dict[tuple[str, ...], float]:
    collector = PcieCollector(host)
    collector.probe()
    return values(list(collector.collect()))


def gpu_below(port: Tree, gpu: Tree) -> Tree:
    return function(PORT, "0x060400", "8086:352a", "pcieport", port) | function(
        GPU, "0x030200", "10de:2335", "nvidia", gpu
    )


def of(found: dict[tuple[str, ...], float], device: str) -> dict[str, float]:
    return {
        key[0].removeprefix("hwsonde_pcie_link_"): value
        for key, value in found.items()
        if key[1] == device and "link" in key[0]
    }


# ---- parsers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "value"),
    [
        (b"32.0 GT/s PCIe\n", 32e9), (b"2.5 GT/s PCIe\n", 2.5e9), (b"8 GT/s\n", 8e9), (b"64.0 GT/s PCIe\n", 64e9),
        (b"Unknown\n", None), (b"Unknown speed\n", None), (b"0.0 GT/s PCIe\n", None), (b"999 GT/s\n", None), (b"133 MHz PCI-X\n", None),
        (b"", None), (b"GT/s", None),
    ],
)  # fmt: skip
def test_speed(data: bytes, value: float | None) -> None:
    assert parse_speed(data) == value


@pytest.mark.parametrize(
    ("data", "value"),
    [(b"16\n", 16), (b"1\n", 1), (b"32\n", 32), (b"0\n", None), (b"63\n", None), (b"255\n", None), (b"-1\n", None)],
)
def test_width(data: bytes, value: int | None) -> None:
    assert parse_width(data) == value


@given(st.binary())
def test_any_file_is_survived(data: bytes) -> None:
    for parse in (parse_speed, parse_width, parse_aer):
        value = parse(data)
        assert value is None or value >= 0


def test_error_reports() -> None:
    assert parse_aer(b"RxErr 4118\nBadTLP 204\nTOTAL_ERR_COR 4322\n") == 4322
    assert parse_aer(b"RxErr 4118\nBadTLP 204\n") is None
    assert parse_aer(b"RxErr 4118\nTOTAL_ERR_COR 43") is None


@pytest.mark.parametrize(
    ("code", "vendor", "kind"),
    [
        ("0x030200", "0x10de", "gpu"), ("0x038000", "0x1002", "gpu"), ("0x030000", "0x1a03", ""), ("0x120000", "0x1da3", "accelerator"),
        ("0x020000", "0x15b3", "network"), ("0x020700", "0x15b3", "network"), ("0x010802", "0x144d", "nvme"),
        ("0x010700", "0x1000", "storage"), ("0x068000", "0x10de", "nvswitch"), ("0x068000", "0x8086", ""),
        ("0x060400", "0x8086", "bridge"), ("0x060000", "0x8086", ""), ("0x0c0330", "0x8086", ""), ("", "", ""),
    ],
)  # fmt: skip
def test_kinds(code: str, vendor: str, kind: str) -> None:
    assert kind_of(code, vendor) == kind


@pytest.mark.parametrize(
    ("target", "chain"),
    [
        ("../../../devices/pci0000:15/0000:15:01.0/0000:17:00.0", ("0000:15:01.0", "0000:17:00.0")),
        ("../../../devices/pci0000:64/0000:64:00.5/pci10000:00/10000:00:02.0/10000:01:00.0", ("10000:00:02.0", "10000:01:00.0")),
        ("../../../devices/LNXSYSTM:00/device:00/ACPI0004:00/VMBUS:00/0-1-2/pcid91f:00/d91f:00:00.0", ("d91f:00:00.0",)),
        ("", ()),
    ],
)  # fmt: skip
def test_way_from_the_root(target: str, chain: tuple[str, ...]) -> None:
    assert chain_of(target) == chain


def test_the_nearest_slot_counts() -> None:
    chain = ("0000:37:01.0", "0000:38:00.0", "0000:39:00.0", "0000:3a:00.0")
    assert slot_of(chain, {"0000:38:00": "5", "0000:37:01": "1"}) == "5"
    assert slot_of(chain, {"0000:3a:00": "9", "0000:38:00": "5"}) == "9"
    assert slot_of(chain, {}) == ""


# ---- links ---------------------------------------------------------------------------------------------------------


def test_a_link_can_do_what_both_of_its_ends_can(tmp_path: Path) -> None:
    port, gpu = link(16, "16.0"), link(16, "16.0", max_speed="32.0")
    assert of(answer(tree_host(tmp_path, gpu_below(port, gpu))), "0000:01:00.0") == {
        "width_lanes": 16, "max_width_lanes": 16, "speed_transfers_per_second": 16e9, "max_speed_transfers_per_second": 16e9,
    }  # fmt: skip


def test_an_emulated_port_is_not_believed(tmp_path: Path) -> None:
    found = answer(tree_host(tmp_path, gpu_below(link(1, "2.5"), link(16, "32.0"))))
    assert of(found, "0000:01:00.0")["max_width_lanes"] == 16
    assert of(found, "0000:01:00.0")["max_speed_transfers_per_second"] == 32e9


def test_a_device_at_the_root_of_a_virtual_machine_has_its_own_limits(tmp_path: Path) -> None:
    files = function(
        f"{ROOT}/0000:00:05.0", "0x030200", "10de:2335", "nvidia", link(8, "16.0", max_width=16, max_speed="32.0")
    )
    found = of(answer(tree_host(tmp_path, files)), "0000:00:05.0")
    assert (found["width_lanes"], found["max_width_lanes"]) == (8, 16)


def test_a_link_is_shown_once_at_its_lower_end() -> None:
    found = answer(fixture_host("node192"))
    shown = {key[1] for key in found if key[0] == "hwsonde_pcie_link_width_lanes"}
    assert {"0000:38:00.0", "0000:3a:00.0", "0000:17:00.1"} <= shown
    assert not {"0000:37:01.0", "0000:39:00.0", "0000:15:01.0"} & shown


def test_what_does_not_matter_is_left_out() -> None:
    devices = {key[1] for key in answer(fixture_host("node192"))}
    assert not {"0000:04:00.0", "0000:3b:00.1", "0000:00:1f.4", "0000:00:1c.0"} & devices


def test_the_faults_of_the_fixture_show() -> None:
    found = answer(fixture_host("node192"))
    assert of(found, "0000:ba:00.0")["width_lanes"] == 8
    assert of(found, "0000:ba:00.0")["max_width_lanes"] == 16
    assert found["hwsonde_pcie_aer_errors_total", "0000:ba:00.0", "gpu", "correctable"] == 4322
    assert found["hwsonde_pcie_aer_errors_total", "0000:b9:00.0", "bridge", "correctable"] == 44
    assert of(found, "0000:44:00.0")["speed_transfers_per_second"] == 8e9
    assert of(found, "0000:44:00.0")["max_speed_transfers_per_second"] == 16e9
    info = next(key for key in found if key[:2] == ("hwsonde_pcie_device_info", "0000:ba:00.0"))
    assert info[2:] == ("gpu", "7", "0000:b9:00.0", "0x10de", "0x2335", "nvidia", "2")


def test_a_device_that_fell_off_the_bus_loses_its_link_only(tmp_path: Path) -> None:
    gone = {
        "current_link_width": "63",
        "current_link_speed": "Unknown",
        "max_link_width": "16",
        "max_link_speed": "32.0 GT/s PCIe",
    }
    found = answer(tree_host(tmp_path, gpu_below(link(16, "32.0") | aer(), gone | aer(RxErr=1))))
    assert of(found, "0000:01:00.0") == {}
    assert found["hwsonde_pcie_aer_errors_total", "0000:01:00.0", "gpu", "correctable"] == 1


def test_a_sleeping_device_is_not_woken(tmp_path: Path) -> None:
    files = gpu_below(link(16, "16.0"), link(16, "16.0") | aer())
    host = tree_host(
        tmp_path, files | {f"{GPU}/power/runtime_status": "suspended"}, Forbidden("01:00.0/current_link_width")
    )
    reads: list[str] = []
    read = host.files.read_once
    host.files.read_once = lambda path: (reads.append(str(path)), read(path))[1]  # type: ignore[method-assign]
    assert of(answer(host), "0000:01:00.0") == {}
    assert not [path for path in reads if "01:00.0" in path and "link" in path]


def test_one_broken_file_costs_its_own_series(tmp_path: Path) -> None:
    files = gpu_below(link(16, "32.0"), link(16, "32.0") | aer())
    whole = answer(tree_host(tmp_path, files))
    for name in ("current_link_width", "current_link_speed", "aer_dev_fatal", "max_link_width"):
        host = tree_host(tmp_path, files, Forbidden(f"0000:01:00.0/{name}"))
        part = answer(host)
        assert part.items() <= whole.items()
        assert len(part) >= len(whole) - 2


def test_devices_that_vanish_are_an_error(tmp_path: Path) -> None:
    collector = PcieCollector(tree_host(tmp_path, gpu_below(link(16, "32.0"), link(16, "32.0"))))
    collector.probe()
    for path in (tmp_path / "sys/bus/pci/devices").iterdir():
        path.unlink()
    with pytest.raises(ReadError):
        collector.collect()


def test_a_machine_of_emulated_devices_says_so(tmp_path: Path) -> None:
    files = function(f"{ROOT}/0000:00:03.0", "0x020000", "1af4:1041", "virtio-pci")
    with pytest.raises(Unavailable) as caught:
        PcieCollector(tree_host(tmp_path, files)).probe()
    assert caught.value.reason is Reason.NO_HARDWARE
