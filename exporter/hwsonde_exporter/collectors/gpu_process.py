"""Processes on NVIDIA's GPUs: memory and use of each."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import ClassVar

from hwsonde_exporter.collectors._gpu_collector import GpuReadings, metrics_of
from hwsonde_exporter.collectors._gpu_parts_table import PROCESSES
from hwsonde_exporter.collectors._gpu_rows import Row, by_reading
from hwsonde_exporter.metric import Metric
from hwsonde_exporter.registry import register


@register
class GpuProcessCollector(GpuReadings):
    """What each process with a context on a GPU uses, by its number on the host."""

    name: ClassVar[str] = "gpu_process"
    help: ClassVar[str] = "NVIDIA GPUs: memory and use of each process"
    rows: ClassVar[Mapping[str, Row]] = by_reading(PROCESSES)
    groups: ClassVar[Collection[str]] = ("processes",)
    nothing: ClassVar[str] = "no GPU tells of processes"
    metrics: ClassVar[tuple[Metric, ...]] = metrics_of(rows)
    period: ClassVar[float | None] = 5.0
    enabled: ClassVar[bool] = True
