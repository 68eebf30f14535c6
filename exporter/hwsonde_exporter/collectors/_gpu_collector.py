"""What the collectors of GPUs have in common: they ask the worker for groups of readings and turn those into samples."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import ClassVar

from hwsonde_exporter.collectors._files import link_name, read_once_or_none
from hwsonde_exporter.collectors._gpu_rows import Converter, Row
from hwsonde_exporter.collectors._nvidia_procfs import has_driver
from hwsonde_exporter.collectors._pci import devices
from hwsonde_exporter.errors import ReadError, Reason, Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Metric, Sample
from hwsonde_exporter.nvml.answer import Answer, Device, WorkerState
from hwsonde_exporter.nvml.client import Client
from hwsonde_exporter.nvml.quarantine import WHOLE

_NVIDIA = b"0x10de"
# Its own driver, or none: that one which was lost has let go of it.
_DRIVERS = frozenset({"nvidia", ""})
# States of the worker that last, and that somebody must do something about.
_REASONS = {
    WorkerState.NO_LIBRARY: Reason.MISSING_TOOL,
    WorkerState.NO_BINDING: Reason.MISSING_TOOL,
    WorkerState.NO_DRIVER: Reason.NO_KERNEL_SUPPORT,
    WorkerState.MISMATCH: Reason.NO_KERNEL_SUPPORT,
    WorkerState.NO_PERMISSION: Reason.NO_PERMISSION,
    WorkerState.ERROR: Reason.NO_KERNEL_SUPPORT,
}


def nvidia_gpus(host: Host) -> int:
    """Count the GPUs of NVIDIA's on the PCI bus, whether a driver knows them or not.

    One that another driver holds, such as that which gives it to a virtual machine, is none for NVIDIA's driver to find.
    """
    base = host.paths.sys("bus/pci/devices")
    found = 0
    for device in devices(host):
        if device.kind == "gpu":
            folder = base / device.address
            vendor = read_once_or_none(host, folder / "vendor")
            driver = link_name(folder / "driver")
            found += vendor is not None and vendor.strip() == _NVIDIA and driver in _DRIVERS
    return found


def client_of(host: Host) -> Client:
    """Give the way to the driver's library.

    Raises
    ------
    Unavailable
        If this host has no GPU of NVIDIA's, as far as the kernel knows and nobody says otherwise.
    """
    client = host.nvml
    if client is None:
        raise Unavailable(Reason.DISABLED, "the library of NVIDIA's driver is not asked for this")
    if client.settings.library is None and not has_driver(host) and not nvidia_gpus(host):
        raise Unavailable(
            Reason.NO_HARDWARE,
            "no GPU of NVIDIA's on the PCI bus and no driver of theirs loaded; looked for again every minute",
        )
    return client


class GpuReadings:
    """Asks for groups of readings of all GPUs.

    Attributes
    ----------
    rows
        What each reading becomes, by its name.
    groups
        What is asked for, see `hwsonde_exporter.nvml.groups`.
    every
        How many seconds old readings may be. GPUs are looked at with every collection all the same, so that nothing is shown of
        one that is lost; 0 where all is read each time.
    pure
        Whether the same readings always make the same samples.
    nothing
        What to say where no GPU has any of it; an empty text where that is not to be said.

    Parameters
    ----------
    host
        Whose GPUs.
    """

    rows: ClassVar[Mapping[str, Row]]
    groups: ClassVar[Collection[str]]
    every: ClassVar[float] = 0.0
    pure: ClassVar[bool] = True
    nothing: ClassVar[str] = ""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.converter = Converter(self.rows)
        self._probed: Answer | None = None
        self._shown: tuple[tuple[Device, ...], list[Sample]] = ((), [])

    def probe(self) -> None:
        """Raise `Unavailable` where there is no GPU, no library, or no GPU that has any of this.

        Raises `ReadError` where nobody will ask again and the driver has not answered.
        """
        answer = self._ask(client_of(self.host))
        reason = _REASONS.get(answer.state)
        # What was lost while it worked is still reported as lost.
        if reason is not None and not answer.devices:
            raise Unavailable(reason, answer.detail)
        wanted = {WHOLE, *self.groups}
        if (
            self.nothing
            and answer.state is WorkerState.RUNNING
            and not any(device.readings or wanted & device.skipped.keys() for device in answer.devices)
        ):
            raise Unavailable(Reason.NO_HARDWARE, self.nothing)
        self._probed = answer

    def collect(self) -> Iterable[Sample]:
        """Ask the worker; what it cannot tell now is left out. Right after a probe that is what the probe was told.

        Two questions in a row would be one too many for what is compared with the last time.
        """
        client, answer, self._probed = self.host.nvml, self._probed, None
        if answer is None and client is not None:
            answer = self._ask(client)
        if answer is None:
            return []
        before, samples = self._shown
        if not (self.every and self.pure and _same(before, answer.devices)):
            samples = self.samples(answer)
            self._shown = (answer.devices, samples)
        return samples

    def _ask(self, client: Client) -> Answer:
        answer = client.collect(self.groups, self.every)
        if answer.unanswered:
            raise ReadError(f"the GPUs could not be asked ({answer.state}): {answer.detail}")
        return answer

    def samples(self, answer: Answer) -> list[Sample]:
        """Give the samples of an answer."""
        samples = self.converter.samples(answer.devices)
        if self.converter.rejected and self.host.nvml is not None:
            self.host.nvml.reject(self.converter.rejected)
            self.converter.rejected.clear()
        return samples


def _same(before: tuple[Device, ...], after: tuple[Device, ...]) -> bool:
    """Whether two answers hold the very same readings of the same GPUs."""
    return len(before) == len(after) > 0 and all(
        one.uuid == other.uuid and one.readings is other.readings and one.readings != ()
        for one, other in zip(before, after, strict=True)
    )


def metrics_of(rows: Mapping[str, Row]) -> tuple[Metric, ...]:
    """Metrics of a table, in its order."""
    return tuple(dict.fromkeys(row.metric for row in rows.values()))
