"""Pages that the kernel took out of use for hardware faults, from sysfs."""

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
    name="hwsonde_memory_failure_pages_total",
    kind=Kind.COUNTER,
    help="Pages with a hardware fault by what became of them: recovered, delayed until next use, ignored, or failed to be isolated.",
    labels=("numa_node", "result"),
    subsystem="memory",
    source="/sys/devices/system/node/nodeN/memory_failure/{recovered,delayed,ignored,failed}",
)

_RESULTS = ("recovered", "delayed", "ignored", "failed")
_NODE = re.compile(r"node(\d{1,5})\Z")


@register
class MemoryFailureCollector:
    """Faulty pages by NUMA node and what became of them."""

    name: ClassVar[str] = "memory_failure"
    help: ClassVar[str] = "Memory pages taken out of use for hardware faults"
    metrics: ClassVar[tuple[Metric, ...]] = (PAGES,)
    period: ClassVar[float | None] = 5.0
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host) -> None:
        self.host = host
        self._base = str(host.paths.sys("devices/system/node"))

    def probe(self) -> None:
        """Raise `Unavailable` where the kernel does not count them."""
        if not self._nodes():
            raise Unavailable(
                Reason.NO_KERNEL_SUPPORT,
                "the kernel does not count faulty pages: older than 6.3 or without memory failure handling",
            )

    def collect(self) -> Iterable[Sample]:
        """Read four small files a node."""
        samples = []
        for node in self._nodes():
            for result in _RESULTS:
                count = sys_number(self.host, f"{self._base}/node{node}/memory_failure/{result}")
                if count is not None:
                    samples.append(Sample(PAGES, (node, result), count))
        if not samples:
            raise ReadError(f"{self._base}: cannot be read; is --path.sysfs right?")
        return samples

    def _nodes(self) -> list[str]:
        matches = (_NODE.match(name) for name in entries(self._base))
        return [match[1] for match in matches if match and entries(f"{self._base}/{match[0]}/memory_failure")]
