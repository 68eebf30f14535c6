"""The contract of a fault: prepare, start, prove, stop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from benchmarks.faults.cgroups import Cgroups
from benchmarks.faults.children import Child
from benchmarks.faults.kernel import Kernel
from benchmarks.faults.meters import lost
from benchmarks.faults.network import Network
from hwsonde_detector.types import Subsystem

CPU = frozenset({Subsystem.CPU.value})
MEMORY = frozenset({Subsystem.MEMORY.value})
NETWORK = frozenset({Subsystem.NETWORK.value})
STORAGE = frozenset({Subsystem.STORAGE.value})
WORKLOAD = frozenset({Subsystem.WORKLOAD.value})


class Room(Protocol):
    """The host and what the bench runs on it, as far as faults need it."""

    @property
    def node(self) -> str:
        """Name of the host."""

    @property
    def load(self) -> str:
        """What else runs: ``quiet`` or ``full``."""

    @property
    def cpus(self) -> int:
        """Processors that may be used."""

    @property
    def disk(self) -> Path:
        """Folder on the disk that faults may write to."""

    @property
    def data(self) -> Path:
        """A large file for reading."""

    @property
    def small(self) -> Path:
        """A file for paging."""

    @property
    def kernel(self) -> Kernel:
        """Counters."""

    @property
    def cgroups(self) -> Cgroups:
        """Control groups."""

    @property
    def network(self) -> Network | None:
        """Namespaces of the ring; None where they cannot be made."""

    def spawn(self, worker: str, arguments: Mapping[str, object], group: str, netns: str = "") -> Child:
        """A process for a fault, ready and waiting, in a control group of that name and in a network namespace (empty: the host's)."""

    def meter(self, child: Child, slot: int = 0) -> float:
        """What such a process says of itself."""

    def pid_of(self, part: str) -> int:
        """Process of a part of the workload: ``training``, ``reader``, ``ring0``; 0 where it does not run."""

    def progress(self, part: str, slot: int = 0) -> float:
        """What a part of the workload says of itself."""

    def exporter_pid(self) -> int:
        """Process of the exporter that is scraped; 0 where there is none."""

    def exporter_answers(self) -> bool:
        """Whether it answers within a second."""

    def peer_folders(self) -> list[tuple[str, Path]]:
        """Names and folders of the simulated hosts; none where there are none."""

    def now(self) -> float:
        """Monotonic seconds."""


@dataclass(frozen=True, slots=True)
class Effect:
    """What was measured of a fault: it acted if ``value`` reached ``least``."""

    what: str
    value: float
    least: float
    unit: str = ""

    @property
    def acted(self) -> bool:
        """Whether the fault did something."""
        return self.value >= self.least

    @property
    def words(self) -> str:
        """For people."""
        return f"{self.what}: {self.value:.4g} {self.unit}".rstrip() + f" (at least {self.least:.4g})"


class Injector(ABC):
    """A kind of fault; one object for each injection.

    Attributes
    ----------
    kind
        Its name.
    subsystems
        Names that are right answers for it.
    least_seconds
        It lasts at least so long, where what shows it is read seldom.
    part
        Part of the workload that must run for it; empty: none.
    """

    kind: ClassVar[str]
    subsystems: ClassVar[frozenset[str]]
    least_seconds: ClassVar[float] = 0.0
    part: ClassVar[str] = ""

    def missing(self, room: Room) -> str | None:
        """Why it cannot be made here; None where it can."""
        if self.part and not room.pid_of(self.part):
            return f"{self.part} does not run here"
        return None

    def node(self, room: Room) -> str:
        """The host that shows it."""
        return room.node

    def prepare(self, room: Room) -> None:  # noqa: B027 - most kinds have nothing to prepare
        """Do what costs the host something and is no fault yet, some seconds before."""

    @abstractmethod
    def start(self, room: Room) -> None:
        """Begin; the fault acts when this returns."""

    @abstractmethod
    def effect(self, room: Room) -> Effect:
        """Prove that it acts: called while it does."""

    @abstractmethod
    def stop(self, room: Room) -> None:
        """End it, whatever happened before; does nothing a second time."""

    def harm(self, before: Mapping[str, float], during: Mapping[str, float]) -> float | None:
        """Part of the workload's progress that was lost, from rates of its parts."""
        return lost(before, during)


class ByProcess(Injector):
    """A fault that a process of ours makes: `spawn` it in `prepare`, let it go in `start`, end it in `stop`."""

    worker: ClassVar[str]
    group: ClassVar[str] = "fault"
    netns: ClassVar[str] = ""

    def __init__(self) -> None:
        self.child: Child | None = None
        self.began = 0.0

    def arguments(self, room: Room) -> dict[str, object]:
        """What the worker is told."""
        del room
        return {}

    def prepare(self, room: Room) -> None:
        """Start the worker; it waits."""
        self.child = room.spawn(self.worker, self.arguments(room), self.group, self.netns)

    def start(self, room: Room) -> None:
        """Let it begin."""
        if self.child is None:
            self.prepare(room)
        self.began = room.now()
        if self.child is not None:
            self.child.go()

    def stop(self, room: Room) -> None:
        """End it."""
        del room
        if self.child is not None:
            self.child.stop()
            self.child = None

    def lasted(self, room: Room) -> float:
        """Seconds since it began."""
        return max(room.now() - self.began, 1e-3)

    def told(self, room: Room, slots: int = 1) -> float:
        """Sum of what its worker says in its first slots."""
        return sum(room.meter(self.child, slot) for slot in range(slots)) if self.child is not None else 0.0


def rate_of(seen: list[tuple[float, float]]) -> float:
    """How fast something grew between the first and the last look, as pairs of seconds and value; 0 before there are two."""
    if len(seen) < 2:
        return 0.0
    (before, low), (after, high) = seen[0], seen[-1]
    return (high - low) / max(after - before, 1e-3)
