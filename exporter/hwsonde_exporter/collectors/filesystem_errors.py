"""Errors that filesystems have found in their own data or met on their disks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._files import entries, read_once_or_none, sys_number
from hwsonde_exporter.errors import Reason, Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import register

_ERRORS = {
    b"write_errs": "write",
    b"read_errs": "read",
    b"flush_errs": "flush",
    b"corruption_errs": "corruption",
    b"generation_errs": "generation",
}

ERRORS = Metric(
    name="hwsonde_storage_filesystem_errors_total",
    kind=Kind.COUNTER,
    help="Errors that a filesystem has recorded since it was last repaired or its counts were cleared.",
    labels=("device", "fstype", "kind"),
    subsystem="storage",
    source="/sys/fs/ext4/DEV/errors_count; /sys/fs/btrfs/UUID/devinfo/*/error_stats, summed over devices",
)


def parse_error_stats(data: bytes) -> dict[str, int]:
    """Parse a btrfs device's error_stats (``write_errs 0``): kind -> count; what is not known by name is left out."""
    return {_ERRORS[name]: count for name, count in parsing.key_values(data).items() if name in _ERRORS}


@register
class FilesystemErrorsCollector:
    """Error counts of ext4 and btrfs, which both keep on the disk.

    An ext4 that has met an error goes on, becomes read-only or stops the host, as its options say; the count tells in all
    cases, and with kernels from 6.12 to 6.14 nothing else does.
    """

    name: ClassVar[str] = "filesystem_errors"
    help: ClassVar[str] = "Errors recorded by ext4 and btrfs filesystems"
    metrics: ClassVar[tuple[Metric, ...]] = (ERRORS,)
    period: ClassVar[float | None] = 15.0
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host) -> None:
        self.host = host
        self._ext4 = str(host.paths.sys("fs/ext4"))
        self._btrfs = str(host.paths.sys("fs/btrfs"))

    def probe(self) -> None:
        """Raise `Unavailable` where no mounted filesystem counts its errors."""
        if not list(self.collect()):
            raise Unavailable(Reason.NO_HARDWARE, "no ext4 or btrfs filesystem is mounted that counts its errors")

    def collect(self) -> Iterable[Sample]:
        """Read one small file an ext4 and one a device of a btrfs."""
        samples: list[Sample] = []
        for device in entries(self._ext4):
            count = sys_number(self.host, f"{self._ext4}/{device}/errors_count")
            if count is not None:
                samples.append(Sample(ERRORS, (_label(device), "ext4", "any"), count))
        for filesystem in entries(self._btrfs):
            devices = entries(f"{self._btrfs}/{filesystem}/devices")
            totals: dict[str, int] = {}
            for number in entries(f"{self._btrfs}/{filesystem}/devinfo"):
                path = f"{self._btrfs}/{filesystem}/devinfo/{number}/error_stats"
                for kind, count in parse_error_stats(read_once_or_none(self.host, path) or b"").items():
                    totals[kind] = totals.get(kind, 0) + count
            if devices:
                # A filesystem is called after the first of its devices, as in mountinfo.
                samples += [
                    Sample(ERRORS, (_label(devices[0]), "btrfs", kind), count) for kind, count in totals.items()
                ]
        return samples


def _label(name: str) -> str:
    return parsing.text(name.replace("!", "/").encode("utf-8", "surrogateescape"))
