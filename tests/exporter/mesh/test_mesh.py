import ipaddress
import os
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_exporter.collectors.network_probe import NetworkProbeCollector
from hwsonde_exporter.errors import Reason, Unavailable
from hwsonde_exporter.exposition import block_of, render
from hwsonde_exporter.host import Host
from hwsonde_exporter.mesh.board import Board
from hwsonde_exporter.mesh.packet import NONCE_BYTES, SIZE, make_answer, make_request, read_answer, read_request
from hwsonde_exporter.mesh.responder import SOURCE_RATE, Bucket, Responder, Sources, answer_from, listen
from hwsonde_exporter.mesh.sender import PORTS, TIMEOUT_SECONDS, Flight, Peer, Sender
from hwsonde_exporter.mesh.service import Mesh, MeshSettings
from hwsonde_exporter.mesh.stamps import ROOM, SO_TIMESTAMPNS, arrival

NONCE = bytes(range(NONCE_BYTES))
SECOND = 1_000_000_000


def table(board: Board) -> dict[tuple[str, ...], float]:
    return {
        (sample.metric.name.removeprefix("hwsonde_network_probe_") + sample.suffix, *sample.labels): sample.value
        for sample in board.samples(listening=True)
    }


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.02)


# ---- packets -------------------------------------------------------------------------------------------------------


def test_an_answer_is_no_longer_than_its_request() -> None:
    assert len(make_request(NONCE)) == len(make_answer(NONCE, 2**64 - 1)) == SIZE


def test_packets_say_what_they_are_given() -> None:
    assert read_request(make_request(NONCE)) == NONCE
    assert read_answer(make_answer(NONCE, 1234)) == (NONCE, 1234)


def test_an_answer_is_no_request_so_that_nobody_answers_for_ever() -> None:
    assert read_request(make_answer(NONCE, 0)) is None
    assert read_answer(make_request(NONCE)) is None


@given(st.binary(max_size=SIZE + 1) | st.binary(min_size=SIZE, max_size=SIZE))
def test_any_bytes_are_survived(data: bytes) -> None:
    assert read_request(data) is None
    assert read_answer(data) is None


@pytest.mark.parametrize("place", range(6))
def test_a_packet_of_another_kind_or_version_is_none(place: int) -> None:
    data = bytearray(make_request(NONCE))
    data[place] ^= 0x40
    assert read_request(bytes(data)) is None


# ---- probes under way ----------------------------------------------------------------------------------------------


@pytest.fixture
def board() -> Board:
    found = Board()
    found.configure(["a", "b"], answering=True)
    return found


def flight(board: Board, *, wall: int = 5000 * SECOND, monotonic: int = 100 * SECOND) -> Flight:
    found = Flight(board)
    found.add(NONCE, "a", monotonic, wall)
    return found


LEAD = 4900 * SECOND


def test_the_time_at_the_peer_is_not_the_networks(board: Board) -> None:
    flight(board).take(make_answer(NONCE, 700_000), 5000 * SECOND + 1_000_000, LEAD)
    assert table(board)["rtt_seconds_count", "a"] == 1
    assert table(board)["rtt_seconds_sum", "a"] == pytest.approx(0.0003)


def test_what_nobody_asked_for_and_what_comes_twice_is_passed_over(board: Board) -> None:
    found = flight(board)
    found.take(make_answer(bytes(NONCE_BYTES), 0), 5000 * SECOND + 1, LEAD)
    found.take(b"garbage", 5000 * SECOND + 1, LEAD)
    for _ in range(2):
        found.take(make_answer(NONCE, 0), 5000 * SECOND + 1, LEAD)
    assert table(board)["rtt_seconds_count", "a"] == 1
    assert len(found) == 0


@pytest.mark.parametrize(
    ("held", "came", "lead"),
    [
        (2_000_000, 1_000_000, LEAD),  # the peer claims more than all
        (2**64 - 1, 1_000_000, LEAD),
        (0, -5, LEAD),  # it came before it went: the clock was set
        (0, 1_000_000, LEAD + 2_000_000),
        (0, 3600 * SECOND, LEAD + 3600 * SECOND),
    ],
)
def test_times_that_cannot_be_are_neither_observed_nor_lost(board: Board, held: int, came: int, lead: int) -> None:
    flight(board).take(make_answer(NONCE, held), 5000 * SECOND + came, lead)
    found = table(board)
    assert (found["rtt_seconds_count", "a"], found["lost_total", "a"]) == (0, 0)


