"""What is configured, not only what happens: one row a setting, and a count of the changes seen."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import ClassVar, TypeVar

from hwsonde_exporter.collectors._dcb import AskDcb, open_dcb
from hwsonde_exporter.collectors._ethtool_ioctl import Ethtool, open_ethtool
from hwsonde_exporter.collectors._files import is_folder
from hwsonde_exporter.collectors._setting_cpu import cpu_rows
from hwsonde_exporter.collectors._setting_ethtool import EthtoolSettings
from hwsonde_exporter.collectors._setting_gpu import GROUPS as GPU_GROUPS
from hwsonde_exporter.collectors._setting_gpu import gpu_rows
from hwsonde_exporter.collectors._setting_kernel import kernel_rows
from hwsonde_exporter.collectors._setting_memory import memory_rows
from hwsonde_exporter.collectors._setting_network import network_rows
from hwsonde_exporter.collectors._setting_pcie import pcie_rows
from hwsonde_exporter.collectors._setting_rdma import rdma_rows
from hwsonde_exporter.collectors._setting_rows import Row
from hwsonde_exporter.collectors._setting_services import service_rows
from hwsonde_exporter.collectors._setting_storage import storage_rows
from hwsonde_exporter.errors import CollectorError, ReadError, Reason, Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import register

_LOG = logging.getLogger(__name__)

Opened = TypeVar("Opened")
AREAS = (
    "cpu", "firmware", "gpu", "kernel", "limit", "memory", "module", "mount", "network", "pcie", "rdma", "service", "storage", "time",
)  # fmt: skip
# Devices may come and go for ever (mounts, virtual functions): what has long been gone is forgotten.
_REMEMBERED = 8192

_SOURCES = (
    "/proc/sys, /proc/cmdline, /proc/1/mountinfo, /proc/irq, /sys/devices/system/cpu, /sys/kernel/mm, /sys/module, /sys/class, "
    "/sys/block, PCI configuration space, SIOCETHTOOL, RTM_GETDCB, NVML"
)
INFO = Metric(
    name="hwsonde_setting_info",
    kind=Kind.GAUGE,
    help="Constant 1 labelled with a setting, the device it belongs to (empty: the host) and its value.",
    labels=("setting", "device", "value"),
    subsystem="exporter",
    source=_SOURCES,
)
CHANGES = Metric(
    name="hwsonde_setting_changes_total",
    kind=Kind.COUNTER,
    help="Settings seen to have changed since the exporter started, by area (the first word of their names).",
    labels=("area",),
    subsystem="exporter",
    source="hwsonde_setting_info of two readings",
)
LAST_CHANGE = Metric(
    name="hwsonde_setting_last_change_timestamp_seconds",
    kind=Kind.GAUGE,
    help="Unix time of the reading that saw the latest change of a setting in an area; absent before the first.",
    labels=("area",),
    unit="seconds",
    subsystem="exporter",
    source="hwsonde_setting_info of two readings",
)


class Changes:
    """Compares each reading with the values known before.

    A row that is missing is no change: its file could not be read, or its device is gone, which other metrics tell. One
    that comes back with another value is.
    """

    def __init__(self) -> None:
        self.counts = dict.fromkeys(AREAS, 0)
        self.latest: dict[str, float] = {}
        self._known: dict[tuple[str, str], str] = {}

    def update(self, rows: Iterable[Row], now: float) -> None:
        """Take a reading of Unix time ``now``."""
        present: dict[tuple[str, str], str] = {}
        for setting, device, value in rows:
            before = self._known.get((setting, device), value)
            present[setting, device] = value
            if value != before:
                area = area_of(setting)
                self.counts[area] += 1
                self.latest[area] = now
        if len(self._known) > _REMEMBERED:
            self._known = {}
        self._known |= present


def area_of(setting: str) -> str:
    """The first word of a setting's name."""
    return setting.partition(".")[0]


@register
class SettingsCollector:
    """Settings of the host: processors, memory, kernel, modules, firmware, network, RDMA, PCI Express, disks, mounts, services, GPUs.

    Parameters
    ----------
    host
        Whose files are read.
    ethtool, dcb
        Open what asks network drivers, given the path of procfs.
    wall
        Gives the Unix time, for the time of a change.
    """

    name: ClassVar[str] = "settings"
    help: ClassVar[str] = "What is configured: kernel, devices, firmware"
    metrics: ClassVar[tuple[Metric, ...]] = (INFO, CHANGES, LAST_CHANGE)
    period: ClassVar[float | None] = 60.0
    enabled: ClassVar[bool] = True

    def __init__(
        self,
        host: Host,
        *,
        ethtool: Callable[[Path], Ethtool] = open_ethtool,
        dcb: Callable[[Path], AskDcb] = open_dcb,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.host = host
        self._open_ethtool = ethtool
        self._open_dcb = dcb
        self._wall = wall
        self._ethtool: EthtoolSettings | None = None
        self._dcb: AskDcb | None = None
        self._changes = Changes()
        self._told: set[str] = set()

    def probe(self) -> None:
        """Raise `Unavailable` where neither procfs nor sysfs can be read; open what asks drivers, if that is possible here."""
        paths = self.host.paths
        if not is_folder(paths.proc("sys", "kernel")) and not is_folder(paths.sys("devices", "system")):
            raise Unavailable(
                Reason.NO_KERNEL_SUPPORT,
                f"neither {paths.proc('sys', 'kernel')} nor {paths.sys('devices', 'system')} can be read; "
                "are --path.procfs and --path.sysfs right?",
            )
        if self._ethtool is None:
            opened = self._opened("settings of network drivers", partial(self._open_ethtool, paths.procfs))
            self._ethtool = EthtoolSettings(opened) if opened is not None else None
        if self._dcb is None:
            self._dcb = self._opened("priorities of network devices", partial(self._open_dcb, paths.procfs))

    def collect(self) -> Iterable[Sample]:
        """Read every setting; what cannot be read is left out. Raises `ReadError` if there is none."""
        rows = {(found.setting, found.device): found for found in self._rows()}
        if not rows:
            raise ReadError(f"{self.host.paths.procfs} and {self.host.paths.sysfs}: no setting can be read")
        self._changes.update(rows.values(), self._wall())
        samples = [Sample(INFO, tuple(found), 1) for found in rows.values()]
        samples += [Sample(CHANGES, (area,), count) for area, count in self._changes.counts.items()]
        samples += [Sample(LAST_CHANGE, (area,), when) for area, when in sorted(self._changes.latest.items())]
        return samples

    def _rows(self) -> Iterator[Row]:
        host = self.host
        yield from cpu_rows(host)
        yield from memory_rows(host)
        yield from kernel_rows(host)
        yield from network_rows(host, self._ethtool, self._dcb)
        yield from rdma_rows(host)
        yield from pcie_rows(host)
        yield from storage_rows(host)
        yield from service_rows(host)
        if host.nvml is not None:
            yield from gpu_rows(host.nvml.collect(GPU_GROUPS))

    def _opened(self, what: str, open_it: Callable[[], Opened]) -> Opened | None:
        """What asks drivers, or None where it cannot be had: its rows are left out then, which the log says once."""
        try:
            return open_it()
        except (CollectorError, OSError) as error:
            text = f"settings: {what} cannot be asked for and are left out: {error}"
            if text not in self._told:
                self._told.add(text)
                _LOG.info("%s", text)
            return None
