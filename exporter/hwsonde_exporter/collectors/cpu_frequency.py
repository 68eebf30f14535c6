"""Clock frequency of every CPU, off unless asked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from hwsonde_exporter.collectors._files import sys_number
from hwsonde_exporter.collectors._topology import Topology
from hwsonde_exporter.collectors.cpu_clock import hertz_of
from hwsonde_exporter.errors import ReadError, Reason, Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import register

FREQUENCY = Metric(
    name="hwsonde_cpu_frequency_hertz",
    kind=Kind.GAUGE,
    help="Current clock frequency of a logical CPU.",
    labels=("cpu",),
    unit="hertz",
    subsystem="cpu",
    source="/sys/devices/system/cpu/cpuN/cpufreq/scaling_cur_freq (kHz)",
)


@register
class CpuFrequencyCollector:
    """Frequency of each CPU: one series a CPU, where `cpu_clock` gives three a package."""

    name: ClassVar[str] = "cpu_frequency"
    help: ClassVar[str] = "Clock frequency of every CPU (one series each)"
    metrics: ClassVar[tuple[Metric, ...]] = (FREQUENCY,)
    period: ClassVar[float | None] = 5.0
    enabled: ClassVar[bool] = False

    def __init__(self, host: Host) -> None:
        self.host = host
        self._topology = Topology(host)
        self._base = self._topology.base

    def probe(self) -> None:
        """Raise `Unavailable` where the kernel shows no frequency."""
        if all(self._hertz(cpu) is None for cpu in self._topology.online()):
            raise Unavailable(Reason.NO_KERNEL_SUPPORT, "the kernel has no cpufreq driver; usual in a virtual machine")

    def collect(self) -> Iterable[Sample]:
        """Read one file a CPU."""
        pairs = ((cpu, self._hertz(cpu)) for cpu in self._topology.online())
        samples = [Sample(FREQUENCY, (str(cpu),), hertz) for cpu, hertz in pairs if hertz is not None]
        if not samples:
            raise ReadError(f"{self._base}: shows no frequency; is --path.sysfs right?")
        return samples

    def _hertz(self, cpu: int) -> int | None:
        kilohertz = sys_number(self.host, f"{self._base}/cpu{cpu}/cpufreq/scaling_cur_freq")
        hertz = hertz_of(kilohertz)
        if kilohertz is not None and hertz is None:
            self.host.rejections.add()
        return hertz
