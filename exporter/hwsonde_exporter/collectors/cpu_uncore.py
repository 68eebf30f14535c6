"""Clock frequency of the processors' uncore (mesh, caches, memory controllers), from sysfs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._files import entries, sys_number
from hwsonde_exporter.collectors.cpu_clock import hertz_of
from hwsonde_exporter.errors import ReadError, Reason, Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import register

_DIE = re.compile(r"package_(\d{2,4})_die_(\d{2,4})\Z")
_CLUSTER = re.compile(r"uncore\d{2,4}\Z")
_FILE = "current_freq_khz"

FREQUENCY = Metric(
    name="hwsonde_cpu_uncore_frequency_hertz",
    kind=Kind.GAUGE,
    help="Clock frequency of the uncore of a die; the lowest where a die has several clusters.",
    labels=("package", "die"),
    unit="hertz",
    subsystem="cpu",
    source="/sys/devices/system/cpu/intel_uncore_frequency/*/current_freq_khz",
)


@register
class CpuUncoreCollector:
    """Uncore frequency by package and die; it falls under a power limit and slows memory and GPU traffic."""

    name: ClassVar[str] = "cpu_uncore"
    help: ClassVar[str] = "Clock frequency of the uncore (Intel)"
    metrics: ClassVar[tuple[Metric, ...]] = (FREQUENCY,)
    period: ClassVar[float | None] = None
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host) -> None:
        self.host = host
        self._base = str(host.paths.sys("devices/system/cpu/intel_uncore_frequency"))
        self._files: list[tuple[str, str, str]] = []

    def probe(self) -> None:
        """Find the clusters; raise `Unavailable` where the kernel shows none or they may not be read."""
        names = entries(self._base)
        self._files = self._dies(names) or self._clusters(names)
        if not self._files:
            raise Unavailable(
                Reason.NO_KERNEL_SUPPORT,
                "the kernel shows no uncore frequency; it does for Intel servers since Linux 5.18 with intel_uncore_frequency loaded",
            )
        try:
            self.host.files.read_once(self._files[0][2])
        except ReadError as error:
            if isinstance(error.__cause__, PermissionError):
                raise Unavailable(
                    Reason.NO_PERMISSION,
                    "the uncore frequency may be read by root only; run as root or give the exporter CAP_DAC_READ_SEARCH",
                ) from error

    def collect(self) -> Iterable[Sample]:
        """Read one file a cluster."""
        lowest: dict[tuple[str, str], int] = {}
        for package, die, path in self._files:
            value = self._read(path)
            if value:
                labels = (package, die)
                lowest[labels] = min(value, lowest.get(labels, value))
        if not lowest:
            raise ReadError(f"{self._base}: no frequency can be read")
        return [Sample(FREQUENCY, labels, value) for labels, value in lowest.items()]

    def _read(self, path: str) -> int | None:
        try:
            value = parsing.number(self.host.files.read(path).strip())
        except ReadError:
            return None
        hertz = hertz_of(value)
        if value is not None and hertz is None:
            self.host.rejections.add()
        return hertz

    def _dies(self, names: list[str]) -> list[tuple[str, str, str]]:
        """Package, die and file of each folder that stands for a die; newer processors have no reading there."""
        found = []
        for name in names:
            match = _DIE.match(name)
            path = f"{self._base}/{name}"
            if match and _FILE in entries(path):
                found.append((str(int(match[1])), str(int(match[2])), f"{path}/{_FILE}"))
        return found

    def _clusters(self, names: list[str]) -> list[tuple[str, str, str]]:
        """Package, power domain and file of each cluster, as processors since 2024 show them."""
        found = []
        for name in names:
            path = f"{self._base}/{name}"
            if not _CLUSTER.match(name) or _FILE not in entries(path):
                continue
            package, domain = sys_number(self.host, f"{path}/package_id"), sys_number(self.host, f"{path}/domain_id")
            if package is not None and domain is not None:
                found.append((str(package), str(domain), f"{path}/{_FILE}"))
        return found
