"""The fixture hosts, as the collectors see them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from hwsonde_exporter.collectors.clock import ClockCollector
from hwsonde_exporter.collectors.ethtool import EthtoolCollector
from hwsonde_exporter.collectors.filesystem import FilesystemCollector
from hwsonde_exporter.collectors.gpu_xid import GpuXidCollector
from hwsonde_exporter.collectors.host import HostCollector
from hwsonde_exporter.collectors.memory_bandwidth import MemoryBandwidthCollector
from hwsonde_exporter.collectors.network_latency import NetworkLatencyCollector
from hwsonde_exporter.collectors.nvme import NvmeCollector
from hwsonde_exporter.collectors.perf import PerfCollector
from hwsonde_exporter.collectors.perf_extended import PerfExtendedCollector
from hwsonde_exporter.collectors.power_host import PowerHostCollector
from hwsonde_exporter.collectors.rdma import RdmaCollector
from hwsonde_exporter.collectors.settings import SettingsCollector
from hwsonde_exporter.errors import ReadError, Unavailable
from hwsonde_exporter.host import FileReader, Host, Paths
from hwsonde_exporter.metric import Sample
from hwsonde_exporter.registry import Collector, load_collectors
from tests.exporter.collectors import ethtool_kernel
from tests.exporter.collectors.answers import (
    CLOCK,
    NoController,
    ask,
    clock_of,
    events_of,
    is_confined,
    rdma_objects,
    refuse,
    smart_log,
    smart_logs,
    usage_of,
)
from tests.exporter.collectors.setting_drivers import fixture_dcb, fixture_settings
from tests.exporter.collectors.sockets import fixture_kernel
from tests.exporter.xid.logs import fixture_log
from tests.fixtures import host_container

__all__ = [
    "CLOCK",
    "HOSTS",
    "NAMES",
    "NoController",
    "answers",
    "ask",
    "collectors",
    "fixture_host",
    "made",
    "samples_of",
    "smart_log",
    "values",
]

HOSTS = Path(__file__).resolve().parents[2] / "fixtures" / "hosts"
NAMES = ("amd", "container", "node192", "sick", "vm", "workstation")
# Ends of paths that may not be read, by host; a checkout cannot hold files without permissions.
DENIED = {"container": host_container.DENIED}


class DenyingReader(FileReader):
    """Refuses the files that a host keeps for root."""

    def __init__(self, denied: tuple[str, ...]) -> None:
        super().__init__()
        self.denied = denied

    def read(self, path: Path | str) -> bytes:
        self.check(path)
        return super().read(path)

    def read_once(self, path: Path | str) -> bytes:
        self.check(path)
        return super().read_once(path)

    def check(self, path: Path | str) -> None:
        """Raise `ReadError` if the file may not be read."""
        if self.denied and os.fspath(path).endswith(self.denied):
            raise ReadError(f"{path}: Permission denied") from PermissionError(13, "Permission denied")


def fixture_host(name: str, files: FileReader | None = None) -> Host:
    """Host whose kernel files are those of a fixture."""
    folder = HOSTS / name
    reader = files or DenyingReader(DENIED.get(name, ()))
    return Host(Paths(folder / "proc", folder / "sys", folder / "root"), reader)


def answers(host: Host) -> dict[type[Any], dict[str, Any]]:
    """What a fixture host answers beside its files: arguments of the collectors that make system calls."""
    confined = is_confined(host)
    cards = ethtool_kernel.fixture_cards(host)
    return {
        HostCollector: {"clock": clock_of(host)},
        ClockCollector: {"clock": clock_of(host)},
        PowerHostCollector: {"controller": NoController()},
        FilesystemCollector: {"ask": usage_of(host)},
        NvmeCollector: {"ask": smart_logs(host), "timeout": 30.0},
        PerfCollector: {"kernel": events_of(host)},
        PerfExtendedCollector: {"kernel": events_of(host)},
        MemoryBandwidthCollector: {"kernel": events_of(host)},
        EthtoolCollector: {
            "connect": refuse if confined else lambda _: ethtool_kernel.ethtool(cards),
            "dumps": lambda _: ethtool_kernel.dump(cards),
        },
        RdmaCollector: {"resources": rdma_objects(host), "timeout": 30.0},
        NetworkLatencyCollector: {"dump": refuse if confined else fixture_kernel(host)},
        GpuXidCollector: {"log": fixture_log(host), "wall": lambda: 1_763_864_000.0},
        SettingsCollector: {
            "ethtool": refuse if confined else lambda _: fixture_settings(host),
            "dcb": refuse if confined else lambda _: fixture_dcb(host),
            "wall": lambda: 1_763_864_000.0,
        },
    }


def made(host: Host, names: Collection[str] | None = None) -> Iterator[Collector]:
    """Collectors, all or those of these names, with the system calls replaced by the answers of a fixture host; not probed yet."""
    replaced = answers(host)
    for name, kind in load_collectors().items():
        if names is None or name in names:
            yield kind(host, **replaced.get(kind, {}))


def collectors(host: Host) -> Iterator[Collector]:
    """Every collector that can work on a host, probed."""
    for collector in made(host):
        try:
            collector.probe()
        except Unavailable:
            continue
        yield collector


def samples_of(host: Host) -> dict[str, list[Sample]]:
    """Samples of every collector that can work on a host, by its name."""
    return {collector.name: list(collector.collect()) for collector in collectors(host)}


def values(samples: list[Sample]) -> dict[tuple[str, ...], float]:
    """Value of each series, by name and label values."""
    return {(sample.metric.name, *sample.labels): sample.value for sample in samples}
