"""Bytes between processors and memory, counted by the memory controllers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from hwsonde_exporter.collectors._memory_units import MemoryUnit, find_units
from hwsonde_exporter.collectors._perf_event import SYSTEM, Group, Kernel, Outcome, open_groups, permission_advice
from hwsonde_exporter.collectors._topology import Topology
from hwsonde_exporter.errors import ReadError, Reason, Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import register

BYTES = Metric(
    name="hwsonde_memory_bandwidth_bytes_total",
    kind=Kind.COUNTER,
    help="Bytes between the memory and the controllers of a socket since the exporter started.",
    labels=("socket", "direction"),
    unit="bytes",
    subsystem="memory",
    source="perf_event_open(2) on uncore_imc_*: cas_count_read, cas_count_write; on amd_umc_*: umc_cas_cmd; 64 bytes a count",
)


@register
class MemoryBandwidthCollector:
    """Reads and writes of each socket's memory controllers."""

    name: ClassVar[str] = "memory_bandwidth"
    help: ClassVar[str] = "Memory bandwidth, by the memory controllers' counters"
    metrics: ClassVar[tuple[Metric, ...]] = (BYTES,)
    # One call for each controller, answered by the socket's one CPU that is in charge of it.
    period: ClassVar[float | None] = 5.0
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host, *, kernel: Kernel = SYSTEM) -> None:
        self.host = host
        self._kernel = kernel
        self._topology = Topology(host)
        self._groups: dict[tuple[str, int], list[Group]] = {}
        self._units: dict[str, MemoryUnit] = {}
        self._totals: dict[tuple[str, str], int] = {}

    def probe(self) -> None:
        """Open the events that are not open; raise `Unavailable` with the cause if there are none."""
        self._units = {unit.name: unit for unit in find_units(self.host)}
        if not self._units:
            self._groups.clear()
            detail = "the kernel shows no counters of memory controllers (uncore_imc_*, amd_umc_*); usual in a virtual machine"
            raise Unavailable(Reason.NO_HARDWARE, detail)
        outcomes: set[Outcome] = set()
        for unit in self._units.values():
            for cpu in unit.cpus:
                if (unit.name, cpu) not in self._groups:
                    outcomes |= self._open(unit, cpu)
        if self._groups:
            return
        if Outcome.NO_PERMISSION in outcomes:
            raise Unavailable(Reason.NO_PERMISSION, permission_advice(self.host))
        detail = f"the memory controllers' counters cannot be opened: {', '.join(sorted(outcomes))}"
        raise Unavailable(Reason.NO_KERNEL_SUPPORT, detail)

    def collect(self) -> Iterable[Sample]:
        """Read one group of each controller; one that is lost is opened anew by the next probe."""
        for key, groups in list(self._groups.items()):
            unit = self._units.get(key[0])
            for group in groups:
                growth = group.advance()
                if growth is not None and unit is not None:
                    self._add(unit, key[1], group, growth.counts)
            if unit is None or any(group.lost for group in groups):
                del self._groups[key]
        if not self._groups:
            raise ReadError("the memory controllers' counters are gone; they are opened anew within a minute")
        return [Sample(BYTES, key, count) for key, count in sorted(self._totals.items())]

    def _open(self, unit: MemoryUnit, cpu: int) -> set[Outcome]:
        plan = [[event.event for event in unit.events]]
        groups, outcomes = open_groups(self._kernel, plan, cpu)
        if Outcome.NO_DESCRIPTORS in outcomes.values() and self._kernel.raise_limit():
            groups, outcomes = open_groups(self._kernel, plan, cpu)
        if groups:
            self._groups[unit.name, cpu] = groups
        return set(outcomes.values())

    def _add(self, unit: MemoryUnit, cpu: int, group: Group, counts: tuple[int, ...]) -> None:
        sizes = {event.event.name: (event.direction, event.size) for event in unit.events}
        for event, count in zip(group.events, counts, strict=True):
            if event.name not in sizes:
                continue  # sysfs describes the unit otherwise than when the group was opened
            direction, size = sizes[event.name]
            key = (self._topology.package(cpu), direction)
            self._totals[key] = self._totals.get(key, 0) + count * size
