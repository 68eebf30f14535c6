"""Network drivers that tell their settings, and the devices of the fixture hosts."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from hwsonde_exporter.collectors import _setting_ethtool as settings
from hwsonde_exporter.collectors._dcb import AskDcb
from hwsonde_exporter.collectors._ethtool_ioctl import GDRVINFO, GSSET_INFO, GSTRINGS, Ethtool
from hwsonde_exporter.host import Host

FEATURES = (
    "tx-scatter-gather", "tx-checksum-ipv4", "tx-checksum-ip-generic", "tx-checksum-ipv6", "highdma", "tx-scatter-gather-fraglist",
    "tx-vlan-hw-insert", "rx-vlan-hw-parse", "rx-vlan-filter", "vlan-challenged", "tx-generic-segmentation", "rx-gro", "rx-lro",
    "tx-tcp-segmentation", "tx-tcp-ecn-segmentation", "tx-tcp6-segmentation", "rx-hashing", "rx-checksum", "rx-ntuple-filter",
    *(f"feature-{number}" for number in range(20)), "hw-tc-offload", "rx-gro-hw",
)  # fmt: skip


@dataclass
class Card:
    """A network device: what its driver answers to each question; what is None is not supported."""

    driver: tuple[str, str, str] = ("mlx5_core", "5.15.0-118-generic", "28.39.1002 (MT_0000000838)")
    rings: tuple[int, int] | None = (8192, 8192)
    channels: tuple[int, int, int] | None = (0, 0, 63)
    coalescing: tuple[int, int, int, int] | None = (8, 128, 8, 128)
    adaptive: tuple[int, int] = (1, 1)
    pause: tuple[int, ...] | None = (0, 0, 0)
    fec: tuple[int, int] | None = (1 << 3, 1 << 1)
    features: frozenset[str] = frozenset(
        {"tx-scatter-gather", "tx-checksum-ip-generic", "tx-generic-segmentation", "rx-gro", "tx-tcp-segmentation",
         "tx-tcp6-segmentation", "rx-hashing", "rx-checksum", "hw-tc-offload"}
    )  # fmt: skip
    flags: Mapping[str, bool] = field(
        default_factory=lambda: {"rx_cqe_moder": True, "rx_cqe_compress": False, "rx_striding_rq": True}
    )


def ethtool(cards: Mapping[str, Card]) -> Ethtool:
    """Ethtool of a host with these devices and no others."""

    def call(device: str, request: bytearray) -> None:
        (command,) = struct.unpack_from("=I", request)
        card = cards.get(device)
        if card is None:
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
        answer(card, command, request)

    return Ethtool(call)


def answer(card: Card, command: int, request: bytearray) -> None:
    """Change a request into the answer."""
    if command == GDRVINFO:
        struct.pack_into("=32s32s32s", request, 4, *(text.encode() for text in card.driver))
    elif command in {GSSET_INFO, GSTRINGS}:
        strings(card, command, request)
    elif command == settings.GFEATURES:
        features(card, request)
    else:
        words = numbers(card).get(command)
        if words is None:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        struct.pack_into(f"={len(words)}I", request, 4, *words)


def numbers(card: Card) -> dict[int, tuple[int, ...] | None]:
    """The words behind the command of each answer."""
    received, sent, combined = card.channels or (0, 0, 0)
    frames = card.coalescing
    coalescing = (*frames[:2], 0, 0, *frames[2:], 0, 0, 0, *card.adaptive, *[0] * 11) if frames else None
    return {
        settings.GRINGPARAM: (8192, 0, 0, 8192, card.rings[0], 0, 0, card.rings[1]) if card.rings else None,
        settings.GCHANNELS: (0, 0, 0, 63, received, sent, 0, combined) if card.channels else None,
        settings.GCOALESCE: coalescing,
        settings.GPAUSEPARAM: card.pause,
        settings.GFECPARAM: (*card.fec, 0) if card.fec else None,
        settings.GPFLAGS: (sum(1 << bit for bit, on in enumerate(card.flags.values()) if on),),
    }


def features(card: Card, request: bytearray) -> None:
    """Answer which features are active."""
    blocks = struct.unpack_from("=I", request, 4)[0]
    for place, name in enumerate(FEATURES):
        if name in card.features and place // 32 < blocks:
            where = 8 + 16 * (place // 32) + 8
            struct.pack_into("=I", request, where, struct.unpack_from("=I", request, where)[0] | 1 << place % 32)


def strings(card: Card, command: int, request: bytearray) -> None:
    """Answer how many strings there are in a set, or which."""
    if command == GSSET_INFO:
        mask = struct.unpack_from("=Q", request, 8)[0]
        names = FEATURES if mask == 1 << 4 else tuple(card.flags)
        struct.pack_into("=QI", request, 8, mask if names else 0, len(names))
        return
    kind = struct.unpack_from("=I", request, 4)[0]
    names = FEATURES if kind == 4 else tuple(card.flags)
    struct.pack_into(f"=I{'32s' * len(names)}", request, 8, len(names), *(name.encode() for name in names))


def attribute(kind: int, content: bytes) -> bytes:
    """A netlink attribute."""
    return (struct.pack("=HH", 4 + len(content), kind) + content).ljust((len(content) + 7) & ~3, b"\0")


def dcb_answer(
    lossless: tuple[int, ...], selectors: tuple[int, ...] = (), trusted: tuple[int, ...] | None = None
) -> bytes:
    """Answer to DCB_CMD_IEEE_GET: priorities with flow control, selectors of the table of applications, trusted selectors."""
    pfc = bytes((8, sum(1 << priority for priority in lossless), 0, 0)) + bytes(4) + bytes(128)
    ets = (
        bytes((0, 8, 0)) + bytes(8 * [12]) + bytes(8) + bytes((2, 2, 2, 0, 2, 2, 2, 255)) + bytes(range(8)) + bytes(24)
    )
    applications = b"".join(attribute(1, bytes((selector, 3, 26, 0))) for selector in selectors)
    body = attribute(1, ets) + attribute(2, pfc) + attribute(3, applications)
    if trusted is not None:
        body += attribute(11, b"".join(attribute(13, bytes((selector,))) for selector in trusted))
    return struct.pack("=BBH", 0, 21, 0) + attribute(1, b"ens10np0\0") + attribute(13, body)


_RDMA = tuple(f"ens{number}np0" for number in (10, 11, 12, 13))
_CARDS: dict[str, dict[str, Card]] = {
    "amd": {
        **{
            f"ens3f{port}np{port}": Card(
                ("bnxt_en", "6.8.0-45-generic", "229.1.123.0/pkg 229.1.123.0"), (511, 511), (0, 0, 16), (6, 12, 28, 30), (0, 0), flags={}
            )
            for port in range(2)
        },
        **{f"ens5f{port}np{port}": Card(("mlx5_core", "24.04", "22.39.2048 (MT_0000000436)")) for port in range(2)},
    },
    "workstation": {
        "enp6s0": Card(("igc", "6.11.0-9-generic", "1057:8754"), (256, 256), (0, 0, 4), (3, 0, 3, 0), (0, 0), (1, 1, 1), None, flags={}),
        "wlp7s0": Card(("iwlwifi", "6.11.0-9-generic", "89.6b44fa0b.0"), None, None, None, (0, 0), None, None, frozenset({"rx-gro"}), {}),
    },
    "sick": {"ib0": Card(("mlx5_core[ib_ipoib]", "5.8-5.1.1", "16.35.3502 (MT_0000000010)"), (1024, 8192), pause=None, fec=None)},
    "vm": {
        "eth0": Card(("virtio_net", "1.0.0", ""), (256, 256), (0, 0, 2), (0, 1, 0, 1), (0, 0), None, None, frozenset({"rx-gro"}), {})
    },
    "node192": {
        "bond0": Card(("bonding", "5.15.0-118-generic", "2"), None, None, None, (0, 0), None, None, flags={}),
        "ens1f0np0": Card(), "ens1f1np1": Card(rings=(1024, 8192)), **{name: Card() for name in _RDMA},
    },
}  # fmt: skip


def fixture_settings(host: Host) -> Ethtool:
    """Ethtool of a fixture host, by the name of its folder; a host of another name has no device that answers."""
    return ethtool(_CARDS.get(host.paths.procfs.parent.name, {}))


def fixture_dcb(host: Host) -> AskDcb:
    """Data centre bridging of the RoCE ports of the training node: one of them lacks flow control."""
    known = _RDMA if host.paths.procfs.parent.name == "node192" else ()

    def ask(device: str) -> bytes:
        if device not in known:
            raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))
        return dcb_answer(() if device == "ens13np0" else (3,), (5,))

    return ask
