"""NFS mounts: operations, their times, bytes, and requests that had to be sent again."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, NamedTuple

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._counters import SteadySums
from hwsonde_exporter.collectors._files import read_or_none
from hwsonde_exporter.collectors.filesystem import parse_mountinfo, unescape
from hwsonde_exporter.errors import ReadError, Reason, Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import register

_HEAD = re.compile(rb"device (\S+) mounted on (\S+) with fstype nfs4? statvers=")
# The operations that are told apart; OPEN_NOATTR and the rest together are others.
_OPERATIONS = {b"READ": "read", b"WRITE": "write", b"GETATTR": "getattr", b"LOOKUP": "lookup", b"OPEN": "open"}
_OTHER = "other"

_SOURCE = "/proc/1/mountstats"
_counter = partial(Metric, kind=Kind.COUNTER, labels=("export",), subsystem="storage")

OPERATIONS = _counter(
    name="hwsonde_storage_nfs_operations_total",
    help="NFS operations of a mount (read, write, getattr, lookup, open and the rest together).",
    labels=("export", "operation"),
    source=f"{_SOURCE} per-op statistics: operations",
)
SECONDS = _counter(
    name="hwsonde_storage_nfs_operation_seconds_total",
    help="Seconds NFS operations spent queued, on the wire (rtt) or in all (execute).",
    labels=("export", "operation", "phase"),
    unit="seconds",
    source=f"{_SOURCE} per-op statistics: queue, rtt, execute (ms)",
)
ERRORS = _counter(
    name="hwsonde_storage_nfs_operation_errors_total",
    help="NFS operations that ended with an error; a lookup of a file that does not exist counts too.",
    labels=("export", "operation"),
    source=f"{_SOURCE} per-op statistics: errors (newer kernels only)",
)
RETRANSMISSIONS = _counter(
    name="hwsonde_storage_nfs_retransmissions_total",
    help="NFS requests sent again.",
    source=f"{_SOURCE} per-op statistics: transmissions minus operations",
)
TIMEOUTS = _counter(
    name="hwsonde_storage_nfs_timeouts_total",
    help="Times an NFS server did not answer a request before the mount's time-out.",
    source=f"{_SOURCE} per-op statistics: major time-outs",
)
DELAYS = _counter(
    name="hwsonde_storage_nfs_delays_total",
    help="Times an NFS server told the client to wait and try again.",
    source=f"{_SOURCE} events: the 25th, delay",
)
BYTES = _counter(
    name="hwsonde_storage_nfs_bytes_total",
    help="Bytes read from and written to the NFS server.",
    labels=("export", "direction"),
    unit="bytes",
    source=f"{_SOURCE} bytes: the 5th and 6th, server read and written",
)
_PHASES = ("queue", "rtt", "execute")
# Series whose numbers in the kernel are milliseconds.
_MILLISECONDS = 1000

Key = tuple[Metric, tuple[str, ...]]


class Mount(NamedTuple):
    """One NFS mount of mountstats: what is mounted, where, and the text of its statistics."""

    export: bytes
    mountpoint: bytes
    body: bytes


@dataclass(slots=True)
class Statistics:
    """Counts of one mount by metric and labels behind the export; times in milliseconds."""

    counts: dict[Key, int] = field(default_factory=dict)

    def add(self, metric: Metric, labels: tuple[str, ...], value: int) -> None:
        """Add to a count."""
        key = (metric, labels)
        self.counts[key] = self.counts.get(key, 0) + value


def split_mounts(data: bytes) -> list[Mount]:
    """Find the NFS mounts in the text of /proc/PID/mountstats."""
    mounts = []
    for block in (b"\n" + data).split(b"\ndevice "):
        head, _, body = block.partition(b"\n")
        match = _HEAD.match(b"device " + head)
        if match:
            mounts.append(Mount(unescape(match.group(1)), unescape(match.group(2)), body))
    return mounts


def parse_statistics(body: bytes) -> Statistics:
    """Parse the statistics of one NFS mount.

    The kernel prints an operation as ``NAME: operations transmissions time-outs sent received queue rtt execute errors``; old
    ones leave out the errors.
    """
    statistics = Statistics()
    per_operation = False
    for line in parsing.lines(body):
        name, colon, rest = line.strip().partition(b":")
        if not colon:
            per_operation = per_operation or name == b"per-op statistics"
            continue
        # Of some seventy operations most never happen; those that are told apart exist from the start.
        if per_operation and rest.startswith(b" 0 0 0 ") and name not in _OPERATIONS:
            continue
        values = parsing.numbers(rest.split())
        if values is None:
            continue
        if per_operation:
            _add_operation(statistics, name, values)
        elif name == b"bytes" and len(values) >= 6:
            statistics.add(BYTES, ("read",), values[4])
            statistics.add(BYTES, ("write",), values[5])
        elif name == b"events" and len(values) >= 25:
            statistics.add(DELAYS, (), values[24])
    return statistics


def _add_operation(statistics: Statistics, name: bytes, values: list[int]) -> None:
    if len(values) < 8:
        return
    operation = _OPERATIONS.get(name, _OTHER)
    statistics.add(OPERATIONS, (operation,), values[0])
    statistics.add(RETRANSMISSIONS, (), max(0, values[1] - values[0]))
    statistics.add(TIMEOUTS, (), values[2])
    for phase, milliseconds in zip(_PHASES, values[5:8], strict=True):
        statistics.add(SECONDS, (operation, phase), milliseconds)
    if len(values) > 8:
        statistics.add(ERRORS, (operation,), values[8])


@register
class NfsCollector:
    """Statistics of the NFS client, by export.

    Mounts that share a filesystem of the server share its counts in the kernel (the home folders of an automounter, the
    volumes of many pods), so each is given once, under the name of one of its exports. Reading them sends nothing to a server.
    """

    name: ClassVar[str] = "nfs"
    help: ClassVar[str] = "NFS mounts: operations, their times, bytes and retransmissions"
    metrics: ClassVar[tuple[Metric, ...]] = (
        OPERATIONS, SECONDS, ERRORS, RETRANSMISSIONS, TIMEOUTS, DELAYS, BYTES,
    )  # fmt: skip
    period: ClassVar[float | None] = None
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host) -> None:
        self.host = host
        self._mountpoints: list[tuple[bytes, bytes]] = []
        self._numbers: dict[bytes, bytes] = {}
        self._exports: dict[bytes, bytes] = {}
        self._sums = SteadySums()

    def probe(self) -> None:
        """Raise `Unavailable` where nothing is mounted over NFS, or the mounts of the host may not be seen."""
        try:
            mounts = split_mounts(self._mountstats())
        except ReadError as error:
            detail = f"{error}; reading another process's mountstats needs root or CAP_SYS_PTRACE"
            raise Unavailable(Reason.NO_PERMISSION, detail) from error
        if not mounts:
            raise Unavailable(Reason.NO_HARDWARE, "nothing is mounted over NFS")

    def collect(self) -> Iterable[Sample]:
        """Read mountstats, and mountinfo when the mounts have changed."""
        mounts = split_mounts(self._mountstats())
        series: dict[Key, dict[bytes, int]] = {}
        for number, mount in self._choose(mounts).items():
            export = parsing.text(mount.export)
            for (metric, labels), value in parse_statistics(mount.body).counts.items():
                series.setdefault((metric, (export, *labels)), {})[number] = value
        return [
            Sample(metric, labels, value / _MILLISECONDS if metric is SECONDS else value)
            for (metric, labels), value in self._sums.update(series).items()
        ]

    def _choose(self, mounts: Iterable[Mount]) -> dict[bytes, Mount]:
        """One mount of each filesystem of a server, by device number; its name stays while that export is mounted."""
        mountpoints = [(mount.export, mount.mountpoint) for mount in mounts]
        if mountpoints != self._mountpoints:
            self._mountpoints = mountpoints
            data = read_or_none(self.host, self.host.paths.proc(self._process, "mountinfo")) or b""
            self._numbers = {mount.mountpoint: mount.number for mount in parse_mountinfo(data)}
        groups: dict[bytes, dict[bytes, Mount]] = {}
        for mount in mounts:
            number = self._numbers.get(mount.mountpoint, mount.export)
            groups.setdefault(number, {}).setdefault(mount.export, mount)
        chosen = {}
        for number, group in groups.items():
            kept = self._exports.get(number, b"")
            chosen[number] = group[kept if kept in group else min(group, key=lambda export: (len(export), export))]
        self._exports = {number: mount.export for number, mount in chosen.items()}
        return chosen

    def _mountstats(self) -> bytes:
        # The mounts of process 1 are the host's; our own are mostly the same where process 1 may not be looked at.
        self._process = "1"
        data = read_or_none(self.host, self.host.paths.proc("1", "mountstats"))
        if data:
            return data
        self._process = "self"
        return self.host.files.read(self.host.paths.proc("self", "mountstats"))
