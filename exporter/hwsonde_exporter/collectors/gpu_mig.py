"""MIG: whether NVIDIA's GPUs are cut into instances, into which, and what each uses."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import ClassVar

from hwsonde_exporter.collectors._gpu_collector import GpuReadings, metrics_of
from hwsonde_exporter.collectors._gpu_parts_table import MIG
from hwsonde_exporter.collectors._gpu_rows import Row, by_reading
from hwsonde_exporter.metric import Metric
from hwsonde_exporter.registry import register


@register
class GpuMigCollector(GpuReadings):
    """Mode and instances of each GPU that can be cut up."""

    name: ClassVar[str] = "gpu_mig"
    help: ClassVar[str] = "NVIDIA GPUs: MIG mode, and memory and activity of each instance"
    rows: ClassVar[Mapping[str, Row]] = by_reading(MIG)
    groups: ClassVar[Collection[str]] = ("mig",)
    nothing: ClassVar[str] = "no GPU can be cut into MIG instances"
    metrics: ClassVar[tuple[Metric, ...]] = metrics_of(rows)
    period: ClassVar[float | None] = 1.0
    every: ClassVar[float] = 5.0
    enabled: ClassVar[bool] = True
