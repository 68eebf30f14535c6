"""What network drivers count beyond the kernel's own statistics: pauses, physical errors, discards, allowances."""

from __future__ import annotations

import errno
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._ethtool_ioctl import STRING_BYTES, Driver, Ethtool, open_ethtool, split_names
from hwsonde_exporter.collectors._ethtool_netlink import Standard, find_family, read_standard
from hwsonde_exporter.collectors._ethtool_tables import DIVISORS, DRIVERS, GREATEST, METRICS, Series, Table
from hwsonde_exporter.collectors._files import is_link, read_net, sys_text
from hwsonde_exporter.collectors._netlink import Dump, dumper
from hwsonde_exporter.collectors.network import parse_net_dev
from hwsonde_exporter.errors import CollectorError, ReadError, Reason, Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import register

_NUMBER = re.compile("[0-9]+")
_PRIORITIES = 8
# The switch in an adapter shows a port for each of its virtual functions and subfunctions.
_REPRESENTOR = re.compile(r"(c[0-9]+)?pf[0-9]+(vf|sf)r?[0-9]+.*")
# A driver's negative number, or all bits set.
_LEAST_NONSENSE = 1 << 63

INFO = Metric(
    name="hwsonde_network_driver_info",
    kind=Kind.GAUGE,
    help="Constant 1 labelled with the driver and the firmware of a network device.",
    labels=("device", "driver", "driver_version", "firmware_version"),
    subsystem="network",
    source="ETHTOOL_GDRVINFO",
)

# Places of the values that make a series up.
Plan = dict[Series, list[int]]


def make_plan(names: Iterable[str], table: Table) -> Plan:
    """Where in a device's list of values the series of a table are found.

    Parameters
    ----------
    names
        Names of the statistics, in the order of their values.
    table
        What the names of this driver mean.

    Returns
    -------
    dict
        Places by metric and label values (without the device). Several places are summed: parts of one thing, such as
        rings. Where the driver gives a total too, it alone is taken.
    """
    totals: Plan = {}
    parts: Plan = {}
    for place, name in enumerate(names):
        if "#" in name:
            continue  # it stands for a number in the table only
        found, number = table.get(name), ""
        if found is None and (match := _NUMBER.search(name)) is not None:
            number = match.group()
            found = table.get(f"{name[: match.start()]}#{name[match.end() :]}")
        if found is None:
            continue
        metric, labels = found
        if "#" in labels:
            if len(number) > 1 or int(number) >= _PRIORITIES:
                continue
            labels = tuple(number if label == "#" else label for label in labels)
            totals.setdefault((metric, labels), [place])
        elif number:
            parts.setdefault((metric, labels), []).append(place)
        else:
            totals.setdefault((metric, labels), []).append(place)
    return parts | totals


def evaluate(plan: Plan, values: tuple[int, ...], device: str) -> tuple[list[Sample], int]:
    """Samples of a device, and how many were left out because a part of them is out of range; what is missing is left out too."""
    samples = []
    rejected = 0
    for (metric, labels), places in plan.items():
        if places[-1] >= len(values):
            continue
        parts = [values[place] for place in places]
        value = sum(parts)
        if max(parts) >= _LEAST_NONSENSE or value > GREATEST.get(metric, value):
            rejected += 1
            continue
        divisor = DIVISORS.get(metric, 1)
        samples.append(Sample(metric, (device, *labels), value if divisor == 1 else value / divisor))
    return samples, rejected


@dataclass(slots=True)
class _Device:
    """What is known of a device until the next probe."""

    driver: Driver
    strings: bytes
    plan: Plan

    @property
    def count(self) -> int:
        return len(self.strings) // STRING_BYTES


