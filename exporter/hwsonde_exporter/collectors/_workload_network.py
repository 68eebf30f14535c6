"""TCP statistics of the network namespaces of workloads."""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors import _workload_tables as table
from hwsonde_exporter.collectors._cgroup_files import Read, Row
from hwsonde_exporter.collectors._workload_counters import REMEMBERED, Gathered, Recent
from hwsonde_exporter.metric import Metric

# So many processes of a workload are asked for their namespace; a container's share one.
_ASKED = 16
_FIELDS: tuple[tuple[Metric, tuple[str, ...], bytes, bytes], ...] = (
    (table.TCP_SEGMENTS, ("received",), b"Tcp", b"InSegs"),
    (table.TCP_SEGMENTS, ("transmitted",), b"Tcp", b"OutSegs"),
    (table.TCP_RETRANSMITTED, (), b"Tcp", b"RetransSegs"),
    (table.TCP_TIMEOUTS, (), b"TcpExt", b"TCPTimeouts"),
)


class NamespaceReader:
    """Reads each network namespace other than the host's once.

    Which namespace a process is in shows in the inode of its net/snmp: each namespace has files of its own. Unlike
    /proc/PID/ns/net that may be asked without the right to trace the process.

    Parameters
    ----------
    read
        Reads a file.
    procfs
        Where /proc is.
    """

    def __init__(self, read: Read, procfs: str) -> None:
        self._read = read
        self._procfs = procfs
        self._sums = Recent(Gathered, REMEMBERED * len(_FIELDS))

    def rows(self, owners: Mapping[str, Sequence[int]]) -> dict[str, list[Row]]:
        """Sums over the namespaces of each owner, given its processes; a namespace of several owners is the first one's."""
        host = self._namespace(1)
        if host is None:
            return {}
        taken = {host}
        found: dict[str, list[Row]] = {}
        for owner, processes in owners.items():
            members: dict[Hashable, int] = {}
            for number in processes[:_ASKED]:
                namespace = self._namespace(number)
                if namespace is not None and namespace not in taken:
                    taken.add(namespace)
                    members[namespace] = number
            if members:
                found[owner] = self._rows_of(owner, members)
        return found

    def _rows_of(self, owner: str, members: Mapping[Hashable, int]) -> list[Row]:
        parts: dict[int, dict[Hashable, int]] = {}
        for namespace, number in members.items():
            tables = {**self._tables(number, "snmp"), **self._tables(number, "netstat")}
            for place, (_, _, protocol, name) in enumerate(_FIELDS):
                value = tables.get(protocol, {}).get(name)
                if value is not None:
                    parts.setdefault(place, {})[namespace] = value
        rows: list[Row] = []
        for place, values in parts.items():
            metric, labels, _, _ = _FIELDS[place]
            total = self._sums.of((owner, place)).update(values, lambda _: False)
            rows.append((metric, labels, total, 1))
        return rows

    def _tables(self, number: int, name: str) -> dict[bytes, dict[bytes, int]]:
        data = self._read(f"{self._procfs}/{number}/net/{name}")
        return parsing.header_tables(data) if data else {}

    def _namespace(self, number: int) -> Hashable | None:
        try:
            found = os.stat(f"{self._procfs}/{number}/net/snmp")  # noqa: PTH116  (once a process)
        except OSError:
            return None
        return found.st_dev, found.st_ino
