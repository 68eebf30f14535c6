"""A room without a host: numbers that a test sets, and a diary of what was done."""

from __future__ import annotations

import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.faults.cgroups import Cgroups
from benchmarks.faults.errors import BenchError
from benchmarks.faults.kernel import Kernel
from benchmarks.faults.network import Network


class FakeChild:
    def __init__(self, pid: int, diary: list[str]) -> None:
        self.pid, self._diary, self.running = pid, diary, True

    def go(self) -> None:
        self._diary.append(f"go {self.pid}")

    def alive(self) -> bool:
        return self.running

    def signal(self, number: signal.Signals) -> None:
        self._diary.append(f"signal {self.pid} {number.name}")

    def stop(self) -> None:
        self._diary.append(f"stop {self.pid}")
        self.running = False


class FakeKernel(Kernel):
    """Counters that a test sets by name."""

    def __init__(self) -> None:
        super().__init__(Path("/nowhere"), Path("/nowhere"), Path("/nowhere"))
        self.numbers: dict[str, float] = {}
        self.disk: tuple[str, str] | None = ("vda", "254:0")
        self.tunnels = True

    def stat(self, name: str) -> int:
        return int(self.numbers.get(name, 0))

    def open_files(self) -> int:
        return int(self.numbers.get("open_files", 0))

    def file_limit(self) -> int:
        return int(self.numbers.get("file_limit", 1 << 40))

    def has_tunnels(self) -> bool:
        return self.tunnels

    def disk_of(self, folder: Path) -> tuple[str, str] | None:
        return self.disk

    def network(self, pid: int, protocol: str, name: str) -> int:
        return int(self.numbers.get(f"{protocol} {name}", 0))

    def sent_bytes(self, pid: int, device: str) -> int:
        return int(self.numbers.get("sent", 0))

    def state(self, pid: int) -> str:
        return {1: "T"}.get(int(self.numbers.get("stopped", 0)), "S")


class FakeCgroups(Cgroups):
    """Counters and limits by name of group."""

    def __init__(self, diary: list[str]) -> None:
        super().__init__([])
        self.numbers: dict[str, float] = {}
        self.diary = diary
        self.there = True

    def make(self, name: str) -> list[Path]:
        self.diary.append(f"group {name}")
        return []

    def first(self, name: str, *files: str) -> Path | None:
        return Path("/there") if self.there else None

    def can(self, controller: str) -> bool:
        return self.there

    def cpu_seconds(self, name: str) -> float:
        return self.numbers.get(f"cpu {name}", 0.0)

    def throttled_seconds(self, name: str) -> float:
        return self.numbers.get("throttled", 0.0)

    def set_quota(self, name: str, cores: float | None) -> None:
        self.diary.append(f"quota {name} {cores}")

    def memory(self, name: str) -> tuple[int, int]:
        return 300 << 20, 100 << 20

    def limit_memory(self, name: str, size: int | None) -> None:
        self.diary.append(f"memory {name} {size}")

    def limit_hits(self, name: str) -> int:
        return int(self.numbers.get("hits", 0))

    def memory_stat(self, name: str, word: str) -> int:
        return int(self.numbers.get(word, 0))

    def throttle_reads(self, name: str, device: str, rate: int | None) -> None:
        self.diary.append(f"reads {name} {device} {rate}")


class FakeRoom:
    """A `benchmarks.faults.record.Host` in which time passes only when somebody sleeps."""

    def __init__(self, *, load: str = "quiet", ring: bool = True) -> None:
        self.node, self.load, self.cpus = "host", load, 2
        self.disk, self.data, self.small = Path("/scratch"), Path("/scratch/data"), Path("/scratch/small")
        self.diary: list[str] = []
        self.kernel: FakeKernel = FakeKernel()
        self.cgroups: FakeCgroups = FakeCgroups(self.diary)
        self.network: Network | None = Network(self.command) if ring else None
        self.peers: list[tuple[str, Path]] = []
        self.exporter, self.answering = 4242, True
        self.pids = {"training": 11, "reader": 12, "ring0": 13, "ring1": 14, "ring2": 15}
        self.made: dict[str, float] = {}
        self.told: dict[int, float] = {}
        self.time = 1000.0
        self.broken: set[str] = set()
        self.ended: list[str] = []
        self.children: list[FakeChild] = []

    def command(self, command: Sequence[str]) -> str:
        text = " ".join(command)
        self.diary.append(text)
        if any(word in text for word in self.broken):
            raise BenchError(f"{text}: no")
        return ""

    def spawn(self, worker: str, arguments: Mapping[str, object], group: str, netns: str = "") -> FakeChild:
        self.diary.append(f"spawn {worker} {dict(arguments)} {group} {netns}".rstrip())
        if worker in self.broken:
            raise BenchError(f"{worker} did not start")
        self.children.append(FakeChild(100 + len(self.children), self.diary))
        return self.children[-1]

    def meter(self, child: object, slot: int = 0) -> float:
        return self.told.get(slot, 0.0)

    def pid_of(self, part: str) -> int:
        return self.pids.get(part, 0)

    def progress(self, part: str, slot: int = 0) -> float:
        return self.made.get(f"{part} {slot}", 0.0)

    def exporter_pid(self) -> int:
        return self.exporter

    def exporter_answers(self) -> bool:
        return self.answering

    def peer_folders(self) -> list[tuple[str, Path]]:
        return self.peers

    def now(self) -> float:
        return self.time

    def units(self) -> tuple[str, ...]:
        return ("training", "reader", "ring")

    def restart(self, unit: str) -> None:
        self.diary.append(f"restart {unit}")

    def tend(self) -> list[str]:
        ended, self.ended = self.ended, []
        return ended
