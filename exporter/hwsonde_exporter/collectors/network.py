"""Network devices: traffic, errors, link state; and the softirq that serves them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import ClassVar

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._files import link_name, read_net, sys_number, sys_text
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
SOFTNET_PACKETS = _counter(
    name="hwsonde_network_softnet_packets_total",
    help="Packets the network softirq handled.",
    source="/proc/1/net/softnet_stat column 1, summed over CPUs",
)
SOFTNET_DROPPED = _counter(
    name="hwsonde_network_softnet_dropped_packets_total",
    help="Packets dropped because the backlog queue was full.",
    source="/proc/1/net/softnet_stat column 2, summed over CPUs",
)
SOFTNET_SQUEEZES = _counter(
    name="hwsonde_network_softnet_squeezes_total",
    help="Times the network softirq ran out of budget or time with work left.",
    source="/proc/1/net/softnet_stat column 3, summed over CPUs",
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


def parse_softnet(data: bytes) -> tuple[int, int, int] | None:
    """Parse net/softnet_stat, hexadecimal, one line a CPU: packets, dropped, squeezes over all CPUs."""
    sums = [0, 0, 0]
    rows = parsing.lines(data)
    for row in rows:
        values = [parsing.hexadecimal(token) for token in row.split()[:3]]
        if len(values) < 3:
            return None
        for column, value in enumerate(values):
            if value is None:
                return None
            sums[column] += value
    return (sums[0], sums[1], sums[2]) if rows else None


@register
class NetworkCollector:
    """Traffic, errors and link state of network devices."""

    name: ClassVar[str] = "network"
    help: ClassVar[str] = "Network devices: traffic, errors, link state, softirq"
    metrics: ClassVar[tuple[Metric, ...]] = (
        BYTES, PACKETS, ERRORS, DROPPED, OVERRUNS, FRAME_ERRORS, CARRIER_ERRORS, MULTICAST, MISSED, UP, CARRIER_CHANGES,
        SOFTNET_PACKETS, SOFTNET_DROPPED, SOFTNET_SQUEEZES,
    )  # fmt: skip
    quantities: ClassVar[tuple[Quantity, ...]] = (BYTES_SAMPLED, PACKETS_SAMPLED)
    period: ClassVar[float | None] = None
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host) -> None:
        self.host = host
        self._sys = str(host.paths.sys("class/net"))
        self._names: dict[bytes, str] = {}

    def probe(self) -> None:
        """Every Linux host has a network; what cannot be read shows at the first collection."""

    def collect(self) -> Iterable[Sample]:
        """Read net/dev, softnet_stat and three small files a device."""
        samples: list[Sample] = []
        for label, columns in self._devices(read_net(self.host, "dev")).items():
            samples += self._link_samples(label)
            # Of a virtual device that nothing ever used, the link state says all; zeros of a real one say that it is well.
            if all(token == b"0" for token in columns) and not link_name(f"{self._sys}/{label}/device"):
                continue
            for column, metric, direction in _COLUMNS:
                value = parsing.number(columns[column]) if column < len(columns) else None
                if value is not None:
                    samples.append(Sample(metric, (label, *direction), value))
        try:
            softnet = parse_softnet(read_net(self.host, "softnet_stat"))
        except ReadError:
            softnet = None
        if softnet is not None:
            metrics = (SOFTNET_PACKETS, SOFTNET_DROPPED, SOFTNET_SQUEEZES)
            samples += [Sample(metric, (), value) for metric, value in zip(metrics, softnet, strict=True)]
        return samples

    def observe(self) -> Sequence[tuple[Quantity, tuple[str, ...], float]]:
        """Give bytes and packets so far of each device that has carried any."""
        observed: list[tuple[Quantity, tuple[str, ...], float]] = []
        for label, columns in self._devices(read_net(self.host, "dev")).items():
            if len(columns) < 10 or columns[1] == columns[9] == b"0":
                continue
            for quantity, column, direction in (
                (BYTES_SAMPLED, 0, "received"),
                (BYTES_SAMPLED, 8, "transmitted"),
                (PACKETS_SAMPLED, 1, "received"),
                (PACKETS_SAMPLED, 9, "transmitted"),
            ):
                value = parsing.number(columns[column])
                if value is not None:
                    observed.append((quantity, (label, direction), value))
        return observed

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
