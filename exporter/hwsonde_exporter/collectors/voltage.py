"""Voltages read by the sensor chips of hwmon; off by default, since few alert on them and boards have dozens."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from hwsonde_exporter.collectors._hwmon import Sensor, chips, reading, sensors
from hwsonde_exporter.errors import Reason, Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import register

# Thousandths of a volt: from a rail of -12 V to the mains of a rack of 800 V. An input that nothing is connected to
# reads 0.
_LOWEST, _HIGHEST = -60_000, 1_000_000

VOLTAGE = Metric(
    name="hwsonde_power_voltage_volts",
    kind=Kind.GAUGE,
    help="Voltage read by a board sensor.",
    labels=("chip", "sensor"),
    unit="volts",
    subsystem="power",
    source="/sys/class/hwmon/hwmonN/inM_input (thousandths)",
)


@register
class VoltageCollector:
    """Voltages of the board's rails and supplies."""

    name: ClassVar[str] = "voltage"
    help: ClassVar[str] = "Voltages of the board's sensors"
    metrics: ClassVar[tuple[Metric, ...]] = (VOLTAGE,)
    period: ClassVar[float | None] = 10.0
    enabled: ClassVar[bool] = False

    def __init__(self, host: Host) -> None:
        self.host = host
        self._sensors: list[Sensor] = []

    def probe(self) -> None:
        """Find the sensors; raise `Unavailable` where there are none."""
        self._sensors = [sensor for chip in chips(self.host) for sensor in sensors(self.host, chip, "in")]
        if not self._sensors:
            raise Unavailable(Reason.NO_HARDWARE, "the kernel shows no voltage sensor in /sys/class/hwmon")

    def collect(self) -> Iterable[Sample]:
        """Read one file a sensor."""
        samples = []
        for sensor in self._sensors:
            value = reading(self.host, sensor, "input")
            if value and _LOWEST <= value <= _HIGHEST:
                samples.append(Sample(VOLTAGE, (sensor.chip.label, sensor.label), value / 1000))
            elif value:
                self.host.rejections.add()
        return samples
