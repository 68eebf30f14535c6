"""Latency of the host's TCP connections: round-trip time, retransmits and delivery rate by device and group of peers."""

from __future__ import annotations

import errno
import time
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import ClassVar

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._addresses import Devices, Groups, read_devices
from hwsonde_exporter.collectors._files import read_net
from hwsonde_exporter.collectors._flow_ledger import Account, Ledger
from hwsonde_exporter.collectors._inet_diag import (
    ESTABLISHED,
    LISTEN,
    REQUEST_TYPE,
    SIZE_OF,
    Flow,
    parse_flow,
    request,
    split_place,
)
from hwsonde_exporter.collectors._netlink import SOCK_DIAG, Dump, dumper
from hwsonde_exporter.errors import ReadError, Reason, Unavailable
from hwsonde_exporter.histogram import ROUND_TRIP_SECONDS, CumulativeMoments, deviation_metric
from hwsonde_exporter.host import Host, RemoteGroup
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import register

# What one look may cost: connections that are read, and seconds. It takes 0.3 ms, and 4 us a connection: 20 ms of CPU time
# for as many as these. The kernel goes through its table in the order of a hash of addresses and ports, so those that are read
# where there are more are a fair sample, and much the same from one look to the next.
MAX_FLOWS = 5000
_MAX_SECONDS = 0.25
# Beyond so many pairs of device and group, further groups share one row for each device.
MAX_PAIRS = 64
OTHER = "other"
# A pair without connections is forgotten after an hour of looks.
_MAX_IDLE_LOOKS = 720
_DEVICES_AGE = 12  # looks after which the devices and addresses are asked for again
_RECENT_MILLISECONDS = 5000
_MOST_RTT, _MOST_RATE = 60_000_000, 10**12  # microseconds; bytes per second
_MAX_PLACES = 1 << 15

_LABELS = ("device", "remote")
_INFO = "NETLINK_SOCK_DIAG, INET_DIAG_INFO of established sockets: tcp_info"
_counter = partial(Metric, kind=Kind.COUNTER, subsystem="network", labels=_LABELS)
_gauge = partial(Metric, kind=Kind.GAUGE, subsystem="network", labels=_LABELS)

RTT = Metric(
    "hwsonde_network_tcp_rtt_seconds",
    Kind.HISTOGRAM,
    "Smoothed round-trip time of TCP connections, observed every 5 s for each whose peer has acknowledged data since; the "
    "wait of a peer that delays its acknowledgements is in it.",
    _LABELS,
    "seconds",
    "network",
    f"{_INFO}.tcpi_rtt",
    ROUND_TRIP_SECONDS,
)
RTT_REFERENCE = 0.0005
RTT_DEVIATION = deviation_metric(RTT, RTT_REFERENCE)
LEAST_RTT = _gauge(
    name="hwsonde_network_tcp_minimum_rtt_seconds",
    help="Shortest round-trip time that a present TCP connection has seen in the kernel's window, usually five minutes.",
    unit="seconds",
    source=f"{_INFO}.tcpi_min_rtt",
)
RATE = Metric(
    "hwsonde_network_tcp_delivery_rate_bytes_per_second",
    Kind.SUMMARY,
    "Rate at which peers got data, as TCP measured it, observed every 5 s for each connection that was busy since and sent "
    "all that the network took.",
    _LABELS,
    "bytes_per_second",
    "network",
    f"{_INFO}.tcpi_delivery_rate unless tcpi_delivery_rate_app_limited",
)
RATE_REFERENCE = 1e8
RATE_DEVIATION = deviation_metric(RATE, RATE_REFERENCE)
SEGMENTS = _counter(
    name="hwsonde_network_tcp_flow_segments_total",
    help="Data segments sent by connections that were seen established, those sent again too.",
    source=f"{_INFO}.tcpi_data_segs_out",
)
RETRANSMITS = _counter(
    name="hwsonde_network_tcp_flow_retransmits_total",
    help="Segments that connections seen established sent again: lost, or spurious because the peer had got them.",
    labels=(*_LABELS, "kind"),
    source=f"{_INFO}.tcpi_total_retrans less tcpi_dsack_dups, tcpi_dsack_dups",
)
FLOWS = _gauge(
    name="hwsonde_network_tcp_flows",
    help="TCP connections established with other hosts, of those that were read.",
    source="NETLINK_SOCK_DIAG",
)
STALLED = _gauge(
    name="hwsonde_network_tcp_stalled_flows",
    help="TCP connections whose peer has not answered a segment that was sent again after a time-out.",
    source=f"{_INFO}.tcpi_retransmits",
)
LEFT_OUT = Metric(
    "hwsonde_network_tcp_flows_left_out",
    Kind.GAUGE,
    "TCP connections that were read and are not in the other metrics: between addresses of this host, or of a device that is "
    "left out. Those of the loopback addresses are not even read.",
    ("reason",),
    subsystem="network",
    source="NETLINK_SOCK_DIAG",
)
COVERAGE = Metric(
    "hwsonde_network_tcp_flow_coverage_ratio",
    Kind.GAUGE,
    "Share of the established TCP connections that were read; below 1 where more than 5000 leave the host, and then counted "
    "against all, those within the host too.",
    (),
    "ratio",
    "network",
    "NETLINK_SOCK_DIAG and /proc/1/net/snmp Tcp: CurrEstab",
)


