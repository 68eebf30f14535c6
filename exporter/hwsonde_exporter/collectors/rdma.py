"""RDMA ports, InfiniBand and Ethernet: link state, traffic, errors, congestion, retries, and objects in use."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import ClassVar

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._asking import Asker, Hanging
from hwsonde_exporter.collectors._files import entries, is_link, numa_node, pci_address, sys_number, sys_text
from hwsonde_exporter.collectors._rdma_netlink import Resources, read_resources
from hwsonde_exporter.collectors._rdma_tables import METRICS, ROWS, Row
from hwsonde_exporter.errors import CollectorError, ReadError, Reason, Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import register

_PORT = ("device", "port")
_ACTIVE = 4
_LINK_UP = 5
_BYTES_PER_GIGABIT = 125e6
# Beyond the fastest link there will be for long, and the widest there is.
_MOST_GIGABITS = 100_000
_TIMEOUT_SECONDS = 2.0
_MOST_LANES = 16
_RATE = re.compile(rb"\s*(\d+(?:\.\d+)?) Gb/sec(?: \((\d+)X[^)]*\))?\s*\Z")
_gauge = partial(Metric, kind=Kind.GAUGE, subsystem="network", labels=_PORT)
_PORTS = "/sys/class/infiniband/DEV/ports/PORT"

INFO = _gauge(
    name="hwsonde_network_rdma_info",
    help="Constant 1 labelled with the identity of an RDMA port.",
    labels=(*_PORT, "link_layer", "hca_type", "firmware_version", "board_id", "netdev", "pci_bus_id", "numa_node"),
    source="/sys/class/infiniband/DEV/{hca_type,fw_ver,board_id,device}, ports/PORT/link_layer, ports/PORT/gid_attrs/ndevs/0",
)
UP = _gauge(
    name="hwsonde_network_rdma_up",
    help="Whether an RDMA port is active (1) or not (0).",
    source=f"{_PORTS}/state == 4: ACTIVE",
)
STATE = _gauge(
    name="hwsonde_network_rdma_state",
    help="Logical state of the port: 1 down, 2 initializing (waits for a subnet manager), 3 armed, 4 active, 5 active and deferred.",
    source=f"{_PORTS}/state",
)
PHYSICAL_STATE = _gauge(
    name="hwsonde_network_rdma_physical_state",
    help="Physical state of the port: 1 sleep, 2 polling, 3 disabled, 4 training, 5 link up, 6 error recovery, 7 test.",
    source=f"{_PORTS}/phys_state",
)
SPEED = _gauge(
    name="hwsonde_network_rdma_speed_bytes_per_second",
    help="Line rate of an RDMA port; 0 while it has no link, when the kernel still shows some rate.",
    unit="bytes_per_second",
    source=f"{_PORTS}/rate (Gb/s), state, phys_state",
)
LANES = _gauge(
    name="hwsonde_network_rdma_lanes",
    help="Lanes that an RDMA port uses; fewer than its peers' are a cable or a module that is half broken.",
    unit="lanes",
    source=f"{_PORTS}/rate (4X)",
)
SATURATED = _gauge(
    name="hwsonde_network_rdma_saturated_counters",
    help="Counters of the port that stand at their greatest value; they are left out until somebody resets them.",
    source=f"{_PORTS}/counters",
)
STUCK = _gauge(
    name="hwsonde_network_rdma_stuck",
    help="Whether reading an RDMA device's files hangs (1) or not (0); its firmware does not answer.",
    labels=("device",),
    source=f"{_PORTS}, which did not come back in time",
)
RESOURCES = _gauge(
    name="hwsonde_network_rdma_resources",
    help="RDMA objects allocated.",
    labels=("device", "resource"),
    source="RDMA netlink RDMA_NLDEV_CMD_RES_GET (rdma resource show): qp, cq, mr, pd and others",
)


def parse_state(data: bytes) -> int | None:
    """Parse a port's state or physical state, ``4: ACTIVE``: its number."""
    value = parsing.number(data.partition(b":")[0].strip())
    return value if value is not None and value < 16 else None


