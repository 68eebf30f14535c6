"""Processes by state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import ClassVar

from hwsonde_exporter.collectors._files import entries
from hwsonde_exporter.errors import ReadError, Reason, Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import register

PROCESSES = Metric(
    name="hwsonde_cpu_processes",
    kind=Kind.GAUGE,
    help="Processes by state of their main thread; uninterruptible ones wait for hardware, zombies for their parent.",
    labels=("state",),
    subsystem="cpu",
    source="/proc/PID/stat field 3, counted",
)

# fs/proc/array.c of the kernel; each state is given, 0 too. K, W and x are what older kernels show for P, R and X.
_STATES = {
    b"R": "running",
    b"S": "sleeping",
    b"D": "uninterruptible",
    b"I": "idle",
    b"T": "stopped",
    b"t": "traced",
    b"Z": "zombie",
    b"X": "dead",
    b"P": "parked",
    b"K": "sleeping",
    b"W": "running",
    b"x": "dead",
}


def parse_state(data: bytes) -> str | None:
    """State in /proc/PID/stat, or None; the name before it is in parentheses and may hold anything, these too."""
    end = data.rfind(b") ")
    return _STATES.get(data[end + 2 : end + 3]) if end > 0 and data[end + 3 : end + 4] == b" " else None


@register
class ProcessesCollector:
    """Number of processes in each state."""

    name: ClassVar[str] = "processes"
    help: ClassVar[str] = "Processes by state"
    metrics: ClassVar[tuple[Metric, ...]] = (PROCESSES,)
    # One file a process, about eight millionths of a second each: 0.3 % of a CPU with 5,000 of them.
    period: ClassVar[float | None] = 15.0
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host) -> None:
        self.host = host
        self._base = str(host.paths.procfs)

    def probe(self) -> None:
        """Raise `Unavailable` where other users' processes are hidden: a count of our own would mislead."""
        if self._state("1") is None and any(name.isdigit() for name in entries(self._base)):
            detail = f"{self._base}/1/stat cannot be read: /proc is mounted with hidepid; mount it without, or with gid= of the exporter's group"
            raise Unavailable(Reason.NO_PERMISSION, detail)

    def collect(self) -> Iterable[Sample]:
        """Read one file a process; one that ends meanwhile is not counted."""
        states = Counter(self._state(name) for name in entries(self._base) if name.isdigit())
        del states[None]
        if not states:
            raise ReadError(f"{self._base}: shows no processes; is --path.procfs right?")
        return [Sample(PROCESSES, (state,), states[state]) for state in dict.fromkeys(_STATES.values())]

    def _state(self, process: str) -> str | None:
        try:
            return parse_state(self.host.files.read_once(f"{self._base}/{process}/stat"))
        except ReadError:
            return None
