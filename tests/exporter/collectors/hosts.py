"""The fixture hosts, as the collectors see them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from hwsonde_exporter.collectors.filesystem import FilesystemCollector, Usage
from hwsonde_exporter.collectors.host import Clock, HostCollector
from hwsonde_exporter.collectors.network_latency import NetworkLatencyCollector
from hwsonde_exporter.errors import Unavailable
from hwsonde_exporter.host import FileReader, Host, Paths
from hwsonde_exporter.metric import Sample
from hwsonde_exporter.registry import Collector, load_collectors
from tests.exporter.collectors.sockets import fixture_kernel

HOSTS = Path(__file__).resolve().parents[2] / "fixtures" / "hosts"
NAMES = ("vm", "node192")

CLOCK = Clock(synchronized=True, offset=-0.000012, maximum_error=0.0042, estimated_error=0.00003, frequency=-0.0000125)


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


def collectors(host: Host) -> Iterator[Collector]:
    """Every collector that can work on a host, probed, with the system calls replaced."""
    for kind in load_collectors().values():
        make = {
            HostCollector: partial(HostCollector, host, clock=lambda: CLOCK),
            FilesystemCollector: partial(FilesystemCollector, host, ask=ask),
            NetworkLatencyCollector: partial(NetworkLatencyCollector, host, dump=fixture_kernel(host)),
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