class _Pair:
    """Everything that is published of one device and one group."""

    def __init__(self, labels: tuple[str, str]) -> None:
        self.labels = labels
        self.account = Account()
        self.rtt = CumulativeMoments(RTT, RTT_DEVIATION, RTT_REFERENCE, labels)
        self.rate = CumulativeMoments(RATE, RATE_DEVIATION, RATE_REFERENCE, labels)

    def observe(self, flow: Flow) -> None:
        if 0 < flow.rtt <= _MOST_RTT:
            self.rtt.observe(flow.rtt / 1e6)
        if not flow.limited and 0 < flow.rate <= _MOST_RATE:
            self.rate.observe(float(flow.rate))

    def samples(self, size: int) -> list[Sample]:
        """All samples, where struct tcp_info has ``size`` bytes."""
        account, labels = self.account, self.labels
        samples = [Sample(FLOWS, labels, account.flows), Sample(STALLED, labels, account.stalled)]
        samples += self.rtt.samples()
        if account.least_rtt:
            samples.append(Sample(LEAST_RTT, labels, account.least_rtt / 1e6))
        if size >= SIZE_OF["delivery_rate"]:
            samples += self.rate.samples()
        if size >= SIZE_OF["data_segs_out"]:
            samples.append(Sample(SEGMENTS, labels, account.segments))
        samples.append(Sample(RETRANSMITS, (*labels, "lost"), account.lost))
        if size >= SIZE_OF["dsack_dups"]:
            samples.append(Sample(RETRANSMITS, (*labels, "spurious"), account.spurious))
        return samples


