"""Pressure stall information: time in which tasks waited for CPU, memory or I/O."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import ClassVar

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._files import read_or_none
from hwsonde_exporter.errors import ReadError, Reason, Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import Quantity, register

_counter = partial(Metric, kind=Kind.COUNTER, unit="seconds")
_summary = partial(Metric, kind=Kind.SUMMARY, unit="ratio")

CPU_WAITING = _counter(
    name="hwsonde_cpu_pressure_waiting_seconds_total",
    help="Seconds in which at least one task waited for CPU (PSI some).",
    subsystem="cpu",
    source="/proc/pressure/cpu some total (us)",
)
MEMORY_WAITING = _counter(
    name="hwsonde_memory_pressure_waiting_seconds_total",
    help="Seconds in which at least one task waited for memory (PSI some).",
    subsystem="memory",
    source="/proc/pressure/memory some total (us)",
)
MEMORY_STALLED = _counter(
    name="hwsonde_memory_pressure_stalled_seconds_total",
    help="Seconds in which all tasks waited for memory (PSI full).",
    subsystem="memory",
    source="/proc/pressure/memory full total (us)",
)
STORAGE_WAITING = _counter(
    name="hwsonde_storage_pressure_waiting_seconds_total",
    help="Seconds in which at least one task waited for I/O (PSI some).",
    subsystem="storage",
    source="/proc/pressure/io some total (us)",
)
STORAGE_STALLED = _counter(
    name="hwsonde_storage_pressure_stalled_seconds_total",
    help="Seconds in which all tasks waited for I/O (PSI full).",
    subsystem="storage",
    source="/proc/pressure/io full total (us)",
)
IRQ_STALLED = _counter(
    name="hwsonde_cpu_irq_pressure_stalled_seconds_total",
    help="Seconds in which tasks were stalled by interrupt handling (PSI irq full).",
    subsystem="cpu",
    source="/proc/pressure/irq full total (us); Linux 6.1 or later",
)
CPU_SAMPLED = Quantity(
    _summary(
        name="hwsonde_cpu_pressure_waiting_sampled_ratio",
        help="Share of time in which at least one task waited for CPU (PSI some).",
        subsystem="cpu",
        source="/proc/pressure/cpu",
    ),
    reference=0.1,
    cumulative=True,
)
MEMORY_SAMPLED = Quantity(
    _summary(
        name="hwsonde_memory_pressure_waiting_sampled_ratio",
        help="Share of time in which at least one task waited for memory (PSI some).",
        subsystem="memory",
        source="/proc/pressure/memory",
    ),
    reference=0.0,
    cumulative=True,
)
STORAGE_SAMPLED = Quantity(
    _summary(
        name="hwsonde_storage_pressure_waiting_sampled_ratio",
        help="Share of time in which at least one task waited for I/O (PSI some).",
        subsystem="storage",
        source="/proc/pressure/io",
    ),
    reference=0.0,
    cumulative=True,
)

# The whole host's "full" of the CPU is always 0: a CPU that runs a task is never stalled by all of them.
_COUNTERS: dict[str, tuple[tuple[str, Metric], ...]] = {
    "cpu": (("some", CPU_WAITING),),
    "memory": (("some", MEMORY_WAITING), ("full", MEMORY_STALLED)),
    "io": (("some", STORAGE_WAITING), ("full", STORAGE_STALLED)),
    "irq": (("full", IRQ_STALLED),),
}
_FAST: dict[str, Quantity] = {"cpu": CPU_SAMPLED, "memory": MEMORY_SAMPLED, "io": STORAGE_SAMPLED}


def parse_pressure(data: bytes) -> dict[str, int]:
    """Parse a file of /proc/pressure: ``some`` and ``full`` -> total stalled time in microseconds."""
    totals: dict[str, int] = {}
    for line in parsing.lines(data):
        kind = line.partition(b" ")[0]
        total = parsing.number(line.rpartition(b" total=")[2])
        if kind in {b"some", b"full"} and total is not None:
            totals.setdefault(kind.decode("ascii"), total)
    return totals


@register
class PressureCollector:
    """Seconds in which tasks waited for CPU, memory, I/O and interrupts."""

    name: ClassVar[str] = "pressure"
    help: ClassVar[str] = "Pressure stall information (PSI)"
    metrics: ClassVar[tuple[Metric, ...]] = (
        CPU_WAITING, MEMORY_WAITING, MEMORY_STALLED, STORAGE_WAITING, STORAGE_STALLED, IRQ_STALLED,
    )  # fmt: skip
    quantities: ClassVar[tuple[Quantity, ...]] = (CPU_SAMPLED, MEMORY_SAMPLED, STORAGE_SAMPLED)
    period: ClassVar[float | None] = None
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host) -> None:
        self.host = host
        self._paths = {resource: str(host.paths.proc("pressure", resource)) for resource in _COUNTERS}

    def probe(self) -> None:
        """Raise `Unavailable` where the kernel keeps no pressure information."""
        if not any(read_or_none(self.host, path) for path in self._paths.values()):
            raise Unavailable(
                Reason.NO_KERNEL_SUPPORT,
                "no readable file in /proc/pressure: the kernel needs CONFIG_PSI and, on some distributions, psi=1 at boot",
            )

    def collect(self) -> Iterable[Sample]:
        """Read one file a resource; those that this kernel does not have are left out."""
        samples = []
        for resource, counters in _COUNTERS.items():
            data = read_or_none(self.host, self._paths[resource])
            totals = parse_pressure(data) if data else {}
            samples += [Sample(metric, (), totals[kind] / 1e6) for kind, metric in counters if kind in totals]
        if not samples:
            raise ReadError(f"{self._paths['cpu']}: no pressure file can be read")
        return samples

    def observe(self) -> Sequence[tuple[Quantity, tuple[str, ...], float]]:
        """Give the seconds waited so far."""
        observed: list[tuple[Quantity, tuple[str, ...], float]] = []
        for resource, quantity in _FAST.items():
            data = read_or_none(self.host, self._paths[resource])
            end = data.find(b"\n") if data else -1
            # The line "some" comes first.
            if data and end > 0 and data.startswith(b"some "):
                total = parsing.number(data[:end].rpartition(b"=")[2])
                if total is not None:
                    observed.append((quantity, (), total / 1e6))
        return observed
