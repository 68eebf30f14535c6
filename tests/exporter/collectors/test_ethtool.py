from __future__ import annotations

import errno
import re
import struct
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_exporter.collectors import _ethtool_ioctl as ioctl
from hwsonde_exporter.collectors._ethtool_netlink import find_family, read_standard
from hwsonde_exporter.collectors._ethtool_tables import (
    DISCARDS,
    DRIVERS,
    FEC_BITS,
    FEC_BLOCKS,
    METRICS,
    MLX5,
    PAUSE_FRAMES,
    PCIE_STALLED,
    PFC_FRAMES,
    PFC_SECONDS,
    PHY_ERRORS,
    PRIORITY_DISCARDS,
)
from hwsonde_exporter.collectors.ethtool import EthtoolCollector, evaluate, make_plan
from hwsonde_exporter.errors import Reason, Unavailable
from hwsonde_exporter.host import FileReader, Host, Ignored, Paths
from tests.exporter.collectors.ethtool_kernel import FAMILY, Card, Kernel, dump
from tests.exporter.collectors.hosts import fixture_host, samples_of, values

Answer = dict[tuple[str, ...], float]


def host_of(folder: Path, devices: list[str], *, real: bool = False) -> Host:
    """Host whose net/dev shows these devices; those that are real have a device in sysfs."""
    net = folder / "proc/1/net"
    net.mkdir(parents=True, exist_ok=True)
    (net / "dev").write_text("".join(f"{device}: 0 0\n" for device in devices))
    for device in devices if real else ():
        (folder / "sys/class/net" / device).mkdir(parents=True)
        (folder / "sys/class/net" / device / "device").symlink_to("../../../devices/pci0000:00/0000:00:03.0")
    return Host(Paths(folder / "proc", folder / "sys", folder), FileReader())


def collector_of(host: Host, kernel: Kernel, cards: Mapping[str, Card] | None = None) -> EthtoolCollector:
    return EthtoolCollector(host, connect=lambda _: ioctl.Ethtool(kernel), dumps=lambda _: dump(cards or {}))


def table(collector: EthtoolCollector) -> Answer:
    """Values by name without its beginning and label values."""
    return {
        (key[0].removeprefix("hwsonde_network_"), *key[1:]): value
        for key, value in values(list(collector.collect())).items()
    }


# ---- tables ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("driver", DRIVERS)
def test_a_driver_s_table_fits_the_metrics(driver: str) -> None:
    for name, (metric, labels) in DRIVERS[driver].items():
        assert len(labels) + 1 == len(metric.labels), name
        assert len(name) < ioctl.STRING_BYTES
        assert name.count("#") <= 1
        assert not re.search(r"\d", name.replace("mlx5", "").replace("#", "")), "a number in a name is written as #"
        if "#" in labels:
            assert "#" in name
            assert metric.labels[1 + labels.index("#")] == "priority"


def test_every_metric_has_a_source() -> None:
    told = {metric for names in DRIVERS.values() for metric, _ in names.values()} | {FEC_BLOCKS, FEC_BITS}
    assert told == set(METRICS)


def test_parts_are_summed_and_numbers_become_priorities() -> None:
    names = [
        "[0]: rx_discards",
        "rx_pfc_ena_frames_pri3",
        "[1]: rx_discards",
        "unknown",
        "[12]: rx_discards",
        "pfc_pri3_rx_duration_us",
    ]
    plan = make_plan(names, DRIVERS["bnxt_en"])
    assert plan == {
        (DISCARDS, ("received", "no_buffer")): [0, 2, 4],
        (PFC_FRAMES, ("3", "received")): [1],
        (PFC_SECONDS, ("3", "received")): [5],
    }
    samples, rejected = evaluate(plan, (1, 20, 300, 9, 4000, 2_500_000), "eth0")
    assert rejected == 0
    assert [(sample.labels, sample.value) for sample in samples] == [
        (("eth0", "received", "no_buffer"), 4301),
        (("eth0", "3", "received"), 20),
        (("eth0", "3", "received"), 2.5),
    ]


def test_a_total_goes_before_its_parts() -> None:
    names = ["[0]: rx_discards", "rx_total_ring_discards", "[1]: rx_discards"]
    assert make_plan(names, DRIVERS["bnxt_en"]) == {(DISCARDS, ("received", "no_buffer")): [1]}


def test_different_counts_of_one_thing_are_added() -> None:
    plan = make_plan(["rx_drops", "rx_overruns", "queue_0_rx_page_alloc_fail"], DRIVERS["ena"])
    assert plan[DISCARDS, ("received", "no_buffer")] == [0, 1]


