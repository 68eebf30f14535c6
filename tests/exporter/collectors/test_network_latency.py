import errno
import ipaddress
import os
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_exporter.collectors import network_latency
from hwsonde_exporter.collectors._addresses import Devices
from hwsonde_exporter.collectors._flow_ledger import Account, Ledger
from hwsonde_exporter.collectors._inet_diag import ESTABLISHED, LEAST_INFO, REQUEST_TYPE, parse_flow, request
from hwsonde_exporter.collectors._netlink import SOCK_DIAG, dumper
from hwsonde_exporter.collectors.network_latency import NetworkLatencyCollector
from hwsonde_exporter.errors import ReadError, Reason, Unavailable
from hwsonde_exporter.host import Host, Paths
from tests.exporter.collectors.fakes import memory_host
from tests.exporter.collectors.looking import DEVICES, HOST, looks, one, table
from tests.exporter.collectors.sockets import Connection, Kernel, attribute, tcp_info

# ---- what is published ---------------------------------------------------------------------------------------------


def test_a_time_is_observed_once_for_each_acknowledgement() -> None:
    first, idle, active = looks([one(rtt=200)], [one(rtt=200)], [one(rtt=300, bytes_acked=2)])
    count = ("rtt_seconds_count", "eth0", "private")
    assert [first[count], idle[count], active[count]] == [0, 0, 1]
    assert active["rtt_seconds_sum", "eth0", "private"] == pytest.approx(0.0003)
    assert active["rtt_seconds_squared_deviation_total", "eth0", "private"] == pytest.approx((0.0003 - 0.0005) ** 2)
    assert active["rtt_seconds_bucket", "eth0", "private", "0.0002"] == 0
    assert active["rtt_seconds_bucket", "eth0", "private", "0.0005"] == 1


def test_at_the_first_look_only_what_was_just_sent_counts() -> None:
    (found,) = looks([one(1, last_data_sent=5), one(2, last_data_sent=6000)])
    assert found["rtt_seconds_count", "eth0", "private"] == 1
    assert found["flows", "eth0", "private"] == 2


def test_a_new_connection_counts_from_zero_and_an_old_one_from_now() -> None:
    old, new = one(1, data_segs_out=1000, total_retrans=50), one(2, data_segs_out=30, total_retrans=2)
    first, second, third = looks([old], [old, new], [old, new])
    segments, lost = ("flow_segments_total", "eth0", "private"), ("flow_retransmits_total", "eth0", "private", "lost")
    assert [first[segments], second[segments], third[segments]] == [0, 30, 30]
    # What was sent again counts as lost when the peer has had the time to say that it was not.
    assert [first[lost], second[lost], third[lost]] == [0, 0, 2]


def test_superfluous_retransmits_are_no_losses() -> None:
    states = [(0, 0), (5, 0), (5, 5), (8, 5), (8, 6), (8, 6)]
    found = looks(*([one(total_retrans=sent, dsack_dups=twice)] for sent, twice in states))
    assert [look["flow_retransmits_total", "eth0", "private", "lost"] for look in found] == [0, 0, 0, 0, 2, 2]
    assert [look["flow_retransmits_total", "eth0", "private", "spurious"] for look in found] == [0, 0, 5, 5, 6, 6]


def test_counters_stay_when_connections_vanish() -> None:
    busy = [one(data_segs_out=0), one(2)], [one(data_segs_out=70, total_retrans=4), one(2)], [one(2)], [one(2)], []
    found = looks(*busy)
    assert [look["flow_segments_total", "eth0", "private"] for look in found] == [0, 70, 70, 70, 70]
    assert [look["flow_retransmits_total", "eth0", "private", "lost"] for look in found] == [0, 0, 0, 4, 4]
    assert [look["flows", "eth0", "private"] for look in found] == [2, 2, 1, 1, 0]


def test_a_connection_that_one_look_missed_is_not_new() -> None:
    found = looks([one(1, data_segs_out=500), one(2)], [one(2)], [one(1, data_segs_out=510), one(2)])
    assert found[-1]["flow_segments_total", "eth0", "private"] == 10


def test_counters_that_wrap_go_on() -> None:
    found = looks([one(data_segs_out=2**32 - 3)], [one(data_segs_out=4)])
    assert found[-1]["flow_segments_total", "eth0", "private"] == 7


def test_loopback_and_devices_left_out_are_counted_only() -> None:
    (found,) = looks([one(local="10.0.0.5", remote="10.0.0.5"), one(2, local="172.17.0.1", remote="172.17.0.2")])
    assert found == {
        ("flows_left_out", "own_address"): 1,
        ("flows_left_out", "ignored_device"): 1,
        ("flow_coverage_ratio",): 1.0,
    }


