"""How NVIDIA's GPUs are: memory errors, remapped rows, the fabric, fans, and what the driver asks to be done."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import ClassVar

from hwsonde_exporter.collectors._gpu_collector import GpuReadings, metrics_of
from hwsonde_exporter.collectors._gpu_health_table import HEALTH
from hwsonde_exporter.collectors._gpu_rows import Row, by_reading
from hwsonde_exporter.metric import Metric
from hwsonde_exporter.registry import register


@register
class GpuHealthCollector(GpuReadings):
    """What changes when a GPU falls ill."""

    name: ClassVar[str] = "gpu_health"
    help: ClassVar[str] = "NVIDIA GPUs: ECC errors, row remaps, NVLink fabric, fans, recovery that the driver asks for"
    rows: ClassVar[Mapping[str, Row]] = by_reading(HEALTH)
    groups: ClassVar[Collection[str]] = ("ecc", "remap", "recovery", "fabric", "c2c", "fan", "pcie_throughput")
    metrics: ClassVar[tuple[Metric, ...]] = metrics_of(rows)
    period: ClassVar[float | None] = 1.0
    every: ClassVar[float] = 5.0
    enabled: ClassVar[bool] = True
