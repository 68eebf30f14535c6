"""A kernel that answers netlink's questions for sockets, devices and addresses, in memory."""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hwsonde_exporter.collectors._inet_diag import ESTABLISHED, LISTEN, REQUEST_TYPE
from hwsonde_exporter.collectors._netlink import ROUTE, SOCK_DIAG
from hwsonde_exporter.errors import ReadError
from hwsonde_exporter.host import Host

# Where each field of struct tcp_info lies in linux/tcp.h, and its format.
TCP_INFO = {
    "retransmits": (2, "B"), "limited": (7, "B"), "last_data_sent": (44, "I"), "rtt": (68, "I"), "total_retrans": (100, "I"),
    "bytes_acked": (120, "Q"), "min_rtt": (148, "I"), "data_segs_out": (156, "I"), "delivery_rate": (160, "Q"),
    "dsack_dups": (216, "I"),
}  # fmt: skip
TCP_INFO_BYTES = 248  # Linux 6.7


def tcp_info(size: int = TCP_INFO_BYTES, **values: int) -> bytes:
    """struct tcp_info as a kernel gives that has ``size`` bytes of it."""
    data = bytearray(max(size, TCP_INFO_BYTES))
    for name, value in values.items():
        place, form = TCP_INFO[name]
        struct.pack_into(f"={form}", data, place, value)
    return bytes(data[:size])


def attribute(kind: int, content: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(content), kind) + content + bytes(-len(content) % 4)


def packed(address: str) -> bytes:
    return ipaddress.ip_address(address).packed


@dataclass
class Connection:
    """One TCP socket; ``info`` are fields of `TCP_INFO`."""

    local: str
    remote: str
    number: int = 1
    info: dict[str, int] = field(default_factory=dict)
    bound: int = 0
    state: int = ESTABLISHED
    size: int = TCP_INFO_BYTES

    def message(self) -> bytes:
        source, destination = packed(self.local), packed(self.remote)
        family = socket.AF_INET if len(source) == 4 else socket.AF_INET6
        head = struct.pack("=BBBB2s2s", family, self.state, 0, 0, b"\x1f\x90", b"\x01\xbb")
        head += source.ljust(16, b"\0") + destination.ljust(16, b"\0")
        head += struct.pack("=IQ5I", self.bound, self.number, 0, 0, 0, 0, 0)
        return head + attribute(8, b"\0") + attribute(2, tcp_info(self.size, **self.info)) + attribute(4, b"cubic\0")


@dataclass
class Kernel:
    """Devices with their addresses, in the order of their indexes, and connections; stands for a `Dump`."""

    devices: dict[str, list[str]]
    connections: Sequence[Connection] = ()
    asked: list[tuple[int, int]] = field(default_factory=list)

    def __call__(self, protocol: int, kind: int, request: bytes) -> Iterator[tuple[int, memoryview]]:
        self.asked.append((protocol, kind))
        if (protocol, kind) == (ROUTE, 18):
            for index, name in enumerate(self.devices, 1):
                head = struct.pack("=BxHiII", 0, 1, index, 0, 0)
                yield 16, memoryview(head + attribute(3, name.encode() + b"\0"))
        elif (protocol, kind) == (ROUTE, 22):
            for index, addresses in enumerate(self.devices.values(), 1):
                for address in addresses:
                    raw = packed(address)
                    local = attribute(2, raw) if len(raw) == 4 else b""
                    yield 20, memoryview(struct.pack("=BBBBI", 2, 24, 0, 0, index) + attribute(1, raw) + local)
        else:
            assert (protocol, kind) == (SOCK_DIAG, REQUEST_TYPE)
            states = struct.unpack_from("=I", request, 52)[0]
            if states == 1 << ESTABLISHED:
                for connection in self.connections:
                    yield REQUEST_TYPE, memoryview(connection.message())
            else:
                assert states == 1 << LISTEN


def fixture_kernel(host: Host) -> Kernel:
    """The kernel of a fixture host: an address for each device that it has, and a few connections of the first three."""
    try:
        lines = host.files.read_once(host.paths.proc("1", "net", "dev")).decode().splitlines()[2:]
    except (ReadError, UnicodeDecodeError):
        lines = []
    names = sorted({line.partition(":")[0].strip() for line in lines} - {"lo", ""})
    devices = {"lo": ["127.0.0.1", "::1"]} | {name: [f"10.{place}.0.5"] for place, name in enumerate(names)}
    connections = [Connection("127.0.0.1", "127.0.0.1", 1, {"rtt": 20, "bytes_acked": 1})]
    for place, name in enumerate(names[:3]):
        busy = {"rtt": 180 + place, "min_rtt": 90 + place, "bytes_acked": 10**6, "data_segs_out": 1000, "total_retrans": 7,
                "dsack_dups": 2, "delivery_rate": 2_500_000_000, "last_data_sent": 3}  # fmt: skip
        slow = busy | {"rtt": 31_000, "min_rtt": 29_500, "limited": 1, "retransmits": 1}
        old = busy | {"last_data_sent": 3_600_000}
        local = devices[name][0]
        for step, (remote, info) in enumerate((("10.9.0.7", busy), ("203.0.113.9", slow), ("10.9.0.8", old))):
            connections.append(Connection(local, remote, 100 * (place + 1) + step, info))
    return Kernel(devices, connections)
