"""What network drivers tell of their settings by the ioctl SIOCETHTOOL; see linux/ethtool.h. None of it needs a privilege."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import suppress

from hwsonde_exporter.collectors._ethtool_ioctl import Ethtool, split_names
from hwsonde_exporter.collectors._setting_rows import Row, row

GCOALESCE = 0x0E
GRINGPARAM = 0x10
GPAUSEPARAM = 0x12
GPFLAGS = 0x27
GFEATURES = 0x3A
GCHANNELS = 0x3C
GFECPARAM = 0x50
_PRIVATE_FLAGS, _FEATURES = 2, 4  # string sets
_MAX_STRINGS = 512

# How the kernel calls its features, and how ethtool(8) and people do; those that change how fast a link is.
_FEATURE_NAMES = {
    "rx-gro": "gro", "rx-gro-hw": "gro-hw", "rx-gro-list": "gro-list", "rx-lro": "lro", "rx-checksum": "rx-checksum",
    "rx-hashing": "rx-hash", "rx-ntuple-filter": "ntuple", "hw-tc-offload": "tc", "tx-tcp-segmentation": "tso",
    "tx-tcp6-segmentation": "tso6", "tx-generic-segmentation": "gso", "tx-udp-segmentation": "udp-gso",
    "tx-checksum-ip-generic": "tx-checksum", "tx-checksum-ipv4": "tx-checksum", "tx-scatter-gather": "scatter-gather",
    "tx-nocache-copy": "nocache-copy", "tls-hw-tx-offload": "tls-tx", "tls-hw-rx-offload": "tls-rx",
}  # fmt: skip
_FEC = ("none", "auto", "off", "rs", "baser", "llrs")


class EthtoolSettings:
    """Rows of one device at a time; what a driver does not tell is left out.

    Parameters
    ----------
    ethtool
        Asks the drivers.
    """

    def __init__(self, ethtool: Ethtool) -> None:
        self._ethtool = ethtool
        self._features: list[str] | None = None

    def rows(self, device: str) -> Iterator[Row]:
        """Everything that the driver of a device tells."""
        questions: tuple[tuple[str, Callable[[str], str]], ...] = (
            ("network.ring_sizes", self._rings),
            ("network.channels", self._channels),
            ("network.coalescing", self._coalescing),
            ("network.pause", self._pause),
            ("network.forward_error_correction", self._fec),
            ("network.offloads", self._offloads),
            ("network.private_flags", self._private_flags),
        )
        with suppress(OSError):
            driver = self._ethtool.driver(device)
            if driver.name:
                yield row("network.driver", f"{driver.name} {driver.version}".strip(), device)
            if driver.firmware not in {"", "N/A"}:
                yield row("network.firmware", driver.firmware, device)
        for setting, ask in questions:
            with suppress(OSError, struct.error):
                value = ask(device)
                if value:
                    yield row(setting, value, device)

    def _numbers(self, device: str, command: int, count: int) -> tuple[int, ...]:
        """The ``count`` numbers behind the command in a structure of 32-bit words."""
        request = bytearray(struct.pack("=I", command)) + bytearray(4 * count)
        self._ethtool.call(device, request)
        return struct.unpack_from(f"={count}I", request, 4)

    def _rings(self, device: str) -> str:
        *_, received, _, _, sent = self._numbers(device, GRINGPARAM, 8)
        return f"rx {received}, tx {sent}"

    def _channels(self, device: str) -> str:
        *_, received, sent, _, combined = self._numbers(device, GCHANNELS, 8)
        parts = (("combined", combined), ("rx", received), ("tx", sent))
        return ", ".join(f"{name} {count}" for name, count in parts if count)

    def _coalescing(self, device: str) -> str:
        words = self._numbers(device, GCOALESCE, 22)
        adaptive = f"adaptive rx {_on(words[9])} tx {_on(words[10])}"
        # What an adaptive driver has chosen just now is no setting.
        parts = [adaptive]
        if not words[9]:
            parts.append(f"rx {words[0]} us {words[1]} frames")
        if not words[10]:
            parts.append(f"tx {words[4]} us {words[5]} frames")
        return ", ".join(parts)

    def _pause(self, device: str) -> str:
        negotiated, received, sent = self._numbers(device, GPAUSEPARAM, 3)
        return f"autonegotiated {_on(negotiated)}, rx {_on(received)}, tx {_on(sent)}"

    def _fec(self, device: str) -> str:
        # What both ends have agreed on goes with the link, and is no setting.
        _, configured, _ = self._numbers(device, GFECPARAM, 3)
        return _bits(configured, _FEC)

    def _offloads(self, device: str) -> str:
        if self._features is None:
            self._features = self._strings(device, _FEATURES)
        names = self._features
        blocks = (len(names) + 31) // 32
        if not blocks:
            return ""
        request = bytearray(struct.pack("=II", GFEATURES, blocks)) + bytearray(16 * blocks)
        self._ethtool.call(device, request)
        return features_on(names, bytes(request[8:]))

    def _private_flags(self, device: str) -> str:
        names = self._strings(device, _PRIVATE_FLAGS)
        if not names:
            return ""
        (flags,) = self._numbers(device, GPFLAGS, 1)
        return " ".join(name for bit, name in enumerate(names[:32]) if name and flags >> bit & 1) or "none"

    def _strings(self, device: str, kind: int) -> list[str]:
        return split_names(self._ethtool.strings(device, kind, _MAX_STRINGS))


def features_on(names: list[str], blocks: bytes) -> str:
    """The known features that are active, in order of name; ``none`` if there is none.

    Parameters
    ----------
    names
        Names of all features, in the order of their bits.
    blocks
        ``struct ethtool_get_features_block`` for each 32 of them: available, requested, active, never changed.
    """
    active = struct.unpack(f"={len(blocks) // 4}I", blocks[: len(blocks) // 4 * 4])[2::4]
    found = set()
    for place, name in enumerate(names):
        block, bit = divmod(place, 32)
        if name in _FEATURE_NAMES and block < len(active) and active[block] >> bit & 1:
            found.add(_FEATURE_NAMES[name])
    return " ".join(sorted(found)) or "none"


def _on(number: int) -> str:
    return "on" if number else "off"


def _bits(number: int, names: tuple[str, ...]) -> str:
    return "+".join(name for bit, name in enumerate(names) if number >> bit & 1) or "none"
