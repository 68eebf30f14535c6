"""What the kernel module tells of itself and its GPUs in /proc/driver/nvidia, without the library and without waking a GPU."""

from __future__ import annotations

import re
from typing import NamedTuple

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._files import entries, read_once_or_none
from hwsonde_exporter.host import Host

_FOLDER = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.[0-7]\Z")
_VERSION = re.compile(rb"NVRM version:.*? ([0-9]{3,4}(?:\.[0-9]{1,4}){1,2})(?:\s|\Z)")
_UUID = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\Z")
# Addresses with four digits of domain or eight; NVML and the kernel's log write the same GPU differently.
_ADDRESS = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})(?:\.[0-7])?\Z")


class Module(NamedTuple):
    """The loaded kernel module: its version, and whether it is the open one, the closed one, or nobody can tell (empty)."""

    version: str
    flavour: str


class Identity(NamedTuple):
    """A GPU: number as a label, UUID (empty where it is not known), PCI address without function (``0000:3b:00``)."""

    gpu: str
    uuid: str
    address: str


def parse_version(data: bytes) -> Module | None:
    """Parse /proc/driver/nvidia/version.

    Its first line is ``NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024``, or since
    515 ``NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build ...``.
    """
    line = data.partition(b"\n")[0]
    match = _VERSION.match(line)
    if match is None:
        return None
    return Module(match[1].decode("ascii"), "open" if b"Open Kernel Module" in line else "closed")


def parse_information(data: bytes) -> dict[str, str]:
    """Parse /proc/driver/nvidia/gpus/ADDRESS/information: ``GPU UUID:  GPU-...`` as name -> value, both fit for labels."""
    table: dict[str, str] = {}
    for line in parsing.lines(data):
        name, colon, value = line.partition(b":")
        if colon:
            table.setdefault(parsing.text(name), parsing.text(value))
    return table


def short_address(text: str) -> str:
    """PCI address as the kernel's log writes it: without function, domain of four digits where it fits; empty for none."""
    match = _ADDRESS.match(text.lower())
    return f"{int(match[1], 16):04x}:{match[2]}:{match[3]}" if match else ""


def has_driver(host: Host) -> bool:
    """Whether a kernel module of NVIDIA's is loaded, for GPUs or for NVSwitches."""
    base = host.paths.proc("driver")
    return any((base / name).is_dir() for name in ("nvidia", "nvidia-nvswitch", "nvidia-nvlink"))


def read_module(host: Host) -> Module | None:
    """The loaded module, or None if there is none."""
    data = read_once_or_none(host, host.paths.proc("driver", "nvidia", "version"))
    return parse_version(data) if data is not None else None


def read_gpus(host: Host) -> list[tuple[Identity, dict[str, str]]]:
    """GPUs that the module drives, in the order of their addresses, which is that of the library, and what it tells of each."""
    base = host.paths.proc("driver", "nvidia", "gpus")
    found: list[tuple[Identity, dict[str, str]]] = []
    for name in entries(base):
        address = short_address(name) if _FOLDER.match(name) else ""
        if not address:
            continue
        data = read_once_or_none(host, base / name / "information")
        table = parse_information(data) if data is not None else {}
        uuid = table.get("GPU UUID", "").lower().replace("gpu-", "GPU-", 1)
        # Of a GPU that was never woken the module shows question marks.
        found.append((Identity(str(len(found)), uuid if _UUID.match(uuid) else "", address), table))
    return found
