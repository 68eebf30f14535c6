"""Data centre bridging of network devices, asked by netlink; see linux/dcbnl.h and dcb(8). Asking needs no privilege."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Mapping
from pathlib import Path

from hwsonde_exporter.collectors._netlink import (
    ERROR,
    HEADER,
    RECEIVE_BYTES,
    REQUEST,
    ROUTE,
    TIMEOUT_SECONDS,
    attribute,
    attributes,
)
from hwsonde_exporter.collectors._netns import host_socket

_GET_DCB = 78  # RTM_GETDCB
_IEEE_GET = 21  # DCB_CMD_IEEE_GET
_NAME, _IEEE = 1, 13  # DCB_ATTR_IFNAME, DCB_ATTR_IEEE
_ETS, _PFC, _APPLICATIONS, _TRUST = 1, 2, 3, 11  # DCB_ATTR_IEEE_{ETS,PFC,APP_TABLE}, DCB_ATTR_DCB_APP_TRUST_TABLE
_MESSAGE = struct.Struct("=BBH")
_CLASSES = 8
_NOTHING = memoryview(b"")
_DSCP, _PCP = 5, 255  # IEEE_8021QAZ_APP_SEL_DSCP, DCB_APP_SEL_PCP

# Takes the name of a device and gives the kernel's answer behind the netlink header; raises OSError.
AskDcb = Callable[[str], bytes]


def open_dcb(procfs: Path) -> AskDcb:
    """Ask in the host's network namespace, on a socket that stays open.

    Raises
    ------
    Unavailable
        As `hwsonde_exporter.collectors._netns.host_socket`.
    OSError
        If there is no such socket.
    """
    channel = host_socket(procfs, socket.AF_NETLINK, socket.SOCK_RAW, ROUTE)
    channel.settimeout(TIMEOUT_SECONDS)
    sequence = 0

    def ask(device: str) -> bytes:
        nonlocal sequence
        sequence += 1
        channel.sendto(question(device, sequence), (0, 0))
        while True:
            answer = channel.recv(RECEIVE_BYTES)
            if len(answer) < HEADER.size:
                raise OSError("netlink: an answer without its header")
            length, kind, _, number, _ = HEADER.unpack_from(answer)
            if number != sequence:
                continue  # the late answer to a question that was given up
            if kind == ERROR:
                code = struct.unpack_from("=i", answer.ljust(HEADER.size + 4, b"\0"), HEADER.size)[0]
                raise OSError(-code, "netlink: the kernel refuses")
            return answer[HEADER.size : length]

    return ask


def question(device: str, sequence: int) -> bytes:
    """Message that asks for the IEEE 802.1Qaz settings of a device."""
    body = _MESSAGE.pack(0, _IEEE_GET, 0) + attribute(_NAME, device.encode() + b"\0")
    return HEADER.pack(HEADER.size + len(body), _GET_DCB, REQUEST, sequence, 0) + body


def parse_dcb(answer: bytes) -> dict[str, str]:
    """What an answer says, by name.

    ``priority_flow_control`` is the list of priorities that pause by themselves, ``trust`` by what packets get their priority
    (as far as it is told, or follows from the table of applications), ``priority_classes`` the traffic class of each
    priority, ``scheduling`` how each class is served.
    """
    ieee: dict[int, memoryview] = {}
    for kind, content in attributes(memoryview(answer), _MESSAGE.size):
        if kind == _IEEE:
            ieee = dict(attributes(content))
    found = {}
    pfc = ieee.get(_PFC, _NOTHING)
    if len(pfc) >= 2:
        found["priority_flow_control"] = ",".join(str(bit) for bit in range(_CLASSES) if pfc[1] >> bit & 1) or "none"
    ets = ieee.get(_ETS, _NOTHING)
    if len(ets) >= 3 + 4 * _CLASSES:
        bandwidth, service, classes = ets[3:11], ets[19:27], ets[27:35]
        found["priority_classes"] = " ".join(map(str, classes))
        found["scheduling"] = " ".join(_service(*pair) for pair in zip(service, bandwidth, strict=True))
    trust = _trust(ieee)
    if trust:
        found["trust"] = trust
    return found


def _service(kind: int, bandwidth: int) -> str:
    return {0: "strict", 1: "shaped", 2: f"ets:{bandwidth}%", 255: "vendor"}.get(kind, str(kind))


def _trust(ieee: Mapping[int, memoryview]) -> str:
    names = {_DSCP: "dscp", _PCP: "pcp"}
    if _TRUST in ieee:
        selectors = [content[0] for _, content in attributes(ieee[_TRUST]) if content]
        return " ".join(names.get(selector, str(selector)) for selector in selectors) or "none"
    if _APPLICATIONS not in ieee:
        return ""
    # Older drivers follow the DSCP field of packets as soon as there is an entry that maps it.
    selectors = [content[0] for _, content in attributes(ieee[_APPLICATIONS]) if content]
    return "dscp" if _DSCP in selectors else "pcp"
