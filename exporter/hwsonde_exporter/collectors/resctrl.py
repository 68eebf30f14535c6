"""Cache occupancy and memory traffic behind each last level cache, from the resource control filesystem."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from typing import ClassVar

from hwsonde_exporter.collectors._counters import SteadySum
from hwsonde_exporter.collectors._files import entries, sys_number
from hwsonde_exporter.errors import ReadError, Reason, Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import register

OCCUPANCY = Metric(
    name="hwsonde_cpu_llc_occupancy_bytes",
    kind=Kind.GAUGE,
    help="Last level cache occupied, as Intel RDT or AMD QoS reports it.",
    labels=("cache",),
    unit="bytes",
    subsystem="cpu",
    source="/sys/fs/resctrl/mon_data/mon_L3_NN/llc_occupancy, summed over control groups",
)
TRAFFIC = Metric(
    name="hwsonde_memory_resctrl_bytes_total",
    kind=Kind.COUNTER,
    help="Memory traffic behind a last level cache: of the cache to all memory (total) or to its own node's (local).",
    labels=("cache", "scope"),
    unit="bytes",
    subsystem="memory",
    source="/sys/fs/resctrl/mon_data/mon_L3_NN/{mbm_total_bytes,mbm_local_bytes}, summed over control groups",
)

_CACHE = re.compile(r"mon_L3_(\d{1,5})\Z")
# Folders of the filesystem itself; all others are control groups, which count apart from the rest.
_NO_GROUPS = frozenset({"info", "mon_data", "mon_groups"})
_SCOPES = {"total": "mbm_total_bytes", "local": "mbm_local_bytes"}


@register
class ResctrlCollector:
    """Occupancy of the last level caches and the traffic behind them.

    The root's folder counts what belongs to no control group, so the folders of control groups are added to it. A value that
    the hardware cannot give just now (``Unavailable``, ``Unassigned``) is left out.
    """

    name: ClassVar[str] = "resctrl"
    help: ClassVar[str] = "Last level cache occupancy and memory traffic (Intel RDT, AMD QoS)"
    metrics: ClassVar[tuple[Metric, ...]] = (OCCUPANCY, TRAFFIC)
    # Each file is answered by a CPU of its cache.
    period: ClassVar[float | None] = 5.0
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host) -> None:
        self.host = host
        self._base = str(host.paths.sys("fs/resctrl"))
        self._totals: dict[tuple[str, str], SteadySum] = {}

    def probe(self) -> None:
        """Raise `Unavailable` where the filesystem is not mounted or the processor monitors nothing."""
        found = entries(self._base)
        if "info" not in found:
            if "resctrl" not in entries(self.host.paths.sys("fs")):
                detail = "the processor or the kernel has no resource control (Intel RDT, AMD QoS); usual in a virtual machine"
                raise Unavailable(Reason.NO_HARDWARE, detail)
            detail = f"{self._base} is not mounted; mount -t resctrl resctrl /sys/fs/resctrl makes it so"
            raise Unavailable(Reason.NO_KERNEL_SUPPORT, detail)
        if not self._caches(""):
            raise Unavailable(Reason.NO_HARDWARE, "the processor monitors neither cache occupancy nor memory traffic")

    def collect(self) -> Iterable[Sample]:
        """Read up to three files for each cache and control group."""
        occupied: dict[str, int] = {}
        moved: dict[tuple[str, str], dict[Hashable, int]] = {}
        for group in ("", *self._groups()):
            for folder, cache in self._caches(group):
                occupancy = sys_number(self.host, f"{folder}/llc_occupancy")
                if occupancy is not None:
                    occupied[cache] = occupied.get(cache, 0) + occupancy
                for scope, name in _SCOPES.items():
                    count = sys_number(self.host, f"{folder}/{name}")
                    if count is not None:
                        moved.setdefault((cache, scope), {})[group] = count
        samples = [Sample(OCCUPANCY, (cache,), size) for cache, size in occupied.items()]
        samples += [
            Sample(TRAFFIC, key, self._totals.setdefault(key, SteadySum()).update(parts))
            for key, parts in moved.items()
        ]
        if not samples:
            raise ReadError(f"{self._base}/mon_data: gives no values; the exporter may have to be root to read it")
        return samples

    def _groups(self) -> list[str]:
        return [name for name in entries(self._base) if name not in _NO_GROUPS]

    def _caches(self, group: str) -> list[tuple[str, str]]:
        """Folder and number of each cache of a control group; none of a plain file."""
        base = f"{self._base}/{group}/mon_data" if group else f"{self._base}/mon_data"
        matches = ((name, _CACHE.match(name)) for name in entries(base))
        return [(f"{base}/{name}", str(int(match[1]))) for name, match in matches if match]
