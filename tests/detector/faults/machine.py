"""A made-up machine with eight GPUs, two network devices, a disk and two NUMA nodes, scraped once a second, whose data can be made faulty."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from hwsonde_detector.plan import Plan
from hwsonde_detector.settings import DataFaultSettings, EpisodeSettings, LearningSettings, Settings
from hwsonde_detector.signals.profiles import parse_profile
from hwsonde_detector.types import (
    DataFault,
    DataFaultEvent,
    DataQuality,
    Entity,
    FaultKind,
    Outputs,
    SampleBatch,
    Series,
)
from hwsonde_detector.worker import WorkerState, step

START_MS = 1_800_000_000_000
ENTITY = Entity((("cluster", ""), ("node", "n17")))
TARGET = {"instance": "n17:9880", "job": "hwsonde-exporter", "node": "n17"}
OTHER = {"instance": "n17:9400", "job": "other", "node": "n17"}
COLLECTORS = ("cpu", "gpu", "network", "nvme")
GPUS = tuple(str(number) for number in range(8))

HEALTH = """
health:
  up: up
  scrape_seconds: scrape_duration_seconds
  scrape_samples: scrape_samples_scraped
  available: x_collector_available
  success: x_collector_success
  seconds: x_collector_seconds
  clock: x_collector_time_seconds
  version: x_build_info
  parts: [{metric: x_numa_bytes, kind: numa_node, label: numa_node}]
"""
METRICS = """
restart: x_start_seconds
metrics:
  - {name: x_cpu_seconds_total, kind: counter, subsystem: cpu, by: [mode], scale: {floor: 0.1}}
  - {name: x_gpu_up, kind: gauge, subsystem: gpu, by: [gpu], device: {kind: gpu, label: gpu}, range: [0, 1], scale: {floor: 0.2}}
  - {name: x_gpu_celsius, kind: gauge, subsystem: thermal, by: [gpu, sensor], device: {kind: gpu, label: gpu},
     range: [1, 150], scale: {floor: 4}, unit: celsius}
  - {name: x_gpu_watts, kind: gauge, subsystem: power, by: [gpu], device: {kind: gpu, label: gpu}, range: [0, 2000], scale: {floor: 20}, unit: watts}
  - {name: x_gpu_active_ratio, kind: gauge, subsystem: gpu, by: [gpu], device: {kind: gpu, label: gpu},
     range: [0, 1], scale: {floor: 0.1}, unit: ratio}
  - {name: x_gpu_bytes_total, kind: counter, subsystem: pcie, by: [gpu], device: {kind: gpu, label: gpu}, scale: {floor: 1}}
  - {name: x_nic_bytes_total, kind: counter, subsystem: network, by: [device], device: {kind: nic, label: device}, scale: {floor: 1}}
  - {name: x_nic_errors_total, kind: counter, subsystem: network, by: [device], device: {kind: nic, label: device}, scale: {floor: 1}}
  - {name: x_disk_bytes_total, kind: counter, subsystem: storage, by: [device], device: {kind: disk, label: device}, scale: {floor: 1}}
  - {name: x_disk_celsius, kind: gauge, subsystem: thermal, by: [device], device: {kind: disk, label: device}, range: [1, 150], scale: {floor: 4}}
  - {name: x_free_bytes, kind: gauge, subsystem: memory, scale: {floor: 1}}
  - {name: x_pages_total, kind: counter, subsystem: memory, scale: {floor: 1}}
  - {name: x_workload_seconds_total, kind: counter, subsystem: cpu, by: [workload], scale: {floor: 0.1}}
  - {name: y_fan_rpm, kind: gauge, subsystem: thermal, by: [fan], device: {kind: fan, label: fan}, scale: {floor: 1}}
