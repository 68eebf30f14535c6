"""Latency between two network namespaces, joined by a cable: the real kernel, the real programs."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest

from hwsonde_exporter.collectors._netns import host_socket
from hwsonde_exporter.collectors.network_latency import NetworkLatencyCollector
from hwsonde_exporter.host import Host, Ignored, Paths
from tests.exporter.collectors.looking import table

if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("tc") is None:
    pytest.skip("only root may make network namespaces, with the programs ip and tc", allow_module_level=True)

PORT = 9881


def run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True, timeout=20)


@dataclass
class End:
    """A namespace with one device, eth0; ``procfs`` is a /proc whose process 1 is in it."""

    name: str
    address: str
    procfs: Path

    def socket(self, kind: int) -> socket.socket:
        return host_socket(self.procfs, socket.AF_INET, kind)

    def tc(self, *words: str) -> None:
        run("tc", "-n", self.name, "qdisc", "replace", "dev", "eth0", "root", *words)


@pytest.fixture
def ends(tmp_path: Path) -> Iterator[tuple[End, End]]:
    made, holders = [], []
    try:
        for place in (1, 2):
            end = End(f"hwsonde-{os.getpid()}-{place}", f"10.77.0.{place}", tmp_path / f"proc{place}")
            try:
                run("ip", "netns", "add", end.name)
            except subprocess.CalledProcessError as error:
                pytest.skip(f"network namespaces cannot be made here: {error.stderr.decode().strip()}")
            made.append(end)
            holder = subprocess.Popen(["ip", "netns", "exec", end.name, "sleep", "120"])
            holders.append(holder)
            end.procfs.mkdir()
            (end.procfs / "1").symlink_to(f"/proc/{holder.pid}")
        first, second = made
        try:
            run(
                "ip",
                "-n",
                first.name,
                "link",
                "add",
                "eth0",
                "type",
                "veth",
                "peer",
                "name",
                "eth0",
                "netns",
                second.name,
            )
        except subprocess.CalledProcessError as error:
            pytest.skip(f"no pair of devices between namespaces here, as in a chroot: {error.stderr.decode().strip()}")
        for end in made:
            run("ip", "-n", end.name, "address", "add", f"{end.address}/24", "dev", "eth0")
            run("ip", "-n", end.name, "link", "set", "lo", "up")
            run("ip", "-n", end.name, "link", "set", "eth0", "up")
        # The holders enter their namespaces a moment after they were started.
        ours = Path("/proc/self/net/dev").stat().st_ino
        wait_for(lambda: all((end.procfs / "1/net/dev").stat().st_ino != ours for end in made))
        yield first, second
    finally:
        for holder in holders:
            holder.kill()
            holder.wait()
        for end in made:
            run("ip", "netns", "delete", end.name)


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.05)


def collector(end: End) -> NetworkLatencyCollector:
    return NetworkLatencyCollector(Host(Paths(end.procfs, Path("/sys"), Path("/")), ignored=Ignored()))


def connected(first: End, second: End) -> tuple[socket.socket, socket.socket]:
    with second.socket(socket.SOCK_STREAM) as server:
        server.bind((second.address, 0))
        server.listen()
        client = first.socket(socket.SOCK_STREAM)
        client.connect(server.getsockname())
        return client, server.accept()[0]


def pour(client: socket.socket, other: socket.socket, seconds: float) -> None:
    """Send as much as goes through."""
    client.setblocking(False)
    other.setblocking(False)
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for move in (lambda: client.send(bytes(1 << 16)), lambda: other.recv(1 << 20)):
            try:
                move()
            except BlockingIOError:
                time.sleep(0.001)


KEY = ("eth0", "private")


def test_a_slow_cable_shows_in_round_trip_time_losses_and_rate(ends: tuple[End, End]) -> None:
    first, second = ends
    watched = collector(first)
    watched.probe()
    assert table(list(watched.collect())) == {
        ("flows_left_out", "own_address"): 0,
        ("flows_left_out", "ignored_device"): 0,
        ("flow_coverage_ratio",): 1.0,
    }
    client, other = connected(first, second)
    with client, other:
        pour(client, other, 0.3)
        fast = table(list(watched.collect()))
        # A buffer of 20 ms at 40 Mbit/s, which TCP fills until it drops.
        first.tc("tbf", "rate", "40mbit", "burst", "16kb", "latency", "20ms")
        looks = [fast]

        def suffers() -> bool:
            pour(client, other, 0.3)
            looks.append(table(list(watched.collect())))
            slowest = max(
                after["rtt_seconds_sum", *KEY] - before["rtt_seconds_sum", *KEY] for before, after in pairwise(looks)
            )
            return (
                slowest > fast["rtt_seconds_sum", *KEY] + 0.003
                and looks[-1]["flow_retransmits_total", *KEY, "lost"] > 0
            )

        wait_for(suffers)
    assert fast["flows", *KEY] == 1
    assert fast["rtt_seconds_count", *KEY] == 1
    assert looks[-1]["rtt_seconds_count", *KEY] == len(looks)
    assert looks[-1]["flow_segments_total", *KEY] > fast["flow_segments_total", *KEY]


def test_a_peer_that_falls_silent_is_a_stalled_connection(ends: tuple[End, End]) -> None:
    first, second = ends
    client, other = connected(first, second)
    with client, other:
        run("ip", "-n", second.name, "link", "set", "eth0", "down")
        client.sendall(b"is anybody there")
        watched = collector(first)
        wait_for(lambda: table(list(watched.collect())).get(("stalled_flows", *KEY)) == 1)


@dataclass
class Exporter:
    """The real exporter in a namespace."""

    end: End
    process: subprocess.Popen[bytes]

    def scrape(self) -> str:
        try:
            with self.end.socket(socket.SOCK_STREAM) as channel:
                channel.settimeout(60)
                channel.connect(("127.0.0.1", 9880))
                channel.sendall(b"GET /metrics HTTP/1.0\r\nHost: x\r\n\r\n")
                return b"".join(iter(lambda: channel.recv(1 << 16), b"")).decode()
        except OSError:
            return ""

    def value(self, series: str) -> float:
        found = re.search(rf"^hwsonde_network_probe_{re.escape(series)} (\S+)$", self.scrape(), re.MULTILINE)
        return float(found.group(1)) if found else -1.0


@pytest.fixture
def exporters(ends: tuple[End, End]) -> Iterator[tuple[Exporter, Exporter]]:
    first, second = ends
    started = []
    try:
        for end, more in (
            (first, [f"--collector.network_probe.listen-address={first.address}:{PORT}"]),
            (
                second,
                [
                    f"--collector.network_probe.peers=first={first.address}:{PORT}",
                    "--collector.network_probe.interval=0.1",
                ],
            ),
        ):
            flags = ["--collector.disable-defaults", "--collector.network_probe", "--web.listen-address=127.0.0.1:9880"]
            command = ["ip", "netns", "exec", end.name, sys.executable, "-m", "hwsonde_exporter", *flags, *more]
            started.append(Exporter(end, subprocess.Popen(command, stderr=subprocess.DEVNULL)))
        yield started[0], started[1]
    finally:
        for exporter in started:
            exporter.process.terminate()
            exporter.process.wait(60)


def test_two_exporters_time_the_cable_between_them(exporters: tuple[Exporter, Exporter]) -> None:
    answering, asking = exporters
    wait_for(lambda: asking.value('rtt_seconds_count{peer="first"}') >= 10)
    wait_for(lambda: answering.value("listening") == 1 and answering.value("answered_total") >= 10)
    count, total = (asking.value(f'rtt_seconds_{part}{{peer="first"}}') for part in ("count", "sum"))
    text = asking.scrape()
    assert "10.77.0" not in text
    # A cable that carries 8 kB a second, of which others want more than there is: each packet waits its turn.
    asking.end.tc("tbf", "rate", "64kbit", "burst", "1600", "latency", "400ms")
    with asking.end.socket(socket.SOCK_DGRAM) as others:

        def waits() -> bool:
            for _ in range(10):
                others.sendto(bytes(200), (answering.end.address, 9))
            more, longer = (
                asking.value(f'rtt_seconds_{part}{{peer="first"}}') - before
                for part, before in (("count", count), ("sum", total))
            )
            return more >= 5 and longer > 0.1 and longer / more > 2 * total / count

        wait_for(waits)
    # And one that carries nothing.
    lost = asking.value('lost_total{peer="first"}')
    run("ip", "-n", answering.end.name, "link", "set", "eth0", "down")
    wait_for(
        lambda: asking.value('lost_total{peer="first"}') + asking.value('send_errors_total{peer="first"}') >= lost + 5
    )
