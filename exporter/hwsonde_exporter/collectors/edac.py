"""Memory errors that the memory controllers' drivers have counted, from sysfs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from typing import ClassVar

from hwsonde_exporter.collectors._files import entries, sys_number, sys_text
from hwsonde_exporter.errors import ReadError, Reason, Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import register

_counter = partial(Metric, kind=Kind.COUNTER, subsystem="memory")

ERRORS = _counter(
    name="hwsonde_memory_edac_errors_total",
    help="Memory errors of a controller, corrected or uncorrected, since its driver was loaded.",
    labels=("controller", "type"),
    source="/sys/devices/system/edac/mc/mcN/{ce_count,ue_count}",
)
UNLOCATED = _counter(
    name="hwsonde_memory_edac_unlocated_errors_total",
    help="Memory errors of a controller that could not be assigned to a module; they are among its errors.",
    labels=("controller", "type"),
    source="/sys/devices/system/edac/mc/mcN/{ce_noinfo_count,ue_noinfo_count}",
)
MODULE_ERRORS = _counter(
    name="hwsonde_memory_edac_dimm_errors_total",
    help="Memory errors of a module, corrected or uncorrected.",
    labels=("controller", "dimm", "label", "type"),
    source="/sys/devices/system/edac/mc/mcN/dimmM/{dimm_ce_count,dimm_ue_count,dimm_label}; rankM where the driver knows ranks",
)

_CONTROLLER = re.compile(r"mc\d{1,5}\Z")
_MODULE = re.compile(r"(dimm|rank)\d{1,5}\Z")
_TYPES = {"corrected": "ce", "uncorrected": "ue"}


@register
class EdacCollector:
    """Corrected and uncorrected memory errors by controller and module."""

    name: ClassVar[str] = "edac"
    help: ClassVar[str] = "Memory errors by controller and module (EDAC)"
    metrics: ClassVar[tuple[Metric, ...]] = (ERRORS, UNLOCATED, MODULE_ERRORS)
    # Four files a controller and two a module.
    period: ClassVar[float | None] = 5.0
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host) -> None:
        self.host = host
        self._base = str(host.paths.sys("devices/system/edac/mc"))
        self._labels: dict[str, str] = {}

    def probe(self) -> None:
        """Raise `Unavailable` where no driver has found a controller; forget the modules' labels, which tools may set late."""
        self._labels.clear()
        if not self._controllers():
            detail = (
                "no EDAC driver has found a memory controller (i10nm_edac, skx_edac, amd64_edac or ghes_edac must be loaded); "
                "usual in a virtual machine and with memory without ECC"
            )
            raise Unavailable(Reason.NO_HARDWARE, detail)

    def collect(self) -> Iterable[Sample]:
        """Read the counts of every controller and module."""
        samples: list[Sample] = []
        for controller in self._controllers():
            base = f"{self._base}/{controller}"
            for kind, prefix in _TYPES.items():
                samples += self._count(ERRORS, (controller, kind), f"{base}/{prefix}_count")
                samples += self._count(UNLOCATED, (controller, kind), f"{base}/{prefix}_noinfo_count")
            for module in entries(base):
                if _MODULE.match(module):
                    samples += self._module_samples(controller, module)
        if not samples:
            raise ReadError(f"{self._base}: cannot be read; is --path.sysfs right?")
        return samples

    def _module_samples(self, controller: str, module: str) -> list[Sample]:
        base = f"{self._base}/{controller}/{module}"
        label = self._labels.get(base)
        if label is None:
            label = self._labels[base] = sys_text(self.host, f"{base}/dimm_label")
        samples = []
        for kind, prefix in _TYPES.items():
            samples += self._count(MODULE_ERRORS, (controller, module, label, kind), f"{base}/dimm_{prefix}_count")
        return samples

    def _count(self, metric: Metric, labels: tuple[str, ...], path: str) -> list[Sample]:
        count = sys_number(self.host, path)
        return [] if count is None else [Sample(metric, labels, count)]

    def _controllers(self) -> list[str]:
        return [name for name in entries(self._base) if _CONTROLLER.match(name)]
