"""Time in the CPUs' idle states, from sysfs; many files on a large host, so on a period of its own."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import ClassVar

from hwsonde_exporter.collectors._counters import SteadySum
from hwsonde_exporter.collectors._files import entries, sys_number, sys_text
from hwsonde_exporter.collectors._topology import Topology
from hwsonde_exporter.errors import Reason, Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import register

SECONDS = Metric(
    name="hwsonde_cpu_idle_state_seconds_total",
    kind=Kind.COUNTER,
    help="Seconds spent in each idle state, summed over CPUs.",
    labels=("state",),
    unit="seconds",
    subsystem="cpu",
    source="/sys/devices/system/cpu/cpuN/cpuidle/stateM/{name,time} (us)",
)


@register
class CpuIdleCollector:
    """Seconds in each idle state, summed over CPUs."""

    name: ClassVar[str] = "cpu_idle"
    help: ClassVar[str] = "Time in the CPUs' idle states"
    metrics: ClassVar[tuple[Metric, ...]] = (SECONDS,)
    period: ClassVar[float | None] = 5.0
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host) -> None:
        self.host = host
        self._topology = Topology(host)
        self._base = self._topology.base
        self._names: dict[tuple[int, str], str] = {}
        self._totals: dict[str, SteadySum] = {}

    def probe(self) -> None:
        """Raise `Unavailable` where the kernel runs no idle driver."""
        if not any(self._states(cpu) for cpu in self._topology.online()):
            raise Unavailable(Reason.NO_KERNEL_SUPPORT, "the kernel has no cpuidle driver; usual in a virtual machine")

    def collect(self) -> Iterable[Sample]:
        """Read one file a CPU and state."""
        states: dict[str, dict[Hashable, int]] = {}
        for cpu in self._topology.online():
            for state in self._states(cpu):
                microseconds = sys_number(self.host, f"{self._base}/cpu{cpu}/cpuidle/{state}/time")
                if microseconds is not None:
                    states.setdefault(self._name(cpu, state), {})[cpu, state] = microseconds
        return [
            Sample(SECONDS, (name,), self._totals.setdefault(name, SteadySum()).update(parts) / 1e6)
            for name, parts in states.items()
        ]

    def _states(self, cpu: int) -> list[str]:
        return [name for name in entries(f"{self._base}/cpu{cpu}/cpuidle") if name.startswith("state")]

    def _name(self, cpu: int, state: str) -> str:
        name = self._names.get((cpu, state))
        if name is None:
            name = sys_text(self.host, f"{self._base}/cpu{cpu}/cpuidle/{state}/name") or state
            self._names[cpu, state] = name
        return name
