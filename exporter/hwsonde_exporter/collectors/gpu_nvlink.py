"""NVLink of NVIDIA's GPUs: bytes every second, state and errors less often, since they cost more calls."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import ClassVar

from hwsonde_exporter.collectors._gpu_collector import GpuReadings, metrics_of
from hwsonde_exporter.collectors._gpu_parts_table import NVLINK, NVLINK_HEALTH
from hwsonde_exporter.collectors._gpu_rows import Row, by_reading
from hwsonde_exporter.metric import Metric
from hwsonde_exporter.registry import register


@register
class GpuNvlinkCollector(GpuReadings):
    """Bytes over each link."""

    name: ClassVar[str] = "gpu_nvlink"
    help: ClassVar[str] = "NVIDIA GPUs: bytes over each NVLink"
    rows: ClassVar[Mapping[str, Row]] = by_reading(NVLINK)
    groups: ClassVar[Collection[str]] = ("nvlink",)
    nothing: ClassVar[str] = "no GPU has an NVLink whose bytes the driver counts"
    metrics: ClassVar[tuple[Metric, ...]] = metrics_of(rows)
    period: ClassVar[float | None] = 1.0
    enabled: ClassVar[bool] = True


@register
class GpuNvlinkHealthCollector(GpuReadings):
    """State, speed, errors and other end of each link."""

    name: ClassVar[str] = "gpu_nvlink_health"
    help: ClassVar[str] = "NVIDIA GPUs: state, speed and errors of each NVLink"
    rows: ClassVar[Mapping[str, Row]] = by_reading(NVLINK_HEALTH)
    groups: ClassVar[Collection[str]] = ("nvlink_health",)
    nothing: ClassVar[str] = "no GPU has an NVLink"
    metrics: ClassVar[tuple[Metric, ...]] = metrics_of(rows)
    period: ClassVar[float | None] = 1.0
    every: ClassVar[float] = 10.0
    enabled: ClassVar[bool] = True
