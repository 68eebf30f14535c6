"""A kernel's perf events, made up."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from zlib import crc32

from hwsonde_exporter.collectors._perf_event import SOFTWARE, Event
from hwsonde_exporter.host import Host

SECOND = 1_000_000_000


@dataclass
class Opened:
    event: Event
    cpu: int
    leader: int
    enabled: int = 0
    running: int = 0
    count: int = 0
    gone: bool = False


class FakeKernel:
    """Counts what a test tells it to.

    Parameters
    ----------
    refuse
        Error number by name of the event.
    alone
        Events that no group takes: they can only lead.
    limit, hard
        Descriptors that may be open, before and after the limit is raised.
    """

    def __init__(
        self,
        refuse: Mapping[str, int] | None = None,
        alone: Collection[str] = (),
        limit: int = 1 << 20,
        hard: int = 1 << 20,
    ) -> None:
        self.refuse = dict(refuse or {})
        self.alone = set(alone)
        self.limit = limit
        self.hard = hard
        self.offline: set[int] = set()
        self.opened: dict[int, Opened] = {}
        self.calls = 0
        self.reads = 0
        self._next = 100

    def open(self, event: Event, cpu: int, leader: int) -> int:
        self.calls += 1
        code = self.refuse.get(event.name)
        if cpu in self.offline:
            code = errno.ENODEV
        elif event.name in self.alone and leader != -1:
            code = errno.EINVAL
        elif code is None and len(self.opened) >= self.limit:
            code = errno.EMFILE
        if code is not None:
            raise OSError(code, os.strerror(code))
        assert leader == -1 or self.opened[leader].cpu == cpu
        self._next += 1
        self.opened[self._next] = Opened(event, cpu, leader)
        return self._next

    def read(self, descriptor: int, size: int) -> bytes:
        self.reads += 1
        first = self.opened[descriptor]
        group = [first, *(member for member in self.opened.values() if member.leader == descriptor)]
        if first.gone:
            group = [first]
        assert size >= 24 + 8 * len(group)
        counts = [member.count for member in group]
        return struct.pack(f"={3 + len(group)}Q", len(group), first.enabled, first.running, *counts)

    def close(self, descriptor: int) -> None:
        del self.opened[descriptor]

    def raise_limit(self) -> bool:
        raised, self.limit = self.limit < self.hard, self.hard
        return raised

    def run(self, counts: Mapping[str, int], share: float = 1.0, time: int = SECOND) -> None:
        """Let time pass on all CPUs, of which the groups count a share; ``counts`` is what each event saw meanwhile."""
        for opened in self.opened.values():
            if not opened.gone:
                opened.enabled += time
                opened.running += int(time * share)
                opened.count += int(counts.get(opened.event.name, 0) * share)

    def unplug(self, cpu: int) -> None:
        """Take a CPU away: its events stand still for ever, and are no groups any more."""
        self.offline.add(cpu)
        for opened in self.opened.values():
            opened.gone = opened.gone or opened.cpu == cpu

    def plug(self, cpu: int) -> None:
        self.offline.discard(cpu)


class FixtureKernel(FakeKernel):
    """The events of a fixture host: each has counted once and stands still, while time goes on.

    The processor's own are there if the host shows their unit (``cpu``, or ``cpu_core`` where there are cores of two kinds, among
    the event sources).
    """

    def __init__(self, host: Host) -> None:
        super().__init__()
        units = host.paths.sys("bus/event_source/devices")
        self._hardware = any((units / name).is_dir() for name in ("cpu", "cpu_core"))

    def open(self, event: Event, cpu: int, leader: int) -> int:
        if event.type != SOFTWARE and not self._hardware:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        descriptor = super().open(event, cpu, leader)
        self.opened[descriptor].count = crc32(f"{event.name} {cpu}".encode()) % 1_000_000
        return descriptor

    def read(self, descriptor: int, size: int) -> bytes:
        opened = self.opened[descriptor]
        opened.enabled += SECOND
        opened.running += SECOND if opened.event.name in {"cycles", "migrations"} else SECOND // 2
        return super().read(descriptor, size)