def test_the_rate_counts_only_where_the_network_was_the_limit() -> None:
    def busy(number: int, acked: int, **info: int) -> Connection:
        return one(number, bytes_acked=acked, delivery_rate=10**9, **info)

    found = looks([busy(1, 1), busy(2, 1, limited=1)], [busy(1, 2), busy(2, 2, limited=1)])
    assert found[-1]["delivery_rate_bytes_per_second_count", "eth0", "private"] == 1
    assert found[-1]["delivery_rate_bytes_per_second_sum", "eth0", "private"] == 10**9
    assert found[-1]["delivery_rate_bytes_per_second_squared_deviation_total", "eth0", "private"] == (9e8) ** 2


@pytest.mark.parametrize("rtt", [0, 60_000_001, 2**32 - 1])
def test_times_that_cannot_be_are_not_observed(rtt: int) -> None:
    found = looks([one(rtt=rtt)], [one(rtt=rtt, bytes_acked=2)])
    assert found[-1]["rtt_seconds_count", "eth0", "private"] == 0


def test_the_shortest_time_and_the_stalled_are_of_the_latest_look() -> None:
    states = [one(1, min_rtt=90), one(2, min_rtt=40, retransmits=2), one(3, min_rtt=2**32 - 1)], [one(1, min_rtt=95)]
    first, second = looks(*states)
    assert first["minimum_rtt_seconds", "eth0", "private"] == pytest.approx(40e-6)
    assert first["stalled_flows", "eth0", "private"] == 1
    assert second["minimum_rtt_seconds", "eth0", "private"] == pytest.approx(95e-6)
    assert second["stalled_flows", "eth0", "private"] == 0


def test_what_an_older_kernel_does_not_tell_is_absent() -> None:
    (found,) = looks([Connection("10.0.0.5", "10.0.0.9", size=LEAST_INFO)])
    names = {key[0] for key in found}
    assert not {"flow_segments_total", "minimum_rtt_seconds", "delivery_rate_bytes_per_second_sum"} & names
    assert ("flow_retransmits_total", "eth0", "private", "spurious") not in found
    assert ("flow_retransmits_total", "eth0", "private", "lost") in found


def test_groups_are_configured_and_no_address_is_ever_shown() -> None:
    host = Host(remote_groups=lambda: (("rack-a", ipaddress.ip_network("10.0.0.8/30")),))
    (found,) = looks(
        [one(1), one(2, remote="10.0.0.77"), one(3, remote="8.8.8.8"), one(4, local="10.0.0.250")], host=host
    )
    assert found["flows", "eth0", "rack-a"] == 1
    assert found["flows", "eth0", "private"] == 1
    assert found["flows", "eth0", "public"] == 1
    assert found["flows", "unknown", "rack-a"] == 1
    assert not any(label.count(".") == 3 or label.count(":") > 1 for key in found for label in key)


def test_groups_may_be_named_anew_while_connections_last() -> None:
    names = iter(
        [(), (("rack-a", ipaddress.ip_network("10.0.0.0/8")),), (("rack-b", ipaddress.ip_network("10.0.0.0/8")),)]
    )
    host = Host(remote_groups=lambda: next(names))
    found = looks([one(data_segs_out=5)], [one(data_segs_out=7)], [one(data_segs_out=10)], host=host)
    segments = [
        look.get(("flow_segments_total", "eth0", group))
        for look, group in zip(found, ("private", "rack-a", "rack-b"), strict=True)
    ]
    assert segments == [0, 2, 3]
    assert found[-1]["flows", "eth0", "private"] == 0


def test_pairs_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_latency, "MAX_PAIRS", 2)
    groups = tuple((f"rack-{n}", ipaddress.ip_network(f"10.{n}.0.0/16")) for n in range(1, 6))
    (found,) = looks([one(n, remote=f"10.{n}.0.1") for n in range(1, 6)], host=Host(remote_groups=lambda: groups))
    assert {key: value for key, value in found.items() if key[0] == "flows"} == {
        ("flows", "eth0", "rack-1"): 1,
        ("flows", "eth0", "rack-2"): 1,
        ("flows", "eth0", "other"): 3,
    }


def test_a_pair_without_connections_is_forgotten_and_may_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_latency, "_MAX_IDLE_LOOKS", 3)
    found = looks([one(1)], [], [], [], [], [], [one(2, data_segs_out=3)], [one(2, data_segs_out=9)])
    key = ("flow_segments_total", "eth0", "private")
    assert [look.get(key) for look in found] == [0, 0, 0, 0, 0, None, 3, 9]


def test_a_look_is_bounded_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_latency, "MAX_FLOWS", 25)
    many = [one(n, data_segs_out=n) for n in range(1, 101)]
    host, _ = memory_host({"/proc/1/net/snmp": b"Tcp: CurrEstab\nTcp: 100\n"})
    # The next look takes others: none of them is new.
    first, second = looks(many, many[::-1], host=host)
    assert first["flow_coverage_ratio",] == 0.25
    assert first["flows", "eth0", "private"] == 25
    assert second["flow_segments_total", "eth0", "private"] == 0
    without, _ = memory_host({})
    assert ("flow_coverage_ratio",) not in looks(many, host=without)[0]


