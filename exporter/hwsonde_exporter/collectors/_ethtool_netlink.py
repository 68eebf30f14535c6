"""The statistics of network drivers that have one name for all of them, by generic netlink (``ethtool -I``).

Forward error correction is told in this way only by most drivers. The others are asked for where a device has a driver
whose own names are not known. Linux 5.13 or later; see linux/ethtool_netlink.h.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._ethtool_tables import (
    FEC_BITS,
    FEC_BLOCKS,
    PAUSE_FRAMES,
    PHY_ERRORS,
    RECEIVED,
    TRANSMITTED,
    Series,
)
from hwsonde_exporter.collectors._netlink import GENERIC, Dump, attribute, attributes
from hwsonde_exporter.errors import CollectorError

_GENERAL = struct.Struct("=BBxx")  # struct genlmsghdr: command, version
_CONTROL, _GET_FAMILY, _FAMILY_ID, _FAMILY_NAME = 16, 3, 1, 2
_PAUSE_GET, _FEC_GET, _STATS_GET = 21, 29, 32
_DEVICE_NAME, _FLAGS, _WITH_STATISTICS = 2, 3, 1 << 2
_NESTED = 0x8000
_STATISTICS = 5  # in answers about pauses and error correction alike
_GROUP, _GROUP_ID, _GROUP_VALUE = 4, 2, 4
_PHY, _MAC = 0, 1

_FEC: dict[int, Series] = {
    2: (FEC_BLOCKS, ("corrected",)),
    3: (FEC_BLOCKS, ("uncorrectable",)),
    4: (FEC_BITS, ()),
}
_PAUSE: dict[int, Series] = {2: (PAUSE_FRAMES, (TRANSMITTED,)), 3: (PAUSE_FRAMES, (RECEIVED,))}
# Group and place of a statistic in it, of clause 30 of IEEE 802.3.
_GROUPED: dict[tuple[int, int], Series] = {
    (_PHY, 0): (PHY_ERRORS, ("symbol",)),
    (_MAC, 6): (PHY_ERRORS, ("crc",)),
    (_MAC, 7): (PHY_ERRORS, ("alignment",)),
    (_MAC, 12): (PHY_ERRORS, ("transmit",)),
    (_MAC, 23): (PHY_ERRORS, ("length",)),
    (_MAC, 25): (PHY_ERRORS, ("oversize",)),
}

# Device -> series without the device -> value.
Standard = dict[str, dict[Series, int]]


def find_family(dump: Dump) -> int | None:
    """Number of the family ``ethtool`` of generic netlink; None if this kernel has none (before 5.6).

    Raises
    ------
    OSError, CollectorError
        As ``dump`` does.
    """
    for _, message in dump(GENERIC, _CONTROL, _GENERAL.pack(_GET_FAMILY, 2)):
        fields = dict(attributes(message, _GENERAL.size))
        if bytes(fields.get(_FAMILY_NAME, b"")).rstrip(b"\0") == b"ethtool":
            number = fields.get(_FAMILY_ID, memoryview(b""))
            return struct.unpack("=H", number)[0] if len(number) == 2 else None
    return None


def read_standard(dump: Dump, family: int, *, everything: bool) -> Standard:
    """Ask for the statistics of all devices.

    Parameters
    ----------
    dump
        Asks in the host's network namespace.
    family
        As `find_family` gives it.
    everything
        Whether to ask for pauses and errors of the link too, not only for error correction.

    Returns
    -------
    dict
        What is known by device. A driver that fails ends the kernel's answer; what came before it counts.
    """
    found: Standard = {}
    flags = attribute(_FLAGS, struct.pack("=I", _WITH_STATISTICS))
    for device, number, value in _plain(dump, family, _FEC_GET, flags):
        _put(found, device, _FEC.get(number), value)
    if everything:
        for device, number, value in _plain(dump, family, _PAUSE_GET, flags):
            _put(found, device, _PAUSE.get(number), value)
        for device, group, number, value in _grouped(dump, family):
            _put(found, device, _GROUPED.get((group, number)), value)
    return found


def _put(found: Standard, device: str, series: Series | None, value: int | None) -> None:
    if device and series is not None and value is not None:
        found.setdefault(device, {})[series] = value


def _plain(dump: Dump, family: int, command: int, flags: bytes) -> Iterator[tuple[str, int, int | None]]:
    """Device, number and value of each statistic of a kind that is not grouped."""
    for message in _answers(dump, family, command, attribute(1 | _NESTED, flags)):
        fields = dict(attributes(message, _GENERAL.size))
        device = _device(fields.get(1))
        for number, content in attributes(fields.get(_STATISTICS, memoryview(b""))):
            yield device, number, _value(content)


def _grouped(dump: Dump, family: int) -> Iterator[tuple[str, int, int, int | None]]:
    """Device, group, number and value of each statistic of the link's two groups."""
    # A set of bits without a mask: its size, and the bits of both groups.
    bits = attribute(1, b"") + attribute(2, struct.pack("=I", 2)) + attribute(4, struct.pack("=I", 0b11))
    body = attribute(2 | _NESTED, b"") + attribute(3 | _NESTED, bits)
    for message in _answers(dump, family, _STATS_GET, body):
        device = ""
        for kind, content in attributes(message, _GENERAL.size):
            if kind == 2:
                device = _device(content)
            elif kind == _GROUP:
                parts = list(attributes(content))
                group = next((_number(part) for number, part in parts if number == _GROUP_ID), -1)
                for number, part in parts:
                    if number == _GROUP_VALUE:
                        for place, value in attributes(part):
                            yield device, group, place, _value(value)


def _answers(dump: Dump, family: int, command: int, body: bytes) -> Iterator[memoryview]:
    try:
        for kind, message in dump(GENERIC, family, _GENERAL.pack(command, 1) + body):
            if kind == family:
                yield message
    except (OSError, CollectorError):
        return


def _device(header: memoryview | None) -> str:
    fields = dict(attributes(header)) if header is not None else {}
    return parsing.text(bytes(fields.get(_DEVICE_NAME, b"")).partition(b"\0")[0])


def _number(content: memoryview) -> int:
    return int(struct.unpack_from("=I", content)[0]) if len(content) >= 4 else -1


def _value(content: memoryview) -> int | None:
    """First number of 64 bits: the total, which those of the lanes may follow; None if there is none."""
    return parsing.known(struct.unpack_from("=Q", content)[0]) if len(content) >= 8 else None
