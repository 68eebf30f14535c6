"""Lustre clients: bytes, operations and their times."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from typing import ClassVar

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._counters import SteadySums
from hwsonde_exporter.collectors._files import entries, read_once_or_none
from hwsonde_exporter.errors import Reason, Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import register

# A mount is called after its filesystem and the address of its superblock, which says nothing to anybody.
_ADDRESS = re.compile(r"-[0-9a-f]{8,16}\Z")
_BYTES_OF = {b"read_bytes": "read", b"write_bytes": "write"}
# The times of these are told by a line of their own, and their number by the line of their bytes.
_TIMED = {b"read": "read", b"write": "write"}
_NAMED = {b"open": "open", b"close": "close", b"fsync": "fsync", b"getattr": "getattr", b"setattr": "setattr"}
_OTHER = "other"
_NO_OPERATIONS = (b"dirty_pages", b"osc_", b"brw_", b"direct_", b"lockless_")

_SOURCE = "/proc/fs/lustre/llite/*/stats or /sys/kernel/debug/lustre/llite/*/stats"
_counter = partial(Metric, kind=Kind.COUNTER, subsystem="storage", labels=("filesystem", "operation"))

BYTES = _counter(
    name="hwsonde_storage_lustre_bytes_total",
    help="Bytes that processes read from and wrote to a Lustre filesystem.",
    labels=("filesystem", "direction"),
    unit="bytes",
    source=f"{_SOURCE}: sums of read_bytes, write_bytes",
)
OPERATIONS = _counter(
    name="hwsonde_storage_lustre_operations_total",
    help="Operations on a Lustre filesystem (read, write, open, close, fsync, getattr, setattr and the rest together).",
    source=f"{_SOURCE}: samples",
)
SECONDS = _counter(
    name="hwsonde_storage_lustre_operation_seconds_total",
    help="Seconds that operations on a Lustre filesystem took; absent where the client does not tell.",
    unit="seconds",
    source=f"{_SOURCE}: sums of lines in usec",
)

Key = tuple[Metric, str]


def parse_stats(data: bytes) -> dict[Key, int]:
    """Parse the stats of a client (``read_bytes 190 samples [bytes] 1 1048576 199228416``).

    Gives bytes by direction, and samples and microseconds by operation.
    """
    counts: dict[Key, int] = {}

    def add(metric: Metric, label: str, value: int | None) -> None:
        if value is not None:
            counts[metric, label] = counts.get((metric, label), 0) + value

    for line in parsing.lines(data):
        fields = line.split()
        if len(fields) < 4 or fields[2] != b"samples":
            continue
        name, count, unit = fields[0], parsing.number(fields[1]), fields[3]
        total = parsing.number(fields[6]) if len(fields) > 6 else None
        if unit == b"[bytes]" and name in _BYTES_OF:
            add(OPERATIONS, _BYTES_OF[name], count)
            add(BYTES, _BYTES_OF[name], total)
        elif unit == b"[usec]" and name in _TIMED:
            add(SECONDS, _TIMED[name], total)
        elif unit in {b"[regs]", b"[reqs]", b"[usec]"} and not name.startswith(_NO_OPERATIONS):
            add(OPERATIONS, _NAMED.get(name, _OTHER), count)
            if unit == b"[usec]":
                add(SECONDS, _NAMED.get(name, _OTHER), total)
    return counts


@register
class LustreCollector:
    """Bytes and operations of the Lustre client by filesystem, summed over its mounts."""

    name: ClassVar[str] = "lustre"
    help: ClassVar[str] = "Lustre client: bytes and operations"
    metrics: ClassVar[tuple[Metric, ...]] = (BYTES, OPERATIONS, SECONDS)
    period: ClassVar[float | None] = None
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host) -> None:
        self.host = host
        # Where the statistics lie depends on the version of Lustre.
        self._folders = (str(host.paths.proc("fs/lustre/llite")), str(host.paths.sys("kernel/debug/lustre/llite")))
        self._sums = SteadySums()

    def probe(self) -> None:
        """Raise `Unavailable` where no Lustre filesystem is mounted or its statistics cannot be reached."""
        if any(read_once_or_none(self.host, path) for _, path in self._mounts()):
            return
        if entries(self.host.paths.sys("fs/lustre/llite")):
            detail = (
                "the statistics of the Lustre client lie in debugfs: mount it at /sys/kernel/debug and run as root, "
                "or with CAP_DAC_READ_SEARCH"
            )
            raise Unavailable(Reason.NO_PERMISSION, detail)
        raise Unavailable(Reason.NO_HARDWARE, "no Lustre filesystem is mounted")

    def collect(self) -> Iterable[Sample]:
        """Read one file a mount."""
        series: dict[tuple[Metric, str, str], dict[str, int]] = {}
        for name, path in self._mounts():
            filesystem = parsing.text(_ADDRESS.sub("", name).encode("utf-8", "surrogateescape"))
            for (metric, label), value in parse_stats(read_once_or_none(self.host, path) or b"").items():
                series.setdefault((metric, filesystem, label), {})[name] = value
        return [
            Sample(metric, (filesystem, label), value / 1_000_000 if metric is SECONDS else value)
            for (metric, filesystem, label), value in self._sums.update(series).items()
        ]

    def _mounts(self) -> list[tuple[str, str]]:
        """Name and statistics file of each mount."""
        return [(name, f"{folder}/{name}/stats") for folder in self._folders for name in entries(folder)]
