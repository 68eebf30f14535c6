"""Pools of huge pages, from sysfs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar

from hwsonde_exporter.collectors._files import entries, sys_number
from hwsonde_exporter.errors import ReadError, Reason, Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import register

PAGES = Metric(
    name="hwsonde_memory_hugepages",
    kind=Kind.GAUGE,
    help="Huge pages of a pool by state: all of them (total), free, reserved but not yet used, beyond the configured number (surplus).",
    labels=("size", "state"),
    subsystem="memory",
    source="/sys/kernel/mm/hugepages/hugepages-NkB/{nr,free,resv,surplus}_hugepages",
)

_FILES = {
    "total": "nr_hugepages",
    "free": "free_hugepages",
    "reserved": "resv_hugepages",
    "surplus": "surplus_hugepages",
}
_POOL = re.compile(r"hugepages-(\d{1,10})kB\Z")


def size_label(kibibytes: int) -> str:
    """Size of a page for people: ``64KiB``, ``2MiB``, ``1GiB``."""
    for factor, unit in ((1 << 20, "GiB"), (1 << 10, "MiB")):
        if kibibytes and kibibytes % factor == 0:
            return f"{kibibytes // factor}{unit}"
    return f"{kibibytes}KiB"


@register
class HugepagesCollector:
    """Huge pages by size and state."""

    name: ClassVar[str] = "hugepages"
    help: ClassVar[str] = "Huge pages by size and state"
    metrics: ClassVar[tuple[Metric, ...]] = (PAGES,)
    period: ClassVar[float | None] = 5.0
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host) -> None:
        self.host = host
        self._base = str(host.paths.sys("kernel/mm/hugepages"))

    def probe(self) -> None:
        """Raise `Unavailable` where the kernel has no huge pages."""
        if not entries(self._base):
            raise Unavailable(Reason.NO_KERNEL_SUPPORT, f"{self._base} is missing: a kernel without huge pages")

    def collect(self) -> Iterable[Sample]:
        """Read four small files a page size."""
        samples: dict[tuple[str, str], Sample] = {}
        for pool in entries(self._base):
            match = _POOL.match(pool)
            if match is None:
                continue
            for state, name in _FILES.items():
                count = sys_number(self.host, f"{self._base}/{pool}/{name}")
                if count is not None:
                    labels = (size_label(int(match[1])), state)
                    samples[labels] = Sample(PAGES, labels, count)
        if not samples:
            raise ReadError(f"{self._base}: cannot be read; is --path.sysfs right?")
        return list(samples.values())
