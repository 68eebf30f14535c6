"""SCSI disks, SATA and SAS ones among them: commands that failed or timed out."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import ClassVar

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._files import entries, sys_text
from hwsonde_exporter.errors import Reason, Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import register

_BASE = "/sys/block/DEV/device"
_counter = partial(Metric, kind=Kind.COUNTER, labels=("device",), subsystem="storage")

RUNNING = Metric(
    name="hwsonde_storage_scsi_running",
    kind=Kind.GAUGE,
    help="Whether the kernel uses a SCSI disk (1) or has blocked it or taken it offline (0).",
    labels=("device",),
    subsystem="storage",
    source=f"{_BASE}/state",
)
REQUESTED = _counter(
    name="hwsonde_storage_scsi_requests_total",
    help="Commands given to a SCSI disk.",
    source=f"{_BASE}/iorequest_cnt (hexadecimal, 32 bits)",
)
DONE = _counter(
    name="hwsonde_storage_scsi_completed_total",
    help="Commands that a SCSI disk completed or rejected.",
    source=f"{_BASE}/iodone_cnt (hexadecimal, 32 bits)",
)
ERRORS = _counter(
    name="hwsonde_storage_scsi_errors_total",
    help="Commands of a SCSI disk that ended with an error.",
    source=f"{_BASE}/ioerr_cnt (hexadecimal, 32 bits)",
)
TIMEOUTS = _counter(
    name="hwsonde_storage_scsi_timeouts_total",
    help="Commands of a SCSI disk that timed out.",
    source=f"{_BASE}/iotmo_cnt (hexadecimal, 32 bits; newer kernels only)",
)
_COUNTS = (("iorequest_cnt", REQUESTED), ("iodone_cnt", DONE), ("ioerr_cnt", ERRORS), ("iotmo_cnt", TIMEOUTS))


def parse_count(line: str) -> int | None:
    """Value of ``0x1a2``, or None; a count of more than 31 bits is printed as a negative number of 64."""
    prefix, _, digits = line.partition("x")
    value = parsing.hexadecimal(digits.encode()) if prefix == "0" else None
    return None if value is None else value & 0xFFFF_FFFF


@register
class ScsiCollector:
    """Commands, errors and time-outs of SCSI disks, from the memory of the kernel: no disk is asked."""

    name: ClassVar[str] = "scsi"
    help: ClassVar[str] = "SCSI, SAS and SATA disks: errors and time-outs"
    metrics: ClassVar[tuple[Metric, ...]] = (RUNNING, REQUESTED, DONE, ERRORS, TIMEOUTS)
    period: ClassVar[float | None] = 10.0
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host) -> None:
        self.host = host
        self._block = str(host.paths.sys("block"))

    def probe(self) -> None:
        """Raise `Unavailable` where no disk counts its errors."""
        if not any(self._line(device, "ioerr_cnt") for device in entries(self._block)):
            raise Unavailable(
                Reason.NO_HARDWARE, f"no SCSI, SAS or SATA disk: nothing in {self._block} counts its errors"
            )

    def collect(self) -> Iterable[Sample]:
        """Read five small files a disk."""
        samples: list[Sample] = []
        for name in entries(self._block):
            counts = [(metric, parse_count(self._line(name, file))) for file, metric in _COUNTS]
            # Other disks have a state too, but none of the counts.
            if not any(value is not None for _, value in counts):
                continue
            device = (parsing.text(name.encode()),)
            state = self._line(name, "state")
            if state:
                samples.append(Sample(RUNNING, device, int(state == "running")))
            samples += [Sample(metric, device, value) for metric, value in counts if value is not None]
        return samples

    def _line(self, device: str, file: str) -> str:
        return sys_text(self.host, f"{self._block}/{device}/device/{file}")
