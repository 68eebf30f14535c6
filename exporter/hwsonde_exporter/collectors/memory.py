"""Memory use, paging and reclaim, from procfs; by NUMA node from sysfs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors import _memory_tables as table
from hwsonde_exporter.collectors._counters import Held
from hwsonde_exporter.collectors._files import entries, read_or_none
from hwsonde_exporter.errors import ReadError
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import Quantity, register

FAULTS_SAMPLED = Quantity(
    Metric(
        name="hwsonde_memory_page_faults_sampled_per_second",
        kind=Kind.SUMMARY,
        help="Page faults a second; a major fault waited for storage.",
        labels=("kind",),
        unit="per_second",
        subsystem="memory",
        source="/proc/vmstat pgfault minus pgmajfault, pgmajfault",
    ),
    reference=0.0,
    cumulative=True,
)


def parse_node_meminfo(data: bytes) -> dict[bytes, int]:
    """Parse /sys/devices/system/node/nodeN/meminfo (``Node 0 MemTotal: 1 kB``): name -> KiB."""
    rows = (line.split(None, 2) for line in parsing.lines(data))
    return parsing.key_values(b"".join(row[2] + b"\n" for row in rows if len(row) == 3 and row[0] == b"Node"))


@register
class MemoryCollector:
    """Memory use, page faults, reclaim, swap, huge pages, NUMA nodes."""

    name: ClassVar[str] = "memory"
    help: ClassVar[str] = "Memory use, paging and reclaim"
    metrics: ClassVar[tuple[Metric, ...]] = table.METRICS
    quantities: ClassVar[tuple[Quantity, ...]] = (FAULTS_SAMPLED,)
    period: ClassVar[float | None] = None
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host) -> None:
        self.host = host
        self._meminfo = str(host.paths.proc("meminfo"))
        self._vmstat = str(host.paths.proc("vmstat"))
        self._node_base = str(host.paths.sys("devices/system/node"))
        self._nodes: list[str] = []
        # The kernel sums pgfault and pgmajfault one after the other while they grow: the difference may slip back.
        self._minor = Held(1000)

    def probe(self) -> None:
        """Look which NUMA nodes there are; a single one says nothing that the whole host's values do not."""
        nodes = [name for name in entries(self._node_base) if name.startswith("node") and name[4:].isdigit()]
        self._nodes = sorted(nodes, key=lambda name: int(name[4:])) if len(nodes) > 1 else []

    def collect(self) -> Iterable[Sample]:
        """Read meminfo, vmstat and two files a node; one that is missing loses only its own series."""
        samples: list[Sample] = []
        meminfo = read_or_none(self.host, self._meminfo)
        if meminfo is not None:
            values = parsing.key_values(meminfo)
            for key, metric in table.MEMINFO.items():
                if key in values:
                    samples.append(Sample(metric, (), values[key] * 1024))
        vmstat = read_or_none(self.host, self._vmstat)
        if vmstat is not None:
            samples += self._vmstat_samples(parsing.key_values(vmstat))
        for node in self._nodes:
            samples += self._node_samples(node)
        if not samples:
            raise ReadError(f"{self._meminfo}: cannot be read; is --path.procfs right?")
        return samples

    def observe(self) -> Sequence[tuple[Quantity, tuple[str, ...], float]]:
        """Give the page faults so far."""
        data = self.host.files.read(self._vmstat)
        faults = parsing.number_after(data, b"\npgfault ")
        major = parsing.number_after(data, b"\npgmajfault ")
        if faults is None or major is None:
            return ()
        return (FAULTS_SAMPLED, ("minor",), max(0, faults - major)), (FAULTS_SAMPLED, ("major",), major)

    def _vmstat_samples(self, values: dict[bytes, int]) -> list[Sample]:
        samples = []
        faults, major = values.get(b"pgfault"), values.get(b"pgmajfault")
        if faults is not None and major is not None:
            minor = self._minor.value("minor", max(0, faults - major))
            samples += [Sample(table.PAGE_FAULTS, ("minor",), minor), Sample(table.PAGE_FAULTS, ("major",), major)]
        for key, (metric, labels, scale) in table.VMSTAT.items():
            if key in values:
                samples.append(Sample(metric, labels, values[key] * scale))
        pinned, released = values.get(b"nr_foll_pin_acquired"), values.get(b"nr_foll_pin_released")
        if pinned is not None and released is not None:
            samples.append(Sample(table.PINNED_PAGES, (), max(0, pinned - released)))
        return samples

    def _node_samples(self, node: str) -> list[Sample]:
        label = node[4:]
        samples = []
        meminfo = read_or_none(self.host, f"{self._node_base}/{node}/meminfo")
        values = parse_node_meminfo(meminfo) if meminfo else {}
        for key, metric in table.NODE_MEMINFO.items():
            if key in values:
                samples.append(Sample(metric, (label,), values[key] * 1024))
        numastat = read_or_none(self.host, f"{self._node_base}/{node}/numastat")
        counts = parsing.key_values(numastat) if numastat else {}
        for key, result in table.NUMASTAT.items():
            if key in counts:
                samples.append(Sample(table.NUMA_ALLOCATIONS, (label, result), counts[key]))
        return samples
