"""CPU time, load, interrupts and scheduling, from procfs."""

from __future__ import annotations

import os
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._counters import Held, SteadySum
from hwsonde_exporter.collectors._files import read_or_none
from hwsonde_exporter.collectors._topology import Topology
from hwsonde_exporter.errors import ReadError
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import Quantity, register

USER_HZ = os.sysconf("SC_CLK_TCK")
MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
# A CPU counter that falls by less than this has slipped; by more, the CPU was away (offline) and starts anew.
_SLIP_SECONDS = 3

_counter = partial(Metric, kind=Kind.COUNTER, subsystem="cpu")
_gauge = partial(Metric, kind=Kind.GAUGE, subsystem="cpu")
_summary = partial(Metric, kind=Kind.SUMMARY, subsystem="cpu", source="/proc/stat")

SECONDS = _counter(
    name="hwsonde_cpu_seconds_total",
    help="Seconds each logical CPU spent in each mode.",
    labels=("cpu", "mode"),
    unit="seconds",
    source="/proc/stat cpuN columns 1 to 8; small backward steps are held",
)
GUEST_SECONDS = _counter(
    name="hwsonde_cpu_guest_seconds_total",
    help="Seconds spent running guest CPUs, summed over CPUs; already part of user and nice.",
    labels=("mode",),
    unit="seconds",
    source="/proc/stat cpu columns 9 and 10",
)
ONLINE = _gauge(
    name="hwsonde_cpu_online",
    help="Number of logical CPUs online.",
    source="/sys/devices/system/cpu/online, else the cpuN lines of /proc/stat",
)
INFO = _gauge(
    name="hwsonde_cpu_info",
    help="Constant 1 labelled with the processor identity of a package.",
    labels=("package", "vendor", "model_name", "family", "model", "stepping", "microcode"),
    source="/proc/cpuinfo",
)
CONTEXT_SWITCHES = _counter(
    name="hwsonde_cpu_context_switches_total", help="Context switches since boot.", source="/proc/stat ctxt"
)
INTERRUPTS = _counter(
    name="hwsonde_cpu_interrupts_total",
    help="Hardware interrupts serviced since boot.",
    source="/proc/stat intr field 1",
)
FORKS = _counter(
    name="hwsonde_cpu_forks_total", help="Processes and threads created since boot.", source="/proc/stat processes"
)
RUNNING = _gauge(
    name="hwsonde_cpu_processes_running", help="Tasks in a runnable state.", source="/proc/stat procs_running"
)
BLOCKED = _gauge(
    name="hwsonde_cpu_processes_blocked",
    help="Tasks blocked waiting for I/O to complete.",
    source="/proc/stat procs_blocked",
)
SOFTIRQS = _counter(
    name="hwsonde_cpu_softirqs_total",
    help="Software interrupts serviced since boot, by vector.",
    labels=("vector",),
    source="/proc/softirqs, summed over CPUs",
)
LOAD1 = _gauge(name="hwsonde_cpu_load1", help="1 minute load average.", source="/proc/loadavg field 1")
LOAD5 = _gauge(name="hwsonde_cpu_load5", help="5 minute load average.", source="/proc/loadavg field 2")
LOAD15 = _gauge(name="hwsonde_cpu_load15", help="15 minute load average.", source="/proc/loadavg field 3")
THREADS = _gauge(
    name="hwsonde_cpu_threads",
    help="Processes and threads that exist.",
    source="/proc/loadavg field 4, behind the slash",
)
SCHEDULE_RUNNING = _counter(
    name="hwsonde_cpu_schedule_running_seconds_total",
    help="Seconds tasks spent running on the CPUs of the package.",
    labels=("package",),
    unit="seconds",
    source="/proc/schedstat cpuN field 7 (ns)",
)
SCHEDULE_WAITING = _counter(
    name="hwsonde_cpu_schedule_waiting_seconds_total",
    help="Seconds tasks spent runnable but waiting for a CPU of the package.",
    labels=("package",),
    unit="seconds",
    source="/proc/schedstat cpuN field 8 (ns)",
)
SCHEDULE_TIMESLICES = _counter(
    name="hwsonde_cpu_schedule_timeslices_total",
    help="Timeslices run on the CPUs of the package.",
    labels=("package",),
    source="/proc/schedstat cpuN field 9",
)

