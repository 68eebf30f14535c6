"""Events counted on every CPU of the host: opened, followed over hotplug, summed by package."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from weakref import WeakValueDictionary

from hwsonde_exporter.collectors._perf_event import (
    HARDWARE,
    HARDWARE_CACHE,
    Event,
    Group,
    Kernel,
    Outcome,
    open_groups,
)

_LOG = logging.getLogger(__name__)

# What is left to the rest of the exporter (files, connections) when there are not enough descriptors for all CPUs.
_SPARE_DESCRIPTORS = 64

Plan = tuple[tuple[Event, ...], ...]


class CpuCounters:
    """The groups of a plan on every CPU, and what they have counted.

    The collector and the fast sampler use the same one, because two sets of events would fight for the processor's
    counters. Whoever reads adds the growth to the common totals. Safe for several threads.

    Parameters
    ----------
    kernel
        The system calls.
    plan
        Groups of events.
    package
        Gives the package of a CPU.
    """

    def __init__(self, kernel: Kernel, plan: Plan, package: Callable[[int], str]) -> None:
        self._kernel = kernel
        self._plan = plan
        self._package = package
        self._lock = threading.Lock()
        self._groups: dict[int, list[Group]] = {}
        self._outcomes: dict[int, Mapping[str, Outcome]] = {}
        self._capacity: int | None = None
        self._totals: dict[tuple[str, str], int] = {}

    def follow(self, online: Collection[int], units: Mapping[int, int], *, retry: bool = False) -> None:
        """Open events on CPUs that came, and anew where they were lost; close those of CPUs that went.

        Parameters
        ----------
        online
            The CPUs online.
        units
            As `core_units`.
        retry
            Try CPUs again on which nothing could be opened.
        """
        with self._lock:
            for cpu in list(self._outcomes):
                groups = self._groups.get(cpu, ())
                lost = any(group.lost for group in groups)
                if cpu not in online or lost or (retry and not groups):
                    self._close(cpu)
            for cpu in online:
                if cpu not in self._outcomes:
                    self._open(cpu, units)

    def advance(self, names: Collection[str] | None = None) -> None:
        """Read the groups and add what has grown; ``names`` limits them to those that hold one of these events."""
        with self._lock:
            for cpu, groups in self._groups.items():
                package = self._package(cpu)
                for group in groups:
                    if group.lost or not (names is None or any(event.name in names for event in group.events)):
                        continue
                    growth = group.advance()
                    if growth is None:
                        continue
                    for event, count in zip(group.events, growth.counts, strict=True):
                        key = (package, event.name)
                        self._totals[key] = self._totals.get(key, 0) + count

    def totals(self) -> dict[tuple[str, str], int]:
        """Counts so far, by package and name of the event; without those that have never been counted."""
        with self._lock:
            return dict(self._totals)

    def shares(self) -> dict[str, float]:
        """Lowest share over CPUs of the time since the last call in which each event was really counted."""
        lowest: dict[str, float] = {}
        with self._lock:
            for groups in self._groups.values():
                for group in groups:
                    share = group.share()
                    if share is not None:
                        for event in group.events:
                            lowest[event.name] = min(share, lowest.get(event.name, 1.0))
        return lowest

    def outcomes(self) -> Counter[tuple[str, Outcome]]:
        """Number of CPUs by event and what became of it."""
        with self._lock:
            return Counter(pair for outcomes in self._outcomes.values() for pair in outcomes.items())

    def has(self, names: Collection[str]) -> bool:
        """Whether one of these events is counted on some CPU."""
        with self._lock:
            groups = [group for opened in self._groups.values() for group in opened]
        return any(event.name in names for group in groups for event in group.events)

    @property
    def cpus(self) -> int:
        """Number of CPUs on which something is counted."""
        return len(self._groups)

    def _open(self, cpu: int, units: Mapping[int, int]) -> None:
        plan = tuple(tuple(for_unit(event, units.get(cpu)) for event in events) for events in self._plan)
        if self._capacity is not None and len(self._groups) >= self._capacity:
            self._give_up(cpu)
            return
        groups, outcomes = open_groups(self._kernel, plan, cpu)
        if Outcome.NO_DESCRIPTORS in outcomes.values() and self._kernel.raise_limit():
            _close_all(groups)
            groups, outcomes = open_groups(self._kernel, plan, cpu)
        if Outcome.NO_DESCRIPTORS in outcomes.values():
            _close_all(groups)
            self._make_room()
            self._give_up(cpu)
            return
        self._outcomes[cpu] = outcomes
        if groups:
            self._groups[cpu] = groups

    def _make_room(self) -> None:
        """Give descriptors back, beginning with the last CPU, until there are enough for the rest of the exporter."""
        spare = 0
        while spare < _SPARE_DESCRIPTORS and self._groups:
            cpu = next(reversed(self._groups))
            spare += sum(group.descriptors for group in self._groups[cpu])
            self._close(cpu)
            self._give_up(cpu)
        self._capacity = len(self._groups)
        _LOG.warning(
            "perf: out of file descriptors, only %d CPUs are counted; give the exporter a higher limit "
            "(LimitNOFILE= in its systemd unit) and restart it",
            self._capacity,
        )

    def _give_up(self, cpu: int) -> None:
        self._outcomes[cpu] = {event.name: Outcome.NO_DESCRIPTORS for events in self._plan for event in events}

    def _close(self, cpu: int) -> None:
        self._outcomes.pop(cpu, None)
        _close_all(self._groups.pop(cpu, ()))


def for_unit(event: Event, unit: int | None) -> Event:
    """An event as the counter unit of a CPU must be asked for it, on a processor with cores of several kinds."""
    if unit is None or event.type not in (HARDWARE, HARDWARE_CACHE):
        return event
    return replace(event, config=event.config | unit << 32)


def _close_all(groups: Sequence[Group]) -> None:
    for group in groups:
        group.close()


_SHARED: WeakValueDictionary[tuple[object, ...], CpuCounters] = WeakValueDictionary()
_SHARED_LOCK = threading.Lock()


def shared_counters(key: tuple[object, ...], kernel: Kernel, plan: Plan, package: Callable[[int], str]) -> CpuCounters:
    """The counters of this key, made if nobody has them; they end with the last one who holds them."""
    with _SHARED_LOCK:
        found = _SHARED.get(key)
        if found is None:
            found = _SHARED[key] = CpuCounters(kernel, plan, package)
        return found


def find_counters(key: tuple[object, ...]) -> CpuCounters | None:
    """The counters of this key, if somebody has made them."""
    with _SHARED_LOCK:
        return _SHARED.get(key)
