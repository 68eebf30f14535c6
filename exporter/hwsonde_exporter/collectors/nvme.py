"""NVMe controllers: state, temperature, and the health that their SMART log tells."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from hwsonde_exporter.collectors import _nvme_tables as table
from hwsonde_exporter.collectors._asking import Asker, Hanging
from hwsonde_exporter.collectors._files import entries, numa_node, read_once_or_none, sys_text
from hwsonde_exporter.collectors._hwmon import signed
from hwsonde_exporter.collectors._nvme_ioctl import (
    CONDITIONS,
    Ask,
    SmartError,
    SmartLog,
    parse_smart_log,
    read_smart_log,
)
from hwsonde_exporter.errors import Reason, Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Metric, Sample
from hwsonde_exporter.registry import register

_CONTROLLER = re.compile(r"nvme\d+\Z")
_HWMON = re.compile(r"hwmon\d+\Z")
_SENSOR_FILE = re.compile(r"temp(\d+)_input\Z")
_SENSORS = 16
_TIMEOUT_SECONDS = 3.0
# What the kernel gives where a device names no limit is far out of this range (65261.85).
_COLDEST, _HOTTEST = -40_000, 150_000
_LIMITS = (("temp1_max", "warning"), ("temp1_crit", "critical"))


@dataclass(frozen=True, slots=True)
class Health:
    """What a controller says of itself when it is asked.

    ``log`` is its SMART log, or the word why there is none; temperatures and limits are in degrees Celsius.
    """

    log: SmartLog | str
    temperatures: dict[str, float]
    limits: dict[str, float]


@register
class NvmeCollector:
    """State, temperature and health of NVMe controllers.

    State and identity are what the kernel remembers. Temperature and health are asked of the device itself, which may not
    answer for a minute, so each controller is asked through an `Asker`; one that has not come back is reported as stuck.

    Parameters
    ----------
    host
        Where the kernel files are.
    ask
        Gives the SMART log of a character device, or raises `SmartError`.
    timeout
        Seconds to wait for all controllers together.
    """

    name: ClassVar[str] = "nvme"
    help: ClassVar[str] = "NVMe disks: state, temperature, wear and errors from their SMART log"
    metrics: ClassVar[tuple[Metric, ...]] = table.METRICS
    period: ClassVar[float | None] = 30.0
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host, *, ask: Ask = read_smart_log, timeout: float = _TIMEOUT_SECONDS) -> None:
        self.host = host
        self._class = str(host.paths.sys("class/nvme"))
        self._dev = str(host.paths.rootfs / "dev")
        self._ask = ask
        self._asker: Asker[str, Health] = Asker("nvme", timeout)
        self._identities: dict[str, tuple[str, ...]] = {}
        self._limits: dict[str, dict[str, float]] = {}

    def probe(self) -> None:
        """Raise `Unavailable` where there is no controller; forget identities, so that a replaced disk shows."""
        self._identities = {}
        self._limits = {}
        if not self._controllers():
            raise Unavailable(Reason.NO_HARDWARE, f"no NVMe controller: {self._class} is missing or empty")

    def collect(self) -> Iterable[Sample]:
        """Read the state of each controller from sysfs and ask the live ones for their health."""
        samples: list[Sample] = []
        live = []
        for device in self._controllers():
            state = sys_text(self.host, f"{self._class}/{device}/state")
            if state:
                samples.append(Sample(table.LIVE, (device,), int(state == "live")))
            samples.append(Sample(table.INFO, (device, *self._identity(device)), 1))
            if state in {"live", ""}:
                live.append(device)
            else:
                samples.append(Sample(table.SMART_AVAILABLE, (device, "not_live"), 0))
        answers = self._asker.ask({device: partial(self._health, device) for device in live})
        for device, answer in answers.items():
            samples += _health_samples(device, answer)
        return samples

    def _controllers(self) -> list[str]:
        names = [name for name in entries(self._class) if _CONTROLLER.match(name)]
        return sorted(names, key=lambda name: int(name[4:]))

    def _identity(self, device: str) -> tuple[str, ...]:
        identity = self._identities.get(device)
        if identity is None:
            base = f"{self._class}/{device}"
            transport = sys_text(self.host, f"{base}/transport")
            identity = self._identities[device] = (
                sys_text(self.host, f"{base}/model"),
                sys_text(self.host, f"{base}/firmware_rev"),
                transport,
                # Over a network the address is a remote one, and nobody's label.
                sys_text(self.host, f"{base}/address") if transport == "pcie" else "",
                numa_node(self.host, f"{base}/numa_node"),
            )
        return identity

    def _health(self, device: str) -> Health:
        """Ask the device; runs in a thread that may never end."""
        hwmon = self._hwmon(device)
        log: SmartLog | str
        try:
            log = parse_smart_log(self._ask(f"{self._dev}/{device}"))
        except SmartError as error:
            log = error.reason
        # Each temperature that hwmon gives is a SMART log that the kernel asks for, so it is not asked for twice.
        known = log.temperatures if isinstance(log, SmartLog) else {}
        temperatures = dict(known) if known else self._hwmon_temperatures(hwmon)
        limits = self._limits.get(device)
        if limits is None:
            limits = self._limits[device] = self._hwmon_limits(hwmon)
        return Health(log, temperatures, limits)

    def _hwmon(self, device: str) -> str:
        """Folder of the controller's sensors, or an empty text; older kernels put it below the PCI device."""
        for folder in (f"{self._class}/{device}", f"{self._class}/{device}/device/hwmon"):
            for name in entries(folder):
                if _HWMON.match(name):
                    return f"{folder}/{name}"
        return ""

    def _hwmon_temperatures(self, hwmon: str) -> dict[str, float]:
        temperatures: dict[str, float] = {}
        for name in entries(hwmon) if hwmon else ():
            match = _SENSOR_FILE.match(name)
            number = int(match.group(1)) if match else 0
            if not 1 <= number <= _SENSORS:
                continue
            value = signed(read_once_or_none(self.host, f"{hwmon}/{name}") or b"")
            degrees = _degrees(value)
            if degrees is None and value is not None:
                self.host.rejections.add()
            if degrees is not None:
                temperatures["composite" if number == 1 else f"sensor_{number - 1}"] = degrees
        return temperatures

    def _hwmon_limits(self, hwmon: str) -> dict[str, float]:
        limits = {}
        for name, limit in _LIMITS if hwmon else ():
            value = _degrees(signed(read_once_or_none(self.host, f"{hwmon}/{name}") or b""))
            if value is not None and value > 0:
                limits[limit] = value
        return limits


