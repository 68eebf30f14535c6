"""A kernel's log that exists only in memory, with a ring of its own."""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable

from hwsonde_exporter.host import Host


class Log:
    """What the kernel keeps: the newest records, numbered since boot.

    Parameters
    ----------
    room
        How many records it keeps.
    """

    def __init__(self, room: int = 1000) -> None:
        self.records: deque[tuple[int, bytes]] = deque(maxlen=room)
        self.number = 0
        self.broken = 0  # reads that fail with another error
        self.opened = 0

    def write(self, text: str, priority: int = 4) -> None:
        data = f"{priority},{self.number},{self.number * 1000},-;{text}\n".encode()
        self.records.append((self.number, data))
        self.number += 1

    def open(self) -> Reader:
        self.opened += 1
        return Reader(self)


class Reader:
    """An open device, which behaves as Documentation/ABI/testing/dev-kmsg says."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.place = log.number
        self.closed = False

    def read(self) -> bytes:
        assert not self.closed
        if self.log.broken:
            self.log.broken -= 1
            raise OSError(errno.EIO, "Input/output error")
        if self.place >= self.log.number:
            raise BlockingIOError
        oldest = self.log.records[0][0]
        if self.place < oldest:
            self.place = oldest
            raise BrokenPipeError(errno.EPIPE, "Broken pipe")
        data = self.log.records[self.place - oldest][1]
        self.place += 1
        return data

    def seek_first(self) -> None:
        self.place = self.log.records[0][0] if self.log.records else self.log.number

    def close(self) -> None:
        self.closed = True


def xid(code: int, address: str = "0000:3b:00", rest: str = "pid=4711, name=python3, Ch 00000010") -> str:
    return f"NVRM: Xid (PCI:{address}): {code}, {rest}"


def fixture_log(host: Host) -> Callable[[], Reader]:
    """Log of a fixture host: what its drivers have printed between the start of the exporter and now."""

    def open_it() -> Reader:
        log = Log()
        log.write("NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  550.90.07  Release Build")
        reader = log.open()
        if (host.paths.procfs / "driver" / "nvidia").is_dir():
            for text in (
                xid(31, "0000:3c:00"),
                xid(31, "0000:3c:00"),
                xid(63, "0000:ba:00", "pid='<unknown>', name=<unknown>, Row Remapper: New row marked for remapping"),
                "nvidia-nvswitch1: SXid (PCI:0000:45:00.0): 20009, Non-fatal, Link 28 RX Short Error Rate",
                xid(79, "0000:dd:00", "GPU has fallen off the bus."),
            ):
                log.write(text)
        return reader

    return open_it
