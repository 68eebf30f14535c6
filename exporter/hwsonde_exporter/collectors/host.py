"""The host itself: identity, boot time, clock."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._files import read_or_none, sys_text
from hwsonde_exporter.errors import ReadError
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import register

# Bits of timex.status and the return value, from linux/timex.h.
_STA_UNSYNC = 0x0040
_STA_NANO = 0x2000
_TIME_ERROR = 5
_LEAP = {1: 1, 2: -1}  # TIME_INS and TIME_DEL: a second that is inserted or left out at the end of the day

_gauge = partial(Metric, kind=Kind.GAUGE, subsystem="exporter")

INFO = _gauge(
    name="hwsonde_host_info",
    help="Constant 1 labelled with the identity of the host.",
    labels=("hostname", "kernel", "machine", "os", "vendor", "product"),
    source="/proc/sys/kernel/{hostname,osrelease,arch}, /etc/os-release under path.rootfs, /sys/class/dmi/id",
)
BOOT = _gauge(
    name="hwsonde_host_boot_timestamp_seconds",
    help="Unix time of the last boot.",
    unit="seconds",
    source="/proc/stat btime",
)
SYNCHRONIZED = _gauge(
    name="hwsonde_host_clock_synchronized",
    help="Whether the system clock is kept by a time service (1) or runs free (0).",
    source="adjtimex(2) status STA_UNSYNC",
)
OFFSET = _gauge(
    name="hwsonde_host_clock_offset_seconds",
    help="Offset between the system clock and its reference; only while it is synchronized.",
    unit="seconds",
    source="adjtimex(2) offset",
)
MAXIMUM_ERROR = _gauge(
    name="hwsonde_host_clock_maximum_error_seconds",
    help="Largest error of the system clock, as its time service bounds it; only while it is synchronized.",
    unit="seconds",
    source="adjtimex(2) maxerror (us)",
)
ESTIMATED_ERROR = _gauge(
    name="hwsonde_host_clock_estimated_error_seconds",
    help="Error of the system clock, as its time service estimates it; only while it is synchronized.",
    unit="seconds",
    source="adjtimex(2) esterror (us)",
)
FREQUENCY_ADJUSTMENT = _gauge(
    name="hwsonde_host_clock_frequency_adjustment_ratio",
    help="Correction of the clock's rate by its time service; 0.00001 is 10 parts in a million.",
    unit="ratio",
    source="adjtimex(2) freq (2^-16 parts in a million)",
)


class _Timex(ctypes.Structure):
    """``struct timex`` of timex(3) on 64-bit machines; what nobody reads here is only room."""

    _fields_ = (
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("precision", ctypes.c_long * 3),
        ("time", ctypes.c_long * 2),
        ("pps", ctypes.c_long * 3),
        ("shift", ctypes.c_int),
        ("counts", ctypes.c_long * 5),
        ("tai", ctypes.c_int),
        ("reserved", ctypes.c_int * 11),
    )


@dataclass(frozen=True, slots=True)
class Clock:
    """State of the system clock: seconds, except ``frequency`` (a ratio) and ``synchronized``.

    ``leap`` is 1 or -1 on a day that ends with a leap second; ``tai`` is 0 where nobody has set it.
    """

    synchronized: bool
    offset: float
    maximum_error: float
    estimated_error: float
    frequency: float
    leap: int = 0
    tai: int = 0


def read_clock() -> Clock:
    """Ask the kernel for the state of its clock; needs no privilege.

    Raises
    ------
    ReadError
        If the C library or the kernel does not have the call.
    """
    timex = _Timex()
    try:
        state = ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex))
    except (OSError, AttributeError) as error:
        raise ReadError(f"adjtimex: {error}") from error
    if state < 0:
        raise ReadError(f"adjtimex: {os.strerror(ctypes.get_errno())}")
    return clock_of(state, timex.status, timex.offset, (timex.maxerror, timex.esterror), timex.freq, timex.tai)


def clock_of(state: int, status: int, offset: int, errors: tuple[int, int], frequency: int, tai: int = 0) -> Clock:
    """Turn adjtimex's integers (``errors``: maxerror and esterror in microseconds) into a `Clock`."""
    return Clock(
        synchronized=not (status & _STA_UNSYNC) and state != _TIME_ERROR,
        offset=offset / (1e9 if status & _STA_NANO else 1e6),
        maximum_error=errors[0] / 1e6,
        estimated_error=errors[1] / 1e6,
        frequency=frequency / 65536 / 1e6,
        leap=_LEAP.get(state, 0),
        tai=tai,
    )


def parse_os_release(data: bytes) -> str:
    """Name of the distribution for people: ``PRETTY_NAME`` of os-release(5), or an empty text."""
    for line in data.split(b"\n"):
        key, _, value = line.partition(b"=")
        if key.strip() == b"PRETTY_NAME":
            return parsing.text(value.strip().strip(b"\"'"))
    return ""


@register
class HostCollector:
    """Identity, boot time and clock of the host."""

    name: ClassVar[str] = "host"
    help: ClassVar[str] = "Identity, boot time and clock of the host"
    metrics: ClassVar[tuple[Metric, ...]] = (
        INFO, BOOT, SYNCHRONIZED, OFFSET, MAXIMUM_ERROR, ESTIMATED_ERROR, FREQUENCY_ADJUSTMENT,
    )  # fmt: skip
    period: ClassVar[float | None] = None
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host, *, clock: Callable[[], Clock] = read_clock) -> None:
        self.host = host
        self._clock = clock
        self._identity: tuple[str, ...] = ()

    def probe(self) -> None:
        """Read the host's identity anew."""
        paths = self.host.paths
        kernel = paths.proc("sys", "kernel")
        dmi = paths.sys("class", "dmi", "id")
        release = b""
        for name in ("etc/os-release", "usr/lib/os-release"):
            # Closed at once: an open file would keep the root filesystem from being unmounted.
            with suppress(ReadError):
                release = release or self.host.files.read_once(paths.rootfs / name)
        self._identity = (
            sys_text(self.host, kernel / "hostname"),
            sys_text(self.host, kernel / "osrelease"),
            # Linux 6.1 or later shows it; the exporter's own machine is the same, emulation apart.
            sys_text(self.host, kernel / "arch") or os.uname().machine,
            parse_os_release(release),
            sys_text(self.host, dmi / "sys_vendor"),
            sys_text(self.host, dmi / "product_name"),
        )

    def collect(self) -> Iterable[Sample]:
        """Read the boot time and ask the kernel for its clock."""
        samples = [Sample(INFO, self._identity, 1)] if self._identity else []
        data = read_or_none(self.host, self.host.paths.proc("stat"))
        boot = parsing.number_after(data, b"\nbtime ") if data else None
        if boot is not None:
            samples.append(Sample(BOOT, (), boot))
        try:
            clock = self._clock()
        except ReadError:
            return samples
        samples.append(Sample(SYNCHRONIZED, (), int(clock.synchronized)))
        if clock.synchronized:
            samples += [
                Sample(OFFSET, (), clock.offset),
                Sample(MAXIMUM_ERROR, (), clock.maximum_error),
                Sample(ESTIMATED_ERROR, (), clock.estimated_error),
                Sample(FREQUENCY_ADJUSTMENT, (), clock.frequency),
            ]
        return samples
