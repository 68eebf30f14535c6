"""The tree of PCI devices: which of them matter to a training job, and which bridges carry them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._files import PCI_ADDRESS, entries, link_name, link_target, sys_text
from hwsonde_exporter.host import Host

# The root of a tree; Intel VMD puts a second one below a device of the first.
_ROOT = re.compile(r"(pci)?[0-9a-f]{4,8}:[0-9a-f]{2}\Z")
_NVIDIA = "0x10de"
# Management controllers draw the server's own screen: ASPEED, Matrox.
_SCREENS = frozenset({"0x1a03", "0x102b"})
_MAX_GIGATRANSFERS = 256

BRIDGE = "bridge"


class Device(NamedTuple):
    """A PCI function that is reported.

    ``kind`` is the value of the label ``class``; ``chain`` leads from the root of its tree down to it; ``partner`` is the port
    above it at the other end of its link, empty for ports that lead downwards and for devices right at the root.
    """

    address: str
    kind: str
    chain: tuple[str, ...]
    partner: str

    @property
    def shows_link(self) -> bool:
        """Whether its link is shown with it; that of a port that leads downwards is shown with the device below."""
        return self.kind != BRIDGE or self.partner != ""


def kind_of(code: str, vendor: str) -> str:
    """Class of a device by its class code (``0x020000``) and vendor, or an empty text for one that does not matter."""
    base, full = code[2:4], code[2:6]
    if full == "0108":
        return "nvme"
    if full == "0604":
        return BRIDGE
    if full == "0680":
        return "nvswitch" if vendor == _NVIDIA else ""
    if base == "03":
        return "" if vendor in _SCREENS else "gpu"
    return {"01": "storage", "02": "network", "12": "accelerator"}.get(base, "")


def chain_of(target: str) -> tuple[str, ...]:
    """Addresses from the root of its tree down to a device, by the target of its link in /sys/bus/pci/devices."""
    addresses: list[str] = []
    for part in target.split("/"):
        if PCI_ADDRESS.fullmatch(part):
            addresses.append(part)
        elif _ROOT.match(part):
            addresses.clear()
    return tuple(addresses)


def parse_speed(data: bytes) -> float | None:
    """Transfers a second of ``current_link_speed`` (``32.0 GT/s PCIe``, ``8 GT/s``), or None for ``Unknown``."""
    words = data.split()
    value = parsing.decimal(words[0]) if len(words) >= 2 and words[1] == b"GT/s" else None
    return value * 1e9 if value is not None and 0 < value <= _MAX_GIGATRANSFERS else None


def parse_width(data: bytes) -> int | None:
    """Lanes of ``current_link_width``, or None for what no link has: 0 is a link that is down, 63 and 255 are unknown."""
    value = parsing.number(data.strip())
    return value if value is not None and 1 <= value <= 32 else None


def parse_aer(data: bytes) -> int | None:
    """Sum of a table of advanced error reports (``aer_dev_correctable``): its line that begins with ``TOTAL_ERR_``."""
    for name, value in parsing.key_values(data).items():
        if name.startswith(b"TOTAL_ERR_"):
            return value
    return None


def devices(host: Host) -> list[Device]:
    """Devices that matter, without virtual functions (which have no link of their own), and the bridges above them."""
    base = f"{host.paths.sysfs}/bus/pci/devices"
    found: dict[str, Device] = {}
    bridges: dict[str, tuple[str, ...]] = {}
    for address in entries(base):
        path = f"{base}/{address}"
        if not PCI_ADDRESS.fullmatch(address) or link_name(f"{path}/physfn"):
            continue
        kind = kind_of(sys_text(host, f"{path}/class"), sys_text(host, f"{path}/vendor"))
        if not kind or kind == BRIDGE:
            continue
        chain = chain_of(link_target(path))
        if chain[-1:] != (address,):
            chain = (address,)
        found[address] = Device(address, kind, chain, chain[-2] if len(chain) > 1 else "")
        for length in range(1, len(chain)):
            bridges.setdefault(chain[length - 1], chain[:length])
    for address, chain in bridges.items():
        # From the root: a port down, then by turns the port up of a switch and one of its ports down.
        up = len(chain) % 2 == 0
        found.setdefault(address, Device(address, BRIDGE, chain, chain[-2] if up else ""))
    return [found[address] for address in sorted(found)]


def slots(host: Host) -> dict[str, str]:
    """Name of each slot by the address of what sits in it, which has no function (``0000:17:00``)."""
    base = f"{host.paths.sysfs}/bus/pci/slots"
    found: dict[str, str] = {}
    for name in entries(base):
        address = sys_text(host, f"{base}/{name}/address")
        if address:
            found.setdefault(address, parsing.text(name.encode("utf-8", "replace")))
    return found


def slot_of(chain: Sequence[str], by_address: dict[str, str]) -> str:
    """Name of the slot that a device sits in: its own, or that of the nearest bridge above it; empty if none has one."""
    for address in reversed(chain):
        name = by_address.get(address.rpartition(".")[0])
        if name:
            return name
    return ""
