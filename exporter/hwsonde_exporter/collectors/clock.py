"""What keeps the host's time: leap seconds, the kernel's clock source, the clocks of network devices."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import ClassVar

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._files import entries, pci_address, read_or_none, sys_text
from hwsonde_exporter.collectors.host import Clock, read_clock
from hwsonde_exporter.errors import ReadError
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import register

_gauge = partial(Metric, kind=Kind.GAUGE, subsystem="exporter")

LEAP = _gauge(
    name="hwsonde_host_clock_leap_announced_seconds",
    help="Leap second that the kernel will make at the end of the day: 1 inserts one, -1 leaves one out, 0 is none.",
    unit="seconds",
    source="adjtimex(2) return value TIME_INS, TIME_DEL",
)
TAI_OFFSET = _gauge(
    name="hwsonde_host_clock_tai_offset_seconds",
    help="Seconds that atomic time is ahead of the system clock; only where a time service has set it.",
    unit="seconds",
    source="adjtimex(2) tai",
)
SOURCE_INFO = _gauge(
    name="hwsonde_host_clock_source_info",
    help="Constant 1 labelled with the clock source in use and those that the kernel has; a fall from tsc makes time slow to read.",
    labels=("current", "available"),
    source="/sys/devices/system/clocksource/clocksource0/{current_clocksource,available_clocksource}",
)
PTP_INFO = _gauge(
    name="hwsonde_host_clock_ptp_info",
    help="Constant 1 labelled with the identity of a clock that a network device or a hypervisor offers.",
    labels=("device", "clock", "pci_bus_id"),
    source="/sys/class/ptp/ptpN/{clock_name,device}",
)


@register
class ClockCollector:
    """Leap seconds, clock source and hardware clocks; offset and errors of the clock are with the host's identity."""

    name: ClassVar[str] = "clock"
    help: ClassVar[str] = "Leap seconds, clock source and hardware clocks"
    metrics: ClassVar[tuple[Metric, ...]] = (LEAP, TAI_OFFSET, SOURCE_INFO, PTP_INFO)
    period: ClassVar[float | None] = None
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host, *, clock: Callable[[], Clock] = read_clock) -> None:
        self.host = host
        self._clock = clock
        self._source = str(host.paths.sys("devices/system/clocksource/clocksource0"))
        self._clocks: list[Sample] = []

    def probe(self) -> None:
        """Look which hardware clocks there are."""
        base = str(self.host.paths.sys("class/ptp"))
        self._clocks = [
            Sample(
                PTP_INFO,
                (name, sys_text(self.host, f"{base}/{name}/clock_name"), pci_address(f"{base}/{name}")),
                1,
            )
            for name in entries(base)
        ]

    def collect(self) -> Iterable[Sample]:
        """Read two files and ask the kernel for its clock."""
        samples: list[Sample] = []
        current = self._line("current_clocksource")
        if current:
            samples.append(Sample(SOURCE_INFO, (current, self._line("available_clocksource")), 1))
        samples += self._clocks
        try:
            clock = self._clock()
        except ReadError:
            return samples
        samples.append(Sample(LEAP, (), clock.leap))
        # 0 is what the kernel says until somebody tells it; no time service would, since 1972.
        if clock.tai > 0:
            samples.append(Sample(TAI_OFFSET, (), clock.tai))
        return samples

    def _line(self, name: str) -> str:
        data = read_or_none(self.host, f"{self._source}/{name}")
        return parsing.text(data) if data else ""