def _degrees(thousandths: int | None) -> float | None:
    return thousandths / 1000 if thousandths is not None and _COLDEST <= thousandths <= _HOTTEST else None


def _health_samples(device: str, answer: Health | Exception) -> list[Sample]:
    stuck = isinstance(answer, Hanging)
    samples = [Sample(table.STUCK, (device,), int(stuck))]
    if isinstance(answer, Exception):
        return [*samples, Sample(table.SMART_AVAILABLE, (device, "no_answer" if stuck else "error"), 0)]
    log = answer.log
    if isinstance(log, str):
        samples.append(Sample(table.SMART_AVAILABLE, (device, log), 0))
    else:
        samples.append(Sample(table.SMART_AVAILABLE, (device, ""), 1))
        samples += _log_samples(device, log)
    samples += [Sample(table.TEMPERATURE, (device, sensor), value) for sensor, value in answer.temperatures.items()]
    samples += [Sample(table.TEMPERATURE_LIMIT, (device, limit), value) for limit, value in answer.limits.items()]
    return samples


def _log_samples(device: str, log: SmartLog) -> list[Sample]:
    samples = [
        Sample(table.CRITICAL_WARNING, (device, condition), int(is_set))
        for condition, is_set in zip(CONDITIONS, log.warnings, strict=True)
    ]
    for metric, percent in (
        (table.SPARE, log.spare),
        (table.SPARE_THRESHOLD, log.spare_threshold),
        (table.WEAR, log.used),
    ):
        if percent is not None:
            samples.append(Sample(metric, (device,), percent / 100))
    for name, value in log.counts.items():
        metric, labels, scale = table.COUNTS[name]
        samples.append(Sample(metric, (device, *labels), value * scale))
    return samples
