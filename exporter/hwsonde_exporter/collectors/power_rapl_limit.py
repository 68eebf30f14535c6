"""Power limits that are set on the processors, from RAPL by way of powercap; everybody may read them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar

from hwsonde_exporter.collectors._files import entries, sys_number, sys_text
from hwsonde_exporter.collectors._powercap import Zone, hidden, zones
from hwsonde_exporter.errors import Reason, Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import register

_CONSTRAINT = re.compile(r"constraint_(\d{1,2})_power_limit_uw\Z")
# Nothing that a host may draw; firmware leaves registers that nobody set at all bits set.
_MAX_MICROWATTS = 100_000 * 1_000_000

LIMIT = Metric(
    name="hwsonde_power_rapl_limit_watts",
    kind=Kind.GAUGE,
    help="Power limit set on a domain; the constraint names the time over which it holds.",
    labels=("package", "domain", "constraint"),
    unit="watts",
    subsystem="power",
    source="/sys/class/powercap/*rapl*/constraint_N_power_limit_uw",
)


@register
class PowerRaplLimitCollector:
    """Power limits by package, domain and constraint; the lower one where the dies of a package differ."""

    name: ClassVar[str] = "power_rapl_limit"
    help: ClassVar[str] = "Power limits of processors and memory (RAPL)"
    metrics: ClassVar[tuple[Metric, ...]] = (LIMIT,)
    period: ClassVar[float | None] = 10.0
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host) -> None:
        self.host = host
        self._constraints: list[tuple[Zone, str, str]] = []

    def probe(self) -> None:
        """Find the zones that have a limit; raise `Unavailable` where there are none, as on AMD processors."""
        self._constraints = []
        for zone in zones(self.host):
            for file in entries(zone.path):
                match = _CONSTRAINT.match(file)
                if match:
                    title = sys_text(self.host, f"{zone.path}/constraint_{match[1]}_name") or f"constraint_{match[1]}"
                    self._constraints.append((zone, f"{zone.path}/{file}", title))
        if not self._constraints and hidden(self.host):
            raise Unavailable(
                Reason.NO_PERMISSION,
                "the container hides /sys/class/powercap; mount the host's /sys and name it with --path.sysfs",
            )
        if not self._constraints:
            raise Unavailable(
                Reason.NO_KERNEL_SUPPORT,
                "the kernel shows no power limit in /sys/class/powercap; only Intel processors have one",
            )

    def collect(self) -> Iterable[Sample]:
        """Read one file a limit; 0 stands for one that is not set."""
        limits: dict[tuple[str, str, str], int] = {}
        for zone, path, title in self._constraints:
            value = sys_number(self.host, path)
            if value and value <= _MAX_MICROWATTS:
                labels = (zone.package, zone.domain, title)
                limits[labels] = min(value, limits.get(labels, value))
        return [Sample(LIMIT, labels, value / 1e6) for labels, value in limits.items()]