"""
PROFILE = parse_profile(HEALTH + METRICS, "machine.yaml")
BARE = parse_profile(METRICS, "bare.yaml")

RULES = DataFaultSettings(
    usual_ms=60_000, missing_ms=10_000, grace_ms=20_000, accept_ms=400_000, sustained_ms=20_000, clear_ms=20_000
)
SETTINGS = Settings(
    learning=LearningSettings(first_rows=100_000, calibrated_rows=100_000, memory_rows=100),
    episodes=EpisodeSettings(gone_after_ms=120_000),
    data_faults=RULES,
)
PLAN = Plan(SETTINGS, (PROFILE,))

Values = dict[Series, float]
Fault = Callable[[int, Values], Values | None]


def series(name: str, target: Mapping[str, str] = TARGET, **labels: str) -> Series:
    return Series(name, tuple(sorted({**target, **labels}.items())))


def gpu(number: str) -> dict[str, str]:
    return {"gpu": number, "uuid": f"GPU-{number}"}


def wobble(second: int, salt: int) -> float:
    """Never twice the same in a row, between 0 and 1."""
    return ((second * 7919 + salt * 104_729) % 997) / 997


def scrape(second: int) -> Values:
    """Everything that a healthy machine sends at that second."""
    now = START_MS / 1000 + second
    values: Values = {
        series("x_start_seconds"): START_MS / 1000 - 5000,
        series("x_build_info", version="1.0"): 1.0,
        series("x_cpu_seconds_total", mode="user"): second * 1.5,
        series("x_free_bytes"): 1e9 + 1e6 * wobble(second, 1),
        series("x_pages_total"): second * 11.0,
        series("x_workload_seconds_total", workload="slurm:1"): second * 0.5,
    }
    for number in GPUS:
        salt, labels = int(number), gpu(number)
        values |= {
            series("x_gpu_up", **labels): 1.0,
            series("x_gpu_celsius", sensor="gpu", **labels): 60 + 9 * wobble(second, salt + 10),
            series("x_gpu_celsius", sensor="memory", **labels): 70 + 9 * wobble(second, salt + 20),
            series("x_gpu_watts", **labels): 500 + 90 * wobble(second, salt + 30),
            series("x_gpu_active_ratio", **labels): 0.5 + 0.4 * wobble(second, salt + 40),
            series("x_gpu_bytes_total", **labels): second * 100.0 + salt,
        }
    for number, device in enumerate(("eth0", "eth1")):
        values[series("x_nic_bytes_total", device=device)] = second * 1000.0 + number
        values[series("x_nic_errors_total", device=device)] = float(second // 10)
    values[series("x_disk_bytes_total", device="nvme0n1")] = second * 10.0
    values[series("x_disk_celsius", device="nvme0n1")] = 40.0
    for node in ("0", "1"):
        values[series("x_numa_bytes", numa_node=node)] = 1e11
    for number, name in enumerate(COLLECTORS):
        values[series("x_collector_available", collector=name, reason="")] = 1.0
        values[series("x_collector_success", collector=name)] = 1.0
        values[series("x_collector_seconds", collector=name)] = 0.01 + 0.002 * wobble(second, number)
        values[series("x_collector_time_seconds", collector=name)] = now + 0.02
    return values


def of(values: Values, *names: str, **labels: str) -> list[Series]:
    """Series of these names (of any name, if none is given) with these labels."""
    return [one for one in values if (not names or one.name in names) and labels.items() <= dict(one.labels).items()]


def without(values: Values, gone: Iterable[Series]) -> Values:
    gone = set(gone)
    return {one: value for one, value in values.items() if one not in gone}


def healthy(second: int, values: Values) -> Values:
    return values


def batch_of(second: int, values: Values | None, *, told: bool = True) -> SampleBatch:
    """One scrape; None is one that failed. Without ``told`` the server does not say whether it succeeded."""
    known = dict(values or {})
    if told:
        known[series("up")] = float(values is not None)
        known[series("scrape_duration_seconds")] = 0.03 if values is not None else 1.0
        known[series("scrape_samples_scraped")] = float(len(values or {}))
    order = sorted(known)
    times = np.full(len(order), START_MS + 1000 * second, np.int64)
    return SampleBatch(
        tuple(order), np.arange(len(order) + 1, dtype=np.int64), times, np.array([known[one] for one in order])
    )


def ticks(seconds: Iterable[int], fault: Fault = healthy, *, told: bool = True) -> Iterable[tuple[SampleBatch, int]]:
    """Scrapes of the machine, each read 150 ms later."""
    for second in seconds:
        yield batch_of(second, fault(second, scrape(second)), told=told), START_MS + 1000 * second + 150


def play(
    given: Iterable[tuple[SampleBatch, int]], state: WorkerState | None = None, plan: Plan = PLAN
) -> tuple[WorkerState, list[Outputs]]:
    state, outputs = state if state is not None else WorkerState(), []
    for batch, now in given:
        state, output = step(state, batch, now, plan)
        outputs.append(output)
    return state, outputs


def qualities(outputs: Iterable[Outputs]) -> list[DataQuality]:
    return [report.quality for output in outputs for report in output.reports if report.quality is not None]


def told(outputs: Iterable[Outputs]) -> list[DataFaultEvent]:
    return [event for output in outputs for event in output.fault_events]


def fault_of(quality: DataQuality, kind: FaultKind) -> DataFault:
    return next(fault for fault in quality.faults if fault.kind is kind)


def peak(outputs: Iterable[Outputs], kind: FaultKind) -> float:
    return max((fault_of(one, kind).score for one in qualities(outputs)), default=0.0)


def peaks(outputs: Iterable[Outputs]) -> dict[str, float]:
    """Largest score of each kind that has any."""
    outputs = list(outputs)
    found = {str(kind): peak(outputs, kind) for kind in FaultKind if kind is not FaultKind.PARTIAL}
    return {kind: score for kind, score in found.items() if score > 0.0}


def second_of(ms: float) -> int:
    return math.floor((ms - START_MS) / 1000)