@register
class EthtoolCollector:
    """Statistics of the drivers of network devices, under one name whatever the driver calls them."""

    name: ClassVar[str] = "ethtool"
    help: ClassVar[str] = "Network drivers: pause and priority flow control, physical errors, discards"
    metrics: ClassVar[tuple[Metric, ...]] = (INFO, *METRICS)
    # The answer comes from the device's firmware, under the lock of all network configuration: milliseconds each.
    period: ClassVar[float | None] = 5.0
    enabled: ClassVar[bool] = True

    def __init__(
        self,
        host: Host,
        *,
        connect: Callable[[Path], Ethtool] = open_ethtool,
        dumps: Callable[[Path], Dump] = dumper,
    ) -> None:
        self.host = host
        self._connect = connect
        self._dump = dumps(host.paths.procfs)
        self._ethtool: Ethtool | None = None
        self._family: int | None = None
        self._devices: dict[str, _Device] = {}

    def probe(self) -> None:
        """Look for network hardware; its drivers, firmware and names of statistics may have changed.

        Raises
        ------
        Unavailable
            If the host's network namespace cannot be reached, its devices are not told, or there is no network hardware
            among them.
        """
        ethtool = self._open()
        try:
            candidates = self._candidates()
        except ReadError as error:
            raise Unavailable(Reason.NO_KERNEL_SUPPORT, f"{error}; is --path.procfs right?") from error
        found = {device: self._look(ethtool, device, self._devices.get(device)) for device in candidates}
        self._devices = {device: look for device, look in found.items() if look is not None}
        if not self._devices:
            raise Unavailable(
                Reason.NO_HARDWARE, "no network device here has a driver that answers; virtual devices have none"
            )
        try:
            self._family = find_family(self._dump)
        except (OSError, CollectorError):
            self._family = None  # the ioctl tells most of it

    def collect(self) -> Iterable[Sample]:
        """Ask each driver for its statistics; a device that is gone or does not answer loses only its own series."""
        ethtool = self._open()
        standard = self._standard()
        samples: list[Sample] = []
        for device, known in list(self._devices.items()):
            driver = known.driver
            try:
                current, values = self._ask(ethtool, device, known)
            except OSError as error:
                if error.errno == errno.ENODEV:
                    continue
                current, values = known, ()
            samples.append(Sample(INFO, (device, driver.name, driver.version, driver.firmware), 1))
            own, rejected = evaluate(current.plan, values, device)
            self.host.rejections.add(rejected)
            told = {(sample.metric, sample.labels[1:]) for sample in own}
            samples += own
            samples += [
                Sample(metric, (device, *labels), value)
                for (metric, labels), value in standard.get(device, {}).items()
                if (metric, labels) not in told
            ]
        return samples

    def _standard(self) -> Standard:
        if self._family is None:
            return {}
        unknown = any(not known.plan for known in self._devices.values())
        return read_standard(self._dump, self._family, everything=unknown)

    def _ask(self, ethtool: Ethtool, device: str, known: _Device) -> tuple[_Device, tuple[int, ...]]:
        """Values of a device and what they mean; none if that changed while they were read."""
        if not known.plan:
            return known, ()
        values = ethtool.statistics(device, known.count)
        if len(values) == known.count:
            return known, values
        # Channels were added or removed since the last look, so the places have other meanings.
        fresh = self._look(ethtool, device, known)
        if fresh is None:
            return known, ()
        self._devices[device] = fresh
        values = ethtool.statistics(device, fresh.count)
        return fresh, values if len(values) == fresh.count else ()

    def _open(self) -> Ethtool:
        if self._ethtool is None:
            try:
                self._ethtool = self._connect(self.host.paths.procfs)
            except OSError as error:
                raise Unavailable(
                    Reason.NO_KERNEL_SUPPORT, f"no socket to ask network drivers: {error.strerror or error}"
                ) from error
        return self._ethtool

    def _candidates(self) -> list[str]:
        """Devices of the host that may be hardware.

        Virtual functions and what stands for them in an adapter's switch are left out: there may be hundreds, and each shows
        its port's counters once more.
        """
        names = (parsing.text(name) for name in parse_net_dev(read_net(self.host, "dev")))
        sys = self.host.paths.sys("class", "net")
        return [
            name
            for name in names
            if not self.host.ignored.devices.fullmatch(name)
            and not is_link(sys / name / "device" / "physfn")
            and not _REPRESENTOR.fullmatch(sys_text(self.host, f"{sys}/{name}/phys_port_name"))
        ]

    def _look(self, ethtool: Ethtool, device: str, known: _Device | None) -> _Device | None:
        """What a device is; None if it has no driver that answers, or is virtual and its driver is not known."""
        try:
            driver = ethtool.driver(device)
        except OSError:
            return None
        # The same driver on InfiniBand calls itself mlx5_core[ib_ipoib].
        table = DRIVERS.get(driver.name.partition("[")[0])
        if table is None:
            real = is_link(self.host.paths.sys("class", "net", device, "device"))
            return _Device(driver, b"", {}) if real else None
        try:
            strings = ethtool.names(device)
        except OSError:
            strings = b""
        if known is not None and known.strings == strings and known.driver.name == driver.name:
            return _Device(driver, strings, known.plan)
        return _Device(driver, strings, make_plan(split_names(strings), table))
