"""The processors' performance counters, summed by package."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from hwsonde_exporter.collectors._perf_collector import PerfCollectorBase, events_metric, perf_counter, shares_metric
from hwsonde_exporter.collectors._perf_cpus import find_counters
from hwsonde_exporter.collectors._perf_event import HARDWARE, SOFTWARE, Event
from hwsonde_exporter.metric import Kind, Metric
from hwsonde_exporter.registry import Quantity, register

# The fast sampler reads each CPU by an interrupt on it, 10 times a second: fine for a few CPUs, not for 192.
FAST_CPUS = 8

_hardware = partial(perf_counter, kind="PERF_TYPE_HARDWARE/PERF_COUNT_HW_")

CYCLES = _hardware("cycles", "CPU_CYCLES", "CPU cycles on the package")
INSTRUCTIONS = _hardware("instructions", "INSTRUCTIONS", "Instructions retired on the package")
CACHE_REFERENCES = _hardware(
    "cache_references", "CACHE_REFERENCES", "Cache accesses on the package, as the kernel's generic event defines them"
)
CACHE_MISSES = _hardware(
    "cache_misses", "CACHE_MISSES", "Cache misses on the package, as the kernel's generic event defines them"
)
BRANCH_INSTRUCTIONS = _hardware(
    "branch_instructions", "BRANCH_INSTRUCTIONS", "Branch instructions retired on the package"
)
BRANCH_MISSES = _hardware("branch_misses", "BRANCH_MISSES", "Branch mispredictions on the package")
MIGRATIONS = perf_counter(
    "migrations", "CPU_MIGRATIONS", "Task migrations to a CPU of the package", kind="PERF_TYPE_SOFTWARE/PERF_COUNT_SW_"
)
SCALING = shares_metric("hwsonde_cpu_perf_scaling_ratio")
EVENT_CPUS = events_metric("hwsonde_cpu_perf_event_cpus")

_sampled = partial(
    Metric,
    kind=Kind.SUMMARY,
    subsystem="cpu",
    unit="per_second",
    source="perf_event_open(2), as the counter of that name",
)
CYCLES_SAMPLED = Quantity(
    _sampled(
        name="hwsonde_cpu_perf_cycles_sampled_per_second",
        help=f"CPU cycles a second on all CPUs; only on hosts of at most {FAST_CPUS} CPUs.",
    ),
    reference=0.0,
    cumulative=True,
)
INSTRUCTIONS_SAMPLED = Quantity(
    _sampled(
        name="hwsonde_cpu_perf_instructions_sampled_per_second",
        help=f"Instructions retired a second on all CPUs; only on hosts of at most {FAST_CPUS} CPUs.",
    ),
    reference=0.0,
    cumulative=True,
)
_FAST = ((CYCLES_SAMPLED, "cycles"), (INSTRUCTIONS_SAMPLED, "instructions"))


@register
class PerfCollector(PerfCollectorBase):
    """Cycles, instructions, cache and branch events, task migrations.

    Six hardware events in groups of four and two. Intel's processors count cycles and instructions by counters of their own, so
    that four general ones a thread are enough for the rest; AMD's six are just enough for all. Where the kernel's watchdog or
    somebody else holds one and there is none to spare (Intel has eight since Ice Lake), the kernel takes the groups in turn,
    the counters are estimates and the scaling ratio is below 1.
    """

    name: ClassVar[str] = "perf"
    help: ClassVar[str] = "Performance counters of the processors"
    metrics: ClassVar[tuple[Metric, ...]] = (
        CYCLES, INSTRUCTIONS, CACHE_REFERENCES, CACHE_MISSES, BRANCH_INSTRUCTIONS, BRANCH_MISSES, MIGRATIONS, SCALING, EVENT_CPUS,
    )  # fmt: skip
    quantities: ClassVar[tuple[Quantity, ...]] = (CYCLES_SAMPLED, INSTRUCTIONS_SAMPLED)
    enabled: ClassVar[bool] = True
    plan = (
        (
            Event("cycles", HARDWARE, 0),
            Event("instructions", HARDWARE, 1),
            Event("cache_references", HARDWARE, 2),
            Event("cache_misses", HARDWARE, 3),
        ),
        (Event("branch_instructions", HARDWARE, 4), Event("branch_misses", HARDWARE, 5)),
        (Event("migrations", SOFTWARE, 4),),
    )

    def observe(self) -> Sequence[tuple[Quantity, tuple[str, ...], float]]:
        """Give cycles and instructions so far, over all CPUs; nothing on a large host or without counters.

        The events are those that the collector has opened; until it has, there is nothing to give.
        """
        counters = self.counters or find_counters(self.key)
        if counters is None:
            return ()
        self.counters = counters
        # Without a performance unit (most virtual machines) only software events are open: not worth ten looks a second.
        if not 0 < counters.cpus <= FAST_CPUS or not counters.has([name for _, name in _FAST]):
            return ()
        counters.advance([name for _, name in _FAST])
        sums: dict[str, int] = {}
        for (_, name), count in counters.totals().items():
            sums[name] = sums.get(name, 0) + count
        return [(quantity, (), sums[name]) for quantity, name in _FAST if name in sums]
