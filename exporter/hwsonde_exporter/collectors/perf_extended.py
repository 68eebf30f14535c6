"""More of the processors' performance counters, off unless asked for."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from hwsonde_exporter.collectors._perf_collector import PerfCollectorBase, events_metric, perf_counter, shares_metric
from hwsonde_exporter.collectors._perf_event import HARDWARE, HARDWARE_CACHE, Event
from hwsonde_exporter.metric import Metric
from hwsonde_exporter.registry import register

_L1D, _LL, _DTLB, _ITLB, _NODE = 0, 2, 3, 4, 6  # PERF_COUNT_HW_CACHE_*
_READ_ACCESS, _READ_MISS = 0, 1 << 16  # OP_READ << 8 | RESULT << 16

_hardware = partial(perf_counter, kind="PERF_TYPE_HARDWARE/PERF_COUNT_HW_")
_cache = partial(perf_counter, kind="PERF_TYPE_HW_CACHE ")

REFERENCE_CYCLES = _hardware(
    "reference_cycles", "REF_CPU_CYCLES", "Cycles on the package at the base frequency, whatever the clock"
)
STALLED_FRONTEND = _hardware(
    "stalled_cycles_frontend", "STALLED_CYCLES_FRONTEND", "Cycles stalled in the front end on the package"
)
STALLED_BACKEND = _hardware(
    "stalled_cycles_backend", "STALLED_CYCLES_BACKEND", "Cycles stalled in the back end on the package"
)
LLC_LOADS = _cache("llc_loads", "LL|OP_READ|RESULT_ACCESS", "Last level cache loads on the package")
LLC_LOAD_MISSES = _cache("llc_load_misses", "LL|OP_READ|RESULT_MISS", "Last level cache load misses on the package")
L1D_LOADS = _cache("l1d_loads", "L1D|OP_READ|RESULT_ACCESS", "First level data cache loads on the package")
L1D_LOAD_MISSES = _cache(
    "l1d_load_misses", "L1D|OP_READ|RESULT_MISS", "First level data cache load misses on the package"
)
DTLB_LOAD_MISSES = _cache("dtlb_load_misses", "DTLB|OP_READ|RESULT_MISS", "Data TLB load misses on the package")
ITLB_LOAD_MISSES = _cache("itlb_load_misses", "ITLB|OP_READ|RESULT_MISS", "Instruction TLB load misses on the package")
NODE_LOAD_MISSES = _cache(
    "node_load_misses", "NODE|OP_READ|RESULT_MISS", "Loads on the package that a remote memory node served"
)
SCALING = shares_metric("hwsonde_cpu_perf_extended_scaling_ratio")
EVENT_CPUS = events_metric("hwsonde_cpu_perf_extended_event_cpus")


@register
class PerfExtendedCollector(PerfCollectorBase):
    """Cache and TLB loads and misses, stalled cycles, reference cycles.

    Off by default: ten more hardware events do not fit beside those of `perf`, so the kernel would take all groups in turn and
    make estimates of the basic counts too, and other users of the counters would get fewer turns.
    """

    name: ClassVar[str] = "perf_extended"
    help: ClassVar[str] = "More performance counters: cache, TLB, stalls (all counters become estimates)"
    metrics: ClassVar[tuple[Metric, ...]] = (
        REFERENCE_CYCLES, STALLED_FRONTEND, STALLED_BACKEND, LLC_LOADS, LLC_LOAD_MISSES, L1D_LOADS, L1D_LOAD_MISSES,
        DTLB_LOAD_MISSES, ITLB_LOAD_MISSES, NODE_LOAD_MISSES, SCALING, EVENT_CPUS,
    )  # fmt: skip
    enabled: ClassVar[bool] = False
    plan = (
        (
            Event("l1d_loads", HARDWARE_CACHE, _L1D | _READ_ACCESS),
            Event("l1d_load_misses", HARDWARE_CACHE, _L1D | _READ_MISS),
            Event("llc_loads", HARDWARE_CACHE, _LL | _READ_ACCESS),
            Event("llc_load_misses", HARDWARE_CACHE, _LL | _READ_MISS),
        ),
        (
            Event("dtlb_load_misses", HARDWARE_CACHE, _DTLB | _READ_MISS),
            Event("itlb_load_misses", HARDWARE_CACHE, _ITLB | _READ_MISS),
            Event("node_load_misses", HARDWARE_CACHE, _NODE | _READ_MISS),
            Event("reference_cycles", HARDWARE, 9),
        ),
        (
            Event("stalled_cycles_frontend", HARDWARE, 7),
            Event("stalled_cycles_backend", HARDWARE, 8),
        ),
    )
