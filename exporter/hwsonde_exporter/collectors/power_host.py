"""Power drawn by the whole host: an ACPI meter, else the board's management controller."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Protocol

from hwsonde_exporter.collectors._hwmon import Sensor, chips, reading, sensors
from hwsonde_exporter.collectors._ipmitool import Ipmitool, parse_power_reading
from hwsonde_exporter.collectors.power_sensor import watts
from hwsonde_exporter.errors import ReadError, Reason, Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import register

_METER = "power_meter"

POWER = Metric(
    name="hwsonde_power_host_watts",
    kind=Kind.GAUGE,
    help="Power drawn by the whole host; the source is acpi or ipmi.",
    labels=("source",),
    unit="watts",
    subsystem="power",
    source="/sys/class/hwmon/hwmonN/power1_average of a chip called power_meter, else ipmitool dcmi power reading",
)


class Controller(Protocol):
    """A management controller that can be asked for the host's power."""

    def check(self) -> None:
        """Raise `Unavailable` if it cannot be asked."""

    def ask(self) -> bytes:
        """Answer of ``ipmitool dcmi power reading``; raises `ReadError`."""


@register
class PowerHostCollector:
    """Power of the whole host.

    A host with several ACPI meters has one a part (processors, modules), none of which is the whole; those are board sensors.
    """

    name: ClassVar[str] = "power_host"
    help: ClassVar[str] = "Power of the whole host (ACPI or IPMI)"
    metrics: ClassVar[tuple[Metric, ...]] = (POWER,)
    period: ClassVar[float | None] = 30.0
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host, *, controller: Controller | None = None) -> None:
        self.host = host
        self._controller: Controller = controller if controller is not None else Ipmitool()
        self._meter: Sensor | None = None
        self._answered = False

    def probe(self) -> None:
        """Look for a meter, then for a controller; raise `Unavailable` where there is neither."""
        meters = [chip for chip in chips(self.host) if chip.driver == _METER]
        found = sensors(self.host, meters[0], "power", ("average", "input")) if len(meters) == 1 else []
        self._meter = found[0] if found and self._acpi(found[0]) else None
        if self._meter is None:
            self._controller.check()

    def collect(self) -> Iterable[Sample]:
        """Ask the one that was found; a host that answers at all never draws nothing, so 0 is no answer."""
        if self._meter is not None:
            power = self._acpi(self._meter)
            if not power:
                raise ReadError(f"the ACPI meter {self._meter.chip.label} gives no power")
            return [Sample(POWER, ("acpi",), power)]
        try:
            power = self._ask()
        except ReadError as error:
            # One that never answered does not know the question; one that did has a bad moment.
            if self._answered:
                raise
            raise Unavailable(Reason.NO_HARDWARE, str(error)) from error
        self._answered = True
        return [Sample(POWER, ("ipmi",), power)]

    def _ask(self) -> int:
        power = parse_power_reading(self._controller.ask())
        if power is None:
            raise ReadError("the management controller measures no power (DCMI)")
        return power

    def _acpi(self, meter: Sensor) -> float | None:
        return watts(reading(self.host, meter, "average", "input"))