def test_a_look_ends_when_its_time_is_up() -> None:
    clock = iter(range(100))
    kernel = Kernel(DEVICES, [one(n) for n in range(1, 1000)])
    found = table(list(NetworkLatencyCollector(HOST, dump=kernel, clock=lambda: next(clock)).collect()))
    assert found["flows", "eth0", "private"] == 63


def test_memory_does_not_grow_with_connections_that_are_gone() -> None:
    ledger, account = Ledger(), Account()
    for look in range(50):
        ledger.begin()
        for number in range(20):
            flow = parse_flow(memoryview(one(look * 20 + number + 1).message()))
            assert flow is not None
            ledger.update(flow, account)
        ledger.end(all_seen=True)
    assert len(ledger) == 40


@given(st.data())
def test_counters_only_grow_whatever_the_kernel_says(data: st.DataObject) -> None:
    numbers = st.integers(0, 2**32 - 1)
    connection = st.builds(
        one,
        st.integers(1, 4),
        remote=st.sampled_from(["10.0.0.9", "8.8.8.8"]),
        rtt=numbers,
        bytes_acked=numbers,
        total_retrans=numbers,
        dsack_dups=numbers,
        data_segs_out=numbers,
        delivery_rate=numbers,
        limited=st.integers(0, 1),
    )
    before: dict[tuple[str, ...], float] = {}
    for found in looks(*data.draw(st.lists(st.lists(connection, max_size=6), max_size=6))):
        growing = {
            key: value for key, value in found.items() if key[0].endswith(("_total", "_sum", "_count", "_bucket"))
        }
        assert all(value >= before.get(key, 0) for key, value in growing.items())
        before = growing


def test_devices_are_asked_for_again_now_and_then() -> None:
    kernel = Kernel({"lo": ["127.0.0.1"]}, [one()])
    collector = NetworkLatencyCollector(HOST, dump=kernel)
    assert table(list(collector.collect()))["flows", "unknown", "private"] == 1
    kernel.devices = DEVICES
    found = [table(list(collector.collect())) for _ in range(14)]
    assert found[-1]["flows", "eth0", "private"] == 1
    assert found[-1]["flows", "unknown", "private"] == 0


# ---- the real kernel -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.EPERM, Reason.NO_PERMISSION),
        (errno.EACCES, Reason.NO_PERMISSION),
        (errno.EAFNOSUPPORT, Reason.NO_KERNEL_SUPPORT),
        (errno.EPROTONOSUPPORT, Reason.NO_KERNEL_SUPPORT),
        (errno.ENOENT, Reason.NO_KERNEL_SUPPORT),
        (errno.EIO, Reason.NO_KERNEL_SUPPORT),
    ],
)
def test_why_it_cannot_work(number: int, reason: Reason) -> None:
    def refuse(*_: object) -> Iterator[tuple[int, memoryview]]:
        raise OSError(number, os.strerror(number))

    collector = NetworkLatencyCollector(HOST, dump=refuse)
    with pytest.raises(Unavailable) as caught:
        collector.probe()
    assert caught.value.reason is reason
    with pytest.raises(ReadError, match="cannot be listed"):
        collector.collect()


def test_the_connections_of_this_machine_are_found() -> None:
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as client,
        server.accept()[0] as other,
    ):
        client.sendall(b"x" * 1000)
        assert other.recv(1000)
        found = {}
        for kind, message in dumper(Path("/proc"))(SOCK_DIAG, REQUEST_TYPE, request(ESTABLISHED)):
            assert kind == REQUEST_TYPE
            ports = struct.unpack_from("!HH", message, 4)
            if ports == (client.getsockname()[1], server.getsockname()[1]):
                found[ports] = parse_flow(message)
        (flow,) = found.values()
        assert flow is not None
        info = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 512)
        assert flow.size == len(info)
        assert 0 < flow.rtt < 10**7
        assert flow.acknowledged >= 1000
        assert flow.segments == 1
        assert flow.cookie == client.getsockopt(socket.SOL_SOCKET, 57, 8)  # SO_COOKIE


def test_dumps_leave_no_descriptor_open() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    collector = NetworkLatencyCollector(HOST)
    for _ in range(3):
        collector.probe()
        list(collector.collect())
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


def test_it_may_be_used_from_any_thread() -> None:
    collector, found = NetworkLatencyCollector(HOST), []
    thread = threading.Thread(target=lambda: found.extend(collector.collect()))
    thread.start()
    thread.join()
    assert found


def test_a_host_whose_network_cannot_be_told_is_not_ours(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        NetworkLatencyCollector(Host(Paths(tmp_path, tmp_path, tmp_path))).probe()


def test_the_builders_agree_with_each_other() -> None:
    assert len(attribute(2, b"abc")) == 8
    assert len(tcp_info(100)) == 100
    assert Devices({}, {}).device(b"", 0) == ""
