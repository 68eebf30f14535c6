"""ZFS: the state of its pools, and how well its cache in memory serves."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import ClassVar

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._files import entries, read_once_or_none, read_or_none
from hwsonde_exporter.errors import Reason, Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import register

_STATES = ("online", "degraded", "faulted", "offline", "removed", "unavail", "suspended")
_BASE = "/proc/spl/kstat/zfs"
_ARCSTATS = f"{_BASE}/arcstats"
_gauge = partial(Metric, kind=Kind.GAUGE, subsystem="storage", source=_ARCSTATS)
_counter = partial(Metric, kind=Kind.COUNTER, subsystem="storage", source=_ARCSTATS)

POOL_STATE = _gauge(
    name="hwsonde_storage_zfs_pool_state",
    help="Whether a ZFS pool is in this state (1) or not (0).",
    labels=("pool", "state"),
    source=f"{_BASE}/POOL/state",
)
ARC_ACCESSES = _counter(
    name="hwsonde_storage_zfs_arc_accesses_total",
    help="Reads that ZFS found in its cache in memory (hit) or not (miss).",
    labels=("result",),
    source=f"{_ARCSTATS} hits, misses",
)
ARC_SIZE = _gauge(
    name="hwsonde_storage_zfs_arc_size_bytes",
    help="Memory that the cache of ZFS uses; it counts as used, not as page cache.",
    unit="bytes",
    source=f"{_ARCSTATS} size",
)
ARC_TARGET = _gauge(
    name="hwsonde_storage_zfs_arc_target_bytes",
    help="Size that the cache of ZFS aims at.",
    unit="bytes",
    source=f"{_ARCSTATS} c",
)
ARC_LIMIT = _gauge(
    name="hwsonde_storage_zfs_arc_limit_bytes",
    help="Greatest size that the cache of ZFS may have.",
    unit="bytes",
    source=f"{_ARCSTATS} c_max",
)
ARC_THROTTLES = _counter(
    name="hwsonde_storage_zfs_arc_throttles_total",
    help="Times ZFS held up writers because memory was short.",
    source=f"{_ARCSTATS} memory_throttle_count",
)
L2_ACCESSES = _counter(
    name="hwsonde_storage_zfs_l2arc_accesses_total",
    help="Reads that ZFS found on its cache devices (hit) or not (miss).",
    labels=("result",),
    source=f"{_ARCSTATS} l2_hits, l2_misses",
)
L2_SIZE = _gauge(
    name="hwsonde_storage_zfs_l2arc_size_bytes",
    help="Data on the cache devices of ZFS, before compression.",
    unit="bytes",
    source=f"{_ARCSTATS} l2_size",
)
_ROWS: tuple[tuple[bytes, Metric, tuple[str, ...]], ...] = (
    (b"hits", ARC_ACCESSES, ("hit",)),
    (b"misses", ARC_ACCESSES, ("miss",)),
    (b"size", ARC_SIZE, ()),
    (b"c", ARC_TARGET, ()),
    (b"c_max", ARC_LIMIT, ()),
    (b"memory_throttle_count", ARC_THROTTLES, ()),
)
_L2_ROWS: tuple[tuple[bytes, Metric, tuple[str, ...]], ...] = (
    (b"l2_hits", L2_ACCESSES, ("hit",)),
    (b"l2_misses", L2_ACCESSES, ("miss",)),
    (b"l2_size", L2_SIZE, ()),
)


def parse_kstat(data: bytes) -> dict[bytes, int]:
    """Parse a table of ``name type value`` lines below its two lines of heading: name -> value."""
    table: dict[bytes, int] = {}
    for line in parsing.lines(data)[2:]:
        fields = line.split()
        value = parsing.number(fields[2]) if len(fields) == 3 else None
        if value is not None:
            table.setdefault(fields[0], value)
    return table


@register
class ZfsCollector:
    """State of ZFS pools; hits, misses and size of the adaptive replacement cache."""

    name: ClassVar[str] = "zfs"
    help: ClassVar[str] = "ZFS: state of pools, cache in memory and on devices"
    metrics: ClassVar[tuple[Metric, ...]] = (
        POOL_STATE, ARC_ACCESSES, ARC_SIZE, ARC_TARGET, ARC_LIMIT, ARC_THROTTLES, L2_ACCESSES, L2_SIZE,
    )  # fmt: skip
    period: ClassVar[float | None] = None
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host) -> None:
        self.host = host
        self._base = str(host.paths.proc("spl/kstat/zfs"))
        self._pools: list[str] = []

    def probe(self) -> None:
        """Look which pools there are; raise `Unavailable` where ZFS is not loaded."""
        names = entries(self._base)
        if not names:
            raise Unavailable(Reason.NO_KERNEL_SUPPORT, f"ZFS is not loaded: {self._base} is missing")
        self._pools = [name for name in names if read_once_or_none(self.host, f"{self._base}/{name}/state") is not None]

    def collect(self) -> Iterable[Sample]:
        """Read arcstats and a line a pool."""
        samples: list[Sample] = []
        for pool in self._pools:
            state = parsing.text(read_once_or_none(self.host, f"{self._base}/{pool}/state") or b"").lower()
            if state:
                name = parsing.text(pool.encode("utf-8", "surrogateescape"))
                samples += [Sample(POOL_STATE, (name, known), int(known == state)) for known in _STATES]
        values = parse_kstat(read_or_none(self.host, f"{self._base}/arcstats") or b"")
        # Without a cache device each miss of the memory would count as one of the device.
        rows = _ROWS + (_L2_ROWS if values.get(b"l2_size") else ())
        samples += [Sample(metric, labels, values[name]) for name, metric, labels in rows if name in values]
        return samples
