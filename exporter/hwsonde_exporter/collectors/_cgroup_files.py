"""What the files of one cgroup say, of either version, as rows of metric, label values, whole number and divisor."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors import _workload_tables as table
from hwsonde_exporter.collectors._cgroups import UNIFIED, Group
from hwsonde_exporter.collectors.pressure import parse_pressure
from hwsonde_exporter.metric import Metric

Read = Callable[[str], bytes | None]
# Metric, the labels behind the workload's, and the value as a fraction: thousandths are divided, as 0.001 is no exact number.
Row = tuple[Metric, tuple[str, ...], int, int]

_NO_LIMIT = 1 << 60  # version 1 writes "no limit" as the largest page-aligned number
_PSI = {"cpu": "cpu.pressure", "memory": "memory.pressure", "io": "io.pressure"}
_OPERATIONS = {b"Read": "read", b"Write": "write"}
_STAT_FIELDS = {
    b"rbytes": ("bytes", "read"),
    b"wbytes": ("bytes", "write"),
    b"rios": ("ios", "read"),
    b"wios": ("ios", "write"),
}


def usage(read: Read, group: Group, *, root: bool = False) -> int | None:
    """CPU time used so far, in microseconds, or None where this cgroup's tree does not count it.

    The root of version 2 adds stolen time to its ``usage_usec``, which nobody here used.
    """
    folder = group.where.get("cpuacct")
    if folder is not None:
        data = read(f"{folder}/cpuacct.usage")
        value = parsing.number(data.strip()) if data else None
        return None if value is None else value // 1000
    folder = group.where.get(UNIFIED)
    values = _table(read, folder, "cpu.stat")
    if root:
        user, system = values.get(b"user_usec"), values.get(b"system_usec")
        return None if user is None or system is None else user + system
    return values.get(b"usage_usec")


def memory_used(read: Read, group: Group) -> int | None:
    """Memory charged to a cgroup, in bytes."""
    if (folder := group.where.get("memory")) is not None:
        return _number(read, folder, "memory.usage_in_bytes")
    return _number(read, group.where.get(UNIFIED), "memory.current")


def cpu_rows(read: Read, group: Group, ticks: int) -> list[Row]:
    """CPU time, quota and throttling; ``ticks`` is USER_HZ."""
    rows: list[Row] = []
    both = "cpuacct" in group.where and "cpu" in group.where
    unified = {} if both else _table(read, group.where.get(UNIFIED), "cpu.stat")
    if (folder := group.where.get("cpuacct")) is not None:
        values = _table(read, folder, "cpuacct.stat")
        modes = (("user", values.get(b"user"), ticks), ("system", values.get(b"system"), ticks))
    else:
        modes = (("user", unified.get(b"user_usec"), 1_000_000), ("system", unified.get(b"system_usec"), 1_000_000))
    rows += [(table.CPU_SECONDS, (mode,), value, divisor) for mode, value, divisor in modes if value is not None]
    quota: tuple[int, int] | None
    if (folder := group.where.get("cpu")) is not None:
        values, throttled, divisor = _table(read, folder, "cpu.stat"), b"throttled_time", 1_000_000_000
        budget, period = _number(read, folder, "cpu.cfs_quota_us"), _number(read, folder, "cpu.cfs_period_us")
        quota = (budget, period) if budget is not None and period else None
    else:
        values, throttled, divisor = unified, b"throttled_usec", 1_000_000
        quota = parse_cpu_max(_data(read, group.where.get(UNIFIED), "cpu.max"))
    counts = ((table.THROTTLED_SECONDS, throttled, divisor), (table.THROTTLED_PERIODS, b"nr_throttled", 1),
              (table.PERIODS, b"nr_periods", 1))  # fmt: skip
    rows += [(metric, (), values[key], scale) for metric, key, scale in counts if key in values]
    if quota is not None:
        rows.append((table.CPU_LIMIT, (), *quota))
    return rows


def pressure_rows(read: Read, group: Group) -> list[Row]:
    """Pressure stall information; version 1 has none."""
    rows: list[Row] = []
    folder = group.where.get(UNIFIED)
    for resource, name in _PSI.items():
        data = _data(read, folder, name)
        totals = parse_pressure(data) if data else {}
        for kind, metric in (("some", table.PRESSURE_WAITING), ("full", table.PRESSURE_STALLED)):
            if kind in totals:
                rows.append((metric, (resource,), totals[kind], 1_000_000))
    return rows


def memory_rows(read: Read, group: Group) -> list[Row]:
    """Memory used, its limit, and what happened at the limit; of version 1 `limit_counts` tells the latter."""
    folder = group.where.get("memory")
    if folder is not None:
        stat = _table(read, folder, "memory.stat")
        limit = _number(read, folder, "memory.limit_in_bytes")
        names = (b"total_rss", b"total_cache", b"total_pgmajfault")
        events: dict[bytes, int] = {}
    else:
        folder = group.where.get(UNIFIED)
        stat = _table(read, folder, "memory.stat")
        limit = _number(read, folder, "memory.max")
        names = (b"anon", b"file", b"pgmajfault")
        events = dict(_table(read, folder, "memory.events"))
    values = (
        (table.MEMORY, (), memory_used(read, group)),
        (table.MEMORY_ANONYMOUS, (), stat.get(names[0])),
        (table.MEMORY_FILE, (), stat.get(names[1])),
        (table.MEMORY_LIMIT, (), limit if limit is not None and limit < _NO_LIMIT else None),
        (table.MEMORY_LIMIT_EVENTS, ("high",), events.get(b"high")),
        (table.MEMORY_LIMIT_EVENTS, ("max",), events.get(b"max")),
        (table.OOM_KILLS, (), events.get(b"oom_kill")),
        (table.MAJOR_FAULTS, (), stat.get(names[2])),
    )
    return [(metric, labels, value, 1) for metric, labels, value in values if value is not None]


def limit_counts(read: Read, folder: str) -> dict[str, int]:
    """How often a group of version 1 met its own limit of memory (``max``), and how many of its processes were killed for it (``oom_kill``)."""
    found = {
        "max": _number(read, folder, "memory.failcnt"),
        "oom_kill": _table(read, folder, "memory.oom_control").get(b"oom_kill"),
    }
    return {key: value for key, value in found.items() if value is not None}


def io_rows(read: Read, group: Group, stacked: Callable[[bytes], bool]) -> list[Row]:
    """Bytes and requests of block devices; ``stacked`` says of a device number whether it lies on others, which count too."""
    rows: list[Row] = []
    folder = group.where.get("blkio")
    if folder is not None:
        for metric, name in ((table.IO_BYTES, "io_service_bytes"), (table.IO_REQUESTS, "io_serviced")):
            data = _data(read, folder, f"blkio.throttle.{name}_recursive")
            data = _data(read, folder, f"blkio.throttle.{name}") if data is None else data
            if data is not None:
                sums = parse_blkio(data, stacked)
                rows += [(metric, (operation,), value, 1) for operation, value in sums.items()]
        return rows
    data = _data(read, group.where.get(UNIFIED), "io.stat")
    if data is None:
        return rows
    for (kind, operation), value in parse_io_stat(data, stacked).items():
        rows.append((table.IO_BYTES if kind == "bytes" else table.IO_REQUESTS, (operation,), value, 1))
    return rows


def thread_rows(read: Read, group: Group) -> list[Row]:
    """Number of threads and its limit."""
    folder = group.where.get("pids", group.where.get(UNIFIED))
    values = (
        (table.THREADS, _number(read, folder, "pids.current")),
        (table.THREADS_LIMIT, _number(read, folder, "pids.max")),
    )
    return [(metric, (), value, 1) for metric, value in values if value is not None]


def parse_cpu_max(data: bytes | None) -> tuple[int, int] | None:
    """Parse cpu.max (``50000 100000``): quota and period in microseconds, or None without a quota."""
    fields = data.split() if data else []
    if len(fields) != 2:
        return None
    quota, period = parsing.number(fields[0]), parsing.number(fields[1])
    return (quota, period) if quota is not None and period else None


def parse_io_stat(data: bytes, stacked: Callable[[bytes], bool]) -> dict[tuple[str, str], int]:
    """Parse io.stat (``8:0 rbytes=1 wbytes=2 rios=3 wios=4 dbytes=5 dios=6``): (bytes or ios, operation) -> sum over devices."""
    sums = dict.fromkeys(_STAT_FIELDS.values(), 0)
    for line in parsing.lines(data):
        fields = line.split()
        if len(fields) < 2 or stacked(fields[0]):
            continue
        for field in fields[1:]:
            name, _, token = field.partition(b"=")
            key = _STAT_FIELDS.get(name)
            value = parsing.number(token)
            if key is not None and value is not None:
                sums[key] += value
    return sums


def parse_blkio(data: bytes, stacked: Callable[[bytes], bool]) -> dict[str, int]:
    """Parse blkio.throttle.io_service_bytes (``8:0 Read 1``): operation -> sum over devices."""
    sums = dict.fromkeys(_OPERATIONS.values(), 0)
    for line in parsing.lines(data):
        fields = line.split()
        if len(fields) == 3 and fields[1] in _OPERATIONS and not stacked(fields[0]):
            value = parsing.number(fields[2])
            if value is not None:
                sums[_OPERATIONS[fields[1]]] += value
    return sums


def _data(read: Read, folder: str | None, name: str) -> bytes | None:
    return None if folder is None else read(f"{folder}/{name}")


def _number(read: Read, folder: str | None, name: str) -> int | None:
    """Number in a file, or None: missing, "max" (no limit), or negative (no quota)."""
    data = _data(read, folder, name)
    return parsing.number(data.strip()) if data else None


def _table(read: Read, folder: str | None, name: str) -> Mapping[bytes, int]:
    data = _data(read, folder, name)
    return parsing.key_values(data) if data else {}
