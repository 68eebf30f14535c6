"""Messages about connections, and whose their addresses are."""

import ipaddress
import socket
import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_exporter.collectors._addresses import Groups, read_devices
from hwsonde_exporter.collectors._inet_diag import (
    ESTABLISHED,
    LEAST_INFO,
    REQUEST_TYPE,
    SIZE_OF,
    Flow,
    parse_flow,
    request,
    split_place,
)
from hwsonde_exporter.collectors._netlink import SOCK_DIAG, dumper
from tests.exporter.collectors.looking import DEVICES
from tests.exporter.collectors.sockets import Connection, Kernel, packed


def test_the_request_is_struct_inet_diag_req() -> None:
    assert len(request(ESTABLISHED)) == 60
    assert struct.unpack_from("=BBBB", request(ESTABLISHED)) == (0, 0, 0, 2)
    assert struct.unpack_from("=I", request(ESTABLISHED), 52) == (2,)


@pytest.mark.parametrize(("listening", "asked"), [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("::", "127.0.0.1")])
def test_the_kernel_passes_over_loopback(listening: str, asked: str) -> None:
    family = socket.AF_INET6 if ":" in listening else socket.AF_INET
    with socket.create_server((listening, 0), family=family, dualstack_ipv6=listening == "::") as server:
        port = server.getsockname()[1]
        with socket.create_connection((asked, port)), server.accept()[0]:
            found = []
            for with_loopback in (True, False):
                asking = request(ESTABLISHED, with_loopback=with_loopback)
                ports = [
                    struct.unpack_from("!HH", message, 4)
                    for _, message in dumper(Path("/proc"))(SOCK_DIAG, REQUEST_TYPE, asking)
                ]
                found.append(sum(port in pair for pair in ports))
    assert found == [2, 0]


def test_a_connection_is_read() -> None:
    info = {"retransmits": 3, "limited": 3, "last_data_sent": 12, "rtt": 180, "total_retrans": 7, "bytes_acked": 2**40,
            "min_rtt": 90, "data_segs_out": 1000, "delivery_rate": 10**10, "dsack_dups": 2}  # fmt: skip
    flow = parse_flow(memoryview(Connection("10.0.0.5", "10.0.0.9", 77, info, bound=4).message()))
    assert flow is not None
    assert flow[1:] == (2, struct.pack("=Q", 77), 248, 3, True, 12, 180, 7, 2**40, 90, 1000, 10**10, 2)
    assert split_place(flow.place, flow.family) == (packed("10.0.0.5"), packed("10.0.0.9"), 4)


@pytest.mark.parametrize(
    ("size", "known"), [(LEAST_INFO, 0), (152, 1), (160, 2), (168, 3), (216, 3), (220, 4), (300, 4)]
)
def test_an_older_kernel_tells_less(size: int, known: int) -> None:
    info = {"bytes_acked": 5, "min_rtt": 1, "data_segs_out": 1, "delivery_rate": 1, "dsack_dups": 1}
    flow = parse_flow(memoryview(Connection("::1", "::1", 1, info, size=size).message()))
    assert flow is not None
    assert flow.acknowledged == 5
    assert [flow.least_rtt, flow.segments, flow.rate, flow.duplicates] == [1] * known + [0] * (4 - known)
    assert sum(size >= needed for needed in SIZE_OF.values()) == known


def test_what_is_no_established_connection_is_passed_over() -> None:
    assert parse_flow(memoryview(Connection("10.0.0.5", "10.0.0.9", state=10).message())) is None
    assert parse_flow(memoryview(Connection("10.0.0.5", "10.0.0.9", size=LEAST_INFO - 4).message())) is None
    assert parse_flow(memoryview(b"\x02\x01" + bytes(70))) is None
    assert parse_flow(memoryview(b"")) is None


def test_ipv4_in_ipv6_is_ipv4() -> None:
    flow = parse_flow(memoryview(Connection("::ffff:10.0.0.5", "2001:db8::1").message()))
    assert flow is not None
    assert split_place(flow.place, flow.family) == (packed("10.0.0.5"), packed("2001:db8::1"), 0)


@given(st.binary(max_size=400) | st.binary(max_size=300).map(lambda tail: b"\x02\x01" + bytes(70) + tail))
def test_any_bytes_are_survived(data: bytes) -> None:
    flow = parse_flow(memoryview(data))
    assert flow is None or isinstance(flow, Flow)
    for kind in (16, 20):
        read_devices(lambda *_, kind=kind: iter([(kind, memoryview(data))]))


def test_devices_are_found_by_address_and_by_what_a_socket_is_bound_to() -> None:
    devices = read_devices(Kernel(DEVICES))
    assert devices.names == {1: "lo", 2: "eth0", 3: "docker0"}
    assert devices.device(packed("fd00::5"), 0) == "eth0"
    assert devices.device(packed("10.0.0.5"), 3) == "docker0"
    assert devices.device(packed("10.0.0.6"), 0) == ""


@pytest.mark.parametrize(
    ("source", "destination", "expected"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.1.2.3", "10.0.0.9", True),
        ("::1", "::1", True),
        ("10.0.0.5", "10.0.0.5", True),
        ("10.0.0.5", "172.17.0.1", True),
        ("10.0.0.5", "10.0.0.9", False),
        ("fd00::5", "fd00::9", False),
        ("10.0.0.77", "10.0.0.9", False),
        ("10.255.0.1", "10.0.0.9", False),
        ("10.0.0.5", "10.255.0.1", True),
    ],
)
def test_what_does_not_leave_the_host(source: str, destination: str, expected: bool) -> None:
    assert read_devices(Kernel(DEVICES)).is_loopback(packed(source), packed(destination)) is expected


def test_the_longest_prefix_names_the_group() -> None:
    networks = [("rack-b", "10.1.2.0/24"), ("hall", "10.0.0.0/8"), ("rack-a", "10.1.0.0/16"), ("site", "2001:db8::/32")]
    groups = Groups((name, ipaddress.ip_network(network)) for name, network in networks)
    expected = {
        "10.1.2.3": "rack-b", "10.1.3.3": "rack-a", "10.2.0.1": "hall", "192.168.1.1": "private", "100.64.0.1": "private",
        "8.8.8.8": "public", "2001:db8::5": "site", "2001:db9::5": "public", "fd00::1": "private", "fe80::1": "private",
    }  # fmt: skip
    assert {address: groups.name(packed(address)) for address in expected} == expected


@given(st.ip_addresses())
def test_an_address_is_private_or_public_as_the_registries_say(
    address: ipaddress.IPv4Address | ipaddress.IPv6Address,
) -> None:
    private = [ipaddress.ip_network(text) for text in (
        "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16", "127.0.0.0/8", "fc00::/7",
        "fe80::/10", "::1/128",
    )]  # fmt: skip
    expected = any(address in network for network in private if network.version == address.version)
    assert Groups().name(address.packed) == ("private" if expected else "public")