BUSY_SAMPLED = Quantity(
    _summary(
        name="hwsonde_cpu_busy_sampled_ratio",
        help="Share of all CPUs that was neither idle nor in iowait, 0 to 1, give or take a clock tick.",
        unit="ratio",
    ),
    reference=0.25,
    cumulative=True,
)
MODE_SAMPLED = Quantity(
    _summary(
        name="hwsonde_cpu_mode_sampled_ratio",
        help="Share of all CPUs in a mode, 0 to 1, give or take a clock tick; user holds nice, softirq holds irq.",
        labels=("mode",),
        unit="ratio",
    ),
    reference=0.1,
    cumulative=True,
)
CONTEXT_SWITCHES_SAMPLED = Quantity(
    _summary(
        name="hwsonde_cpu_context_switches_sampled_per_second", help="Context switches a second.", unit="per_second"
    ),
    reference=1000.0,
    cumulative=True,
)
FORKS_SAMPLED = Quantity(
    _summary(
        name="hwsonde_cpu_forks_sampled_per_second", help="Processes and threads created a second.", unit="per_second"
    ),
    reference=0.0,
    cumulative=True,
)
RUNNING_SAMPLED = Quantity(
    _summary(name="hwsonde_cpu_processes_running_sampled", help="Tasks in a runnable state."),
    reference=1.0,
    cumulative=False,
)


# For each label of `INFO` behind the package what x86 calls it in cpuinfo, then what ARM does.
_IDENTITY = (
    (b"vendor_id", b"CPU implementer"),
    (b"model name",),
    (b"cpu family", b"CPU architecture"),
    (b"model", b"CPU part"),
    (b"stepping", b"CPU revision"),
    (b"microcode",),
)


@dataclass(frozen=True, slots=True)
class Stat:
    """What /proc/stat says.

    ``total`` and each of ``cpus`` hold ticks of `USER_HZ` in the order of `MODES`, then guest and guest_nice; a token that
    is no number is None. ``counts`` holds the first number of every other line by its name.
    """

    total: tuple[int | None, ...]
    cpus: dict[int, tuple[int | None, ...]]
    counts: dict[bytes, int]


def parse_stat(data: bytes) -> Stat:
    """Parse /proc/stat."""
    total: tuple[int | None, ...] = ()
    cpus: dict[int, tuple[int | None, ...]] = {}
    counts: dict[bytes, int] = {}
    for line in parsing.lines(data):
        name, _, rest = line.partition(b" ")
        if name == b"cpu":
            total = tuple(map(parsing.number, rest.split()))
        elif name.startswith(b"cpu"):
            cpu = parsing.number(name[3:])
            if cpu is not None:
                cpus.setdefault(cpu, tuple(map(parsing.number, rest.split())))
        elif (value := parsing.number(rest.partition(b" ")[0])) is not None:
            counts.setdefault(name, value)
    return Stat(total, cpus, counts)


def parse_softirqs(data: bytes) -> dict[str, int]:
    """Parse /proc/softirqs: vector in lower case -> count over all CPUs."""
    vectors: dict[str, int] = {}
    for line in parsing.lines(data):
        name, colon, rest = line.partition(b":")
        counts = parsing.numbers(rest.split())
        if colon and counts:
            vectors.setdefault(parsing.text(name.strip().lower()), sum(counts))
    return vectors


def parse_loadavg(data: bytes) -> tuple[float | None, float | None, float | None, int | None]:
    """Parse /proc/loadavg: load over 1, 5 and 15 minutes, and the number of tasks."""
    fields = data.split()
    fields += [b""] * (4 - len(fields))
    one, five, fifteen = (parsing.decimal(field) for field in fields[:3])
    return one, five, fifteen, parsing.number(fields[3].partition(b"/")[2])


def parse_schedstat(data: bytes) -> dict[int, tuple[int, int, int]]:
    """Parse /proc/schedstat: CPU -> running (ns), waiting (ns), timeslices."""
    cpus: dict[int, tuple[int, int, int]] = {}
    for line in parsing.lines(data):
        # Most of a large host's file are long lines of scheduling domains.
        if not line.startswith(b"cpu"):
            continue
        fields = line.split()
        if len(fields) < 10:
            continue
        cpu, values = parsing.number(fields[0][3:]), parsing.numbers(fields[7:10])
        if cpu is not None and values is not None:
            cpus.setdefault(cpu, (values[0], values[1], values[2]))
    return cpus