@pytest.mark.parametrize(
    "name", ["rx_prio8_pause", "rx_prio13_pause", "rx_prio_pause", "rx_prio3_pause2", "RX_PRIO3_PAUSE", ""]
)
def test_what_is_no_priority_is_nothing(name: str) -> None:
    assert make_plan([name], MLX5) == {}


@given(
    st.lists(st.one_of(st.sampled_from([*MLX5, "rx_prio3_pause", "rx_prio\u0663_pause"]), st.text(max_size=31))),
    st.data(),
)
def test_any_names_and_values_give_sound_samples(names: list[str], data: st.DataObject) -> None:
    plan = make_plan(names, MLX5)
    numbers = st.integers(0, 2**64 - 1)
    counts = tuple(data.draw(st.lists(numbers, max_size=len(names) + 2)))
    seen = set()
    for metric, labels, value, _ in evaluate(plan, counts, "eth0")[0]:
        assert 0 <= value < 2**63 * max(1, len(names))
        assert len(labels) == len(metric.labels)
        assert (metric, labels) not in seen
        seen.add((metric, labels))


def test_values_that_are_none_are_left_out() -> None:
    plan = make_plan(["rx_crc_errors_phy", "outbound_pci_stalled_rd", "outbound_pci_stalled_wr", "tx_errors_phy"], MLX5)
    samples, rejected = evaluate(plan, (2**64 - 1, 50, 101), "eth0")
    assert rejected == 2  # the fourth is missing
    assert [(sample.metric, sample.value) for sample in samples] == [(PCIE_STALLED, 0.5)]


# ---- the ioctl -------------------------------------------------------------------------------------------------------


def test_structures_have_the_kernel_s_sizes() -> None:
    assert ioctl._DRIVER.size == 196
    assert ioctl._SET.size == 20
    assert ioctl._STRINGS.size == 12
    assert ioctl._STATISTICS.size == 8
    assert struct.calcsize("@16sP16x") == 40 if struct.calcsize("P") == 8 else 36


