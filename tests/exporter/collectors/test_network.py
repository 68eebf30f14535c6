from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from hwsonde_exporter.collectors.network import (
    BYTES_SAMPLED,
    NetworkCollector,
    parse_net_dev,
    parse_softnet,
)
from hwsonde_exporter.collectors.network_link import NetworkLinkCollector
from hwsonde_exporter.collectors.tcp import TcpCollector, parse_sockstat
from hwsonde_exporter.errors import ReadError, Unavailable
from hwsonde_exporter.host import IGNORED_DEVICES, FileReader, Host, Ignored, Paths
from tests.exporter.collectors.fakes import memory_host
from tests.exporter.collectors.hosts import fixture_host, values
from tests.exporter.collectors.trees import tree_host

HEAD = b"Inter-| Receive | Transmit\n face |bytes packets|bytes packets\n"
ROW = b"  %s:%d 7 1 2 3 4 0 6 %d 9 1 2 3 0 5 0\n"


class Anew(FileReader):
    """Opens a file each time it is read."""

    def read(self, path: Path | str) -> bytes:
        return self.read_once(path)


def test_parse_net_dev_takes_a_name_that_touches_its_number() -> None:
    assert parse_net_dev(HEAD + b"eth0:123 4\n  a:1: 5 6\nodd\n") == {b"eth0": [b"123", b"4"], b"a:1": [b"5", b"6"]}


ZEROS = b" 0" * 6


def test_parse_softnet_is_hexadecimal_and_goes_by_the_number_of_the_cpu() -> None:
    line = b"00000010 00000002 0000000a" + ZEROS + b" 00000007 00000001 00000003"
    assert parse_softnet(line + b" 0000001f\n")[31][:3] == [16, 2, 10]
    assert parse_softnet(line + b"\n" + line + b"\n").keys() == {-1, -2}
    assert parse_softnet(b"00000010 00000002 0000000a\nxx 0 0\n-1 2 3\n0 0\n1 2 3") == {-1: [16, 2, 10]}
    assert parse_softnet(b"") == {}


def softnet(*rows: tuple[int, int]) -> dict[str, bytes]:
    """Files of a host whose CPUs (number, packets) count."""
    lines = [b"%08x 0 0%b 7 1 3 %08x\n" % (packets, ZEROS, cpu) for cpu, packets in rows]
    return {"/proc/1/net/dev": HEAD, "/proc/1/net/softnet_stat": b"".join(lines)}


def test_softnet_goes_on_when_a_counter_wraps_or_a_cpu_goes_offline() -> None:
    host, reader = memory_host(softnet((0, 2**32 - 5), (1, 100)))
    collector = NetworkCollector(host)
    name = "hwsonde_network_softnet_packets_total"
    first = values(list(collector.collect()))
    assert first[(name,)] == 2**32 + 95
    assert first[("hwsonde_network_softnet_steering_interrupts_total",)] == 14
    assert first[("hwsonde_network_softnet_flow_limited_packets_total",)] == 2
    assert first[("hwsonde_network_softnet_backlog_packets",)] == 6
    reader.contents |= softnet((0, 3), (1, 101))
    assert values(list(collector.collect()))[(name,)] == 2**32 + 104
    reader.contents |= softnet((0, 4))
    assert values(list(collector.collect()))[(name,)] == 2**32 + 105
    reader.contents |= softnet((0, 4), (1, 102))
    assert values(list(collector.collect()))[(name,)] == 2**32 + 106


def test_devices_that_are_not_told_leave_the_softirqs_counts() -> None:
    host, _ = memory_host(softnet((0, 7), (1, 100)))
    assert values(list(NetworkCollector(host).collect()))[("hwsonde_network_softnet_packets_total",)] == 107


def test_softnet_of_an_old_kernel_is_summed() -> None:
    host, reader = memory_host({"/proc/1/net/dev": HEAD, "/proc/1/net/softnet_stat": b"00000005 1 0\n00000006 0 0\n"})
    collector = NetworkCollector(host)
    answer = values(list(collector.collect()))
    assert answer[("hwsonde_network_softnet_packets_total",)] == 11
    assert ("hwsonde_network_softnet_backlog_packets",) not in answer
    reader.contents["/proc/1/net/softnet_stat"] = b"00000007 0 0\n"
    assert values(list(collector.collect()))[("hwsonde_network_softnet_packets_total",)] == 7


