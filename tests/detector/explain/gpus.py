"""A made-up host with eight GPUs: gauges whose values are known, and what tells where the GPUs sit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from hwsonde_detector.plan import Plan
from hwsonde_detector.settings import PeerSettings
from hwsonde_detector.signals.profiles import parse_profile
from hwsonde_detector.types import SampleBatch, Series
from tests.detector.worker.hosts import SETTINGS, START_MS

PROFILE = parse_profile(
    """
places:
  - {metric: gpu_info, kind: gpu, label: gpu, place: pci_bus_id}
metrics:
  - name: clock_hertz
    title: SM clock
    kind: gauge
    subsystem: gpu
    by: [gpu]
    device: &gpu {kind: gpu, label: gpu}
    scale: {floor: 1.0e+7}
    unit: hertz
  - {name: activity_ratio, title: SM activity, kind: gauge, subsystem: gpu, by: [gpu], device: *gpu, scale: {floor: 0.01}, unit: ratio}
  - {name: power_watts, title: power, kind: gauge, subsystem: power, by: [gpu], device: *gpu, scale: {floor: 5}, unit: watts}
  - {name: temperature_celsius, title: temperature, kind: gauge, subsystem: thermal, by: [gpu], device: *gpu, scale: {floor: 1}, unit: celsius}
  - {name: busy_ratio, title: CPU busy time, kind: gauge, subsystem: cpu, scale: {floor: 0.02}, unit: ratio}
  - {name: waiting_ratio, kind: gauge, subsystem: cpu, scale: {floor: 0.02}, unit: ratio}
""",
    "gpus.yaml",
)
# What its own model says of a host; comparing its GPUs with each other has tests of its own.
PLAN = Plan(replace(SETTINGS, peers=PeerSettings(enabled=False)), (PROFILE,))
USUAL = {
    "clock_hertz": (1.95e9, 1e7), "activity_ratio": (0.9, 0.02), "power_watts": (680.0, 8.0),
    "temperature_celsius": (60.0, 1.0), "busy_ratio": (0.3, 0.03), "waiting_ratio": (0.1, 0.02),
}  # fmt: skip
GPUS = tuple(str(number) for number in range(8))
_TARGET = {"cluster": "lab", "instance": "n1:9880", "job": "hwsonde-exporter", "node": "n1"}

Fault = Callable[[str, str, int, float], float]


def series(name: str, **labels: str) -> Series:
    return Series(name, tuple(sorted({**_TARGET, **labels}.items())))


def address(gpu: str) -> str:
    return f"0000:8{gpu}:00.0"


def batches(seconds: int, fault: Fault, without_address: Iterable[str] = ()) -> list[tuple[SampleBatch, int]]:
    """A batch a second; ``fault(name, gpu, second, value)`` changes values, ``without_address`` are GPUs of which no info series tells."""
    known: dict[Series, np.ndarray] = {}
    for place, (name, (level, noise)) in enumerate(USUAL.items()):
        for gpu in GPUS if name not in ("busy_ratio", "waiting_ratio") else ("",):
            drawn = np.random.default_rng([place, int(gpu or 9)]).normal(level, noise, seconds)
            values = [fault(name, gpu, second, value) for second, value in enumerate(drawn.tolist())]
            known[series(name, **({"gpu": gpu} if gpu else {}))] = np.array(values)
    for gpu in GPUS:
        if gpu not in set(without_address):
            known[series("gpu_info", gpu=gpu, pci_bus_id=address(gpu))] = np.ones(seconds)
    names = tuple(sorted(known))
    offsets = np.arange(len(names) + 1, dtype=np.int64)
    made = []
    for second in range(seconds):
        now = START_MS + 1000 * second
        values = np.array([known[name][second] for name in names])
        made.append((SampleBatch(names, offsets, np.full(len(names), now, np.int64), values), now + 150))
    return made