def test_late_is_lost(board: Board) -> None:
    found = flight(board)
    found.expire(100 * SECOND + SECOND // 2)
    assert len(found) == 1
    found.take(make_answer(NONCE, 0), 5001 * SECOND + 1, LEAD)
    assert table(board)["lost_total", "a"] == 1
    found = flight(board)
    found.add(bytes(NONCE_BYTES), "b", 101 * SECOND, 5001 * SECOND)
    found.expire(101 * SECOND + 1)
    assert table(board)["lost_total", "a"] == 2
    assert table(board)["lost_total", "b"] == 0
    found.expire(103 * SECOND)
    assert table(board)["lost_total", "b"] == 1


# ---- bounds --------------------------------------------------------------------------------------------------------


def test_a_bucket_gives_its_rate() -> None:
    bucket = Bucket(10.0, 20.0, 0.0)
    assert sum(bucket.take(0.0) for _ in range(100)) == 20
    assert sum(bucket.take(0.5) for _ in range(100)) == 5
    assert sum(bucket.take(1000.0) for _ in range(100)) == 20


def test_each_source_has_its_rate_and_there_are_not_too_many() -> None:
    sources = Sources(5.0, 3)
    assert sum(sources.take("a", 0.0) for _ in range(50)) == 5
    assert sources.take("b", 0.0)
    for number in range(1000):
        sources.take(str(number), 0.0)
    assert len(sources._buckets) == 3


def test_an_answer_goes_out_from_the_address_that_was_asked() -> None:
    asked = ipaddress.ip_address("10.0.0.5").packed
    control = [(socket.SOL_SOCKET, SO_TIMESTAMPNS, bytes(16)), (0, 8, struct.pack("=I4s4s", 7, asked, b"abcd"))]
    assert answer_from(control) == [(0, 8, bytes(4) + asked + bytes(4))]
    link_local, routed = ipaddress.ip_address("fe80::5").packed, ipaddress.ip_address("fd00::5").packed
    device = struct.pack("=I", 7)
    for address, expected in ((link_local, device), (routed, bytes(4))):
        assert answer_from([(41, 50, address + device)]) == [(41, 50, address + expected)]
    assert answer_from([(41, 50, b"short"), (0, 8, b"short")]) == []
    assert arrival([(socket.SOL_SOCKET, SO_TIMESTAMPNS, b"short")]) is None


# ---- on real sockets -----------------------------------------------------------------------------------------------


@contextmanager
def responder(board: Board, host: str = "127.0.0.1") -> Iterator[Responder]:
    found = Responder((host, 0), board)
    found.start()
    assert found.bound.wait(60)
    yield found
    found.stop()


@contextmanager
def stamping() -> Iterator[None]:
    """Wait until the kernel stamps packets as they come: it begins a while after the first socket on the machine asked for that."""
    with listen(("127.0.0.1", 0)) as channel:

        def stamps() -> bool:
            channel.sendto(b"?", channel.getsockname())
            time.sleep(0.05)
            came = arrival(channel.recvmsg(1, ROOM)[1])
            return came is not None and time.time_ns() - came >= 0.04 * SECOND

        wait_for(stamps)
        yield


@pytest.mark.parametrize(
    ("listening", "asked"), [("127.0.0.1", "127.0.0.1"), ("", "127.0.0.1"), ("", "127.0.0.9"), ("", "::1")]
)
def test_answers_come_from_where_they_were_asked(board: Board, listening: str, asked: str) -> None:
    family = socket.AF_INET6 if ":" in asked else socket.AF_INET
    with responder(board, listening) as found, socket.socket(family, socket.SOCK_DGRAM) as channel:
        channel.settimeout(60)
        channel.sendto(make_request(NONCE), (asked, found.port))
        data, source = channel.recvfrom(1000)
        answer = read_answer(data)
        assert answer is not None
        assert answer[0] == NONCE
        assert 0 < answer[1] < SECOND
        assert source[:2] == (asked, found.port)
        wait_for(lambda: table(board)["answered_total",] == 1)


def test_garbage_gets_no_answer(board: Board) -> None:
    with responder(board) as found, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
        for data in (b"", b"x" * SIZE, make_answer(NONCE, 0), make_request(NONCE) + b"x", make_request(NONCE)[:-1]):
            channel.sendto(data, ("127.0.0.1", found.port))
        wait_for(lambda: table(board)["refused_total", "malformed"] == 5)
        channel.settimeout(0.05)
        with pytest.raises(TimeoutError):
            channel.recv(1000)
    assert table(board)["answered_total",] == 0


def test_a_flood_is_answered_at_the_rate_of_one_source(board: Board) -> None:
    began = time.monotonic()
    with responder(board) as found, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as channel:
        for _ in range(200):
            channel.sendto(make_request(os.urandom(NONCE_BYTES)), ("127.0.0.1", found.port))
        wait_for(lambda: table(board)["answered_total",] + table(board)["refused_total", "rate"] == 200)
        most = SOURCE_RATE + SOURCE_RATE * (time.monotonic() - began)
    assert SOURCE_RATE <= table(board)["answered_total",] <= most


def test_an_address_that_is_taken_is_tried_again(board: Board) -> None:
    with listen(("127.0.0.1", 0)) as taken:
        found = Responder(("127.0.0.1", taken.getsockname()[1]), board)
        found.start()
        assert not found.bound.wait(0.2)
    assert found.bound.wait(60)
    found.stop()


def test_peers_are_timed_and_those_that_are_silent_lose(board: Board) -> None:
    with stamping(), responder(board) as found, listen(("127.0.0.1", 0)) as silent:
        peers = [Peer("a", "127.0.0.1", found.port), Peer("b", "127.0.0.1", silent.getsockname()[1])]
        sender = Sender(peers, 0.1, board)
        sender.start()
        wait_for(lambda: table(board)["lost_total", "b"] >= 2 and table(board)["rtt_seconds_count", "a"] >= 5)
        sender.stop()
    values = table(board)
    assert values["rtt_seconds_count", "b"] == 0
    assert values["lost_total", "a"] < values["lost_total", "b"]
    assert values["sent_total", "a"] >= values["rtt_seconds_count", "a"]
    # Neither the time until the thread looks nor that until the peer does is in it.
    assert values["rtt_seconds_sum", "a"] / values["rtt_seconds_count", "a"] < TIMEOUT_SECONDS / 4


def test_an_answer_waits_in_the_socket_and_is_timed_right(board: Board) -> None:
    """The thread looks every so often; the time is that at which the kernel got the packet."""
    with stamping(), responder(board) as found:
        sender = Sender([Peer("a", "127.0.0.1", found.port)], 1.0, board)
        sender._resolve(sender._peers[0], 0)
        began = time.monotonic()
        sender._send(sender._peers[0], 0)
        assert select.select(list(sender._channels.values()), [], [], 60)[0]
        came = time.monotonic() - began
        time.sleep(0.3)
        sender._receive()
        for channel in sender._channels.values():
            channel.close()
    assert table(board)["rtt_seconds_count", "a"] == 1
    assert 0 < table(board)["rtt_seconds_sum", "a"] <= came + 1e-3


def test_a_peer_that_has_no_address_is_an_error(board: Board) -> None:
    sender = Sender([Peer("a", "no.such.host.invalid", 9881)], 0.1, board)
    sender.start()
    wait_for(lambda: table(board)["send_errors_total", "a"] >= 2)
    sender.stop()
    assert table(board)["sent_total", "a"] == 0


def test_each_peer_is_reached_from_several_ports(board: Board) -> None:
    with listen(("127.0.0.1", 0)) as channel:
        port = channel.getsockname()[1]
        sender = Sender([Peer("a", "127.0.0.1", port), Peer("b", "127.0.0.1", port)], 1.0, board)
        turns = sender._turns()
        for peer in sender._peers:
            sender._resolve(peer, 0)
        for _ in range(4 * PORTS):
            sender._send(*next(turns))
        ports = [channel.recvfrom(100)[1][1] for _ in range(4 * PORTS)]
        for found in sender._channels.values():
            found.close()
    assert ports[0::2] == ports[1::2]
    assert len(set(ports[0::2])) == PORTS


def test_many_peers_do_not_pass_the_rate() -> None:
    assert Sender([Peer(str(n), "127.0.0.1", 9) for n in range(200)], 0.1, Board())._interval == pytest.approx(0.4)


def test_two_hosts_probe_each_other() -> None:
    first, second = Mesh(), Mesh()
    first.configure(MeshSettings((), ("127.0.0.1", 0), 0.1))
    wait_for(lambda: first.port is not None)
    second.configure(MeshSettings((Peer("first", "127.0.0.1", first.port or 0),), ("127.0.0.1", 0), 0.1))
    host = Host(mesh=second.samples)
    collector = NetworkProbeCollector(host)
    collector.probe()
    wait_for(lambda: b'rtt_seconds_count{peer="first"} 3' in render([block_of(list(collector.collect()))]))
    wait_for(lambda: b"hwsonde_network_probe_listening 1" in render([block_of(list(collector.collect()))]))
    text = render([block_of(list(collector.collect()))]).decode()
    assert "127.0.0.1" not in text
    # Another interval, the same peer: what was counted stays.
    second.configure(MeshSettings((Peer("first", "127.0.0.1", first.port or 0),), None, 5.0))
    text = render([block_of(list(collector.collect()))]).decode()
    assert 'rtt_seconds_count{peer="first"} 0' not in text
    assert "listening" not in text
    for mesh in (first, second):
        mesh.stop()
    with pytest.raises(Unavailable):
        collector.probe()
    wait_for(lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("mesh-")])


def test_without_anything_to_do_it_says_so() -> None:
    for host in (Host(), Host(mesh=Mesh().samples)):
        with pytest.raises(Unavailable) as caught:
            NetworkProbeCollector(host).probe()
        assert caught.value.reason is Reason.DISABLED
        assert list(NetworkProbeCollector(host).collect()) == []
