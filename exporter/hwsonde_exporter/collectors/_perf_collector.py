"""What the collectors of CPU events have in common: when they can work, and how counts become samples."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from hwsonde_exporter.collectors._perf_cpus import CpuCounters, Plan, shared_counters
from hwsonde_exporter.collectors._perf_event import SYSTEM, Kernel, Outcome, permission_advice
from hwsonde_exporter.collectors._topology import Topology, core_units
from hwsonde_exporter.errors import ReadError, Reason, Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample

_PREFIX = "hwsonde_cpu_perf_"


def perf_counter(event: str, constant: str, text: str, *, kind: str) -> Metric:
    """The counter of an event: ``constant`` as the kernel calls it after the words ``kind``, ``text`` without its end."""
    return Metric(
        name=f"{_PREFIX}{event}_total",
        kind=Kind.COUNTER,
        help=f"{text} since the exporter started.",
        labels=("package",),
        subsystem="cpu",
        source=f"perf_event_open(2) on each CPU, {kind}{constant}, scaled by time enabled over time running, summed over CPUs",
    )


def shares_metric(name: str) -> Metric:
    """The gauge that tells how far counts are estimates."""
    return Metric(
        name=name,
        kind=Kind.GAUGE,
        help="Share of the time since the reading before in which the event was really counted, lowest over CPUs; below 1 the event "
        "took turns with others and its counter is an estimate.",
        labels=("event",),
        unit="ratio",
        subsystem="cpu",
        source="perf_event_open(2): growth of time_running over growth of time_enabled",
    )


def events_metric(name: str) -> Metric:
    """The gauge that tells why an event is missing."""
    return Metric(
        name=name,
        kind=Kind.GAUGE,
        help="CPUs by event and by what became of it: counted, or why not.",
        labels=("event", "outcome"),
        subsystem="cpu",
        source="perf_event_open(2): its answer for each CPU",
    )


class PerfCollectorBase:
    """Counts the events of a plan on every CPU."""

    metrics: ClassVar[tuple[Metric, ...]]
    # Each CPU is read by an interrupt on it, which wakes it if it sleeps; with 192 of them that is no matter for each scrape.
    period: ClassVar[float | None] = 5.0
    plan: ClassVar[Plan]

    def __init__(self, host: Host, *, kernel: Kernel = SYSTEM) -> None:
        self.host = host
        self.key = (type(self).__name__, kernel, host.paths)
        self.counters: CpuCounters | None = None
        self._kernel = kernel
        self._topology = Topology(host)
        self._units: dict[int, int] = {}
        by_name = {metric.name: metric for metric in self.metrics}
        self._metrics = {event.name: by_name[f"{_PREFIX}{event.name}_total"] for group in self.plan for event in group}
        self._shares, self._events = self.metrics[-2:]

    def probe(self) -> None:
        """Open the events; raise `Unavailable` with the cause if the kernel gives none of them on any CPU."""
        if self.counters is None:
            self.counters = shared_counters(self.key, self._kernel, self.plan, self._topology.package)
        self._units = core_units(self.host)
        online = self._topology.online()
        if online:
            self.counters.follow(online, self._units, retry=True)
            if not self.counters.cpus:
                raise self._refusal({outcome for _, outcome in self.counters.outcomes()})

    def collect(self) -> Iterable[Sample]:
        """Read one group after the other of each CPU."""
        online, counters = self._topology.online(), self.counters
        if not online or counters is None:
            path = self.host.paths.sys("devices/system/cpu/online")
            raise ReadError(f"{path}: cannot be read; is --path.sysfs right?")
        counters.follow(online, self._units)
        counters.advance()
        samples = [
            Sample(self._metrics[name], (package,), count)
            for (package, name), count in sorted(counters.totals().items())
        ]
        samples += [Sample(self._shares, (name,), share) for name, share in counters.shares().items()]
        samples += [
            Sample(self._events, (name, outcome.value), cpus) for (name, outcome), cpus in counters.outcomes().items()
        ]
        return samples

    def _refusal(self, outcomes: set[Outcome]) -> Unavailable:
        if Outcome.NO_PERMISSION in outcomes:
            return Unavailable(Reason.NO_PERMISSION, permission_advice(self.host))
        if Outcome.NO_KERNEL_SUPPORT in outcomes:
            detail = (
                "there is no perf_event_open: a kernel without CONFIG_PERF_EVENTS, or a seccomp profile that hides it"
            )
            return Unavailable(Reason.NO_KERNEL_SUPPORT, detail)
        if Outcome.NO_DESCRIPTORS in outcomes:
            detail = "no file descriptors are left for the events; raise the limit (LimitNOFILE= in the systemd unit)"
            return Unavailable(Reason.NO_PERMISSION, detail)
        return Unavailable(Reason.NO_HARDWARE, "the processor shows no such counters; usual in a virtual machine")
