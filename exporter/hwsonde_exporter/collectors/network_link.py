"""What network devices are and how fast their links run; reading it may wait for the driver."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import ClassVar

from hwsonde_exporter.collectors._files import entries, link_name, numa_node, pci_address, sys_number, sys_text
from hwsonde_exporter.errors import Reason, Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import register

_BYTES_PER_MEGABIT = 125_000

_gauge = partial(Metric, kind=Kind.GAUGE, subsystem="network")

INFO = _gauge(
    name="hwsonde_network_info",
    help="Constant 1 labelled with the identity of a network device.",
    labels=("device", "driver", "duplex", "pci_bus_id", "numa_node", "bond"),
    source="/sys/class/net/DEV/{duplex,device,master}",
)
SPEED = _gauge(
    name="hwsonde_network_speed_bytes_per_second",
    help="Line rate of a network device.",
    labels=("device",),
    unit="bytes_per_second",
    source="/sys/class/net/DEV/speed (Mbit/s); -1 is not exported",
)
MTU = _gauge(
    name="hwsonde_network_mtu_bytes",
    help="Largest packet a network device sends.",
    labels=("device",),
    unit="bytes",
    source="/sys/class/net/DEV/mtu",
)


@register
class NetworkLinkCollector:
    """Line rate, largest packet and identity of network devices."""

    name: ClassVar[str] = "network_link"
    help: ClassVar[str] = "Network devices: line rate, MTU, identity"
    metrics: ClassVar[tuple[Metric, ...]] = (INFO, SPEED, MTU)
    period: ClassVar[float | None] = 5.0
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host) -> None:
        self.host = host
        self._sys = str(host.paths.sys("class/net"))

    def probe(self) -> None:
        """Raise `Unavailable` where sysfs shows no network devices."""
        if not entries(self._sys):
            raise Unavailable(Reason.NO_KERNEL_SUPPORT, f"{self._sys} is missing or empty; is --path.sysfs right?")

    def collect(self) -> Iterable[Sample]:
        """Read four small files a device."""
        samples: list[Sample] = []
        for device in entries(self._sys):
            base = f"{self._sys}/{device}"
            mtu = sys_number(self.host, f"{base}/mtu")
            # A plain file here is no device: bonding_masters lies among them.
            if mtu is None or self.host.ignored.devices.fullmatch(device):
                continue
            samples.append(Sample(MTU, (device,), mtu))
            speed = sys_number(self.host, f"{base}/speed")
            # 4294967295 is the same -1 from a kernel that prints it unsigned; 0 is what a dead link says.
            if speed and speed < (1 << 31):
                samples.append(Sample(SPEED, (device,), speed * _BYTES_PER_MEGABIT))
            driver = link_name(f"{base}/device/driver")
            master = link_name(f"{base}/master")
            if driver or master:
                samples.append(Sample(INFO, (device, *self._identity(base, driver), master), 1))
        return samples

    def _identity(self, base: str, driver: str) -> tuple[str, str, str, str]:
        duplex = sys_text(self.host, f"{base}/duplex")
        node = numa_node(self.host, f"{base}/device/numa_node")
        return driver, "" if duplex == "unknown" else duplex, pci_address(base), node