@pytest.mark.parametrize(
    "name",
    [
        "veth3fa91c2",
        "docker0",
        "br-1f2e",
        "cali12ab",
        "tap0",
        "vnet12",
        "cni0",
        "lxc1a",
        "virbr0",
        "tap100i0",
        "tap0_kata",
        "tap1a2b3c4d-5e",
        "gre0",
        "gretap0",
        "sit0",
        "dummy0",
        "docker_gwbridge",
        "cni-podman0",
        "flannel.1",
    ],
)
def test_devices_of_containers_are_ignored(name: str) -> None:
    assert IGNORED_DEVICES.fullmatch(name)


@pytest.mark.parametrize(
    "name",
    [
        "eth0",
        "ens1f0np0",
        "bond0",
        "lo",
        "ib0",
        "wg0",
        "team0",
        "brand0",
        "eth0.100",
        "green0",
        "tape0",
        "site0",
        "vnet",
        "greener",
        "dummyload",
    ],
)
def test_devices_of_the_host_are_not(name: str) -> None:
    assert not IGNORED_DEVICES.fullmatch(name)


def test_columns_go_where_they_belong() -> None:
    host, _ = memory_host({"/proc/1/net/dev": HEAD + ROW % (b"eth0", 11, 88)})
    answer = values(list(NetworkCollector(host).collect()))
    name = "hwsonde_network_{}_total".format
    assert answer[name("bytes"), "eth0", "received"] == 11
    assert answer[name("bytes"), "eth0", "transmitted"] == 88
    assert answer[name("packets"), "eth0", "received"] == 7
    assert answer[name("packets"), "eth0", "transmitted"] == 9
    assert answer[name("errors"), "eth0", "received"] == 1
    assert answer[name("dropped_packets"), "eth0", "transmitted"] == 2
    assert answer[name("fifo_errors"), "eth0", "received"] == 3
    assert answer[name("frame_errors"), "eth0"] == 4
    assert answer[name("multicast_packets"), "eth0"] == 6
    assert answer[name("carrier_errors"), "eth0"] == 5


def test_network_of_process_1_goes_before_our_own(tmp_path: Path) -> None:
    own = (HEAD + ROW % (b"own0", 1, 1)).decode()
    files = {
        "proc/1/net/dev": (HEAD + ROW % (b"eth0", 1, 1)).decode(),
        "proc/net/dev": own,
        "proc/net/softnet_stat": "1 2 3",
    }
    collector = NetworkCollector(tree_host(tmp_path, files, Anew()))
    assert {key[1] for key in values(list(collector.collect()))} == {"eth0"}
    (tmp_path / "proc/1/net/dev").unlink()
    with pytest.raises(ReadError, match="1/net/dev"):
        collector.collect()
    (tmp_path / "proc/1/net").rmdir()
    assert ("hwsonde_network_bytes_total", "own0", "received") in values(list(collector.collect()))
    (tmp_path / "proc/net/dev").unlink()
    (tmp_path / "proc/net/softnet_stat").unlink()
    with pytest.raises(ReadError):
        collector.collect()


def test_only_devices_that_carried_traffic_are_sampled() -> None:
    files = {
        "/proc/1/net/dev": HEAD + ROW % (b"eth0", 11, 88) + b"ifb0: " + b"0 " * 16 + b"\n" + ROW % (b"veth1", 1, 1)
    }
    observed = {
        (quantity, labels): value for quantity, labels, value in NetworkCollector(memory_host(files)[0]).observe()
    }
    assert len(observed) == 4
    assert observed[BYTES_SAMPLED, ("eth0", "transmitted")] == 88


class Counting(FileReader):
    """Notes how much of each file was read, and opens a file each time, since tests replace them."""

    def __init__(self) -> None:
        super().__init__()
        self.sizes: list[int] = []

    def read(self, path: Path | str) -> bytes:
        self.sizes.append(-1)
        return super().read_once(path)

    def read_start(self, path: Path | str, most: int) -> bytes:
        self.close()
        data = super().read_start(path, most)
        self.sizes.append(len(data))
        return data


def test_of_more_devices_than_there_is_room_for_the_first_are_read_and_the_others_counted_now_and_then(
    tmp_path: Path,
) -> None:
    def write(count: int, rounds: int = 1) -> None:
        rows = b"".join(ROW % (b"vf%d" % number, 1000 * rounds, 2000 * rounds) for number in range(count))
        (tmp_path / "proc/1/net/dev").write_bytes(HEAD + ROW % (b"veth1", 1, 1) + rows)

    reader = Counting()
    collector = NetworkCollector(tree_host(tmp_path, {"proc/1/net/dev": ""}, reader))
    collector.most = 40
    write(600)
    first = collector.observe()
    assert {labels[0] for _, labels, _ in first} == {f"vf{number}" for number in range(10)}
    assert (len(first), collector.left_out) == (40, 590 * 4)
    for rounds in range(2, 9):
        write(600, rounds)
        found = collector.observe()
        assert [(quantity, labels) for quantity, labels, _ in found] == [
            (quantity, labels) for quantity, labels, _ in first
        ]
        assert found[0][2] == 1000 * rounds
        assert 0 < reader.sizes[-1] < 1000
        assert collector.left_out == 590 * 4
    # All of it is looked at again after a while.
    write(500)
    for _ in range(99):
        collector.observe()
    assert collector.left_out == 490 * 4
    # Where some of the first have gone, at once.
    write(4)
    assert len(collector.observe()) == 16
    collector.observe()
    assert (reader.sizes[-1], collector.left_out) == (-1, 0)


