"""Network devices: traffic, errors, link state; and the softirq that serves them."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import ClassVar

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._counters import SteadySum
from hwsonde_exporter.collectors._files import Beginning, link_name, read_net, sys_number, sys_text
from hwsonde_exporter.errors import ReadError
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import Quantity, register

_DIRECTION = ("device", "direction")
_DEV = "/proc/1/net/dev"
_counter = partial(Metric, kind=Kind.COUNTER, subsystem="network")
_gauge = partial(Metric, kind=Kind.GAUGE, subsystem="network", labels=("device",))
_summary = partial(Metric, kind=Kind.SUMMARY, subsystem="network", labels=_DIRECTION, source=_DEV, unit="per_second")

BYTES = _counter(
    name="hwsonde_network_bytes_total",
    help="Bytes received and transmitted.",
    labels=_DIRECTION,
    unit="bytes",
    source=f"{_DEV} bytes",
)
PACKETS = _counter(
    name="hwsonde_network_packets_total",
    help="Packets received and transmitted.",
    labels=_DIRECTION,
    source=f"{_DEV} packets",
)
ERRORS = _counter(
    name="hwsonde_network_errors_total",
    help="Receive and transmit errors.",
    labels=_DIRECTION,
    source=f"{_DEV} errs",
)
DROPPED = _counter(
    name="hwsonde_network_dropped_packets_total",
    help="Packets dropped on receive and transmit.",
    labels=_DIRECTION,
    source=f"{_DEV} drop; on receive it holds those missed",
)
OVERRUNS = _counter(
    name="hwsonde_network_fifo_errors_total",
    help="Times a queue of the device overran on receive or ran empty on transmit.",
    labels=_DIRECTION,
    source=f"{_DEV} fifo",
)
FRAME_ERRORS = _counter(
    name="hwsonde_network_frame_errors_total",
    help="Frames received damaged: wrong length, checksum or alignment.",
    labels=("device",),
    source=f"{_DEV} frame",
)
CARRIER_ERRORS = _counter(
    name="hwsonde_network_carrier_errors_total",
    help="Frames not sent for want of a carrier, or aborted.",
    labels=("device",),
    source=f"{_DEV} carrier",
)
MULTICAST = _counter(
    name="hwsonde_network_multicast_packets_total",
    help="Multicast packets received.",
    labels=("device",),
    source=f"{_DEV} multicast",
)
MISSED = _counter(
    name="hwsonde_network_missed_packets_total",
    help="Packets the device had no host buffer for.",
    labels=("device",),
    source="/sys/class/net/DEV/statistics/rx_missed_errors",
)
UP = _gauge(
    name="hwsonde_network_up",
    help="Whether a network device is up (1) or not (0).",
    source="/sys/class/net/DEV/operstate; unknown counts as up where the carrier is there",
)
CARRIER_CHANGES = _counter(
    name="hwsonde_network_carrier_changes_total",
    help="Times the link went up or down.",
    labels=("device",),
    source="/sys/class/net/DEV/carrier_changes",
)
_SOFTNET = "/proc/1/net/softnet_stat"
SOFTNET_PACKETS = _counter(
    name="hwsonde_network_softnet_packets_total",
    help="Packets the network softirq handled.",
    source=f"{_SOFTNET} column 1, summed over CPUs",
)
SOFTNET_DROPPED = _counter(
    name="hwsonde_network_softnet_dropped_packets_total",
    help="Packets dropped because the backlog queue was full.",
    source=f"{_SOFTNET} column 2, summed over CPUs",
)
SOFTNET_SQUEEZES = _counter(
    name="hwsonde_network_softnet_squeezes_total",
    help="Times the network softirq ran out of budget or time with work left.",
    source=f"{_SOFTNET} column 3, summed over CPUs",
)
SOFTNET_STEERING = _counter(
    name="hwsonde_network_softnet_steering_interrupts_total",
    help="Interrupts by which one CPU asked another to handle packets (receive packet steering).",
    source=f"{_SOFTNET} column 10, summed over CPUs",
)
SOFTNET_FLOW_LIMITED = _counter(
    name="hwsonde_network_softnet_flow_limited_packets_total",
    help="Packets dropped because their flow had more than its share of a CPU's backlog queue.",
    source=f"{_SOFTNET} column 11, summed over CPUs",
)
SOFTNET_BACKLOG = _gauge(
    name="hwsonde_network_softnet_backlog_packets",
    help="Packets that wait in the backlog queues of all CPUs.",
    labels=(),
    source=f"{_SOFTNET} column 12, summed over CPUs; Linux 5.10 or later",
)
BYTES_SAMPLED = Quantity(
    _summary(
        name="hwsonde_network_throughput_sampled_bytes_per_second",
        help="Bytes a second received and transmitted; only devices that have carried traffic.",
        unit="bytes_per_second",
    ),
    reference=0.0,
    cumulative=True,
)
PACKETS_SAMPLED = Quantity(
    _summary(
        name="hwsonde_network_packets_sampled_per_second",
        help="Packets a second received and transmitted; only devices that have carried traffic.",
    ),
    reference=0.0,
    cumulative=True,
)

# Three columns have always been there; each is 32 bits wide.
_SOFTNET_LINE = re.compile(rb"[0-9a-fA-F]{1,8}(?: [0-9a-fA-F]{1,8}){2,63}")
_SOFTNET_BITS = 32
_SOFTNET_COUNTERS = (
    (0, SOFTNET_PACKETS),
    (1, SOFTNET_DROPPED),
    (2, SOFTNET_SQUEEZES),
    (9, SOFTNET_STEERING),
    (10, SOFTNET_FLOW_LIMITED),
)

_FAST_COLUMNS = (
    (BYTES_SAMPLED, 0, "received"),
    (BYTES_SAMPLED, 8, "transmitted"),
    (PACKETS_SAMPLED, 1, "received"),
    (PACKETS_SAMPLED, 9, "transmitted"),
)

# Columns of net/dev behind the colon.
_COLUMNS: tuple[tuple[int, Metric, tuple[str, ...]], ...] = (
    (0, BYTES, ("received",)),
    (1, PACKETS, ("received",)),
    (2, ERRORS, ("received",)),
    (3, DROPPED, ("received",)),
    (4, OVERRUNS, ("received",)),
    (5, FRAME_ERRORS, ()),
    (7, MULTICAST, ()),
    (8, BYTES, ("transmitted",)),
    (9, PACKETS, ("transmitted",)),
    (10, ERRORS, ("transmitted",)),
    (11, DROPPED, ("transmitted",)),
    (12, OVERRUNS, ("transmitted",)),
    (14, CARRIER_ERRORS, ()),
)


def parse_net_dev(data: bytes) -> dict[bytes, list[bytes]]:
    """Parse net/dev: device -> its columns as tokens; the two lines of headings hold no colon and fall out."""
    devices: dict[bytes, list[bytes]] = {}
    for line in parsing.lines(data):
        # The name may itself hold a colon (an alias), the columns may not.
        name, colon, rest = line.rpartition(b":")
        if colon and (name := name.strip()):
            devices.setdefault(name, rest.split())
    return devices


def parse_softnet(data: bytes) -> dict[int, list[int]]:
    """Parse net/softnet_stat, hexadecimal, one line a CPU that is online: its columns by the number of the CPU.

    Before Linux 5.10 there is no such number (column 13); then the lines are numbered from -1 downwards, since those of CPUs
    that are offline are missing. Lines that are not understood are left out.
    """
    rows: dict[int, list[int]] = {}
    for place, line in enumerate(parsing.lines(data)):
        if _SOFTNET_LINE.fullmatch(line) is None:
            continue
        columns = [int(token, 16) for token in line.split()]
        rows.setdefault(columns[12] if len(columns) > 12 else -1 - place, columns)
    return rows


@register
class NetworkCollector:
    """Traffic, errors and link state of network devices."""

    name: ClassVar[str] = "network"
    help: ClassVar[str] = "Network devices: traffic, errors, link state, softirq"
    metrics: ClassVar[tuple[Metric, ...]] = (
        BYTES, PACKETS, ERRORS, DROPPED, OVERRUNS, FRAME_ERRORS, CARRIER_ERRORS, MULTICAST, MISSED, UP, CARRIER_CHANGES,
        SOFTNET_PACKETS, SOFTNET_DROPPED, SOFTNET_SQUEEZES, SOFTNET_STEERING, SOFTNET_FLOW_LIMITED, SOFTNET_BACKLOG,
    )  # fmt: skip
    quantities: ClassVar[tuple[Quantity, ...]] = (BYTES_SAMPLED, PACKETS_SAMPLED)
    period: ClassVar[float | None] = None
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host) -> None:
        self.host = host
        self.most = sys.maxsize
        self.left_out = 0
        self._beginning = Beginning()
        self._sys = str(host.paths.sys("class/net"))
        self._names: dict[bytes, str] = {}
        # The counters wrap within minutes on a busy CPU, and vanish with one that goes offline.
        self._softnet = {metric: SteadySum(1 << _SOFTNET_BITS) for _, metric in _SOFTNET_COUNTERS}

    def probe(self) -> None:
        """Every Linux host has a network; what cannot be read shows at the first collection."""

    def collect(self) -> Iterable[Sample]:
        """Read net/dev, softnet_stat and three small files a device; one table that is missing loses only its own series."""
        samples = self._softnet_samples()
        try:
            devices = self._devices(read_net(self.host, "dev"))
        except ReadError:
            if not samples:
                raise
            return samples
        return self._device_samples(devices) + samples

    def _device_samples(self, devices: Mapping[str, list[bytes]]) -> list[Sample]:
        samples: list[Sample] = []
        for label, columns in devices.items():
            samples += self._link_samples(label)
            # Of a virtual device that nothing ever used, the link state says all; zeros of a real one say that it is well.
            if all(token == b"0" for token in columns) and not link_name(f"{self._sys}/{label}/device"):
                continue
            for column, metric, direction in _COLUMNS:
                value = parsing.number(columns[column]) if column < len(columns) else None
                if value is not None:
                    samples.append(Sample(metric, (label, *direction), value))
        return samples

    def observe(self) -> Sequence[tuple[Quantity, tuple[str, ...], float]]:
        """Give bytes and packets so far of each device that has carried any, as far as there is room for them."""
        data = read_net(self.host, "dev", self._beginning.due())
        observed: list[tuple[Quantity, tuple[str, ...], float]] = []
        beyond: list[str] = []
        for label, columns in self._devices(data).items():
            if len(columns) < 10 or columns[1] == columns[9] == b"0":
                continue
            if beyond or len(observed) + len(_FAST_COLUMNS) > self.most:
                beyond.append(label)
                continue
            for quantity, column, direction in _FAST_COLUMNS:
                value = parsing.number(columns[column])
                if value is not None:
                    observed.append((quantity, (label, direction), value))
        if self._beginning.note(self._end_of(beyond[0], data) if beyond else 0):
            self.left_out = len(beyond) * len(_FAST_COLUMNS)
        return observed

    def _end_of(self, device: str, data: bytes) -> int:
        """Where the row of a device ends."""
        names = (re.escape(name) for name, label in self._names.items() if label == device)
        found = re.search(rb"^ *(?:" + b"|".join(names) + rb"):.*$", data, re.MULTILINE)
        return found.end() if found is not None else 0

    def _softnet_samples(self) -> list[Sample]:
        try:
            rows = parse_softnet(read_net(self.host, "softnet_stat"))
        except ReadError:
            return []
        samples = []
        for column, metric in _SOFTNET_COUNTERS:
            parts = {cpu: columns[column] for cpu, columns in rows.items() if column < len(columns)}
            if not parts:
                continue
            # Lines without a number may be those of another CPU the next time.
            total = self._softnet[metric].update(parts) if min(parts) >= 0 else sum(parts.values())
            samples.append(Sample(metric, (), total))
        waiting = [columns[11] for columns in rows.values() if len(columns) > 12]
        if waiting:
            samples.append(Sample(SOFTNET_BACKLOG, (), sum(waiting)))
        return samples

    def _devices(self, data: bytes) -> Mapping[str, list[bytes]]:
        devices: dict[str, list[bytes]] = {}
        known = {}
        for name, columns in parse_net_dev(data).items():
            label = self._names.get(name)
            if label is None:
                label = parsing.text(name)
                if self.host.ignored.devices.fullmatch(label):
                    label = ""
            known[name] = label
            if label:
                devices.setdefault(label, columns)
        # Only the names of now are kept, or a host whose containers come and go would gather them for ever.
        self._names = known
        return devices

    def _link_samples(self, device: str) -> list[Sample]:
        base = f"{self._sys}/{device}"
        samples = []
        state = sys_text(self.host, f"{base}/operstate")
        if state:
            # Loopback and many virtual devices say "unknown" for ever; they are up when they have a carrier.
            up = state == "up" or (state == "unknown" and sys_number(self.host, f"{base}/carrier") == 1)
            samples.append(Sample(UP, (device,), int(up)))
        for metric, name in ((CARRIER_CHANGES, "carrier_changes"), (MISSED, "statistics/rx_missed_errors")):
            value = sys_number(self.host, f"{base}/{name}")
            if value is not None:
                samples.append(Sample(metric, (device,), value))
        return samples
