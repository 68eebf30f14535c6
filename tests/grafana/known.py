"""Every series that the exporter and the detector can give, from their own tables."""

from __future__ import annotations

from collections.abc import Iterator

from hwsonde_detector.telemetry import Kind as DetectorKind
from hwsonde_detector.writers.exposition import FAMILIES
from hwsonde_exporter import self_metrics
from hwsonde_exporter.metric import Metric
from hwsonde_exporter.registry import Quantity, load_collectors
from hwsonde_exporter.sampler import derived_metrics


def fast_quantities() -> dict[str, Quantity]:
    """The sampler's quantities by the name of their summary."""
    sources = [collector for collector in load_collectors().values() if hasattr(collector, "quantities")]
    return {quantity.metric.name: quantity for source in sources for quantity in source.quantities}


def _exporter_metrics() -> Iterator[Metric]:
    for collector in load_collectors().values():
        yield from collector.metrics
    for quantity in fast_quantities().values():
        yield from derived_metrics(quantity)
    yield from self_metrics.METRICS


def series() -> dict[str, set[str]]:
    """Names of series as Prometheus stores them, with the labels that the programs themselves give."""
    found: dict[str, set[str]] = {}
    for metric in _exporter_metrics():
        for suffix in metric.suffixes:
            found[metric.name + suffix] = set(metric.label_names(suffix))
    for family in FAMILIES:
        for suffix in ("_sum", "_count") if family.kind is DetectorKind.SUMMARY else ("",):
            found[family.name + suffix] = set(family.labels)
    return found


def slow_series() -> set[str]:
    """Names of series that their collectors read every few seconds only, however often they are scraped."""
    slow = [one for one in load_collectors().values() if one.period is not None and one.period > 1]
    return {metric.name + suffix for collector in slow for metric in collector.metrics for suffix in metric.suffixes}
