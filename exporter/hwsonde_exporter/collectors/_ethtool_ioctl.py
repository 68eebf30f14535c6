"""What network drivers tell by the ioctl SIOCETHTOOL; see linux/ethtool.h. None of it needs a privilege."""

from __future__ import annotations

import ctypes
import fcntl
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hwsonde_exporter.collectors._netns import host_socket

SIOCETHTOOL = 0x8946
GDRVINFO = 0x03
GSTRINGS = 0x1B
GSTATS = 0x1D
GSSET_INFO = 0x37
STRING_BYTES = 32  # ETH_GSTRING_LEN
STATISTICS = 1  # ETH_SS_STATS
_MAX_NAME = 15
# struct ethtool_drvinfo: driver, version, firmware and bus among 32 bytes each.
_DRIVER = struct.Struct("=I32s32s32s32s32s12s5I")
_SET = struct.Struct("=IIQI")
_STRINGS = struct.Struct("=III")
_STATISTICS = struct.Struct("=II")
# The kernel writes as many as the driver has by then, whatever the caller has room for: channels may be added between two
# calls, and the largest adapters have some five thousand statistics.
_LEAST_ROOM = 1 << 14
MAX_STATISTICS = 1 << 16

# Takes the name of a device and a request, which it changes into the answer; raises OSError.
Call = Callable[[str, bytearray], None]


@dataclass(frozen=True, slots=True)
class Driver:
    """The driver of a device: its name, its version (of the kernel, for most), and the device's firmware version."""

    name: str
    version: str
    firmware: str


class Ethtool:
    """Asks drivers.

    Parameters
    ----------
    call
        Does the system call; see `Call`.

    Every method raises OSError: EOPNOTSUPP if the driver does not tell it, ENODEV if there is no such device.
    """

    def __init__(self, call: Call) -> None:
        self.call = call

    def driver(self, device: str) -> Driver:
        """Name and versions of the driver of a device (ETHTOOL_GDRVINFO)."""
        request = bytearray(_DRIVER.pack(GDRVINFO, b"", b"", b"", b"", b"", b"", 0, 0, 0, 0, 0))
        self.call(device, request)
        _, name, version, firmware, *_ = _DRIVER.unpack(request)
        return Driver(_text(name), _text(version), _text(firmware))

    def names(self, device: str) -> bytes:
        """Names of the statistics of a device, `STRING_BYTES` each and filled up with zeros (ETHTOOL_GSTRINGS)."""
        return self.strings(device, STATISTICS, MAX_STATISTICS, _LEAST_ROOM)

    def strings(self, device: str, kind: int, most: int, room: int = 0) -> bytes:
        """A set of strings of a device, `STRING_BYTES` each and filled up with zeros; empty if it has none or more than ``most``.

        Parameters
        ----------
        device
            Name of the device.
        kind
            Number of the set (enum ethtool_stringset).
        most
            Greatest number of strings.
        room
            Least number of strings to have room for; there is always room for twice as many as there are.
        """
        request = bytearray(_SET.pack(GSSET_INFO, 0, 1 << kind, 0))
        self.call(device, request)
        _, _, mask, count = _SET.unpack(request)
        if not mask or not 0 < count <= most:
            return b""
        room = max(room, 2 * count)
        request = bytearray(_STRINGS.pack(GSTRINGS, kind, count)) + bytearray(room * STRING_BYTES)
        self.call(device, request)
        count = min(_STRINGS.unpack_from(request)[2], room)
        return bytes(request[_STRINGS.size : _STRINGS.size + count * STRING_BYTES])

    def statistics(self, device: str, count: int) -> tuple[int, ...]:
        """Values of the statistics of a device (ETHTOOL_GSTATS); ``count`` is how many are expected."""
        room = max(_LEAST_ROOM, 2 * count)
        request = bytearray(_STATISTICS.pack(GSTATS, count)) + bytearray(room * 8)
        self.call(device, request)
        count = min(_STATISTICS.unpack_from(request)[1], room)
        return struct.unpack_from(f"={count}Q", request, _STATISTICS.size)


def split_names(strings: bytes) -> list[str]:
    """Strings of a set, in their order; what is no text in ASCII becomes an empty name."""
    return [_text(strings[start : start + STRING_BYTES]) for start in range(0, len(strings), STRING_BYTES)]


def _text(field: bytes) -> str:
    name = field.partition(b"\0")[0].strip()
    return name.decode("ascii") if name.isascii() and name.decode("ascii").isprintable() else ""


def open_ethtool(procfs: Path) -> Ethtool:
    """Ethtool of the host's network namespace, on a socket that stays open.

    Raises
    ------
    Unavailable
        As `hwsonde_exporter.collectors._netns.host_socket`.
    OSError
        If there is no such socket.
    """
    channel = host_socket(procfs, socket.AF_INET, socket.SOCK_DGRAM)

    def call(device: str, request: bytearray) -> None:
        name = device.encode()
        if not 0 < len(name) <= _MAX_NAME:
            raise OSError(f"{device}: not the name of a device")
        data = (ctypes.c_char * len(request)).from_buffer(request)
        # struct ifreq: the name, and a union of 24 bytes of which a pointer is used.
        ifreq = struct.pack("@16sP16x", name, ctypes.addressof(data))
        fcntl.ioctl(channel, SIOCETHTOOL, ifreq)

    return Ethtool(call)
