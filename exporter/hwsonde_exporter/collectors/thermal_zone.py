"""The kernel's thermal zones, and what it does to cool them; firmware may take its time, so on a period of its own."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import ClassVar

from hwsonde_exporter.collectors._files import entries, read_once_or_none, sys_number, sys_text
from hwsonde_exporter.collectors._hwmon import signed
from hwsonde_exporter.collectors.thermal import celsius
from hwsonde_exporter.errors import Reason, Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import register

_ZONE, _DEVICE = "thermal_zone", "cooling_device"
# One device a CPU: together they are one, or a large host would have hundreds of series that all say the same.
_ONE_A_CPU = frozenset({"Processor"})
_ALL = "all"

_gauge = partial(Metric, kind=Kind.GAUGE, subsystem="thermal")

TEMPERATURE = _gauge(
    name="hwsonde_thermal_zone_celsius",
    help="Temperature of a kernel thermal zone.",
    labels=("zone", "type"),
    unit="celsius",
    source="/sys/class/thermal/thermal_zoneN/{type,temp} (thousandths)",
)
STATE = _gauge(
    name="hwsonde_thermal_cooling_state",
    help="Cooling state in force; 0 is none. Of devices that each CPU has one of, the greatest, as device all.",
    labels=("device", "type"),
    source="/sys/class/thermal/cooling_deviceN/{type,cur_state}",
)
MAXIMUM_STATE = _gauge(
    name="hwsonde_thermal_cooling_maximum_state",
    help="Greatest cooling state that a device has.",
    labels=("device", "type"),
    source="/sys/class/thermal/cooling_deviceN/{type,max_state}",
)


@register
class ThermalZoneCollector:
    """Thermal zones and cooling devices."""

    name: ClassVar[str] = "thermal_zone"
    help: ClassVar[str] = "The kernel's thermal zones and cooling devices"
    metrics: ClassVar[tuple[Metric, ...]] = (TEMPERATURE, STATE, MAXIMUM_STATE)
    period: ClassVar[float | None] = 5.0
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host) -> None:
        self.host = host
        self._base = str(host.paths.sys("class/thermal"))
        self._zones: list[tuple[str, str]] = []
        self._devices: list[tuple[str, str]] = []
        self._maxima: dict[str, int] = {}

    def probe(self) -> None:
        """Find zones and devices; raise `Unavailable` where there are none."""
        self._zones = self._numbered(_ZONE)
        self._devices = self._numbered(_DEVICE)
        if not self._zones and not self._devices:
            raise Unavailable(
                Reason.NO_HARDWARE, "the kernel shows no thermal zone in /sys/class/thermal; usual in a virtual machine"
            )
        self._maxima = {}
        for number, _ in self._devices:
            value = sys_number(self.host, f"{self._base}/{_DEVICE}{number}/max_state")
            if value is not None:
                self._maxima[number] = value

    def collect(self) -> Iterable[Sample]:
        """Read one file a zone and one a device."""
        samples: list[Sample] = []
        for number, kind in self._zones:
            degrees = self._temperature(f"{self._base}/{_ZONE}{number}")
            if degrees is not None:
                samples.append(Sample(TEMPERATURE, (number, kind), degrees))
        states: dict[tuple[str, str], int] = {}
        maxima: dict[tuple[str, str], int] = {}
        for number, kind in self._devices:
            value = sys_number(self.host, f"{self._base}/{_DEVICE}{number}/cur_state")
            # A driver that is idle says -1, which is no state; its limit would say nothing alone.
            if value is None:
                continue
            labels = (_ALL if kind in _ONE_A_CPU else number, kind)
            states[labels] = max(value, states.get(labels, 0))
            if number in self._maxima:
                maxima[labels] = max(self._maxima[number], maxima.get(labels, 0))
        samples += [Sample(STATE, labels, value) for labels, value in states.items()]
        samples += [Sample(MAXIMUM_STATE, labels, value) for labels, value in maxima.items()]
        return samples

    def _temperature(self, path: str) -> float | None:
        if sys_text(self.host, f"{path}/mode") == "disabled":
            return None
        value = signed(read_once_or_none(self.host, f"{path}/temp") or b"")
        degrees = celsius(value)
        if value is not None and degrees is None:
            self.host.rejections.add()
        return degrees

    def _numbered(self, prefix: str) -> list[tuple[str, str]]:
        """Number and type of each zone or device."""
        numbers = [name.removeprefix(prefix) for name in entries(self._base) if name.startswith(prefix)]
        numbers = sorted((number for number in numbers if number.isascii() and number.isdigit()), key=int)
        return [(number, sys_text(self.host, f"{self._base}/{prefix}{number}/type")) for number in numbers]
