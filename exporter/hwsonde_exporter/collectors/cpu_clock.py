"""Clock frequency and thermal throttling of the CPUs, from sysfs."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import partial
from typing import ClassVar

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._counters import SteadySum
from hwsonde_exporter.collectors._files import read_or_none, sys_number, sys_text
from hwsonde_exporter.errors import Reason, Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import register

# Above this a reading is no clock frequency (kHz); drivers answer 0 or all bits set for "not known".
MAX_KILOHERTZ = 20_000_000

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


@register
class CpuClockCollector:
    """Clock frequency and thermal throttling, by package."""

    name: ClassVar[str] = "cpu_clock"
    help: ClassVar[str] = "CPU clock frequency and thermal throttling"
    metrics: ClassVar[tuple[Metric, ...]] = (
        FREQUENCY, FREQUENCY_MAX, PACKAGE_THROTTLES, CORE_THROTTLES, THROTTLED_SECONDS,
    )  # fmt: skip
    period: ClassVar[float | None] = None
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host) -> None:
        self.host = host
        self._base = str(host.paths.sys("devices/system/cpu"))
        self._core: dict[int, tuple[str, str]] = {}
        self._core_throttles: dict[str, SteadySum] = {}

    def probe(self) -> None:
        """Raise `Unavailable` where the kernel shows neither frequency nor throttling, as in most virtual machines."""
        for cpu in self._online():
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
        packages: dict[str, list[int]] = {}
        for cpu in self._online():
            packages.setdefault(self._core_of(cpu)[0], []).append(cpu)
        samples: list[Sample] = []
        for package, cpus in packages.items():
            samples += self._frequency_samples(package, cpus)
            samples += self._throttle_samples(package, cpus)
        return samples

    def _frequency_samples(self, package: str, cpus: list[int]) -> list[Sample]:
        readings = (sys_number(self.host, f"{self._base}/cpu{cpu}/cpufreq/scaling_cur_freq") for cpu in cpus)
        hertz = [reading * 1000 for reading in readings if reading and reading <= MAX_KILOHERTZ]
        samples = []
        if hertz:
            for statistic, value in (("min", min(hertz)), ("mean", sum(hertz) / len(hertz)), ("max", max(hertz))):
                samples.append(Sample(FREQUENCY, (package, statistic), value))
        limit = sys_number(self.host, f"{self._base}/cpu{cpus[0]}/cpufreq/cpuinfo_max_freq")
        if limit and limit <= MAX_KILOHERTZ:
            samples.append(Sample(FREQUENCY_MAX, (package,), limit * 1000))
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
            core = self._core_of(cpu)[1]
            if core not in cores:
                events = sys_number(self.host, f"{self._base}/cpu{cpu}/thermal_throttle/core_throttle_count")
                if events is not None:
                    cores[core] = events
        if cores:
            total = self._core_throttles.setdefault(package, SteadySum())
            samples.append(Sample(CORE_THROTTLES, (package,), total.update(cores)))
        return samples

    def _online(self) -> list[int]:
        data = read_or_none(self.host, f"{self._base}/online")
        return parsing.cpu_list(data) if data else []

    def _core_of(self, cpu: int) -> tuple[str, str]:
        core = self._core.get(cpu)
        if core is None:
            topology = f"{self._base}/cpu{cpu}/topology"
            package = str(sys_number(self.host, f"{topology}/physical_package_id") or 0)
            # Without a core number each CPU counts as a core of its own.
            core = self._core[cpu] = (package, sys_text(self.host, f"{topology}/core_id") or f"cpu{cpu}")
        return core
