"""Connection tracking: how full the table is, and what was dropped because of it."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._counters import SteadySums
from hwsonde_exporter.collectors._files import read_net, sys_number
from hwsonde_exporter.errors import ReadError, Reason, Unavailable
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import register

_STAT = "/proc/1/net/stat/nf_conntrack"
_SYSCTL = "/proc/sys/net/netfilter"
_gauge = partial(Metric, kind=Kind.GAUGE, subsystem="network")

ENTRIES = _gauge(
    name="hwsonde_network_conntrack_entries",
    help="Connections that the kernel tracks; a full table drops new ones.",
    source=f"{_STAT} entries, or {_SYSCTL}/nf_conntrack_count",
)
LIMIT = _gauge(
    name="hwsonde_network_conntrack_limit",
    help="Connections that the kernel may track.",
    source=f"{_SYSCTL}/nf_conntrack_max",
)
EVENTS = Metric(
    name="hwsonde_network_conntrack_events_total",
    kind=Kind.COUNTER,
    help="Packets that could not be tracked: invalid, insert failed, dropped, or an old connection evicted for it.",
    labels=("event",),
    subsystem="network",
    source=f"{_STAT} invalid, insert_failed, drop, early_drop, search_restart",
)
_EVENTS = (b"invalid", b"insert_failed", b"drop", b"early_drop", b"search_restart")
# With 64 bits all set or more than any table holds: not a number of connections.
_MAX_ENTRIES = 1 << 31


def parse_conntrack(data: bytes) -> tuple[int | None, dict[bytes, list[int]]]:
    """Parse net/stat/nf_conntrack: the entries, and each column's numbers by CPU.

    A line of names, then hexadecimal numbers, a line a CPU; the first column is the same in all. Rows of another length
    and columns that nobody asks for are left out.
    """
    head, *rows = parsing.lines(data) or [b""]
    names = head.split()
    columns: dict[bytes, list[int]] = {name: [] for name in (b"entries", *_EVENTS) if name in names}
    places = [(names.index(name), values) for name, values in columns.items()]
    for row in rows:
        tokens = row.split()
        if len(tokens) != len(names):
            continue
        for place, values in places:
            value = parsing.hexadecimal(tokens[place])
            if value is not None:
                values.append(value)
    entries = columns.pop(b"entries", [])
    return (entries[0] if entries and entries[0] < _MAX_ENTRIES else None), columns


@register
class ConntrackCollector:
    """The table of tracked connections of the host's network namespace."""

    name: ClassVar[str] = "conntrack"
    help: ClassVar[str] = "Connection tracking: entries, limit, drops"
    metrics: ClassVar[tuple[Metric, ...]] = (ENTRIES, LIMIT, EVENTS)
    period: ClassVar[float | None] = 5.0
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host) -> None:
        self.host = host
        self._sysctl = str(host.paths.proc("sys/net/netfilter"))
        self._sums = SteadySums()

    def probe(self) -> None:
        """Raise `Unavailable` where connections are not tracked."""
        if not self.collect():
            detail = "connections are not tracked: the module nf_conntrack is not loaded"
            raise Unavailable(Reason.NO_KERNEL_SUPPORT, detail)

    def collect(self) -> list[Sample]:
        """Read one file of the network namespace and two settings."""
        samples: list[Sample] = []
        entries, columns = parse_conntrack(self._statistics())
        if entries is None:
            # A setting is of the namespace of whoever reads it, which in a container may be its own.
            entries = sys_number(self.host, f"{self._sysctl}/nf_conntrack_count")
        if entries is not None:
            samples.append(Sample(ENTRIES, (), entries))
        limit = sys_number(self.host, f"{self._sysctl}/nf_conntrack_max")
        if limit:
            samples.append(Sample(LIMIT, (), limit))
        series = {name: dict(enumerate(columns[name])) for name in _EVENTS if columns.get(name)}
        samples += [Sample(EVENTS, (name.decode(),), value) for name, value in self._sums.update(series).items()]
        return samples

    def _statistics(self) -> bytes:
        try:
            return read_net(self.host, "stat/nf_conntrack")
        except ReadError:
            return b""
