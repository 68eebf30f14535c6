"""A kernel that answers SIOCETHTOOL and generic netlink for made-up devices, and the devices of the fixture hosts."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from hwsonde_exporter.collectors._ethtool_ioctl import GDRVINFO, GSSET_INFO, GSTATS, GSTRINGS, Ethtool
from hwsonde_exporter.collectors._netlink import GENERIC, Dump
from hwsonde_exporter.host import Host

FAMILY = 21


@dataclass
class Card:
    """A network device: its driver, its statistics in the driver's order, and those that have one name for all drivers.

    ``fec`` holds blocks corrected, blocks not correctable and bits, each in total and by lane; ``pause`` frames sent and received;
    ``groups`` values by group and place.
    """

    driver: str
    version: str = ""
    firmware: str = ""
    statistics: dict[str, int] = field(default_factory=dict)
    fec: tuple[tuple[int, ...], ...] = ()
    pause: tuple[int, ...] = ()
    groups: dict[tuple[int, int], int] = field(default_factory=dict)


class Kernel:
    """Takes requests as the ioctl does, and changes them into answers."""

    def __init__(self, cards: Mapping[str, Card]) -> None:
        self.cards = dict(cards)
        self.calls: list[tuple[str, int]] = []

    def __call__(self, device: str, request: bytearray) -> None:
        (command,) = struct.unpack_from("=I", request)
        self.calls.append((device, command))
        card = self.cards.get(device)
        if card is None:
            raise _error(errno.ENODEV)
        names = card.statistics
        if command == GDRVINFO:
            struct.pack_into(
                "=32s32s32s", request, 4, *(text.encode() for text in (card.driver, card.version, card.firmware))
            )
        elif not names:
            raise _error(errno.EOPNOTSUPP)
        elif command == GSSET_INFO:
            struct.pack_into("=I", request, 16, len(names))
        elif command == GSTRINGS:
            struct.pack_into(f"=I{'32s' * len(names)}", request, 8, len(names), *(name.encode() for name in names))
        elif command == GSTATS:
            struct.pack_into(f"=I{len(names)}Q", request, 4, len(names), *names.values())
        else:
            raise _error(errno.EPERM)


def _error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


def ethtool(cards: Mapping[str, Card]) -> Ethtool:
    """Ethtool of a host with these devices and no others."""
    return Ethtool(Kernel(cards))


def attribute(kind: int, value: bytes) -> bytes:
    """One attribute of netlink, filled up to a multiple of four bytes."""
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)


def dump(cards: Mapping[str, Card], *, breaks_after: int | None = None) -> Dump:
    """Generic netlink of a host with these devices; a driver may break an answer off after some messages."""

    def answer(protocol: int, kind: int, body: bytes) -> Iterator[tuple[int, memoryview]]:
        assert protocol == GENERIC
        command = body[0]
        if kind == 16:
            assert command == 3
            for number, name in ((20, b"devlink"), (FAMILY, b"ethtool")):
                yield 16, memoryview(b"\1\2\0\0" + attribute(2, name + b"\0") + attribute(1, struct.pack("=H", number)))
            return
        assert kind == FAMILY
        for place, (device, card) in enumerate(cards.items()):
            if place == breaks_after:
                raise _error(errno.EIO)
            yield FAMILY, memoryview(b"\x1e\1\0\0" + _told(command, device, card))

    return answer


def _told(command: int, device: str, card: Card) -> bytes:
    header = attribute(1, struct.pack("=I", 4)) + attribute(2, device.encode() + b"\0")
    if command == 32:
        body = attribute(0x8002, header)
        for group in (0, 1):
            inner = attribute(2, struct.pack("=I", group)) + attribute(3, struct.pack("=I", 17 + group))
            for (other, place), value in card.groups.items():
                if other == group:
                    inner += attribute(0x8004, attribute(place, struct.pack("=Q", value)))
            body += attribute(0x8004, inner)
        return body
    counts = [(count,) for count in card.pause] if command == 21 else card.fec
    numbered = zip((2, 3, 4), counts, strict=False)
    inner = b"".join(attribute(number, struct.pack(f"={len(count)}Q", *count)) for number, count in numbered)
    return attribute(0x8001, header) + attribute(3, b"\1") + (attribute(0x8005, inner) if inner else b"")


def _mlx5(seed: int, *, channels: int = 4, **changed: int) -> Card:
    """An adapter as mlx5 shows it, shortened: priority 3 is lossless, so it alone has pauses of its own."""
    traffic = 10**12 + seed * 10**9
    names: dict[str, int] = {
        "rx_packets": traffic, "rx_bytes": traffic * 4000, "tx_packets": traffic, "tx_bytes": traffic * 4000, "tx_queue_stopped": seed,
        "tx_queue_dropped": 0, "tx_recover": 0, "rx_recover": 0, "rx_buff_alloc_err": 0, "rx_wqe_err": 0, "ch_events": traffic // 9,
        "rx_out_of_buffer": 0, "rx_if_down_packets": 4, "rx_steer_missed_packets": 118, "rx_vport_unicast_packets": traffic,
        "rx_crc_errors_phy": 0, "rx_in_range_len_errors_phy": 0, "rx_oversize_pkts_phy": 0, "rx_symbol_err_phy": 0,
        "rx_pause_ctrl_phy": 0, "tx_pause_ctrl_phy": 0, "rx_discards_phy": 0, "tx_discards_phy": 0, "tx_errors_phy": 0,
        "rx_undersize_pkts_phy": 0, "rx_fragments_phy": 0, "rx_jabbers_phy": 0, "rx_64_bytes_phy": 204, "link_down_events_phy": 1,
        "rx_pcs_symbol_err_phy": 0, "rx_corrected_bits_phy": 41_204 + seed, "rx_err_lane_0_phy": 41_000, "rx_err_lane_1_phy": 204,
        "rx_pci_signal_integrity": 0, "tx_pci_signal_integrity": 0, "outbound_pci_stalled_rd": 0, "outbound_pci_stalled_wr": 0,
        "outbound_pci_stalled_rd_events": 0, "outbound_pci_stalled_wr_events": 0, "outbound_pci_buffer_overflow": 0,
    }  # fmt: skip
    for priority in range(8):
        names |= {f"rx_prio{priority}_bytes": 0, f"rx_prio{priority}_packets": 0, f"rx_prio{priority}_discards": 0}
    for side in ("rx", "tx"):
        names |= {f"{side}_prio3_pause": 0, f"{side}_prio3_pause_duration": 0, f"{side}_prio3_pause_transition": 0}
    names |= {
        "tx_pause_storm_warning_events": 0,
        "tx_pause_storm_error_events": 0,
        "module_unplug": 0,
        "module_bus_stuck": 0,
    }
    names |= {"module_high_temp": 0, "module_bad_shorted": 0}
    for channel in range(channels):
        names |= {
            f"ch{channel}_events": 7,
            f"rx{channel}_packets": 9,
            f"rx{channel}_buff_alloc_err": 0,
            f"tx{channel}_0_stopped": 0,
        }
    assert names.keys() >= changed.keys()
    # Lanes follow the total.
    fec = ((40_118 * seed, 40_000 * seed, 118 * seed), (0,), (41_204 + seed,))
    return Card("mlx5_core", "5.15.0-118-generic", "28.39.1002 (MT_0000000838)", names | changed, fec)


def _ipoib(seed: int) -> Card:
    card = _mlx5(seed)
    names = {name: value for name, value in card.statistics.items() if "_phy" not in name and "prio" not in name}
    return Card("mlx5_core[ib_ipoib]", card.version, card.firmware, names)


def _old_ipoib(stops: int) -> Card:
    counts = {
        "tx_queue_stopped": stops,
        "tx_queue_dropped": 118 * stops,
        "rx_out_of_buffer": 0,
        "rx_buff_alloc_err": stops,
    }
    return Card("mlx5_core[ib_ipoib]", "5.8-5.1.1", "16.35.3502 (MT_0000000010)", counts)


def _virtio() -> Card:
    names = {f"rx{queue}_{what}": 0 for queue in range(2) for what in ("drops", "xdp_drops", "kicks")}
    return Card("virtio_net", "1.0.0", "", names | {"tx0_tx_timeouts": 0, "tx1_tx_timeouts": 0} | {"rx1_drops": 3})


def _bnxt(seed: int, **changed: int) -> Card:
    """An adapter as bnxt_en shows it, shortened: two rings, one lossless priority."""
    traffic = 10**11 + seed * 10**8
    names: dict[str, int] = {}
    for ring in range(2):
        names |= {f"[{ring}]: rx_ucast_packets": traffic, f"[{ring}]: rx_discards": 0, f"[{ring}]: rx_errors": 0}
        names |= {f"[{ring}]: tx_ucast_packets": traffic, f"[{ring}]: tx_discards": 0, f"[{ring}]: missed_irqs": seed}
    names |= {
        "rx_total_l4_csum_errors": 0, "rx_total_resets": 0, "rx_total_buf_errors": 0, "rx_total_oom_discards": 0,
        "rx_total_ring_discards": 0, "tx_total_resets": 0, "tx_total_ring_discards": 0, "total_missed_irqs": 2 * seed,
        "rx_64b_frames": traffic, "rx_fcs_err_frames": 0, "rx_pause_frames": 0, "rx_align_err_frames": 0, "rx_ovrsz_frames": 0,
        "rx_jbr_frames": 0, "rx_pfc_ena_frames_pri3": 41_204, "rx_undrsz_frames": 0, "rx_runt_frames": 0, "rx_stat_discard": 0,
        "tx_pause_frames": 0, "tx_pfc_ena_frames_pri3": 118, "tx_err": 0, "tx_stat_discard": 0, "link_down_events": 1,
        "pfc_pri3_rx_duration_us": 8_118_204, "pfc_pri3_tx_duration_us": 4_118, "rx_pcs_symbol_err": 0, "rx_corrected_bits": 204 + seed,
        "rx_discard_packets_cos0": 0, "rx_fec_corrected_blocks": 118 * seed, "rx_fec_uncorrectable_blocks": 0,
    }  # fmt: skip
    assert names.keys() >= changed.keys()
    return Card("bnxt_en", "6.8.0-45-generic", "229.1.123.0/pkg 229.1.123.0", names | changed)


def _igc() -> Card:
    names = {
        "rx_packets": 8_118_204, "tx_packets": 4_011_204, "rx_crc_errors": 0, "rx_no_buffer_count": 0, "rx_missed_errors": 118,
        "rx_align_errors": 0, "tx_restart_queue": 4, "rx_long_length_errors": 0, "rx_short_length_errors": 0, "tx_timeout_count": 0,
        "rx_flow_control_xoff": 41, "tx_flow_control_xoff": 0, "rx_length_errors": 0, "rx_queue_0_drops": 0,
    }  # fmt: skip
    return Card("igc", "6.11.0-9-generic", "1057:8754", names)


_HOSTS: dict[str, dict[str, Card]] = {
    "amd": {
        "ens3f0np0": _bnxt(1, rx_discard_packets_cos0=20_411, rx_stat_discard=20_411),
        "ens3f1np1": _bnxt(2),
        "ens5f0np0": _mlx5(3),
        "ens5f1np1": _mlx5(4, rx_prio3_pause=811),
        "cilium_host": Card("veth"),
        "lxc4f1c0d5e9a3b": Card("veth"),
    },
    "workstation": {"enp6s0": _igc(), "wlp7s0": Card("iwlwifi", "6.11.0-9-generic", "89.6b44fa0b.0"), "wg0": Card("wireguard", "1.0.0")},
    "sick": {"eno1": Card("tg3"), "eno2": Card("tg3"), "bond0": Card("bonding"), "ib0": _old_ipoib(41), "ib1": _old_ipoib(0)},
    "vm": {"eth0": _virtio(), "docker0": Card("bridge", "2.3", "N/A"), "ifb0": Card("ifb")},
    "node192": {
        "bond0": Card("bonding", "5.15.0-118-generic", "2"),
        "ens1f0np0": _mlx5(1, link_down_events_phy=2, rx_pause_ctrl_phy=4118),
        # The dirty fibre of net/dev.
        "ens1f1np1": _mlx5(2, link_down_events_phy=8, rx_crc_errors_phy=41, rx_symbol_err_phy=2204, rx_pcs_symbol_err_phy=118),
        **{f"ib{number}": _ipoib(number) for number in range(4)},
        "ens10np0": _mlx5(10, rx_prio3_pause=204_118, rx_prio3_pause_duration=41_118_220, tx_prio3_pause=18),
        "ens11np0": _mlx5(11, rx_corrected_bits_phy=9_041_204_118, link_down_events_phy=3),
        # Its peers time out, because this host takes what they send too slowly.
        "ens12np0": _mlx5(
            12, tx_prio3_pause=9_204_118, tx_prio3_pause_duration=812_204_118, tx_pause_storm_warning_events=4,
            tx_pause_storm_error_events=1, rx_prio3_discards=118, rx_discards_phy=118, rx_out_of_buffer=2204,
            outbound_pci_stalled_wr=41, outbound_pci_stalled_wr_events=18_204, outbound_pci_buffer_overflow=9,
        ),
        "ens13np0": _mlx5(13),
    },
}  # fmt: skip


def fixture_cards(host: Host) -> dict[str, Card]:
    """Devices of a fixture host, by the name of its folder; a host of another name has none that answers."""
    return _HOSTS.get(host.paths.procfs.parent.name, {})
