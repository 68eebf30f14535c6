"""Energy of the processors and their memory, from RAPL by way of powercap."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._powercap import Unwrapped, Zone, hidden, zones
from hwsonde_exporter.errors import ReadError, Reason, Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import Quantity, register

ENERGY = Metric(
    name="hwsonde_power_rapl_joules_total",
    kind=Kind.COUNTER,
    help="Energy used by a power domain of a package since the exporter started; the domain psys is the whole platform.",
    labels=("package", "domain"),
    unit="joules",
    subsystem="power",
    source="/sys/class/powercap/*rapl*/energy_uj, unwrapped at max_energy_range_uj",
)
POWER_SAMPLED = Quantity(
    Metric(
        name="hwsonde_power_rapl_sampled_watts",
        kind=Kind.SUMMARY,
        help="Power drawn by a processor package.",
        labels=("package",),
        unit="watts",
        subsystem="power",
        source="/sys/class/powercap/*rapl*/energy_uj of packages",
    ),
    reference=200.0,
    cumulative=True,
)


@register
class PowerRaplCollector:
    """Energy by package and domain; power of the packages ten times a second."""

    name: ClassVar[str] = "power_rapl"
    help: ClassVar[str] = "Energy of processors and memory (RAPL)"
    metrics: ClassVar[tuple[Metric, ...]] = (ENERGY,)
    quantities: ClassVar[tuple[Quantity, ...]] = (POWER_SAMPLED,)
    period: ClassVar[float | None] = None
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host) -> None:
        self.host = host
        self._zones: list[Zone] = []
        self._energy: dict[tuple[str, str, str], Unwrapped] = {}

    def probe(self) -> None:
        """Find the zones; raise `Unavailable` where there are none or none may be read."""
        self._zones = zones(self.host)
        if not self._zones and hidden(self.host):
            raise Unavailable(
                Reason.NO_PERMISSION,
                "the container hides /sys/class/powercap; mount the host's /sys and name it with --path.sysfs",
            )
        if not self._zones:
            raise Unavailable(
                Reason.NO_KERNEL_SUPPORT,
                "the kernel shows no RAPL zone in /sys/class/powercap; usual in a virtual machine, else load intel_rapl_msr",
            )
        problem: ReadError | None = None
        for zone in self._zones:
            try:
                self.host.files.read(f"{zone.path}/energy_uj")
            except ReadError as error:
                problem = error
            else:
                return
        if isinstance(problem and problem.__cause__, PermissionError):
            raise Unavailable(
                Reason.NO_PERMISSION,
                "energy counters may be read by root only since Linux 5.10; run as root or give the exporter CAP_DAC_READ_SEARCH",
            )
        raise Unavailable(Reason.NO_HARDWARE, f"no energy counter can be read: {problem}")

    def collect(self) -> Iterable[Sample]:
        """Read one file a domain."""
        totals = self._totals(self._zones)
        if not totals:
            raise ReadError("no energy counter of /sys/class/powercap can be read")
        return [Sample(ENERGY, labels, total / 1e6) for labels, total in totals.items()]

    def observe(self) -> Sequence[tuple[Quantity, tuple[str, ...], float]]:
        """Give the energy of each package so far, in joules."""
        if not self._zones:
            self._zones = zones(self.host)
        totals = self._totals([zone for zone in self._zones if zone.domain == "package"])
        return [(POWER_SAMPLED, (package,), total / 1e6) for (package, _), total in totals.items()]

    def _totals(self, wanted: list[Zone]) -> dict[tuple[str, str], int]:
        """Microjoules by package and domain, summed over dies; without those of which a die cannot be read now."""
        totals: dict[tuple[str, str], int] = {}
        incomplete = set()
        for zone in wanted:
            labels = (zone.package, zone.domain)
            energy = self._energy.setdefault((zone.package, zone.die, zone.domain), Unwrapped())
            if self._read(zone, energy):
                totals[labels] = totals.get(labels, 0) + energy.total
            else:
                incomplete.add(labels)
        return {labels: total for labels, total in totals.items() if labels not in incomplete}

    def _read(self, zone: Zone, energy: Unwrapped) -> bool:
        try:
            value = parsing.number(self.host.files.read(f"{zone.path}/energy_uj").strip())
        except ReadError:
            return False
        if value is None:
            return False
        credible = energy.update(value, zone.energy_range)
        if not credible:
            self.host.rejections.add()
        return credible
