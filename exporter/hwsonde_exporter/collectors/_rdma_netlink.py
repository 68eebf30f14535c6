"""How many RDMA objects are allocated on each device, by RDMA netlink (``rdma resource show``); needs no privilege."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._netlink import RDMA, attributes, dumper

# Client RDMA_NL_NLDEV, command RDMA_NLDEV_CMD_RES_GET; see rdma/rdma_netlink.h.
REQUEST_TYPE = (5 << 10) + 9
_DEVICE_NAME, _SUMMARY, _NAME, _CURRENT = 2, 15, 17, 18

# Device -> object (qp, cq, mr, pd, cm_id, ctx, srq) -> how many there are.
Resources = dict[str, dict[str, int]]


def parse_resources(messages: Iterable[memoryview]) -> Resources:
    """Objects of each device in the messages of a dump; what is not understood is left out."""
    found: Resources = {}
    for message in messages:
        fields = dict(attributes(message))
        device = _text(fields.get(_DEVICE_NAME))
        for _, entry in attributes(fields.get(_SUMMARY, memoryview(b""))):
            parts = dict(attributes(entry))
            name = _text(parts.get(_NAME))
            current = parts.get(_CURRENT)
            if device and name and current is not None and len(current) == 8:
                found.setdefault(device, {}).setdefault(name, struct.unpack("=Q", current)[0])
    return found


def _text(field: memoryview | None) -> str:
    return parsing.text(bytes(field).partition(b"\0")[0]) if field is not None else ""


def read_resources(procfs: Path) -> Resources:
    """Ask the kernel, in the host's network namespace.

    Raises
    ------
    CollectorError
        If that namespace cannot be reached, or the answer is not understood.
    OSError
        If this kernel has no RDMA netlink (EPROTONOSUPPORT), or knows no such request.
    """
    return parse_resources(message for _, message in dumper(procfs)(RDMA, REQUEST_TYPE, b""))
