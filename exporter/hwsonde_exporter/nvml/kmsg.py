"""The kernel's log: records of /dev/kmsg, and the XID and SXID lines of NVIDIA's drivers in them.

The format of records is that of Documentation/ABI/testing/dev-kmsg. What a driver of the years 2020 to 2026 prints::

    NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.
    NVRM: Xid (PCI:0000:3b:00): 31, pid=4711, name=python3, Ch 00000010, intr 00000000. MMU Fault: ...
    NVRM: Xid (PCI:0000:01:00 GPU-I:05 GPU-CI:00): 94, pid=7194, Contained: CE User Channel (0x9). RST: No, D-RST: No
    NVRM: Xid (0000:03:00): 13, Channel 00000001 ...                    (before 2014)
    nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 24007, Fatal, Link 30 sourcetrack timeout error (First)

Of all this only the place and the number are kept, and of an SXID how bad it is: the rest speaks of users' programs.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from hwsonde_exporter import parsing
from hwsonde_exporter.errors import Reason, Unavailable
from hwsonde_exporter.nvml.xid import MOST

# One record is at most CONSOLE_EXT_LOG_MAX long, 8192 bytes; a shorter buffer gives EINVAL.
_RECORD_BYTES = 16384
# What is read in one go: a GPU that goes mad prints a hundred thousand lines a second, and nobody must wait for them.
MOST_RECORDS = 20_000

# Lines of drivers, and those that root writes to /dev/kmsg to try an alert out (facility user). What a log daemon passes on
# for programs has another facility or begins with their names.
_FACILITIES = frozenset({0, 1})
_KMSG = os.makedev(1, 11)

_XID = re.compile(
    rb"NVRM: Xid \((?:PCI:)?([0-9a-fA-F]{4,8}):([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.[0-7])?(?: GPU-I:\d{1,4})?(?: GPU-CI:\d{1,4})?\)"
    rb": (\d{1,9})(?![\w.])"
)
_SXID = re.compile(
    rb"nvidia-nvswitch(\d{1,3}): SXid \(PCI:[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-7])?\): (\d{1,9})(?![\w.])"
    rb"(?:, (Fatal|Non-fatal))?"
)
_LOADING = b"NVRM: loading NVIDIA UNIX"
_SEVERITIES = {b"Fatal": "fatal", b"Non-fatal": "nonfatal", b"": "unknown"}


class XidLine(NamedTuple):
    """An XID: ``address`` is that of the GPU, ``0000:3b:00``, domain with four digits or more and small letters."""

    address: str
    code: int


class SxidLine(NamedTuple):
    """An SXID: ``switch`` is the number of the NVSwitch, ``severity`` fatal, nonfatal or unknown."""

    switch: str
    code: int
    severity: str


class DriverLoaded(NamedTuple):
    """The GPUs' driver was loaded: what it printed before is over."""


Line = XidLine | SxidLine | DriverLoaded


class Record(NamedTuple):
    """One record: its number, which counts all records since boot, its syslog facility, and its text without continuation."""

    sequence: int
    facility: int
    text: bytes


def parse_record(data: bytes) -> Record | None:
    """Parse what one read of /dev/kmsg gives; None for what is none."""
    head, semicolon, rest = data.partition(b";")
    fields = head.split(b",")
    if not semicolon or len(fields) < 4:
        return None
    priority, sequence = parsing.number(fields[0]), parsing.number(fields[1])
    if priority is None or sequence is None:
        return None
    return Record(sequence, priority >> 3, rest.partition(b"\n")[0])


def parse_line(text: bytes) -> Line | None:
    """Parse the text of a record; None for one that speaks of no XID."""
    if text.startswith(_LOADING):
        return DriverLoaded()
    match = _XID.match(text)
    if match is not None:
        code = int(match[4])
        address = f"{int(match[1], 16):04x}:{int(match[2], 16):02x}:{int(match[3], 16):02x}"
        return XidLine(address, code) if 0 < code <= MOST else None
    match = _SXID.match(text)
    if match is not None:
        code = int(match[2])
        return SxidLine(str(int(match[1])), code, _SEVERITIES[match[3] or b""]) if 10_000 <= code < 100_000 else None
    return None


class Device(Protocol):
    """An open /dev/kmsg."""

    def read(self) -> bytes:
        """Next record; raises BlockingIOError if there is none, OSError with EPIPE if some were overwritten."""

    def seek_first(self) -> None:
        """Go to the oldest record that is still there."""

    def close(self) -> None:
        """Close it."""


