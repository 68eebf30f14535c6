"""Settings of PCI Express devices, from their configuration space; beyond its first 64 bytes only root may read it.

Sources: linux/include/uapi/linux/pci_regs.h and Documentation/ABI/testing/sysfs-bus-pci. Only the few registers that are
needed are read, one by one: there are devices that do not survive a read of the whole space.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from hwsonde_exporter.collectors._files import sys_text
from hwsonde_exporter.collectors._pci import BRIDGE, devices
from hwsonde_exporter.collectors._setting_rows import Row, file_rows, row, selected
from hwsonde_exporter.host import Host

_MAX_CAPABILITIES = 48
_STATUS, _FIRST_CAPABILITY, _FIRST_EXTENDED = 0x06, 0x34, 0x100
_HAS_CAPABILITIES = 0x10
_EXPRESS, _ACCESS_CONTROL = 0x10, 0x000D
_DEVICE_CONTROL, _LINK_CONTROL, _ACCESS_CONTROL_REGISTER = 0x08, 0x10, 0x06
_RELAXED_ORDERING, _EXTENDED_TAG = 0x0010, 0x0100
_DEAD = 0xFFFF
_LARGEST_SHIFT = 5  # 4096 bytes; what lies above is reserved
# Bits of the access control register, by the names of lspci less their last letter.
_ACCESS_CONTROLS = ("SourceValid", "TransBlk", "ReqRedir", "CmpltRedir", "UpstreamFwd", "EgressCtrl", "DirectTrans")

# Takes a place and a number of bytes; gives them, or fewer where the space ends or may not be read.
Read = Callable[[int, int], bytes]


@dataclass(frozen=True, slots=True)
class Express:
    """What the PCI Express capability of a device says; sizes in bytes."""

    max_payload: int | None
    max_read_request: int | None
    relaxed_ordering: bool
    extended_tags: bool
    power_management: str


def pcie_rows(host: Host) -> Iterator[Row]:
    """Settings of network devices, disks, GPUs and other accelerators, and of the switches above them."""
    yield from file_rows(
        host, host.paths.sys("module"), (("pcie.aspm_policy", "pcie_aspm/parameters/policy", selected),)
    )
    base = host.paths.sys("bus", "pci", "devices")
    bridges: dict[str, frozenset[str] | None] = {}
    for device in devices(host):
        # A read would wake a device that sleeps.
        if device.kind == BRIDGE or sys_text(host, base / device.address / "power" / "runtime_status") == "suspended":
            continue
        yield from _device_rows(base / device.address / "config", device.address)
        controls = _controls_above(base, device.chain[:-1], bridges)
        if controls is not None:
            yield row("pcie.access_control", " ".join(sorted(controls)) or "off", device.address)


def _device_rows(path: Path, address: str) -> Iterator[Row]:
    try:
        with ConfigSpace(path) as space:
            express = parse_express(space.read)
    except OSError:
        return
    if express is None:
        return
    if express.max_payload is not None:
        yield row("pcie.maximum_payload_bytes", str(express.max_payload), address)
    if express.max_read_request is not None:
        yield row("pcie.maximum_read_request_bytes", str(express.max_read_request), address)
    yield row("pcie.relaxed_ordering", "on" if express.relaxed_ordering else "off", address)
    yield row("pcie.extended_tags", "on" if express.extended_tags else "off", address)
    yield row("pcie.active_state_power_management", express.power_management, address)


def _controls_above(
    base: Path, above: Sequence[str], bridges: dict[str, frozenset[str] | None]
) -> frozenset[str] | None:
    """Access controls that are on in any bridge above a device; None if none of them can be read.

    Any of the redirecting ones sends the traffic between two devices up to the processor.
    """
    for address in above:
        if address not in bridges:
            bridges[address] = None
            with suppress(OSError), ConfigSpace(base / address / "config") as space:
                bridges[address] = parse_access_control(space.read)
    known = [controls for address in above if (controls := bridges[address]) is not None]
    return frozenset().union(*known) if known else None


class ConfigSpace:
    """The configuration space of a device, opened for some reads; a context manager. Reads raise OSError."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)

    def read(self, place: int, size: int) -> bytes:
        """Bytes at a place; fewer where the space ends or may not be read."""
        return os.pread(self._descriptor, size, place)


def _word(read: Read, place: int) -> int | None:
    data = read(place, 2)
    return int.from_bytes(data, "little") if len(data) == 2 else None


def find_capability(read: Read, wanted: int) -> int | None:
    """Place of a capability in the list that every device has; None if it is not there or may not be read."""
    vendor, status = _word(read, 0), _word(read, _STATUS)
    if vendor in {None, _DEAD} or status is None or not status & _HAS_CAPABILITIES:
        return None
    place = next(iter(read(_FIRST_CAPABILITY, 1)), 0) & 0xFC
    for _ in range(_MAX_CAPABILITIES):
        head = read(place, 2) if place >= 0x40 else b""
        if len(head) < 2:
            return None
        if head[0] == wanted:
            return place
        place = head[1] & 0xFC
    return None


def find_extended(read: Read, wanted: int) -> int | None:
    """Place of a capability in the extended list; 0 if it is not there, None if the list may not be read."""
    place = _FIRST_EXTENDED
    for _ in range(_MAX_CAPABILITIES):
        head = read(place, 4)
        if len(head) < 4:
            return None if place == _FIRST_EXTENDED else 0
        value = int.from_bytes(head, "little")
        if value in {0, 0xFFFFFFFF}:
            return 0
        if value & 0xFFFF == wanted:
            return place
        place = value >> 20 & 0xFFC
        if place < _FIRST_EXTENDED:
            return 0
    return 0


def parse_express(read: Read) -> Express | None:
    """The settings in a device's PCI Express capability; None for a device without one, a dead one, or without permission."""
    place = find_capability(read, _EXPRESS)
    control = None if place is None else _word(read, place + _DEVICE_CONTROL)
    link = None if place is None else _word(read, place + _LINK_CONTROL)
    if control in {None, _DEAD} or link in {None, _DEAD}:
        return None
    assert control is not None  # noqa: S101  (what the two lines above say)
    assert link is not None  # noqa: S101
    payload, request = control >> 5 & 7, control >> 12 & 7
    return Express(
        128 << payload if payload <= _LARGEST_SHIFT else None,
        128 << request if request <= _LARGEST_SHIFT else None,
        bool(control & _RELAXED_ORDERING),
        bool(control & _EXTENDED_TAG),
        ("off", "L0s", "L1", "L0s L1")[link & 3],
    )


def parse_access_control(read: Read) -> frozenset[str] | None:
    """The access controls that are on; none for a device that has no such thing, None if the space may not be read."""
    if _word(read, 0) in {None, _DEAD}:
        return None
    place = find_extended(read, _ACCESS_CONTROL)
    if place is None:
        return None
    control = _word(read, place + _ACCESS_CONTROL_REGISTER) if place else 0
    if control in {None, _DEAD}:
        return None
    return frozenset(name for bit, name in enumerate(_ACCESS_CONTROLS) if (control or 0) >> bit & 1)
