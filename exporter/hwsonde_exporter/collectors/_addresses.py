"""Whose addresses are whose: the host's own by device, the others by the group that they belong to."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._netlink import ROUTE, Dump, attributes
from hwsonde_exporter.host import RemoteGroup

_GET_LINK, _NEW_LINK, _GET_ADDRESS, _NEW_ADDRESS = 18, 16, 22, 20
_AF_UNSPEC = 0
_LINK = struct.Struct("=BxHiII")  # struct ifinfomsg: family, type, index, flags, change
_ADDRESS = struct.Struct("=BBBBI")  # struct ifaddrmsg: family, length of the prefix, flags, scope, index
_NAME, _IFA_ADDRESS, _IFA_LOCAL = 3, 1, 2  # IFLA_IFNAME; of a link between two hosts IFA_ADDRESS is the other end's
# IFLA_EXT_MASK with RTEXT_FILTER_SKIP_STATS: names are all that is wanted.
_WITHOUT_STATISTICS = struct.pack("=HHI", 8, 29, 1 << 3)
_LOOPBACK_4 = 127
_LOOPBACK_6 = bytes(15) + b"\1"

PRIVATE, PUBLIC = "private", "public"
# Addresses that are not routed in the Internet: RFC 1918, RFC 6598, RFC 3927, RFC 4193, RFC 4291.
_PRIVATE = (
    "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16", "127.0.0.0/8",
    "fc00::/7", "fe80::/10", "::1/128",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Devices:
    """Names of devices by index, and the index of the device of each of the host's own addresses."""

    names: Mapping[int, str]
    owners: Mapping[bytes, int]

    def device(self, source: bytes, bound: int) -> str:
        """Name of the device of a connection, by the device it is bound to or by its own address; empty if not known."""
        return self.names.get(bound or self.owners.get(source, 0), "")

    def is_loopback(self, source: bytes, destination: bytes) -> bool:
        """Whether a connection does not leave the host, whichever of the host's addresses it uses.

        That its own address is one of the device ``lo`` says nothing: hosts that speak a routing protocol have theirs there.
        """
        return _loops(source) or _loops(destination) or destination in self.owners


def _loops(address: bytes) -> bool:
    return address == _LOOPBACK_6 or (len(address) == 4 and address[0] == _LOOPBACK_4)


def read_devices(dump: Dump) -> Devices:
    """Ask the kernel for its devices and their addresses (RTM_GETLINK, RTM_GETADDR); see rtnetlink(7).

    Raises
    ------
    OSError, CollectorError
        As ``dump`` does.
    """
    names: dict[int, str] = {}
    request = _LINK.pack(_AF_UNSPEC, 0, 0, 0, 0) + _WITHOUT_STATISTICS
    for kind, message in dump(ROUTE, _GET_LINK, request):
        if kind == _NEW_LINK and len(message) >= _LINK.size:
            index = _LINK.unpack_from(message)[2]
            for attribute, content in attributes(message, _LINK.size):
                if attribute == _NAME and (name := parsing.text(bytes(content).partition(b"\0")[0])):
                    names[index] = name
    owners: dict[bytes, int] = {}
    for kind, message in dump(ROUTE, _GET_ADDRESS, _ADDRESS.pack(_AF_UNSPEC, 0, 0, 0, 0)):
        if kind == _NEW_ADDRESS and len(message) >= _ADDRESS.size:
            index = _ADDRESS.unpack_from(message)[4]
            found = dict(attributes(message, _ADDRESS.size))
            address = found.get(_IFA_LOCAL) or found.get(_IFA_ADDRESS)
            if address:
                owners.setdefault(bytes(address), index)
    return Devices(names, owners)


class Groups:
    """Groups of remote addresses by prefix; the longest prefix decides.

    Parameters
    ----------
    prefixes
        Pairs of a group's name and a network such as ``10.1.0.0/16``. An address in none of them is in the group ``private``
        or ``public``, as the registries have it.
    """

    def __init__(self, prefixes: Iterable[RemoteGroup] = ()) -> None:
        tables: dict[tuple[int, int], dict[bytes, str]] = {}
        standing = [(PRIVATE, ipaddress.ip_network(text)) for text in _PRIVATE]
        for name, network in (*prefixes, *standing):
            address = network.network_address.packed
            # What was configured comes first, so it stays where a standing prefix is the same.
            tables.setdefault((len(address), network.prefixlen), {}).setdefault(address, name)
        self._tables = sorted(tables.items(), key=lambda item: -item[0][1])

    def name(self, address: bytes) -> str:
        """Name of the group of an address of 4 or 16 bytes."""
        value = int.from_bytes(address, "big")
        bits = 8 * len(address)
        for (size, length), table in self._tables:
            if size == len(address):
                shift = bits - length
                name = table.get((value >> shift << shift).to_bytes(size, "big"))
                if name is not None:
                    return name
        return PUBLIC
