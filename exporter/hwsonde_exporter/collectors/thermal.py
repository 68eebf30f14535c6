"""Temperatures and fans, from the sensor chips of hwmon; a chip may sit on a slow bus, so on a period of its own."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import ClassVar

from hwsonde_exporter.collectors._hwmon import Chip, Sensor, chips, reading, sensors
from hwsonde_exporter.errors import ReadError, Reason, Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import register

# Thousandths of a degree. Inputs that nothing is connected to read -128, 127 and more, all bits set (65261.85 is 65535
# kelvin) or exactly 0; a part that is really that hot has switched the host off.
COLDEST, HOTTEST = -55_000, 127_000
_MAX_THRESHOLD = 200_000
_MAX_RPM = 50_000
# Chips whose temperatures come from elsewhere with the name of their device: NVMe disks, and the kernel's thermal zones.
_ELSEWHERE = frozenset({"nvme"})
_ZONE = "thermal_zone"

_LABELS = ("chip", "sensor")
_gauge = partial(Metric, kind=Kind.GAUGE, subsystem="thermal", labels=_LABELS)

TEMPERATURE = _gauge(
    name="hwsonde_thermal_sensor_celsius",
    help="Temperature read by a board sensor; of the cores of a package only the hottest.",
    unit="celsius",
    source="/sys/class/hwmon/hwmonN/tempM_input (thousandths), label from tempM_label",
)
CRITICAL = _gauge(
    name="hwsonde_thermal_sensor_critical_celsius",
    help="Temperature at which a sensor's part is in danger.",
    unit="celsius",
    source="/sys/class/hwmon/hwmonN/tempM_crit (thousandths)",
)
MAXIMUM = _gauge(
    name="hwsonde_thermal_sensor_maximum_celsius",
    help="Highest temperature at which a sensor's part should be run.",
    unit="celsius",
    source="/sys/class/hwmon/hwmonN/tempM_max (thousandths)",
)
ALARM = _gauge(
    name="hwsonde_thermal_sensor_alarm",
    help="Whether the chip itself says that a temperature is beyond one of its limits (1) or not (0).",
    source="/sys/class/hwmon/hwmonN/tempM_{alarm,max_alarm,crit_alarm,emergency_alarm}",
)
FAN = _gauge(
    name="hwsonde_thermal_fan_rpm",
    help="Fan speed in turns a minute; a connector without a fan reads 0.",
    unit="rpm",
    source="/sys/class/hwmon/hwmonN/fanM_input",
)
FAN_ALARM = _gauge(
    name="hwsonde_thermal_fan_alarm",
    help="Whether the chip itself says that a fan is too slow or broken (1) or not (0).",
    source="/sys/class/hwmon/hwmonN/fanM_{alarm,min_alarm,fault}",
)

_TEMPERATURE_ALARMS = ("alarm", "max_alarm", "crit_alarm", "emergency_alarm")
_FAN_ALARMS = ("alarm", "min_alarm", "fault")


def celsius(thousandths: int | None) -> float | None:
    """Degrees of a reading, or None where it is no temperature."""
    if thousandths is None or thousandths == 0 or not COLDEST <= thousandths < HOTTEST:
        return None
    return thousandths / 1000


def is_core(sensor: Sensor) -> bool:
    """Whether a sensor is that of a single core."""
    return sensor.chip.driver == "coretemp" and sensor.label.startswith("Core ")


@register
class ThermalCollector:
    """Temperatures with their limits and alarms, and fans.

    The cores of an Intel package are left to its own sensor, which gives the hottest of them: reading each would make
    hundreds of series and interrupt each core. `ThermalCoreCollector` has them.
    """

    name: ClassVar[str] = "thermal"
    help: ClassVar[str] = "Temperatures and fans of the board's sensors"
    metrics: ClassVar[tuple[Metric, ...]] = (TEMPERATURE, CRITICAL, MAXIMUM, ALARM, FAN, FAN_ALARM)
    period: ClassVar[float | None] = 5.0
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host) -> None:
        self.host = host
        self._temperatures: list[Sensor] = []
        self._fans: list[Sensor] = []
        self._thresholds: list[Sample] = []

    def probe(self) -> None:
        """Find the sensors and read their limits; raise `Unavailable` where there are none."""
        found = [chip for chip in chips(self.host) if chip.driver not in _ELSEWHERE and not _is_zone(chip)]
        self._temperatures = [sensor for chip in found for sensor in _without_cores(sensors(self.host, chip, "temp"))]
        self._fans = [sensor for chip in found for sensor in sensors(self.host, chip, "fan")]
        if not self._temperatures and not self._fans:
            raise Unavailable(
                Reason.NO_HARDWARE,
                "the kernel shows no temperature or fan sensor in /sys/class/hwmon; usual in a virtual machine, "
                "else load the drivers that sensors-detect names",
            )
        self._thresholds = []
        for sensor in self._temperatures:
            for metric, suffix in ((CRITICAL, "crit"), (MAXIMUM, "max")):
                value = reading(self.host, sensor, suffix)
                if value is not None and 0 < value < _MAX_THRESHOLD:
                    self._thresholds.append(Sample(metric, (sensor.chip.label, sensor.label), value / 1000))

    def collect(self) -> Iterable[Sample]:
        """Read one file a sensor and one an alarm; a sensor that fails loses only its own series."""
        samples: list[Sample] = []
        for sensor in self._temperatures:
            labels = (sensor.chip.label, sensor.label)
            value = reading(self.host, sensor, "input")
            degrees = None if reading(self.host, sensor, "fault") else celsius(value)
            if degrees is not None:
                samples.append(Sample(TEMPERATURE, labels, degrees))
            elif value is not None:
                self.host.rejections.add()
            samples += self._alarm(ALARM, sensor, _TEMPERATURE_ALARMS)
        for sensor in self._fans:
            value = reading(self.host, sensor, "input")
            if value is not None and 0 <= value <= _MAX_RPM:
                samples.append(Sample(FAN, (sensor.chip.label, sensor.label), value))
            elif value is not None:
                self.host.rejections.add()
            samples += self._alarm(FAN_ALARM, sensor, _FAN_ALARMS)
        if not samples:
            raise ReadError("no sensor of /sys/class/hwmon can be read")
        return samples + self._thresholds

    def _alarm(self, metric: Metric, sensor: Sensor, suffixes: tuple[str, ...]) -> list[Sample]:
        states = [reading(self.host, sensor, suffix) for suffix in suffixes]
        if all(state is None for state in states):
            return []
        return [Sample(metric, (sensor.chip.label, sensor.label), int(any(states)))]


def _is_zone(chip: Chip) -> bool:
    return _ZONE in chip.label


def _without_cores(found: list[Sensor]) -> list[Sensor]:
    """Leave out the sensors of single cores where the package has one of its own, as since 2011 all have."""
    others = [sensor for sensor in found if not is_core(sensor)]
    return others or found