class KernelLog:
    """The real /dev/kmsg, from its end on.

    Parameters
    ----------
    path
        Where the device is.

    Raises
    ------
    OSError
        If it cannot be opened, or is no device of this kind.
    """

    def __init__(self, path: Path | str) -> None:
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        try:
            _check(self._descriptor)
            os.lseek(self._descriptor, 0, os.SEEK_END)
        except OSError:
            os.close(self._descriptor)
            raise

    def read(self) -> bytes:
        """Next record."""
        return os.read(self._descriptor, _RECORD_BYTES)

    def seek_first(self) -> None:
        """Go to the oldest record that is still there."""
        os.lseek(self._descriptor, 0, os.SEEK_SET)

    def close(self) -> None:
        """Close it."""
        with suppress(OSError):
            os.close(self._descriptor)


def _check(descriptor: int) -> None:
    """Raise OSError for what is no kernel's log: in some containers the name is a link to the console or to nothing."""
    if os.fstat(descriptor).st_rdev != _KMSG:
        raise OSError(errno.ENODEV, "another kind of file")


OpenLog = Callable[[], Device]


def open_log(rootfs: Path) -> Device:
    """Open the kernel's log: that below ``--path.rootfs``, else this process's own.

    Raises
    ------
    Unavailable
        If there is none here, or this process may not read it.
    """
    own = Path("/dev/kmsg")
    below = rootfs / "dev" / "kmsg"
    path = below if os.path.lexists(below) else own
    try:
        return KernelLog(path)
    except FileNotFoundError as error:
        detail = f"{path}: there is none here; give the container the host's device /dev/kmsg"
        raise Unavailable(Reason.NO_KERNEL_SUPPORT, detail) from error
    except OSError as error:
        if error.errno in {errno.EPERM, errno.EACCES}:
            detail = f"{path}: this process may not read it; give it CAP_SYSLOG and, in a container, the device"
            raise Unavailable(Reason.NO_PERMISSION, detail) from error
        detail = f"{path}: {error.strerror or error}; it is not the kernel's log"
        raise Unavailable(Reason.NO_KERNEL_SUPPORT, detail) from error


class Poll(NamedTuple):
    """What one look at the log gave: its lines, and whether its end was reached."""

    lines: list[Line]
    finished: bool


class LogReader:
    """Reads the lines that came since the last look, and never one twice.

    When the device has to be opened anew, reading goes on behind the last record that was seen. ``lost`` counts records
    that the kernel overwrote before they were read.

    Parameters
    ----------
    open_it
        Opens the device at its end; raises `Unavailable`.
    from_start
        Whether to begin with the oldest line that is still there, and not with those that are yet to come.
    """

    def __init__(self, open_it: OpenLog, *, from_start: bool = False) -> None:
        self._open = open_it
        self._from_start = from_start
        self._device: Device | None = None
        self._next: int | None = None  # number of the record that should come next
        self.lost = 0

    def open(self) -> None:
        """Open the device if it is not open; raises `Unavailable`."""
        if self._device is not None:
            return
        self._device = self._open()
        if self._from_start or self._next is not None:
            with suppress(OSError):
                self._device.seek_first()

    def close(self) -> None:
        """Close the device; a later `open` goes on where this one ended."""
        if self._device is not None:
            self._device.close()
            self._device = None

    def poll(self, most: int = MOST_RECORDS) -> Poll:
        """Read what has come, ``most`` records at most; raises `Unavailable` if the device cannot be read any more."""
        self.open()
        found: list[Line] = []
        for _ in range(most):
            try:
                data = self._device.read() if self._device is not None else b""
            except BlockingIOError:
                return Poll(found, finished=True)
            except OSError as error:
                if error.errno in {errno.EPIPE, errno.EINVAL}:
                    # The next read gives the oldest that is left; its number tells how many are gone.
                    self.lost += self._next is None
                    continue
                self.close()
                raise Unavailable(
                    Reason.NO_KERNEL_SUPPORT, f"/dev/kmsg: {error.strerror or error}; it is opened again"
                ) from error
            if not data:
                return Poll(found, finished=True)
            record = parse_record(data)
            if record is not None and self._take(record.sequence) and record.facility in _FACILITIES:
                line = parse_line(record.text)
                if line is not None:
                    found.append(line)
        return Poll(found, finished=False)

    def _take(self, sequence: int) -> bool:
        """Whether a record of this number is new; counts those that are missing before it."""
        if self._next is not None:
            if sequence < self._next:
                return False
            self.lost += sequence - self._next
        self._next = sequence + 1
        return True
