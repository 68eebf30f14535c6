"""Temperature of each core of an Intel processor; off by default, since reading one interrupts the core."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from hwsonde_exporter.collectors._hwmon import Sensor, chips, reading, sensors
from hwsonde_exporter.collectors.thermal import celsius, is_core
from hwsonde_exporter.errors import Reason, Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import register

CORE = Metric(
    name="hwsonde_thermal_core_celsius",
    kind=Kind.GAUGE,
    help="Temperature of a core.",
    labels=("chip", "core"),
    unit="celsius",
    subsystem="thermal",
    source="/sys/class/hwmon/hwmonN/tempM_input of coretemp (thousandths)",
)


@register
class ThermalCoreCollector:
    """Temperature of each core, one series a core."""

    name: ClassVar[str] = "thermal_core"
    help: ClassVar[str] = "Temperature of each core (Intel)"
    metrics: ClassVar[tuple[Metric, ...]] = (CORE,)
    period: ClassVar[float | None] = 5.0
    enabled: ClassVar[bool] = False

    def __init__(self, host: Host) -> None:
        self.host = host
        self._cores: list[Sensor] = []

    def probe(self) -> None:
        """Find the sensors; raise `Unavailable` where there are none."""
        found = [chip for chip in chips(self.host) if chip.driver == "coretemp"]
        self._cores = [sensor for chip in found for sensor in sensors(self.host, chip, "temp") if is_core(sensor)]
        if not self._cores:
            raise Unavailable(
                Reason.NO_HARDWARE,
                "no core shows its temperature; only the driver coretemp of Intel processors gives it",
            )

    def collect(self) -> Iterable[Sample]:
        """Read one file a core."""
        found = []
        for sensor in self._cores:
            value = reading(self.host, sensor, "input")
            degrees = celsius(value)
            if degrees is not None:
                found.append(Sample(CORE, (sensor.chip.label, sensor.label.removeprefix("Core ")), degrees))
            elif value is not None:
                self.host.rejections.add()
        return found