@register
class NetworkLatencyCollector:
    """Round-trip time, retransmits and delivery rate of established TCP connections, never by connection or address.

    Each look reads every established connection once. A round-trip time is observed only where the peer has acknowledged
    data since the look before, or a connection that says nothing would repeat an old one for ever. Connections within the
    host are left out: they measure its scheduler, and would outnumber the others. Connections that open and close between
    two looks are not seen; what they sent again is in the counters of the collector ``tcp``. Containers with a network of
    their own have their own connections, which are not the host's.
    """

    name: ClassVar[str] = "network_latency"
    help: ClassVar[str] = "Round-trip time, retransmits and delivery rate of TCP connections"
    metrics: ClassVar[tuple[Metric, ...]] = (
        RTT, RTT_DEVIATION, LEAST_RTT, RATE, RATE_DEVIATION, SEGMENTS, RETRANSMITS, FLOWS, STALLED, LEFT_OUT, COVERAGE,
    )  # fmt: skip
    period: ClassVar[float | None] = 5.0
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host, *, dump: Dump | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.host = host
        self._dump = dump or dumper(host.paths.procfs)
        self._clock = clock
        self._named: tuple[RemoteGroup, ...] = ()
        self._groups = Groups()
        self._devices: Devices | None = None
        self._age = 0
        self._ledger = Ledger()
        self._pairs: dict[tuple[str, str], _Pair] = {}
        # What a connection counts for, by its addresses: a pair, or the reason for which it is left out.
        self._places: dict[tuple[bytes, int], _Pair | str] = {}
        self._size = 0

    def probe(self) -> None:
        """Raise `Unavailable` where the kernel does not tell of sockets, or the host's network cannot be reached."""
        try:
            # Listening sockets are few, and enough to see whether the kernel answers.
            for _ in self._dump(SOCK_DIAG, REQUEST_TYPE, request(LISTEN)):
                break
        except (OSError, ReadError) as error:
            raise _unavailable(error) from error

    def collect(self) -> Iterable[Sample]:
        """Look at all established connections, or as many as the time allows."""
        try:
            left_out, read, complete = self._look(self._refresh())
        except OSError as error:
            raise ReadError(f"netlink: sockets cannot be listed: {error.strerror or error}") from error
        self._forget()
        samples: list[Sample] = []
        for _, pair in sorted(self._pairs.items()):
            samples += pair.samples(self._size)
        samples += [Sample(LEFT_OUT, (reason,), left_out[reason]) for reason in ("own_address", "ignored_device")]
        share = self._share(read, complete=complete)
        if share is not None:
            samples.append(Sample(COVERAGE, (), share))
        return samples

    def _forget(self) -> None:
        idle = [key for key, pair in self._pairs.items() if pair.account.idle_looks > _MAX_IDLE_LOOKS]
        for key in idle:
            del self._pairs[key]
        if idle:
            self._places.clear()  # they lead to the pairs

    def _refresh(self) -> Devices:
        """Ask for devices and addresses now and then: the addresses of a host hardly ever change."""
        named = self.host.remote_groups()
        if named != self._named:
            self._named, self._groups = named, Groups(named)
            self._places.clear()
        self._age += 1
        devices = self._devices
        if devices is None or self._age > _DEVICES_AGE:
            devices = read_devices(self._dump)
            self._age = 0
            if devices != self._devices:
                self._devices = devices
                self._places.clear()
        return devices

    def _look(self, devices: Devices) -> tuple[Counter[str], int, bool]:
        """Take every connection; gives those left out by reason, the number read, and whether that was all."""
        left_out: Counter[str] = Counter()
        deadline = self._clock() + _MAX_SECONDS
        for pair in self._pairs.values():
            pair.account.begin()
        ledger, places = self._ledger, self._places
        ledger.begin()
        read, complete = 0, True
        for _, message in self._dump(SOCK_DIAG, REQUEST_TYPE, request(ESTABLISHED, with_loopback=False)):
            if read >= MAX_FLOWS or (read & 63 == 63 and self._clock() >= deadline):
                complete = False
                break
            read += 1
            flow = parse_flow(message)
            if flow is None:
                continue
            self._size = flow.size
            key = (flow.place, flow.family)
            found = places.get(key) or self._find(key, devices)
            if isinstance(found, str):
                left_out[found] += 1
                continue
            new, active = ledger.update(flow, found.account)
            # At the first look nobody knows how old a time is; data that was sent a moment ago has been answered since.
            if active or (new and flow.idle <= _RECENT_MILLISECONDS):
                found.observe(flow)
        ledger.end(all_seen=complete)
        return left_out, read, complete

    def _find(self, key: tuple[bytes, int], devices: Devices) -> _Pair | str:
        source, destination, bound = split_place(*key)
        if len(self._places) >= _MAX_PLACES:
            self._places.clear()
        found: _Pair | str
        device = devices.device(source, bound)
        if devices.is_loopback(source, destination):
            found = "own_address"
        elif device and self.host.ignored.devices.fullmatch(device):
            found = "ignored_device"
        else:
            found = self._pair(device or "unknown", self._groups.name(destination))
        self._places[key] = found
        return found

    def _pair(self, device: str, group: str) -> _Pair:
        key = (device, group)
        if key not in self._pairs and len(self._pairs) >= MAX_PAIRS:
            key = (device, OTHER)
        pair = self._pairs.get(key)
        if pair is None:
            pair = self._pairs[key] = _Pair(key)
        return pair

    def _share(self, read: int, *, complete: bool) -> float | None:
        if complete:
            return 1.0
        try:
            total = parsing.header_tables(read_net(self.host, "snmp")).get(b"Tcp", {}).get(b"CurrEstab")
        except ReadError:
            return None
        return min(1.0, read / total) if total else None


def _unavailable(error: OSError | ReadError) -> Unavailable:
    number = error.errno if isinstance(error, OSError) else None
    if number in {errno.EPERM, errno.EACCES}:
        return Unavailable(
            Reason.NO_PERMISSION,
            "netlink sockets may not be opened; allow AF_NETLINK (RestrictAddressFamilies, seccomp)",
        )
    if number in {errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT, errno.ENOENT}:
        return Unavailable(
            Reason.NO_KERNEL_SUPPORT,
            "the kernel does not tell of sockets; load the modules inet_diag and tcp_diag, and allow AF_NETLINK in the unit",
        )
    return Unavailable(Reason.NO_KERNEL_SUPPORT, f"the kernel does not tell of sockets: {error}")
