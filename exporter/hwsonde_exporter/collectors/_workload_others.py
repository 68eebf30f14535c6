"""The CPU of all that is no workload: its sum, and the few busiest cgroups by name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from hwsonde_exporter.collectors._cgroup_files import Read, usage
from hwsonde_exporter.collectors._workload_counters import Rest
from hwsonde_exporter.collectors._workload_select import Entity

NAMED = 5
# So many of the cgroups that are not named are read in one reading; the next ones in the next.
_SLICE = 64
# Somebody takes the place of one who is named only if it is this much busier: twice, and by a hundredth of all CPU used.
_FACTOR, _MARGIN = 2.0, 0.01


@dataclass(slots=True)
class _Seen:
    """The last look at a cgroup: its CPU, that of the whole host then, and its share since the look before."""

    used: int
    whole: int
    share: float


class Others:
    """Follows the CPU use of the cgroups that are no workloads."""

    def __init__(self) -> None:
        self._rest = Rest()
        self._seen: dict[str, _Seen] = {}
        self._named: list[str] = []
        self._known: frozenset[str] = frozenset()
        self._whole = 0
        self._turn = 0

    def update(
        self, whole: int, workloads: Mapping[str, int], others: Sequence[Entity], read: Read
    ) -> tuple[int, dict[str, int]]:
        """Look at them once.

        Parameters
        ----------
        whole
            CPU time of the whole host, in microseconds.
        workloads
            That of each workload that lies in no other.
        others
            The cgroups that are no workloads.
        read
            Reads a file.

        Returns
        -------
        tuple
            CPU time of everything that is no workload, and that of the busiest cgroups of these by name; microseconds.
        """
        by_name = {entity.workload: entity for entity in others}
        self._seen = {name: seen for name, seen in self._seen.items() if name in by_name}
        self._named = [name for name in self._named if name in by_name]
        new = by_name.keys() - self._known if self._known else frozenset[str]()
        values = {
            name: self._look(by_name[name], whole, self._whole if name in new else 0, read)
            for name in self._due(by_name, new)
        }
        self._known, self._whole = frozenset(by_name), whole
        self._elect(name for name, used in values.items() if used is not None)
        named = {name: used for name in sorted(self._named) if (used := values.get(name)) is not None}
        return self._rest.update(whole, workloads), named

    def _due(self, by_name: Mapping[str, Entity], new: Collection[str]) -> list[str]:
        """Those that are named, and the next few of the rest; the first of them those that were not there before."""
        rest = [name for name in by_name if name not in self._named and name not in new]
        start = self._turn if self._turn < len(rest) else 0
        self._turn = start + _SLICE
        return self._named + sorted(new)[:_SLICE] + rest[start : self._turn]

    def _look(self, entity: Entity, whole: int, since: int, read: Read) -> int | None:
        """Read its CPU; at the first look its share is that since the whole host had used ``since``."""
        used = usage(read, entity.group)
        if used is None:
            self._seen.pop(entity.workload, None)
            return None
        last = self._seen.get(entity.workload)
        if last is None or used < last.used:
            self._seen[entity.workload] = _Seen(used, whole, min(1.0, used / max(1, whole - since)))
        elif whole > last.whole:
            share = (used - last.used) / (whole - last.whole)
            self._seen[entity.workload] = _Seen(used, whole, (last.share + share) / 2)
        return used

    def _elect(self, present: Iterable[str]) -> None:
        def share(name: str) -> float:
            return self._seen[name].share

        self._named = [name for name in self._named if name in self._seen]
        rivals = sorted((name for name in present if name not in self._named), key=lambda name: (-share(name), name))
        for rival in rivals:
            if len(self._named) < NAMED:
                self._named.append(rival)
                continue
            least = min(self._named, key=share)
            if share(rival) <= _FACTOR * share(least) + _MARGIN:
                break
            self._named[self._named.index(least)] = rival
