"""What NVIDIA's GPUs are and how they are set: model, firmware, limits, modes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import ClassVar

from hwsonde_exporter.collectors._files import sys_number
from hwsonde_exporter.collectors._gpu_collector import GpuReadings, metrics_of
from hwsonde_exporter.collectors._gpu_health_table import IDENTITY
from hwsonde_exporter.collectors._gpu_rows import Row, by_reading
from hwsonde_exporter.metric import Metric, Sample
from hwsonde_exporter.nvml.answer import Answer
from hwsonde_exporter.registry import register

_ROWS = by_reading(IDENTITY)
INFO = _ROWS["info"].metric
_SERIAL, _BUS, _NODE = (INFO.labels.index(name) for name in ("serial", "pci_bus_id", "numa_node"))


@register
class GpuIdentityCollector(GpuReadings):
    """Identity, limits and modes of each GPU. Serial numbers are shown only where ``--nvml.serials`` says so."""

    name: ClassVar[str] = "gpu_identity"
    help: ClassVar[str] = "NVIDIA GPUs: model, firmware, limits of clocks, power and temperature, modes"
    rows: ClassVar[Mapping[str, Row]] = _ROWS
    groups: ClassVar[Collection[str]] = ("identity", "limits", "mode")
    metrics: ClassVar[tuple[Metric, ...]] = metrics_of(_ROWS)
    period: ClassVar[float | None] = 1.0
    every: ClassVar[float] = 30.0
    enabled: ClassVar[bool] = True

    def samples(self, answer: Answer) -> list[Sample]:
        """Give the samples of an answer, with what the kernel knows better."""
        return [self._completed(sample) if sample.metric is INFO else sample for sample in super().samples(answer)]

    def _completed(self, sample: Sample) -> Sample:
        labels = list(sample.labels)
        if self.host.nvml is None or not self.host.nvml.settings.serials:
            labels[_SERIAL] = ""
        if not labels[_NODE] and labels[_BUS]:
            node = sys_number(self.host, self.host.paths.sys("bus/pci/devices", labels[_BUS], "numa_node"))
            labels[_NODE] = "" if node is None else str(node)
        return sample._replace(labels=tuple(labels))
