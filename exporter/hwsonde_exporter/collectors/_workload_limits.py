"""What happened at limits of memory below a workload's own control group, which version 1 counts where it happened only."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from hwsonde_exporter.collectors import _workload_tables as table
from hwsonde_exporter.collectors._cgroup_files import Read, Row, limit_counts
from hwsonde_exporter.collectors._cgroups import Group
from hwsonde_exporter.collectors._workload_counters import Recent

MAX_GROUPS = 64
"""So many groups of a workload are read: two files each, at every scrape."""

TOTAL_GROUPS = 512
"""So many of all workloads together; of those that come later only their own group is read."""

_REMEMBERED = 8 * MAX_GROUPS
_Key = tuple[str, str]


@dataclass(slots=True)
class _Sums:
    """What the groups of one workload have counted: ``last`` of each, by what is counted and folder, and the ``total`` of their growth."""

    last: dict[_Key, int] = field(default_factory=dict)
    total: dict[str, int] = field(default_factory=dict)

    def take(self, folder: str, counts: dict[str, int], *, new: bool) -> None:
        """Add what a group has counted since it was last read; all of it where it is ``new``, nothing where it only was not read before."""
        for key, value in counts.items():
            before = self.last.get((key, folder), 0 if new else value)
            # A group that was made anew begins at 0.
            grown = value - before if value >= before else value
            self.last[key, folder] = value
            self.total[key] = self.total.get(key, 0) + grown


class LimitCounts:
    """Limits met and processes killed in all groups of a workload.

    A job's steps and a container's children have limits of their own. Version 2 adds their events up to the top, version 1 does not. The
    sums only grow, though groups come and go, and what cannot be read once is not added twice.
    """

    def __init__(self) -> None:
        self._sums: Recent[_Sums] = Recent(_Sums)
        self._left = TOTAL_GROUPS

    def begin(self) -> None:
        """A new scrape."""
        self._left = TOTAL_GROUPS

    def rows(self, read: Read, life: Hashable, members: Sequence[Group]) -> list[Row]:
        """Sums over the groups of a workload that are of version 1; none where version 2 tells. ``life`` names it from its start to its end."""
        sums = self._sums.of(life)
        own = members[:1] if self._left < len(members) else members[:MAX_GROUPS]
        # Where some are left out, one that is met for the first time may only have moved up.
        all_read = len(own) == len(members)
        found = False
        for group in own:
            folder = group.where.get("memory")
            if folder is not None:
                self._left -= 1
                found = True
                sums.take(folder, limit_counts(read, folder), new=all_read or not sums.last)
        if not found:
            return []
        if len(sums.last) > _REMEMBERED:
            present = {group.where.get("memory") for group in members}
            sums.last = {key: value for key, value in sums.last.items() if key[1] in present}
        values = ((table.MEMORY_LIMIT_EVENTS, ("max",), "max"), (table.OOM_KILLS, (), "oom_kill"))
        return [(metric, labels, sums.total[key], 1) for metric, labels, key in values if key in sums.total]
