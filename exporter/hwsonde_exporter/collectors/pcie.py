"""PCIe links and their errors; asking a device that is gone takes its time, so on a period of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import ClassVar, TypeVar

from hwsonde_exporter.collectors._files import link_name, numa_node, sys_number, sys_text
from hwsonde_exporter.collectors._pci import Device, devices, parse_aer, parse_speed, parse_width, slot_of, slots
from hwsonde_exporter.errors import ReadError, Reason, Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import register

_LABELS = ("device", "class")
_gauge = partial(Metric, kind=Kind.GAUGE, subsystem="pcie", labels=_LABELS)
_Value = TypeVar("_Value", int, float)

INFO = _gauge(
    name="hwsonde_pcie_device_info",
    help="Constant 1 labelled with the identity of a PCI device, its slot, and the port at the other end of its link.",
    labels=(*_LABELS, "slot", "port", "vendor_id", "device_id", "driver", "numa_node"),
    source="/sys/bus/pci/devices/BDF/{class,vendor,device,driver,numa_node,label}, /sys/bus/pci/slots/NAME/address",
)
WIDTH = _gauge(
    name="hwsonde_pcie_link_width_lanes",
    help="PCIe lanes in use by a device.",
    unit="lanes",
    source="/sys/bus/pci/devices/BDF/current_link_width",
)
MAX_WIDTH = _gauge(
    name="hwsonde_pcie_link_max_width_lanes",
    help="PCIe lanes that a device and the port above it could use.",
    unit="lanes",
    source="/sys/bus/pci/devices/BDF/max_link_width of both ends of the link, the lower",
)
SPEED = _gauge(
    name="hwsonde_pcie_link_speed_transfers_per_second",
    help="PCIe transfers a second on each lane of a device; many devices lower it while they are idle.",
    unit="transfers_per_second",
    source="/sys/bus/pci/devices/BDF/current_link_speed (GT/s)",
)
MAX_SPEED = _gauge(
    name="hwsonde_pcie_link_max_speed_transfers_per_second",
    help="PCIe transfers a second on each lane that a device and the port above it could reach.",
    unit="transfers_per_second",
    source="/sys/bus/pci/devices/BDF/max_link_speed of both ends of the link, the lower",
)
ERRORS = Metric(
    name="hwsonde_pcie_aer_errors_total",
    kind=Kind.COUNTER,
    help="PCIe advanced error reports of a device.",
    labels=(*_LABELS, "severity"),
    subsystem="pcie",
    source="/sys/bus/pci/devices/BDF/aer_dev_{correctable,nonfatal,fatal} TOTAL_ERR_*",
)

_SEVERITIES = ("correctable", "nonfatal", "fatal")


@register
class PcieCollector:
    """Width and speed of links, and error reports, of devices that matter and of the bridges above them.

    A link is shown once, at its lower end: by the device, or by the upper port of a switch.
    """

    name: ClassVar[str] = "pcie"
    help: ClassVar[str] = "PCIe links and errors of GPUs, NICs, disks and bridges"
    metrics: ClassVar[tuple[Metric, ...]] = (INFO, WIDTH, MAX_WIDTH, SPEED, MAX_SPEED, ERRORS)
    period: ClassVar[float | None] = 10.0
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host) -> None:
        self.host = host
        self._base = f"{host.paths.sysfs}/bus/pci/devices"
        self._devices: list[Device] = []
        self._infos: list[Sample] = []
        self._limits: dict[str, tuple[int | None, float | None]] = {}

    def probe(self) -> None:
        """Find the devices and what their links could do; raise `Unavailable` where none has a link or reports errors."""
        self._devices = devices(self.host)
        self._limits = {
            device.address: (
                self._read(device.address, "max_link_width", parse_width),
                self._read(device.address, "max_link_speed", parse_speed),
            )
            for device in self._devices
            if not self._sleeps(device.address)
        }
        self._devices = [device for device in self._devices if self._matters(device)]
        if not self._devices:
            raise Unavailable(
                Reason.NO_HARDWARE, "no GPU, network device or disk here has a PCIe link; usual in a virtual machine"
            )
        names = slots(self.host)
        self._infos = [self._info(device, slot_of(device.chain, names)) for device in self._devices]

    def collect(self) -> Iterable[Sample]:
        """Read two files a link and three a device; a device that is asleep is not woken."""
        samples: list[Sample] = []
        for device in self._devices:
            if device.shows_link and not self._sleeps(device.address):
                samples += self._link_samples(device)
            samples += self._error_samples(device)
        if not samples:
            raise ReadError(f"{self._base}: no link and no error report can be read")
        return [*self._infos, *samples]

    def _link_samples(self, device: Device) -> list[Sample]:
        labels = (device.address, device.kind)
        width, speed = self._limits.get(device.address, (None, None))
        port_width, port_speed = self._limits.get(device.partner, (None, None))
        samples: list[Sample] = []
        lanes = self._read(device.address, "current_link_width", parse_width)
        if lanes is None and sys_number(self.host, f"{self._base}/{device.address}/current_link_width"):
            self.host.rejections.add()  # 63 or 255: a device that does not answer
        if lanes is not None:
            samples.append(Sample(WIDTH, labels, lanes))
            samples.append(Sample(MAX_WIDTH, labels, _possible(lanes, width, port_width)))
        transfers = self._read(device.address, "current_link_speed", parse_speed)
        if transfers is not None:
            samples.append(Sample(SPEED, labels, transfers))
            samples.append(Sample(MAX_SPEED, labels, _possible(transfers, speed, port_speed)))
        return samples

    def _error_samples(self, device: Device) -> list[Sample]:
        samples = []
        for severity in _SEVERITIES:
            count = self._read(device.address, f"aer_dev_{severity}", parse_aer)
            if count is not None:
                samples.append(Sample(ERRORS, (device.address, device.kind, severity), count))
        return samples

    def _info(self, device: Device, slot: str) -> Sample:
        path = f"{self._base}/{device.address}"
        return Sample(
            INFO,
            (
                device.address,
                device.kind,
                slot or sys_text(self.host, f"{path}/label"),
                device.partner,
                sys_text(self.host, f"{path}/vendor"),
                sys_text(self.host, f"{path}/device"),
                link_name(f"{path}/driver"),
                numa_node(self.host, f"{path}/numa_node"),
            ),
            1,
        )

    def _matters(self, device: Device) -> bool:
        """Whether it has a link to show or reports errors; conventional and emulated devices do neither."""
        if device.shows_link and self._limits.get(device.address, (None, None)) != (None, None):
            return True
        return self._read(device.address, "aer_dev_correctable", parse_aer) is not None

    def _sleeps(self, address: str) -> bool:
        # Since 2025 the kernel wakes a suspended device to read its link.
        return sys_text(self.host, f"{self._base}/{address}/power/runtime_status") == "suspended"

    def _read(self, address: str, name: str, parse: Callable[[bytes], _Value | None]) -> _Value | None:
        try:
            return parse(self.host.files.read_once(f"{self._base}/{address}/{name}"))
        except ReadError:
            return None


def _possible(present: _Value, *limits: _Value | None) -> _Value:
    """What a link could do: the lowest limit of its ends, but never less than it does (emulated ports make things up)."""
    credible = [limit for limit in limits if limit is not None and limit >= present]
    return min(credible, default=present)
