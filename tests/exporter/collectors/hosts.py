"""The fixture hosts, as the collectors see them."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from hwsonde_exporter.collectors._nvme_ioctl import SmartError
from hwsonde_exporter.collectors.clock import ClockCollector
from hwsonde_exporter.collectors.ethtool import EthtoolCollector
from hwsonde_exporter.collectors.filesystem import FilesystemCollector, Usage
from hwsonde_exporter.collectors.gpu_xid import GpuXidCollector
from hwsonde_exporter.collectors.host import Clock, HostCollector
from hwsonde_exporter.collectors.memory_bandwidth import MemoryBandwidthCollector
from hwsonde_exporter.collectors.network_latency import NetworkLatencyCollector
from hwsonde_exporter.collectors.nvme import NvmeCollector
from hwsonde_exporter.collectors.perf import PerfCollector
from hwsonde_exporter.collectors.perf_extended import PerfExtendedCollector
from hwsonde_exporter.collectors.power_host import PowerHostCollector
from hwsonde_exporter.collectors.rdma import RdmaCollector
from hwsonde_exporter.collectors.settings import SettingsCollector
from hwsonde_exporter.errors import Reason, Unavailable
from hwsonde_exporter.host import FileReader, Host, Paths
from hwsonde_exporter.metric import Sample
from hwsonde_exporter.registry import Collector, load_collectors
from tests.exporter.collectors import ethtool_kernel
from tests.exporter.collectors.perf_kernel import FixtureKernel
from tests.exporter.collectors.setting_drivers import fixture_dcb, fixture_settings
from tests.exporter.collectors.sockets import fixture_kernel
from tests.exporter.xid.logs import fixture_log

HOSTS = Path(__file__).resolve().parents[2] / "fixtures" / "hosts"
NAMES = ("vm", "node192")

CLOCK = Clock(synchronized=True, offset=-0.000012, maximum_error=0.0042, estimated_error=0.00003, frequency=-0.0000125)

RDMA_OBJECTS = {
    f"mlx5_{number}": {"pd": 6, "cq": 52, "qp": 418 + number, "mr": 2204, "cm_id": 0} for number in range(8)
}


class NoController:
    """A board without a management controller, whatever this machine has."""

    def check(self) -> None:
        raise Unavailable(Reason.NO_HARDWARE, "no management controller")

    def ask(self) -> bytes:
        raise AssertionError("asked for nothing")


def fixture_host(name: str, files: FileReader | None = None) -> Host:
    """Host whose kernel files are those of a fixture."""
    folder = HOSTS / name
    return Host(Paths(folder / "proc", folder / "sys", folder / "root"), files or FileReader())


def ask(path: bytes) -> Usage:
    """What a filesystem of a fixture says of its size: the server of the network one is gone."""
    # Only the last part of the path counts: where this checkout lies must not matter.
    name = path.rsplit(b"/", 1)[-1]
    if name.startswith(b"home"):
        raise OSError(116, "Stale file handle")
    gib = 1 << 30
    return Usage(100 * gib + len(name), 40 * gib, 6_553_600, 6_000_000)


def smart_log(path: str) -> bytes:
    """SMART log of a disk of a fixture: the third one wears out, the last one may not be asked."""
    number = int(path[-1])
    if number == 3:
        raise SmartError("no_permission")
    worn = number == 2
    log = bytearray(512)
    struct.pack_into(
        "<BHBBB", log, 0, 0b101 if worn else 0, 273 + 39 + number, 4 if worn else 100, 10, 91 if worn else 7
    )
    units, commands = 481_204_118 + 1000 * number, 30_118_204_118
    counts = (units, units // 3, commands, commands // 3, 41_204, 38, 20_411, 21, 3 if worn else 0, 204)
    for place, count in enumerate(counts):
        log[32 + 16 * place : 48 + 16 * place] = count.to_bytes(16, "little")
    struct.pack_into("<II8H", log, 192, 12 if worn else 0, 0, 273 + 45 + number, *[0] * 7)
    struct.pack_into("<IIII", log, 216, 4, 0, 118, 0)
    return bytes(log)


def collectors(host: Host) -> Iterator[Collector]:
    """Every collector that can work on a host, probed, with the system calls replaced."""
    for kind in load_collectors().values():
        make = {
            HostCollector: partial(HostCollector, host, clock=lambda: CLOCK),
            ClockCollector: partial(ClockCollector, host, clock=lambda: CLOCK),
            PowerHostCollector: partial(PowerHostCollector, host, controller=NoController()),
            FilesystemCollector: partial(FilesystemCollector, host, ask=ask),
            NvmeCollector: partial(NvmeCollector, host, ask=smart_log, timeout=30.0),
            PerfCollector: partial(PerfCollector, host, kernel=FixtureKernel(host)),
            PerfExtendedCollector: partial(PerfExtendedCollector, host, kernel=FixtureKernel(host)),
            MemoryBandwidthCollector: partial(MemoryBandwidthCollector, host, kernel=FixtureKernel(host)),
            EthtoolCollector: partial(
                EthtoolCollector,
                host,
                connect=lambda _: ethtool_kernel.ethtool(ethtool_kernel.fixture_cards(host)),
                dumps=lambda _: ethtool_kernel.dump(ethtool_kernel.fixture_cards(host)),
            ),
            RdmaCollector: partial(RdmaCollector, host, resources=lambda _: RDMA_OBJECTS, timeout=30.0),
            NetworkLatencyCollector: partial(NetworkLatencyCollector, host, dump=fixture_kernel(host)),
            GpuXidCollector: partial(GpuXidCollector, host, log=fixture_log(host), wall=lambda: 1_763_864_000.0),
            SettingsCollector: partial(
                SettingsCollector,
                host,
                ethtool=lambda _: fixture_settings(host),
                dcb=lambda _: fixture_dcb(host),
                wall=lambda: 1_763_864_000.0,
            ),
        }.get(kind, partial(kind, host))
        collector = make()
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