def parse_rate(data: bytes) -> tuple[float | None, int | None]:
    """Parse a port's rate, ``400 Gb/sec (4X NDR)``: bytes a second and lanes, each None if it is not told."""
    match = _RATE.match(data)
    if match is None or len(match.group(1)) > 9:
        return None, None
    gigabits = float(match.group(1))
    if not 0 < gigabits <= _MOST_GIGABITS:
        return None, None
    lanes = int(match.group(2)[:4]) if match.group(2) else 0
    return gigabits * _BYTES_PER_GIGABIT, lanes if 0 < lanes <= _MOST_LANES else None


def _is_full(value: int, bits: int) -> bool:
    """Whether a counter of so many bits stands at its end; those of 64 are of 32 on adapters without extended counters."""
    return value == (1 << bits) - 1 if bits < 64 else parsing.known(value) is None


@dataclass(slots=True)
class _Port:
    """What is known of a port until the next probe: its labels, its folder, and the rows whose files it has."""

    labels: tuple[str, str]
    folder: str
    identity: tuple[str, ...]
    rows: list[tuple[Row, list[str]]] = field(default_factory=list)


@register
class RdmaCollector:
    """Ports of RDMA devices; one odd file or port loses only its own series."""

    name: ClassVar[str] = "rdma"
    help: ClassVar[str] = "RDMA ports (InfiniBand, RoCE, EFA): state, traffic, errors, congestion"
    metrics: ClassVar[tuple[Metric, ...]] = (
        INFO, UP, STATE, PHYSICAL_STATE, SPEED, LANES, SATURATED, STUCK, *METRICS, RESOURCES,
    )  # fmt: skip
    # Most files ask the device's firmware, which takes a while and, when it hangs, a minute.
    period: ClassVar[float | None] = 5.0
    enabled: ClassVar[bool] = True

    def __init__(
        self,
        host: Host,
        *,
        resources: Callable[[Path], Resources] = read_resources,
        timeout: float = _TIMEOUT_SECONDS,
    ) -> None:
        self.host = host
        self._sys = str(host.paths.sys("class/infiniband"))
        self._resources = resources
        self._ask_resources = True
        self._devices: dict[str, list[_Port]] = {}
        self._asker: Asker[str, list[Sample]] = Asker("rdma", timeout)

    def probe(self) -> None:
        """Look for devices, their ports and the counters that each has.

        Raises
        ------
        Unavailable
            If there is none.
        """
        found = {device: self._ports_of(device) for device in self._names()}
        self._devices = {device: ports for device, ports in found.items() if ports}
        self._ask_resources = True
        if not self._devices:
            raise Unavailable(
                Reason.NO_HARDWARE,
                f"{self._sys} is missing or shows no port: no RDMA device, or its driver (mlx5_ib, bnxt_re, irdma, efa) is not loaded",
            )

    def collect(self) -> Iterable[Sample]:
        """Read every counter of every port, each device in a thread of its own, and ask for the objects in use."""
        calls = {device: partial(self._device_samples, ports) for device, ports in self._devices.items()}
        samples: list[Sample] = []
        for device, outcome in self._asker.ask(calls).items():
            if isinstance(outcome, Hanging):
                samples.append(Sample(STUCK, (device,), 1))
            elif isinstance(outcome, Exception):
                raise outcome
            elif outcome:
                samples.append(Sample(STUCK, (device,), 0))
                samples += outcome
        return samples + self._resource_samples()

    def _device_samples(self, ports: list[_Port]) -> list[Sample]:
        samples: list[Sample] = []
        for port in ports:
            state = self._state_samples(port)
            if state:
                samples.append(Sample(INFO, (*port.labels, *port.identity), 1))
                samples += state
            samples += self._counter_samples(port)
        return samples

    def _names(self) -> list[str]:
        """Devices in the order of their numbers, virtual functions last: they are what a series budget may cut off."""

        def order(name: str) -> tuple[bool, list[tuple[int, str]]]:
            words = [(int(word[:18]), "") if word.isdigit() else (-1, word) for word in re.split(r"([0-9]+)", name)]
            return is_link(f"{self._sys}/{name}/device/physfn"), words

        return sorted(entries(self._sys), key=order)

    def _ports_of(self, device: str) -> list[_Port]:
        base = f"{self._sys}/{device}"
        ports = []
        for number in entries(f"{base}/ports"):
            if not (number.isascii() and number.isdigit()):
                continue
            folder = f"{base}/ports/{number}"
            identity = (
                sys_text(self.host, f"{folder}/link_layer"),
                sys_text(self.host, f"{base}/hca_type"),
                sys_text(self.host, f"{base}/fw_ver"),
                sys_text(self.host, f"{base}/board_id"),
                self._netdev(base, folder, number),
                pci_address(base),
                numa_node(self.host, f"{base}/device/numa_node"),
            )
            names = {
                f"{kind}/{name}"
                for kind in ("counters", "counters_ext", "hw_counters")
                for name in entries(f"{folder}/{kind}")
            }
            port = _Port((device, number), folder, identity)
            for row in ROWS:
                files = [file for file in row.files if file in names]
                if files:
                    port.rows.append((row, files))
            ports.append(port)
        return ports

    def _netdev(self, base: str, folder: str, port: str) -> str:
        """Network device of a port: that of its first address, or the device's own with this port's number."""
        name = sys_text(self.host, f"{folder}/gid_attrs/ndevs/0")
        if name:
            return name
        for candidate in entries(f"{base}/device/net"):
            if sys_number(self.host, f"{base}/device/net/{candidate}/dev_port") == int(port[:9]) - 1:
                return candidate
        return ""

    def _state_samples(self, port: _Port) -> list[Sample]:
        samples = []
        state = self._parsed(port, "state")
        physical = self._parsed(port, "phys_state")
        if state is not None:
            samples += [Sample(UP, port.labels, int(state == _ACTIVE)), Sample(STATE, port.labels, state)]
        if physical is not None:
            samples.append(Sample(PHYSICAL_STATE, port.labels, physical))
        # Of EFA and iWARP some drivers tell no physical state; then the logical one decides.
        linked = physical == _LINK_UP if physical else state is not None and state > 1
        if state is None and physical is None:
            return samples
        if not linked:
            return [*samples, Sample(SPEED, port.labels, 0)]
        try:
            speed, lanes = parse_rate(self.host.files.read_once(f"{port.folder}/rate"))
        except ReadError:
            return samples
        if speed is not None:
            samples.append(Sample(SPEED, port.labels, speed))
        else:
            self.host.rejections.add()
        if lanes is not None:
            samples.append(Sample(LANES, port.labels, lanes))
        return samples

    def _parsed(self, port: _Port, name: str) -> int | None:
        try:
            return parse_state(self.host.files.read_once(f"{port.folder}/{name}"))
        except ReadError:
            return None

    def _counter_samples(self, port: _Port) -> list[Sample]:
        samples = []
        saturated = 0
        done = set()
        for row, files in port.rows:
            series = row.metric, row.labels
            if series in done:
                continue
            values = [sys_number(self.host, f"{port.folder}/{file}") for file in files]
            known = [value for value in values if value is not None]
            if len(known) < len(files):
                continue
            if any(_is_full(value, row.bits) for value in known):
                saturated += 1
                continue
            done.add(series)
            samples.append(Sample(row.metric, (*port.labels, *row.labels), sum(known) * row.factor))
        if port.rows and (samples or saturated):
            samples.append(Sample(SATURATED, port.labels, saturated))
        return samples

    def _resource_samples(self) -> list[Sample]:
        """Objects in use; a kernel that does not tell them is not asked again before the next probe."""
        if not self._ask_resources:
            return []
        try:
            found = self._resources(self.host.paths.procfs)
        except (OSError, CollectorError):
            self._ask_resources = False
            return []
        return [
            Sample(RESOURCES, (device, name), count)
            for device, counts in found.items()
            if device in self._devices
            for name, count in counts.items()
        ]