@given(st.binary(max_size=200))
def test_any_names_are_split(data: bytes) -> None:
    names = ioctl.split_names(data)
    assert len(names) == -(-len(data) // ioctl.STRING_BYTES)
    assert all(name.isascii() and name.isprintable() for name in names)


def test_there_is_room_for_statistics_that_come_in_between() -> None:
    kernel = Kernel({"eth0": Card("mlx5_core", statistics={f"a{number}": number for number in range(9000)})})
    assert ioctl.Ethtool(kernel).statistics("eth0", 5) == tuple(range(9000))


def test_a_count_that_is_none_is_not_asked_for() -> None:
    def kernel(device: str, request: bytearray) -> None:
        assert struct.unpack_from("=I", request) == (ioctl.GSSET_INFO,)
        struct.pack_into("=I", request, 16, 2**32 - 1)

    assert ioctl.Ethtool(kernel).names("eth0") == b""


def test_this_machine_s_devices_answer() -> None:
    ethtool = ioctl.open_ethtool(Path("/proc"))
    assert ethtool.names("lo") == b""
    with pytest.raises(OSError, match="Operation not supported"):
        ethtool.statistics("lo", 1)
    with pytest.raises(OSError, match="No such device"):
        ethtool.driver("no-such-device")
    for name in ("", "a name that is far too long"):
        with pytest.raises(OSError, match="not the name of a device"):
            ethtool.driver(name)


# ---- the collector ---------------------------------------------------------------------------------------------------


def test_what_is_wrong_with_the_node_is_seen() -> None:
    answer = values(samples_of(fixture_host("node192"))["ethtool"])
    name = "hwsonde_network_{}".format
    assert answer[name("phy_errors_total"), "ens1f1np1", "crc"] == 41
    assert answer[name("pfc_storms_total"), "ens12np0", "error"] == 1
    assert answer[name("pfc_pause_seconds_total"), "ens12np0", "3", "transmitted"] == 812.204118
    assert answer[name("pcie_stalled_ratio"), "ens12np0", "write"] == 0.41
    assert answer[name("discards_total"), "ens12np0", "received", "no_buffer"] == 2204
    assert answer[name("fec_blocks_total"), "ens1f0np0", "corrected"] == 40_118
    assert not [key for key in answer if "bond0" in key]
    assert (name("phy_errors_total"), "ib0", "crc") not in answer


def test_no_hardware(tmp_path: Path) -> None:
    kernel = Kernel({"docker0": Card("bridge"), "tun9": Card("tun", "1.6")})
    collector = collector_of(host_of(tmp_path, ["lo", "docker0", "tun9"]), kernel)
    with pytest.raises(Unavailable) as caught:
        collector.probe()
    assert caught.value.reason is Reason.NO_HARDWARE
    assert list(collector.collect()) == []


def test_no_net_dev(tmp_path: Path) -> None:
    collector = collector_of(Host(Paths(tmp_path, tmp_path, tmp_path)), Kernel({}))
    with pytest.raises(Unavailable, match=r"path\.procfs"):
        collector.probe()


def test_no_socket_is_told(tmp_path: Path) -> None:
    def refuse(procfs: Path) -> ioctl.Ethtool:
        raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")

    collector = EthtoolCollector(host_of(tmp_path, ["eth0"]), connect=refuse)
    with pytest.raises(Unavailable, match="Address family not supported") as caught:
        collector.probe()
    assert caught.value.reason is Reason.NO_KERNEL_SUPPORT


def test_an_unknown_driver_gives_what_has_one_name_for_all(tmp_path: Path) -> None:
    card = Card(
        "fbnic", "6.12", "24.9", {"rx_strange": 4}, fec=((7, 3, 4), (1,)), pause=(5, 6), groups={(1, 6): 41, (0, 0): 12, (1, 2): 9}
    )  # fmt: skip
    known = Card("virtio_net", statistics={"rx0_drops": 1}, pause=(1, 1))
    cards = {"eth0": card, "eth1": known}
    collector = collector_of(host_of(tmp_path, ["eth0", "eth1"], real=True), Kernel(cards), cards)
    collector.probe()
    assert table(collector) == {
        ("driver_info", "eth0", "fbnic", "6.12", "24.9"): 1,
        ("driver_info", "eth1", "virtio_net", "", ""): 1,
        ("discards_total", "eth1", "received", "error"): 1,
        ("fec_blocks_total", "eth0", "corrected"): 7,
        ("fec_blocks_total", "eth0", "uncorrectable"): 1,
        ("pause_frames_total", "eth0", "transmitted"): 5,
        ("pause_frames_total", "eth0", "received"): 6,
        ("pause_frames_total", "eth1", "transmitted"): 1,
        ("pause_frames_total", "eth1", "received"): 1,
        ("phy_errors_total", "eth0", "crc"): 41,
        ("phy_errors_total", "eth0", "symbol"): 12,
    }


def test_the_driver_s_own_names_go_before_the_standard_ones(tmp_path: Path) -> None:
    card = Card("mlx5_core", statistics={"rx_corrected_bits_phy": 8}, fec=((7,), (1,), (9,)))
    collector = collector_of(host_of(tmp_path, ["eth0"]), Kernel({"eth0": card}), {"eth0": card})
    collector.probe()
    answer = table(collector)
    assert answer["fec_corrections_total", "eth0"] == 8
    assert answer["fec_blocks_total", "eth0", "corrected"] == 7


def test_virtual_functions_and_ignored_devices_are_left_out(tmp_path: Path) -> None:
    cards = {
        name: Card("mlx5_core", statistics={"rx_crc_errors_phy": 1}) for name in ("eth0", "eth0v0", "veth1", "mgmt")
    }
    host = host_of(tmp_path, list(cards))
    (tmp_path / "sys/class/net/eth0v0/device").mkdir(parents=True)
    (tmp_path / "sys/class/net/eth0v0/device/physfn").symlink_to("../0000:3b:00.0")
    collector = collector_of(replace(host, ignored=Ignored(devices=re.compile("veth.*|mgmt"))), Kernel(cards))
    collector.probe()
    assert {key[1] for key in table(collector)} == {"eth0"}


def test_channels_that_come_do_not_shift_the_values(tmp_path: Path) -> None:
    kernel = Kernel({"eth0": Card("bnxt_en", statistics={"[0]: rx_discards": 1, "rx_fcs_err_frames": 41})})
    collector = collector_of(host_of(tmp_path, ["eth0"]), kernel)
    collector.probe()
    before = table(collector)
    kernel.cards["eth0"] = Card(
        "bnxt_en", statistics={"[0]: rx_discards": 1, "[1]: rx_discards": 2, "rx_fcs_err_frames": 42}
    )
    after = table(collector)
    assert (before["phy_errors_total", "eth0", "crc"], after["phy_errors_total", "eth0", "crc"]) == (41, 42)
    assert after["discards_total", "eth0", "received", "no_buffer"] == 3
    kernel.calls.clear()
    table(collector)
    assert kernel.calls == [("eth0", ioctl.GSTATS)]


def test_channels_that_come_and_go_all_the_time_lose_only_one_reading(tmp_path: Path) -> None:
    class Restless(Kernel):
        def __call__(self, device: str, request: bytearray) -> None:
            self.cards["eth0"].statistics[f"[{len(self.calls)}]: rx_discards"] = 1
            super().__call__(device, request)

    collector = collector_of(
        host_of(tmp_path, ["eth0"]), Restless({"eth0": Card("bnxt_en", statistics={"rx_fcs_err_frames": 4})})
    )
    collector.probe()
    assert set(table(collector)) == {("driver_info", "eth0", "bnxt_en", "", "")}


def test_a_device_that_vanishes_or_fails_loses_its_own_series(tmp_path: Path) -> None:
    class Failing(Kernel):
        def __call__(self, device: str, request: bytearray) -> None:
            if device == "eth1" and struct.unpack_from("=I", request) == (ioctl.GSTATS,):
                raise OSError(errno.EIO, "Input/output error")
            super().__call__(device, request)

    cards = {f"eth{number}": Card("ena", statistics={"rx_drops": number}) for number in range(3)}
    kernel = Failing(cards)
    collector = collector_of(host_of(tmp_path, list(cards)), kernel)
    collector.probe()
    del kernel.cards["eth2"]
    assert table(collector) == {
        ("driver_info", "eth0", "ena", "", ""): 1,
        ("discards_total", "eth0", "received", "no_buffer"): 0,
        ("driver_info", "eth1", "ena", "", ""): 1,
    }


def test_a_driver_without_statistics_has_an_identity(tmp_path: Path) -> None:
    collector = collector_of(host_of(tmp_path, ["eth0"]), Kernel({"eth0": Card("igb", "6.1", "3.25")}))
    collector.probe()
    assert table(collector) == {("driver_info", "eth0", "igb", "6.1", "3.25"): 1}


def test_names_are_asked_for_again_at_the_next_probe(tmp_path: Path) -> None:
    kernel = Kernel({"eth0": Card("ena", "2.1", statistics={"rx_drops": 1})})
    collector = collector_of(host_of(tmp_path, ["eth0"]), kernel)
    collector.probe()
    plan = collector._devices["eth0"].plan
    kernel.cards["eth0"].version = "2.2"
    collector.probe()
    assert collector._devices["eth0"].plan is plan, "the same names mean the same"
    assert ("driver_info", "eth0", "ena", "2.2", "") in table(collector)
    kernel.cards["eth0"] = Card("ena", "2.2", statistics={"tx_drops": 1})
    collector.probe()
    assert ("discards_total", "eth0", "transmitted", "queue_full") in table(collector)


# ---- generic netlink -------------------------------------------------------------------------------------------------


def test_family_is_found_by_name() -> None:
    assert find_family(dump({})) == FAMILY
    assert find_family(lambda *_: iter([])) is None


def test_a_driver_that_fails_ends_the_answer_only() -> None:
    cards = {f"eth{number}": Card("mlx5_core", fec=((number,), (0,)), pause=(1, 2)) for number in range(3)}
    found = read_standard(dump(cards, breaks_after=2), FAMILY, everything=True)
    assert found["eth1"] == {
        (FEC_BLOCKS, ("corrected",)): 1,
        (FEC_BLOCKS, ("uncorrectable",)): 0,
        (PAUSE_FRAMES, ("transmitted",)): 1,
        (PAUSE_FRAMES, ("received",)): 2,
    }
    assert "eth2" not in found


def test_only_error_correction_is_asked_for_where_that_is_enough() -> None:
    cards = {"eth0": Card("mlx5_core", fec=((5,),), pause=(1, 2), groups={(1, 6): 3})}
    assert read_standard(dump(cards), FAMILY, everything=False) == {"eth0": {(FEC_BLOCKS, ("corrected",)): 5}}
    assert (PHY_ERRORS, ("crc",)) in read_standard(dump(cards), FAMILY, everything=True)["eth0"]


@given(st.lists(st.binary(max_size=120), max_size=4))
def test_any_netlink_answer_gives_numbers_or_nothing(bodies: list[bytes]) -> None:
    found = read_standard(lambda *_: iter([(FAMILY, memoryview(body)) for body in bodies]), FAMILY, everything=True)
    for device, told in found.items():
        assert device
        assert all(0 <= value < 2**64 for value in told.values())


def test_priority_discards_are_not_summed() -> None:
    plan = make_plan(["rx_prio0_discards", "rx_prio1_discards"], MLX5)
    assert plan == {(PRIORITY_DISCARDS, ("0",)): [0], (PRIORITY_DISCARDS, ("1",)): [1]}