def test_what_an_operator_ignores_is_ignored() -> None:
    host, _ = memory_host({"/proc/1/net/dev": HEAD + ROW % (b"eth0", 1, 1) + ROW % (b"veth1", 1, 1)})
    collector = NetworkCollector(replace(host, ignored=Ignored(devices=re.compile("eth.*"))))
    assert {key[1] for key in values(list(collector.collect()))} == {"veth1"}


def test_link_state_and_unused_devices() -> None:
    answer = values(list(NetworkCollector(fixture_host("vm")).collect()))
    up = "hwsonde_network_up"
    assert (answer[up, "lo"], answer[up, "eth0"], answer[up, "ifb0"]) == (1, 1, 0)
    assert ("hwsonde_network_bytes_total", "ifb0", "received") not in answer
    assert not [key for key in answer if "veth3fa91c2" in key or "docker0" in key]


def test_names_of_gone_devices_are_forgotten() -> None:
    host, reader = memory_host({"/proc/1/net/dev": HEAD + ROW % (b"ppp1", 1, 1)})
    collector = NetworkCollector(host)
    for number in range(50):
        reader.contents["/proc/1/net/dev"] = HEAD + ROW % (b"ppp%d" % number, 1, 1)
        collector.observe()
    assert len(collector._names) == 1


def test_link_speed_and_identity() -> None:
    answer = values(list(NetworkLinkCollector(fixture_host("node192")).collect()))
    assert answer["hwsonde_network_speed_bytes_per_second", "ens1f0np0"] == 25e9
    assert answer["hwsonde_network_speed_bytes_per_second", "bond0"] == 50e9
    assert answer["hwsonde_network_info", "ens1f1np1", "mlx5_core", "full", "0000:17:00.1", "0", "bond0"] == 1
    assert answer["hwsonde_network_mtu_bytes", "ens1f0np0"] == 9000


@pytest.mark.parametrize("speed", ["-1", "0", "4294967295", "", "x"])
def test_a_speed_that_is_not_known_is_left_out(tmp_path: Path, speed: str) -> None:
    folder = tmp_path / "class/net/eth0"
    folder.mkdir(parents=True)
    (folder / "speed").write_text(f"{speed}\n")
    (folder / "mtu").write_text("1500\n")
    (folder.parent / "bonding_masters").write_text("bond0\n")
    host = Host(Paths(sysfs=tmp_path), FileReader())
    assert values(list(NetworkLinkCollector(host).collect())) == {("hwsonde_network_mtu_bytes", "eth0"): 1500}


def test_no_devices_in_sysfs_is_told(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        NetworkLinkCollector(Host(Paths(sysfs=tmp_path))).probe()


def test_parse_sockstat() -> None:
    data = b"sockets: used 17\nTCP: inuse 1 orphan x tw 3 alloc\nodd\n"
    assert parse_sockstat(data) == {b"sockets": {b"used": 17}, b"TCP": {b"inuse": 1, b"tw": 3}}


def test_tcp_takes_fields_by_name_not_by_place() -> None:
    files = {
        "/proc/1/net/netstat": b"TcpExt: New TCPFastRetrans\nTcpExt: 5 7\n",
        "/proc/1/net/snmp": b"Tcp: MaxConn\nTcp: -1\n",
    }
    answer = values(list(TcpCollector(memory_host(files)[0]).collect()))
    assert answer == {("hwsonde_network_tcp_fast_retransmits_total",): 7}


def test_the_channels_that_decide_about_faults_are_there() -> None:
    names = {key[0] for key in values(list(TcpCollector(fixture_host("vm")).collect()))}
    wanted = ("tcp_fast_retransmits", "tcp_autocorkings", "tcp_spurious_retransmits", "tcp_lost_retransmits", "tcp_listen_drops",
              "udp_receive_errors", "ip_ecn_packets", "tcp_timeouts", "tcp_retransmitted_segments")  # fmt: skip
    assert {f"hwsonde_network_{name}_total" for name in wanted} <= names
