"""The columns of the tables of what NVIDIA's GPUs tell: metric, range and scale of each reading."""

from __future__ import annotations

from hwsonde_exporter.collectors._gpu_rows import MOST_COUNTED, Row
from hwsonde_exporter.metric import Kind, Metric

HOTTEST = 150
MOST_BYTES = 1 << 44
MOST_MEGAHERTZ = 20_000
MOST_MILLIWATTS = 20_000_000
PERCENT = 0.01
FIELD = "nvmlDeviceGetFieldValues NVML_FI_DEV_"
_GPU = ("gpu", "uuid")


def gauge(  # noqa: PLR0913  (a table's columns)
    name: str,
    help: str,  # noqa: A002  (as in Metric)
    source: str,
    least: float,
    most: float,
    *labels: str,
    unit: str = "",
    scale: float = 1.0,
    subsystem: str = "gpu",
) -> Row:
    """Row of a gauge; ``least`` and ``most`` are in the driver's unit."""
    metric = Metric(f"hwsonde_gpu_{name}", Kind.GAUGE, help, (*_GPU, *labels), unit, subsystem, source)
    return Row(metric, least, most, scale)


def active(name: str, help: str, source: str, *labels: str) -> Row:  # noqa: A002  (as above)
    """Row of a ratio that hardware counters give in percent, at times a little beyond 100."""
    metric = Metric(f"hwsonde_gpu_{name}", Kind.GAUGE, help, (*_GPU, *labels), "ratio", "gpu", source)
    return Row(metric, 0, 101, PERCENT, ceiling=100)


def counter(
    name: str,
    help: str,  # noqa: A002  (as above)
    source: str,
    *labels: str,
    unit: str = "",
    scale: float = 1.0,
    subsystem: str = "gpu",
    cumulative: bool = False,
) -> Row:
    """Row of a counter."""
    metric = Metric(f"hwsonde_gpu_{name}", Kind.COUNTER, help, (*_GPU, *labels), unit, subsystem, source)
    return Row(metric, 0, MOST_COUNTED, scale, cumulative=cumulative)
