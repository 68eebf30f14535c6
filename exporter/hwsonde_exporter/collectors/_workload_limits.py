"""What happened at limits of memory below a workload's own control group, which version 1 counts where it happened only."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from hwsonde_exporter.collectors import _workload_tables as table
from hwsonde_exporter.collectors._cgroup_files import Read, Row, limit_counts
from hwsonde_exporter.collectors._cgroups import Group
from hwsonde_exporter.collectors._workload_counters import Gathered, Recent

MAX_GROUPS = 64
"""So many groups of a workload are read: two files each, at every scrape."""


class LimitCounts:
    """Limits met and processes killed in all groups of a workload.

    A job's steps and a container's children have limits of their own. Version 2 adds their events up to the top, version 1 does not. The
    sums only grow, though groups come and go.
    """

    def __init__(self) -> None:
        self._sums: Recent[dict[Hashable, Gathered]] = Recent(dict)

    def rows(self, read: Read, life: Hashable, members: Sequence[Group]) -> list[Row]:
        """Sums over the groups of a workload that are of version 1; none where version 2 tells. ``life`` names it from its start to its end."""
        parts: dict[Hashable, dict[Hashable, int]] = {}
        for group in members[:MAX_GROUPS]:
            folder = group.where.get("memory")
            if folder is not None:
                for key, value in limit_counts(read, folder).items():
                    parts.setdefault(key, {})[folder] = value
        sums = self._sums.of(life)
        totals = {key: sums.setdefault(key, Gathered()).update(found, lambda _: True) for key, found in parts.items()}
        values = (
            (table.MEMORY_LIMIT_EVENTS, ("max",), totals.get("max")),
            (table.OOM_KILLS, (), totals.get("oom_kill")),
        )
        return [(metric, labels, value, 1) for metric, labels, value in values if value is not None]
