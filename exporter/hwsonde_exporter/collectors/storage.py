"""Block devices: requests, bytes, times; and open file handles."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from typing import ClassVar

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._files import Beginning, entries, read_or_none, read_start, sys_number, sys_text
from hwsonde_exporter.errors import ReadError
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import Quantity, register

SECTOR_BYTES = 512  # the unit of /proc/diskstats and of /sys/block/DEV/size, whatever the device's own is

# Devices that a kernel makes in advance, or that hold no medium: of interest once they have done something.
MADE_IN_ADVANCE = re.compile(r"(loop|ram|zram|nbd|sr|fd)\d+\Z")
# One path of a multipath NVMe namespace; its traffic is counted again on the namespace itself.
NVME_PATH = re.compile(r"nvme\d+c\d+n\d+\Z")
# For a host without a readable /sys/block: what looks like a partition.
_PARTITION = re.compile(r"(?:(?:sd|hd|vd|xvd)[a-z]+\d+|(?:nvme\d+n\d+|mmcblk\d+|md\d+|loop\d+)p\d+)\Z")

_OPERATION = ("device", "operation")
_counter = partial(Metric, kind=Kind.COUNTER, subsystem="storage")
_gauge = partial(Metric, kind=Kind.GAUGE, subsystem="storage")
_summary = partial(Metric, kind=Kind.SUMMARY, subsystem="storage", source="/proc/diskstats")

REQUESTS = _counter(
    name="hwsonde_storage_requests_total",
    help="Requests completed.",
    labels=_OPERATION,
    source="/proc/diskstats fields 4, 8, 15, 19",
)
BYTES = _counter(
    name="hwsonde_storage_bytes_total",
    help="Bytes read, written and discarded.",
    labels=_OPERATION,
    unit="bytes",
    source="/proc/diskstats fields 6, 10, 17 (sectors of 512 bytes)",
)
REQUEST_SECONDS = _counter(
    name="hwsonde_storage_request_seconds_total",
    help="Seconds requests took, summed over requests.",
    labels=_OPERATION,
    unit="seconds",
    source="/proc/diskstats fields 7, 11, 18, 20 (ms)",
)
MERGED = _counter(
    name="hwsonde_storage_merged_requests_total",
    help="Requests merged with a neighbour.",
    labels=_OPERATION,
    source="/proc/diskstats fields 5, 9",
)
IN_FLIGHT = _gauge(
    name="hwsonde_storage_requests_in_flight",
    help="Requests not yet completed.",
    labels=("device",),
    source="/proc/diskstats field 12",
)
BUSY_SECONDS = _counter(
    name="hwsonde_storage_busy_seconds_total",
    help="Seconds with at least one request in flight.",
    labels=("device",),
    unit="seconds",
    source="/proc/diskstats field 13 (ms)",
)
QUEUE_SECONDS = _counter(
    name="hwsonde_storage_queue_seconds_total",
    help="Seconds in the queue weighted by its length.",
    labels=("device",),
    unit="seconds",
    source="/proc/diskstats field 14 (ms)",
)
INFO = _gauge(
    name="hwsonde_storage_device_info",
    help="Constant 1 labelled with the identity of a block device.",
    labels=("device", "model", "firmware_version", "rotational", "scheduler"),
    source="/sys/block/DEV/{device/model,device/firmware_rev,queue/rotational,queue/scheduler}",
)
SIZE = _gauge(
    name="hwsonde_storage_device_size_bytes",
    help="Size of a block device.",
    labels=("device",),
    unit="bytes",
    source="/sys/block/DEV/size (sectors of 512 bytes)",
)
FILE_HANDLES = _gauge(
    name="hwsonde_storage_file_handles",
    help="File handles allocated and the limit on them.",
    labels=("state",),
    source="/proc/sys/fs/file-nr",
)
BYTES_SAMPLED = Quantity(
    _summary(
        name="hwsonde_storage_throughput_sampled_bytes_per_second",
        help="Bytes a second read and written; only devices that have done I/O.",
        labels=_OPERATION,
        unit="bytes_per_second",
    ),
    reference=0.0,
    cumulative=True,
)
BUSY_SAMPLED = Quantity(
    _summary(
        name="hwsonde_storage_busy_sampled_ratio",
        help="Share of time with at least one request in flight; only devices that have done I/O.",
        labels=("device",),
        unit="ratio",
    ),
    reference=0.1,
    cumulative=True,
)

# What a column's number is multiplied by, or divided by: thousandths are divided, because 0.001 is no exact number.
_ONE = (1, 1)
_SECTORS = (SECTOR_BYTES, 1)
_MILLISECONDS = (1, 1000)

# Columns behind the name, in the kernel's order; old kernels end earlier.
_COLUMNS: tuple[tuple[int, Metric, tuple[str, ...], tuple[int, int]], ...] = (
    (0, REQUESTS, ("read",), _ONE),
    (1, MERGED, ("read",), _ONE),
    (2, BYTES, ("read",), _SECTORS),
    (3, REQUEST_SECONDS, ("read",), _MILLISECONDS),
    (4, REQUESTS, ("write",), _ONE),
    (5, MERGED, ("write",), _ONE),
    (6, BYTES, ("write",), _SECTORS),
    (7, REQUEST_SECONDS, ("write",), _MILLISECONDS),
    (8, IN_FLIGHT, (), _ONE),
    (9, BUSY_SECONDS, (), _MILLISECONDS),
    (10, QUEUE_SECONDS, (), _MILLISECONDS),
    (11, REQUESTS, ("discard",), _ONE),
    (13, BYTES, ("discard",), _SECTORS),
    (14, REQUEST_SECONDS, ("discard",), _MILLISECONDS),
    (15, REQUESTS, ("flush",), _ONE),
    (16, REQUEST_SECONDS, ("flush",), _MILLISECONDS),
)


_FAST_COLUMNS: tuple[tuple[Quantity, int, tuple[str, ...], tuple[int, int]], ...] = (
    (BYTES_SAMPLED, 2, ("read",), _SECTORS),
    (BYTES_SAMPLED, 6, ("write",), _SECTORS),
    (BUSY_SAMPLED, 9, (), _MILLISECONDS),
)


def _scaled(value: int, scale: tuple[int, int]) -> float:
    multiplier, divisor = scale
    return value * multiplier if divisor == 1 else value / divisor


def parse_diskstats(data: bytes) -> dict[bytes, list[bytes]]:
    """Parse /proc/diskstats: device -> its columns behind the name, as tokens."""
    devices: dict[bytes, list[bytes]] = {}
    for line in parsing.lines(data):
        fields = line.split()
        if len(fields) >= 4:
            devices.setdefault(fields[2], fields[3:])
    return devices


def parse_file_nr(data: bytes) -> tuple[int | None, int | None]:
    """Parse /proc/sys/fs/file-nr: handles allocated, and their limit where there is one."""
    fields = data.split()
    if len(fields) < 3:
        return None, None
    return parsing.number(fields[0]), parsing.known(parsing.number(fields[2]))


@register
class StorageCollector:
    """Whole disks, software RAID, device mapper and NVMe namespaces; partitions are left out."""

    name: ClassVar[str] = "storage"
    help: ClassVar[str] = "Block devices and file handles"
    metrics: ClassVar[tuple[Metric, ...]] = (
        REQUESTS, BYTES, REQUEST_SECONDS, MERGED, IN_FLIGHT, BUSY_SECONDS, QUEUE_SECONDS, INFO, SIZE, FILE_HANDLES,
    )  # fmt: skip
    quantities: ClassVar[tuple[Quantity, ...]] = (BYTES_SAMPLED, BUSY_SAMPLED)
    period: ClassVar[float | None] = None
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host) -> None:
        self.host = host
        self.most = sys.maxsize
        self.left_out = 0
        self._beginning = Beginning()
        self._diskstats = str(host.paths.proc("diskstats"))
        self._block = str(host.paths.sys("block"))
        self._labels: dict[bytes, str] = {}
        self._rows = -1
        self._identities: dict[str, tuple[str, ...]] = {}

    def probe(self) -> None:
        """Forget the identities, so that a replaced disk or a changed scheduler shows."""
        self._identities = {}

    def collect(self) -> Iterable[Sample]:
        """Read diskstats and file-nr; the identity of a disk once, until the next probe."""
        samples: list[Sample] = []
        data = read_or_none(self.host, self._diskstats)
        if data is not None:
            for label, columns in self._devices(data).items():
                for column, metric, operation, scale in _COLUMNS:
                    value = parsing.number(columns[column]) if column < len(columns) else None
                    if value is not None:
                        samples.append(Sample(metric, (label, *operation), _scaled(value, scale)))
                samples += self._identity_samples(label)
        handles = read_or_none(self.host, self.host.paths.proc("sys", "fs", "file-nr"))
        if handles is not None:
            for state, value in zip(("allocated", "limit"), parse_file_nr(handles), strict=True):
                if value is not None:
                    samples.append(Sample(FILE_HANDLES, (state,), value))
        if not samples:
            raise ReadError(f"{self._diskstats}: cannot be read; is --path.procfs right?")
        return samples

    def observe(self) -> Sequence[tuple[Quantity, tuple[str, ...], float]]:
        """Give bytes and busy seconds so far of each device that has done I/O, as far as there is room for them."""
        data = read_start(self.host, self._diskstats, self._beginning.due())
        # Ten times a second only the rows of whole devices are taken apart, found by the names that the last look gave.
        rows = data.count(b"\n")
        if rows != self._rows:
            self._rows = rows
            self._labels = self._label(parse_diskstats(data))
        observed: list[tuple[Quantity, tuple[str, ...], float]] = []
        beyond: list[int] = []
        for name, label in self._labels.items():
            if not label:
                continue
            start = data.find(b" " + name + b" ")
            end = data.find(b"\n", start)
            if start < 0 or end < 0:
                self._rows = -1  # one device came for another: look again at the next tick
                continue
            columns = data[start:end].split(None, 12)[1:]
            if len(columns) < 11 or columns[0] == columns[4] == b"0":
                continue
            if beyond or len(observed) + len(_FAST_COLUMNS) > self.most:
                beyond.append(end)
                continue
            for quantity, column, operation, scale in _FAST_COLUMNS:
                value = parsing.number(columns[column])
                if value is not None:
                    observed.append((quantity, (label, *operation), _scaled(value, scale)))
        if self._beginning.note(beyond[0] if beyond else 0):
            self.left_out = len(beyond) * len(_FAST_COLUMNS)
        return observed

    def _devices(self, data: bytes) -> dict[str, list[bytes]]:
        rows = parse_diskstats(data)
        self._labels = self._label(rows)
        devices: dict[str, list[bytes]] = {}
        for name, columns in rows.items():
            label = self._labels[name]
            if not label or (MADE_IN_ADVANCE.match(label) and not any(token.strip(b"0") for token in columns)):
                continue
            devices.setdefault(label, columns)
        return devices

    def _label(self, names: Iterable[bytes]) -> dict[bytes, str]:
        """Label of each whole device; empty for partitions and for paths of a namespace."""
        # In sysfs a slash of the name is written as an exclamation mark (cciss!c0d0).
        whole = {name.replace("!", "/") for name in entries(self._block)}
        labels: dict[bytes, str] = {}
        for name in names:
            label = parsing.text(name)
            is_whole = label in whole if whole else not _PARTITION.match(label)
            labels[name] = label if is_whole and not NVME_PATH.match(label) else ""
        return labels

    def _identity_samples(self, device: str) -> list[Sample]:
        base = f"{self._block}/{device.replace('/', '!')}"
        identity = self._identities.get(device)
        if identity is None:
            scheduler = re.search(r"\[(\S+)\]", sys_text(self.host, f"{base}/queue/scheduler"))
            identity = self._identities[device] = (
                sys_text(self.host, f"{base}/device/model"),
                sys_text(self.host, f"{base}/device/firmware_rev") or sys_text(self.host, f"{base}/device/rev"),
                sys_text(self.host, f"{base}/queue/rotational"),
                scheduler.group(1) if scheduler else "",
            )
        samples = [Sample(INFO, (device, *identity), 1)] if any(identity) else []
        sectors = sys_number(self.host, f"{base}/size")
        if sectors:
            samples.append(Sample(SIZE, (device,), sectors * SECTOR_BYTES))
        return samples
