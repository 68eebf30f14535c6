"""Clock frequency and thermal throttling of the CPUs, from sysfs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from functools import partial
from typing import ClassVar

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._counters import SteadySum
from hwsonde_exporter.collectors._files import sys_number
from hwsonde_exporter.collectors._topology import Topology
from hwsonde_exporter.errors import ReadError, Reason, Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import Quantity, register

# Above this a reading is no clock frequency (kHz); drivers answer 0 or all bits set for "not known".
MAX_KILOHERTZ = 20_000_000
# So many CPUs of a package, spread over it, stand for all of them ten times a second: each look may interrupt its CPU.
FAST_CPUS = 8

_counter = partial(Metric, kind=Kind.COUNTER, subsystem="cpu", labels=("package",))
_gauge = partial(Metric, kind=Kind.GAUGE, subsystem="cpu")

FREQUENCY = _gauge(
    name="hwsonde_cpu_frequency_package_hertz",
    help="Clock frequency over the CPUs of a package; statistic is min, mean or max.",
    labels=("package", "statistic"),
    unit="hertz",
    source="/sys/devices/system/cpu/cpuN/cpufreq/scaling_cur_freq (kHz)",
)
FREQUENCY_MAX = _gauge(
    name="hwsonde_cpu_frequency_max_hertz",
    help="Highest clock frequency the package supports.",
    labels=("package",),
    unit="hertz",
    source="/sys/devices/system/cpu/cpuN/cpufreq/cpuinfo_max_freq (kHz)",
)
PACKAGE_THROTTLES = _counter(
    name="hwsonde_cpu_package_throttles_total",
    help="Thermal throttle events of the package.",
    source="/sys/devices/system/cpu/cpuN/thermal_throttle/package_throttle_count",
)
CORE_THROTTLES = _counter(
    name="hwsonde_cpu_core_throttles_total",
    help="Thermal throttle events of the cores of the package.",
    source="/sys/devices/system/cpu/cpuN/thermal_throttle/core_throttle_count, summed over cores",
)
THROTTLED_SECONDS = _counter(
    name="hwsonde_cpu_throttled_seconds_total",
    help="Seconds the package spent thermally throttled.",
    unit="seconds",
    source="/sys/devices/system/cpu/cpuN/thermal_throttle/package_throttle_total_time_ms",
)
FREQUENCY_SAMPLED = Quantity(
    Metric(
        name="hwsonde_cpu_frequency_sampled_hertz",
        kind=Kind.SUMMARY,
        help=f"Mean clock frequency of at most {FAST_CPUS} CPUs spread over a package.",
        labels=("package",),
        unit="hertz",
        subsystem="cpu",
        source="/sys/devices/system/cpu/cpuN/cpufreq/scaling_cur_freq (kHz)",
    ),
    reference=2.5e9,
    cumulative=False,
)


@register
class CpuClockCollector:
    """Clock frequency and thermal throttling, by package."""

    name: ClassVar[str] = "cpu_clock"
    help: ClassVar[str] = "CPU clock frequency and thermal throttling"
    metrics: ClassVar[tuple[Metric, ...]] = (
        FREQUENCY, FREQUENCY_MAX, PACKAGE_THROTTLES, CORE_THROTTLES, THROTTLED_SECONDS,
    )  # fmt: skip
    quantities: ClassVar[tuple[Quantity, ...]] = (FREQUENCY_SAMPLED,)
    # From Linux 4.14 to 5.17 the kernel interrupts each CPU to learn its frequency, and sleeps 10 or 20 ms for each that
    # has not been asked within the last second: seconds for a large host.
    period: ClassVar[float | None] = 5.0
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host) -> None:
        self.host = host
        self._topology = Topology(host)
        self._base = self._topology.base
        self._core_throttles: dict[str, SteadySum] = {}
        self._fast: dict[str, list[str]] = {}

    def probe(self) -> None:
        """Raise `Unavailable` where the kernel shows neither frequency nor throttling, as in most virtual machines."""
        for cpu in self._topology.online():
            if sys_number(self.host, f"{self._base}/cpu{cpu}/cpufreq/scaling_cur_freq") is not None:
                return
            if sys_number(self.host, f"{self._base}/cpu{cpu}/thermal_throttle/core_throttle_count") is not None:
                return
        raise Unavailable(
            Reason.NO_KERNEL_SUPPORT,
            "the kernel shows no clock frequency and no throttle count; usual in a virtual machine",
        )

    def collect(self) -> Iterable[Sample]:
        """Read one file a CPU for the frequency, one a core and one a package for the throttling."""
        samples: list[Sample] = []
        for package, cpus in self._topology.by_package(self._topology.online()).items():
            samples += self._frequency_samples(package, cpus)
            samples += self._throttle_samples(package, cpus)
        return samples

    def observe(self) -> Sequence[tuple[Quantity, tuple[str, ...], float]]:
        """Give the mean frequency of a few CPUs of each package."""
        if not self._fast:
            self._fast = self._chosen()
        observed: list[tuple[Quantity, tuple[str, ...], float]] = []
        for package, paths in self._fast.items():
            hertz = [value for path in paths if (value := self._hertz(path)) is not None]
            if len(hertz) < len(paths):
                self._fast = {}  # a CPU has gone offline: choose anew at the next tick
            if hertz:
                observed.append((FREQUENCY_SAMPLED, (package,), sum(hertz) / len(hertz)))
        return observed

    def _chosen(self) -> dict[str, list[str]]:
        """Files of the frequency of the CPUs that stand for each package."""
        chosen = {}
        for package, cpus in self._topology.by_package(self._topology.online()).items():
            count = min(FAST_CPUS, len(cpus))
            paths = (f"{self._base}/cpu{cpus[place * len(cpus) // count]}" for place in range(count))
            readable = [f"{path}/cpufreq/scaling_cur_freq" for path in paths]
            readable = [path for path in readable if self._hertz(path) is not None]
            if readable:
                chosen[package] = readable
        return chosen

    def _hertz(self, path: str) -> int | None:
        """Frequency in a file that is read again and again, or None where it is none."""
        try:
            return hertz_of(parsing.number(self.host.files.read(path).strip()))
        except ReadError:
            return None

    def _frequency_samples(self, package: str, cpus: list[int]) -> list[Sample]:
        paths = (f"{self._base}/cpu{cpu}/cpufreq/scaling_cur_freq" for cpu in cpus)
        readings = [value for path in paths if (value := sys_number(self.host, path)) is not None]
        hertz = [value for reading in readings if (value := hertz_of(reading)) is not None]
        self.host.rejections.add(len(readings) - len(hertz))
        samples = []
        if hertz:
            statistics = (("min", min(hertz)), ("mean", sum(hertz) / len(hertz)), ("max", max(hertz)))
            samples += [Sample(FREQUENCY, (package, name), number) for name, number in statistics]
        limit = hertz_of(sys_number(self.host, f"{self._base}/cpu{cpus[0]}/cpufreq/cpuinfo_max_freq"))
        if limit is not None:
            samples.append(Sample(FREQUENCY_MAX, (package,), limit))
        return samples

    def _throttle_samples(self, package: str, cpus: list[int]) -> list[Sample]:
        samples = []
        # Each CPU of a package shows the package's counts; the first one speaks for all.
        base = f"{self._base}/cpu{cpus[0]}/thermal_throttle"
        count = sys_number(self.host, f"{base}/package_throttle_count")
        if count is not None:
            samples.append(Sample(PACKAGE_THROTTLES, (package,), count))
        milliseconds = sys_number(self.host, f"{base}/package_throttle_total_time_ms")
        if milliseconds is not None:
            samples.append(Sample(THROTTLED_SECONDS, (package,), milliseconds / 1000))
        cores: dict[Hashable, int] = {}
        for cpu in cpus:
            core = self._topology.core(cpu)
            if core not in cores:
                events = sys_number(self.host, f"{self._base}/cpu{cpu}/thermal_throttle/core_throttle_count")
                if events is not None:
                    cores[core] = events
        if cores:
            total = self._core_throttles.setdefault(package, SteadySum())
            samples.append(Sample(CORE_THROTTLES, (package,), total.update(cores)))
        return samples


def hertz_of(kilohertz: int | None) -> int | None:
    """Hertz of a reading, or None where it is no clock frequency."""
    return kilohertz * 1000 if kilohertz and kilohertz <= MAX_KILOHERTZ else None
