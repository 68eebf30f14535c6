"""What the threads of a workload do: run, sleep, wait for a CPU or for a disk, or stand still."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors import _workload_tables as table
from hwsonde_exporter.collectors._cgroup_files import Read, Row
from hwsonde_exporter.collectors._cgroups import CONTROLLERS, UNIFIED, Group
from hwsonde_exporter.collectors._workload_counters import Gathered, Recent

STATES = ("running", "sleeping", "uninterruptible", "stopped")
# R running, S and I sleeping, D waiting for a device, T stopped by a signal, t by a tracer; zombies (Z) do nothing any more.
_STATES = {
    b"R": "running",
    b"S": "sleeping",
    b"I": "sleeping",
    b"D": "uninterruptible",
    b"T": "stopped",
    b"t": "stopped",
}
_MAX_LISTED = 20_000
_SLACK_SECONDS = 0.02

Thread = tuple[int, int]  # number and start: numbers are used again


@dataclass(slots=True)
class _Sums:
    waiting: Gathered = field(default_factory=Gathered)
    switches: Gathered = field(default_factory=Gathered)


def parse_task_stat(data: bytes) -> tuple[str, int] | None:
    """State and start (clock ticks after boot) from /proc/PID/stat; None for a zombie or what is not understood."""
    fields = data[data.rfind(b")") + 1 :].split(None, 20)
    state = _STATES.get(fields[0]) if fields else None
    start = parsing.number(fields[19]) if len(fields) > 19 else None
    return None if state is None or start is None else (state, start)


def parse_task_schedstat(data: bytes) -> tuple[int, int] | None:
    """Nanoseconds waited for a CPU, and number of times put on one, from /proc/PID/schedstat."""
    values = parsing.numbers(data.split())
    return (values[1], values[2]) if values is not None and len(values) == 3 else None


def parse_numbers(data: bytes) -> list[int]:
    """Numbers, one a line, as in cgroup.procs; 0 stands for a process of another process namespace."""
    return [value for line in parsing.lines(data)[:_MAX_LISTED] if (value := parsing.number(line))]


def shares(counts: Sequence[int], budget: int) -> list[int]:
    """How many of each of several crowds may be looked at, so that together they stay within the budget and small ones are whole."""
    given = [0] * len(counts)
    left, waiting = budget, len(counts)
    for place in sorted(range(len(counts)), key=lambda place: counts[place]):
        given[place] = min(counts[place], left // waiting)
        left -= given[place]
        waiting -= 1
    return given


class TaskReader:
    """Looks at the threads of workloads.

    Parameters
    ----------
    read
        Reads a file.
    procfs
        Where /proc is.
    budget
        Threads in one reading; processes come before their further threads.
    ticks
        USER_HZ.
    """

    def __init__(self, read: Read, procfs: str, budget: int, ticks: int) -> None:
        self._read = read
        self._procfs = procfs
        self.budget = budget
        self._ticks = ticks
        self._sums = Recent(_Sums)
        self._last_uptime: float | None = None

    def processes(self, members: Sequence[Group]) -> list[int]:
        """Processes of these cgroups, ascending."""
        return sorted(set(self._listed(members, ("cgroup.procs",))))

    def rows(self, crowds: Mapping[str, tuple[Sequence[int], Sequence[Group]]]) -> dict[str, list[Row]]:
        """Look at the threads of each workload, given its processes and its cgroups; rows by workload."""
        threads: dict[str, list[int]] = {}
        for name, (processes, members) in crowds.items():
            known = set(processes)
            found = set(self._listed(members, ("tasks", "cgroup.threads")))
            threads[name] = [*processes, *sorted(found - known)]
        uptime = self._uptime()
        rows = {}
        given = shares([len(numbers) for numbers in threads.values()], self.budget)
        for (name, numbers), share in zip(threads.items(), given, strict=True):
            rows[name] = self._rows_of(name, numbers[:share])
            rows[name].append((table.TASKS_UNREAD, (), len(numbers) - share, 1))
        self._last_uptime = uptime
        return rows

    def _rows_of(self, name: str, numbers: Sequence[int]) -> list[Row]:
        states = dict.fromkeys(STATES, 0)
        waiting: dict[Hashable, int] = {}
        switches: dict[Hashable, int] = {}
        for number in numbers:
            stat = self._read(f"{self._procfs}/{number}/stat")
            task = parse_task_stat(stat) if stat else None
            if task is None:
                continue
            state, start = task
            states[state] += 1
            schedstat = self._read(f"{self._procfs}/{number}/schedstat")
            times = parse_task_schedstat(schedstat) if schedstat else None
            if times is not None:
                waiting[number, start], switches[number, start] = times
        rows: list[Row] = [(table.TASKS, (state,), count, 1) for state, count in states.items()]
        sums = self._sums.of(name)
        if waiting or not numbers:
            rows.append((table.SCHEDULE_WAITING, (), sums.waiting.update(waiting, self._is_new), 1_000_000_000))
            rows.append((table.SWITCHES, (), sums.switches.update(switches, self._is_new), 1))
        return rows

    def _is_new(self, thread: Hashable) -> bool:
        """Whether a thread began after the last reading."""
        if self._last_uptime is None or not isinstance(thread, tuple):
            return False
        return bool(thread[1] / self._ticks >= self._last_uptime - _SLACK_SECONDS)

    def _uptime(self) -> float | None:
        data = self._read(f"{self._procfs}/uptime")
        fields = data.split() if data else []
        return parsing.decimal(fields[0]) if fields else None

    def _listed(self, members: Sequence[Group], names: tuple[str, ...]) -> list[int]:
        """Numbers from the first tree that has some for these cgroups."""
        for controller in (*CONTROLLERS, UNIFIED):
            found: list[int] = []
            for group in members:
                folder = group.where.get(controller)
                if folder is None:
                    continue
                for name in names:
                    # Only version 1 has "tasks", only version 2 "cgroup.threads".
                    if (name == "cgroup.threads") != (controller == UNIFIED) and len(names) > 1:
                        continue
                    data = self._read(f"{folder}/{name}")
                    found += parse_numbers(data) if data else []
            if found:
                return found
        return []
