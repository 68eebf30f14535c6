"""Interrupts of a few kinds that tell of trouble, summed over CPUs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import partial
from typing import ClassVar

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._counters import SteadySum
from hwsonde_exporter.collectors._files import read_or_none
from hwsonde_exporter.errors import ReadError, Reason, Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import register

_counter = partial(Metric, kind=Kind.COUNTER, subsystem="cpu")

MACHINE_CHECKS = _counter(
    name="hwsonde_cpu_machine_check_exceptions_total",
    help="Machine check exceptions taken since boot.",
    source="/proc/interrupts row MCE, summed over CPUs",
)
THERMAL = _counter(
    name="hwsonde_cpu_thermal_interrupts_total",
    help="Thermal event interrupts taken since boot.",
    source="/proc/interrupts row TRM, summed over CPUs",
)
KINDS = _counter(
    name="hwsonde_cpu_interrupts_by_kind_total",
    help="Interrupts since boot that are no device's, by kind; a machine_check_threshold tells of corrected errors.",
    labels=("kind",),
    source="/proc/interrupts rows NMI, LOC, SPU, PMI, IWI, RES, CAL, TLB, THR, DFR, MCP, ERR, on ARM the IPI rows, summed over CPUs",
)

_ROWS: dict[bytes, tuple[Metric, tuple[str, ...]]] = {
    b"MCE": (MACHINE_CHECKS, ()),
    b"TRM": (THERMAL, ()),
    b"NMI": (KINDS, ("non_maskable",)),
    b"LOC": (KINDS, ("local_timer",)),
    b"SPU": (KINDS, ("spurious",)),
    b"PMI": (KINDS, ("performance_monitoring",)),
    b"IWI": (KINDS, ("irq_work",)),
    b"RES": (KINDS, ("rescheduling",)),
    b"CAL": (KINDS, ("function_call",)),
    b"TLB": (KINDS, ("tlb_shootdown",)),
    b"THR": (KINDS, ("machine_check_threshold",)),
    b"DFR": (KINDS, ("deferred_error",)),
    b"MCP": (KINDS, ("machine_check_poll",)),
    b"ERR": (KINDS, ("controller_error",)),
    b"Err": (KINDS, ("controller_error",)),
}
# ARM numbers these rows and has renumbered them; what counts is the text behind the numbers.
_DESCRIBED: dict[bytes, tuple[Metric, tuple[str, ...]]] = {
    b"Rescheduling interrupts": (KINDS, ("rescheduling",)),
    b"Function call interrupts": (KINDS, ("function_call",)),
    b"Timer broadcast interrupts": (KINDS, ("local_timer",)),
    b"IRQ work interrupts": (KINDS, ("irq_work",)),
}
_CPU_WIDE = -1


def parse_interrupts(data: bytes) -> dict[tuple[Metric, tuple[str, ...]], dict[Hashable, int]]:
    """Parse the rows of /proc/interrupts that have names and not numbers: metric and labels -> count by CPU.

    A row that counts for the whole host (ERR) has one number, under CPU -1. A row with a token that is no number where one is
    due is left out.
    """
    rows = parsing.lines(data)
    cpus = [parsing.number(name[3:]) for name in rows[0].split()] if rows else []
    found: dict[tuple[Metric, tuple[str, ...]], dict[Hashable, int]] = {}
    for row in rows[1:]:
        name, colon, rest = row.partition(b":")
        name = name.strip()
        # Most rows are devices', and long.
        if not colon or name.isdigit():
            continue
        described = rest.lstrip(b"0123456789 ").rstrip()
        key = _DESCRIBED.get(described) if name.startswith(b"IPI") else _ROWS.get(name)
        if key is None or key in found:
            continue
        counts = parsing.numbers(rest.split()[: len(cpus)])
        if counts is not None and len(counts) == len(cpus) and None not in cpus:
            found[key] = dict(zip(cpus, counts, strict=True))
        elif (single := parsing.number(rest.strip())) is not None:
            found[key] = {_CPU_WIDE: single}
    return found


@register
class InterruptsCollector:
    """Machine checks, thermal events and other interrupts that are no device's."""

    name: ClassVar[str] = "interrupts"
    help: ClassVar[str] = "Machine checks, thermal events and other interrupts that are no device's"
    metrics: ClassVar[tuple[Metric, ...]] = (MACHINE_CHECKS, THERMAL, KINDS)
    # The kernel writes a number for each CPU and device: 2 MB with 192 CPUs and 1,000 interrupts, most of it for nothing.
    period: ClassVar[float | None] = 15.0
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host) -> None:
        self.host = host
        self._path = str(host.paths.proc("interrupts"))
        self._totals: dict[tuple[Metric, tuple[str, ...]], SteadySum] = {}

    def probe(self) -> None:
        """Raise `Unavailable` where the file is masked or has no row that is known."""
        data = read_or_none(self.host, self._path)
        if data == b"":
            detail = f"{self._path} is empty: a container's runtime has masked it; mount the host's /proc and name it with --path.procfs"
            raise Unavailable(Reason.NO_PERMISSION, detail)
        if data is not None and not parse_interrupts(data):
            raise Unavailable(Reason.NO_KERNEL_SUPPORT, f"{self._path} has none of the rows that this collector knows")

    def collect(self) -> Iterable[Sample]:
        """Read the file; the rows of CPUs that are offline are missing in it, and the sums hold what they had counted."""
        found = parse_interrupts(self.host.files.read(self._path))
        if not found:
            raise ReadError(f"{self._path}: has none of the rows that are known")
        return [
            Sample(metric, labels, self._totals.setdefault((metric, labels), SteadySum()).update(parts))
            for (metric, labels), parts in found.items()
        ]
