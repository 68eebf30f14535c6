"""Power read by the sensor chips of hwmon; a chip may sit on a slow bus, so on a period of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from hwsonde_exporter.collectors._hwmon import Sensor, chips, reading, sensors
from hwsonde_exporter.errors import Reason, Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import register

# The present value where there is one, else the chip's own average.
_SUFFIXES = ("input", "average")
# Millionths of a watt; a sensor that knows nothing answers all bits set, of 32 of them as it counts millionths.
_MAX_MICROWATTS = 100_000 * 1_000_000
_ALL_BITS = (1 << 32) - 1

POWER = Metric(
    name="hwsonde_power_sensor_watts",
    kind=Kind.GAUGE,
    help="Power read by a board sensor.",
    labels=("chip", "sensor"),
    unit="watts",
    subsystem="power",
    source="/sys/class/hwmon/hwmonN/powerM_{input,average} (millionths), label from powerM_{label,oem_info}",
)


def watts(microwatts: int | None) -> float | None:
    """Watts of a reading, or None where it is no power that a host could draw."""
    if microwatts is None or microwatts == _ALL_BITS or not 0 <= microwatts <= _MAX_MICROWATTS:
        return None
    return microwatts / 1e6


@register
class PowerSensorCollector:
    """Power of supplies, regulators, accelerators and what else has a sensor."""

    name: ClassVar[str] = "power_sensor"
    help: ClassVar[str] = "Power of the board's sensors"
    metrics: ClassVar[tuple[Metric, ...]] = (POWER,)
    period: ClassVar[float | None] = 5.0
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host) -> None:
        self.host = host
        self._sensors: list[Sensor] = []

    def probe(self) -> None:
        """Find the sensors; raise `Unavailable` where there are none."""
        self._sensors = [sensor for chip in chips(self.host) for sensor in sensors(self.host, chip, "power", _SUFFIXES)]
        if not self._sensors:
            raise Unavailable(
                Reason.NO_HARDWARE,
                "the kernel shows no power sensor in /sys/class/hwmon; many boards have none that it knows",
            )

    def collect(self) -> Iterable[Sample]:
        """Read one file a sensor."""
        samples = []
        for sensor in self._sensors:
            value = reading(self.host, sensor, *_SUFFIXES)
            power = watts(value)
            if power is not None:
                samples.append(Sample(POWER, (sensor.chip.label, sensor.label), power))
            elif value is not None:
                self.host.rejections.add()
        return samples