def parse_cpuinfo(data: bytes) -> dict[str, tuple[str, ...]]:
    """Parse /proc/cpuinfo: package -> the labels of `INFO` after the first, from the package's first CPU.

    On ARM the kernel gives numbers instead of names, and tells no package.
    """
    packages: dict[str, tuple[str, ...]] = {}
    for block in data.split(b"\n\n"):
        fields: dict[bytes, bytes] = {}
        for line in block.split(b"\n"):
            key, colon, value = line.partition(b":")
            if colon:
                fields.setdefault(key.strip(), value.strip())
        labels = tuple(parsing.text(next((fields[key] for key in keys if fields.get(key)), b"")) for keys in _IDENTITY)
        if any(labels):
            packages.setdefault(parsing.text(fields.get(b"physical id", b"0")), labels)
    return packages


@register
class CpuCollector:
    """CPU time by mode, load, interrupts, scheduling."""

    name: ClassVar[str] = "cpu"
    help: ClassVar[str] = "CPU time, load, interrupts and scheduling"
    metrics: ClassVar[tuple[Metric, ...]] = (
        SECONDS, GUEST_SECONDS, ONLINE, INFO, CONTEXT_SWITCHES, INTERRUPTS, FORKS, RUNNING, BLOCKED, SOFTIRQS,
        LOAD1, LOAD5, LOAD15, THREADS, SCHEDULE_RUNNING, SCHEDULE_WAITING, SCHEDULE_TIMESLICES,
    )  # fmt: skip
    quantities: ClassVar[tuple[Quantity, ...]] = (
        BUSY_SAMPLED, MODE_SAMPLED, CONTEXT_SWITCHES_SAMPLED, FORKS_SAMPLED, RUNNING_SAMPLED,
    )  # fmt: skip
    period: ClassVar[float | None] = None
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host) -> None:
        self.host = host
        self._stat = str(host.paths.proc("stat"))
        self._held = Held(_SLIP_SECONDS * USER_HZ)
        self._info: dict[str, tuple[str, ...]] = {}
        self._topology = Topology(host)
        self._schedule: dict[tuple[str, Metric], SteadySum] = {}
        self._shares = Shares()

    def probe(self) -> None:
        """Read the processors' identity anew: dear on a large host, and it changes only with a microcode update."""
        data = read_or_none(self.host, self.host.paths.proc("cpuinfo"))
        self._info = parse_cpuinfo(data) if data else {}

    def collect(self) -> Iterable[Sample]:
        """Read every file; one that is missing loses only its own series."""
        samples = [Sample(INFO, (package, *labels), 1) for package, labels in self._info.items()]
        data = read_or_none(self.host, self._stat)
        stat = parse_stat(data) if data is not None else None
        if stat is not None:
            samples += self._stat_samples(stat)
        for name, give in (
            ("softirqs", self._softirq_samples),
            ("loadavg", self._load_samples),
            ("schedstat", self._schedule_samples),
        ):
            data = read_or_none(self.host, self.host.paths.proc(name))
            if data is not None:
                samples += give(data)
        # The many series of single CPUs come last: they are what a limit on the collector's series may cut off.
        if stat is not None:
            samples += self._cpu_samples(stat)
        if not samples:
            raise ReadError(f"{self._stat}: cannot be read; is --path.procfs right?")
        return samples

    def observe(self) -> Sequence[tuple[Quantity, tuple[str, ...], float]]:
        """Give the CPU shares' seconds, context switches and forks so far, and the runnable tasks."""
        data = self.host.files.read(self._stat)
        end = data.find(b"\n")
        ticks = parsing.numbers(data[:end].split()[1:9]) if end > 0 else None
        observed: list[tuple[Quantity, tuple[str, ...], float]] = []
        if ticks is not None and len(ticks) == len(MODES):
            user, nice, system, _, iowait, irq, softirq, steal = self._shares.update(ticks, data.count(b"\ncpu"))
            observed = [
                (BUSY_SAMPLED, (), user + nice + system + irq + softirq + steal),
                (MODE_SAMPLED, ("user",), user + nice),
                (MODE_SAMPLED, ("system",), system),
                (MODE_SAMPLED, ("iowait",), iowait),
                (MODE_SAMPLED, ("softirq",), irq + softirq),
                (MODE_SAMPLED, ("steal",), steal),
            ]
        for quantity, key in (
            (CONTEXT_SWITCHES_SAMPLED, b"\nctxt "),
            (FORKS_SAMPLED, b"\nprocesses "),
            (RUNNING_SAMPLED, b"\nprocs_running "),
        ):
            value = parsing.number_after(data, key)
            if value is not None:
                observed.append((quantity, (), value))
        return observed

    def _stat_samples(self, stat: Stat) -> list[Sample]:
        samples = []
        for mode, ticks in zip(("user", "nice"), stat.total[8:], strict=False):
            if ticks is not None:
                samples.append(Sample(GUEST_SECONDS, (mode,), ticks / USER_HZ))
        for metric, key in (
            (CONTEXT_SWITCHES, b"ctxt"),
            (INTERRUPTS, b"intr"),
            (FORKS, b"processes"),
            (RUNNING, b"procs_running"),
            (BLOCKED, b"procs_blocked"),
        ):
            if key in stat.counts:
                samples.append(Sample(metric, (), stat.counts[key]))
        count = len(self._topology.online()) or len(stat.cpus)
        if count:
            samples.append(Sample(ONLINE, (), count))
        return samples

    def _cpu_samples(self, stat: Stat) -> list[Sample]:
        samples = []
        for cpu, row in stat.cpus.items():
            label = str(cpu)
            for mode, ticks in zip(MODES, row, strict=False):
                if ticks is not None:
                    held = self._held.value((cpu, mode), ticks)
                    samples.append(Sample(SECONDS, (label, mode), held / USER_HZ))
        return samples

    @staticmethod
    def _softirq_samples(data: bytes) -> list[Sample]:
        return [Sample(SOFTIRQS, (vector,), count) for vector, count in parse_softirqs(data).items()]

    @staticmethod
    def _load_samples(data: bytes) -> list[Sample]:
        pairs = zip((LOAD1, LOAD5, LOAD15, THREADS), parse_loadavg(data), strict=True)
        return [Sample(metric, (), value) for metric, value in pairs if value is not None]

    def _schedule_samples(self, data: bytes) -> list[Sample]:
        packages: dict[str, dict[Hashable, tuple[int, int, int]]] = {}
        for cpu, values in parse_schedstat(data).items():
            packages.setdefault(self._topology.package(cpu), {})[cpu] = values
        samples = []
        for package, cpus in packages.items():
            for column, (metric, scale) in enumerate(
                ((SCHEDULE_RUNNING, 1e9), (SCHEDULE_WAITING, 1e9), (SCHEDULE_TIMESLICES, 1))
            ):
                total = self._schedule.setdefault((package, metric), SteadySum())
                parts = {cpu: values[column] for cpu, values in cpus.items()}
                samples.append(Sample(metric, (package,), total.update(parts) / scale))
        return samples


class Shares:
    """CPU seconds by mode divided by the number of CPUs, so that their rate is a share from 0 to 1.

    The quotient is summed step by step: dividing the total by the present number of CPUs would make a jump of hours when a
    CPU goes offline.
    """

    def __init__(self) -> None:
        self._last: list[int] | None = None
        self._shares = [0.0] * len(MODES)

    def update(self, ticks: Sequence[int], cpus: int) -> list[float]:
        """Take the present ticks (in the order of `MODES`) over ``cpus`` CPUs and give the seconds a CPU of each mode."""
        last, self._last = self._last, list(ticks)
        if last is None:
            return self._shares
        for mode, value in enumerate(ticks):
            grown = value - last[mode]
            if grown > 0:
                self._shares[mode] += grown / (USER_HZ * max(1, cpus))
            elif grown < 0 and -grown <= _SLIP_SECONDS * USER_HZ:
                # A slip: what it takes back must not be counted again.
                self._last[mode] = last[mode]
        return self._shares
