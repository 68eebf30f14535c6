"""How the collectors read what may be missing: one odd file loses its own series, nothing else."""

from __future__ import annotations

import os
import re
from pathlib import Path

from hwsonde_exporter import parsing
from hwsonde_exporter.errors import ReadError
from hwsonde_exporter.host import Host

PCI_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
# Looks at the beginning of a long table for one at all of it: ten seconds, at ten a second.
_LOOKS = 99


def read_or_none(host: Host, path: Path | str) -> bytes | None:
    """Content of a file that is read again and again, or None if it cannot be read."""
    try:
        return host.files.read(path)
    except ReadError:
        return None


def read_once_or_none(host: Host, path: Path | str) -> bytes | None:
    """Content of a file whose descriptor is not kept, since its name comes and goes; None if it cannot be read."""
    try:
        return host.files.read_once(path)
    except ReadError:
        return None


def sys_number(host: Host, path: Path | str) -> int | None:
    """Number in a small sysfs file, or None: missing, unreadable, negative (-1 says "not known") or no number."""
    try:
        return parsing.number(host.files.read_once(path).strip())
    except ReadError:
        return None


def sys_text(host: Host, path: Path | str) -> str:
    """Line of a small sysfs file, fit for a label; empty if it is missing or cannot be read."""
    try:
        return parsing.text(host.files.read_once(path))
    except ReadError:
        return ""


def entries(path: Path | str) -> list[str]:
    """Names in a directory that can be shown in a label, sorted; none if it is missing or cannot be read."""
    try:
        # Names are wanted, and a Path for each would cost more than the read.
        return sorted(name for name in os.listdir(path) if name.isprintable())  # noqa: PTH208
    except OSError:
        return []


def link_name(path: Path | str) -> str:
    """Last part of a symbolic link's target, or an empty text; how sysfs tells a driver or a bus address."""
    try:
        return parsing.text(os.fsencode(os.readlink(path)).rpartition(b"/")[2])  # noqa: PTH115  as above
    except OSError:
        return ""


def pci_address(path: Path | str) -> str:
    """Address on the PCI bus of the device that a folder of /sys/class belongs to; empty if it is on another bus or on none."""
    name = link_name(f"{path}/device")
    return name if PCI_ADDRESS.fullmatch(name) else ""


def numa_node(host: Host, path: Path | str) -> str:
    """Number of the NUMA node in a file, as a label; empty where the device is near to none (-1) or the kernel does not say."""
    number = sys_number(host, path)
    return "" if number is None else str(number)


def link_target(path: Path | str) -> str:
    """Whole target of a symbolic link, or an empty text; how sysfs tells where in the tree of devices something sits."""
    try:
        return os.fsdecode(os.readlink(path))  # noqa: PTH115  as above
    except OSError:
        return ""


def exists(path: Path | str) -> bool:
    """Whether there is something at a path; what may not be looked at is not there. `Path.exists` would raise then."""
    return os.path.exists(path)  # noqa: PTH110  as above


def is_folder(path: Path | str) -> bool:
    """Whether there is a directory at a path that may be looked at."""
    return os.path.isdir(path)  # noqa: PTH112  as above


def is_link(path: Path | str) -> bool:
    """Whether there is a symbolic link at a path that may be looked at."""
    return os.path.islink(path)  # noqa: PTH114  as above


class Beginning:
    """How much of a long table is of use to whoever reads it ten times a second and has room for its first rows only.

    Rows come and go, so that all of it is looked at now and then.
    """

    def __init__(self) -> None:
        self._size = 0
        self._looks = 0

    def due(self) -> int:
        """Bytes that are to be read now; 0 for all of them."""
        self._looks += 1
        if not self._size or self._looks > _LOOKS:
            self._looks = 0
        return self._size if self._looks else 0

    def note(self, end: int) -> bool:
        """Take down where the first row ended that there was no room for, 0 if there was room for all; gives whether all was read."""
        whole = not self._looks
        if whole or not end:
            # Numbers grow.
            self._size = end + end // 16 + 64 if end else 0
        return whole


def read_net(host: Host, name: str, most: int = 0) -> bytes:
    """Content of a file of the host's network namespace; not more than its first ``most`` bytes, unless that is 0.

    Process 1 is in the host's namespace, so its ``net`` folder is the host's even where the exporter runs in a container
    with a network of its own. Where /proc/1 is hidden (``hidepid``, a container without the host's processes), the
    exporter's own ``/proc/net`` is all there is.

    Raises
    ------
    ReadError
        If it cannot be read.
    """
    base = host.paths.procfs
    try:
        return read_start(host, f"{base}/1/net/{name}", most)
    except ReadError:
        if exists(f"{base}/1/net"):
            raise  # the host's network is there to be seen: what it lacks must not come from our own
        return read_start(host, f"{base}/net/{name}", most)


def read_start(host: Host, path: str, most: int) -> bytes:
    """First lines of a file that is read again and again, of at most so many bytes; all of it if that is 0.

    Raises
    ------
    ReadError
        If it cannot be read.
    """
    return host.files.read_start(path, most) if most else host.files.read(path)
