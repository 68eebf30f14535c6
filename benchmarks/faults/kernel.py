"""Numbers that the kernel shows and that prove what a fault did. Reads only; a missing file gives 0."""

from __future__ import annotations

import os
from pathlib import Path


class Kernel:
    """Reads below roots that tests replace.

    Parameters
    ----------
    proc, sys, dev
        Where /proc, /sys and /dev are.
    """

    def __init__(self, proc: Path = Path("/proc"), sys: Path = Path("/sys"), dev: Path = Path("/dev")) -> None:
        self.proc, self.sys, self.dev = proc, sys, dev

    def text(self, *parts: str) -> str:
        """Text of a file below /proc, empty where it cannot be read."""
        try:
            return self.proc.joinpath(*parts).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def stat(self, name: str) -> int:
        """A number of /proc/stat: ``processes`` (forks since boot) or ``ctxt`` (context switches)."""
        return _keyed(self.text("stat"), name)

    def open_files(self) -> int:
        """Open file handles of the whole host."""
        first = self.text("sys", "fs", "file-nr").split()
        return int(first[0]) if first else 0

    def file_limit(self) -> int:
        """Greatest number of open file handles of the host."""
        found = self.text("sys", "fs", "file-nr").split()
        return int(found[2]) if len(found) > 2 else 0

    def available_memory(self) -> int:
        """Bytes that a new workload could have."""
        return 1024 * _keyed(self.text("meminfo"), "MemAvailable:")

    def has_tunnels(self) -> bool:
        """Whether tunnels can be made (/dev/net/tun)."""
        return (self.dev / "net" / "tun").exists()

    def disk_of(self, folder: Path) -> tuple[str, str] | None:
        """Name and ``major:minor`` of the whole disk that a folder lies on; None where it lies on none (overlay, memory, network)."""
        number = folder.stat().st_dev
        where = self.sys / "dev" / "block" / f"{os.major(number)}:{os.minor(number)}"
        try:
            found = where.resolve(strict=True)
            if (found / "partition").exists():
                found = found.parent
            return found.name, (found / "dev").read_text(encoding="ascii").strip()
        except OSError:
            return None

    def network(self, pid: int, protocol: str, name: str) -> int:
        """A counter of /proc/PID/net/snmp, of the network namespace that a process is in: ``Tcp``, ``RetransSegs``."""
        rows = [
            line.split() for line in self.text(str(pid), "net", "snmp").splitlines() if line.startswith(f"{protocol}:")
        ]
        for names, values in zip(rows[::2], rows[1::2], strict=False):
            if name in names:
                return int(values[names.index(name)])
        return 0

    def sent_bytes(self, pid: int, device: str) -> int:
        """Bytes that a device of a process's network namespace has sent (/proc/PID/net/dev)."""
        for line in self.text(str(pid), "net", "dev").splitlines():
            name, colon, rest = line.partition(":")
            if colon and name.strip() == device:
                return int(rest.split()[8])
        return 0

    def state(self, pid: int) -> str:
        """State letter of a process (R, S, D, T, Z), empty where there is none."""
        part = self._stat_of(pid)
        return part[0] if part else ""

    def started(self, pid: int) -> int:
        """When a process began, in ticks since boot: with its number, its identity. 0 where there is none."""
        part = self._stat_of(pid)
        return int(part[19]) if len(part) > 19 else 0

    def _stat_of(self, pid: int) -> list[str]:
        """Fields of /proc/PID/stat from the third on: the second may hold blanks and brackets."""
        return self.text(str(pid), "stat").rpartition(")")[2].split()


def _keyed(text: str, name: str) -> int:
    for line in text.splitlines():
        part = line.split()
        if part and part[0] == name:
            return int(part[1])
    return 0
