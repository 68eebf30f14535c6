"""The host's kernel files: where they lie, how they are read, and what of the host is left out."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path

from hwsonde_exporter.errors import ReadError
from hwsonde_exporter.metric import Sample
from hwsonde_exporter.nvml.client import Client
from hwsonde_exporter.workload_options import WorkloadOptions

_CHUNK = 1 << 16
MAX_FILE_BYTES = 16 << 20
# One end of each container's cable, and what container networks and virtual machine hosts make by the thousand. Short
# words are followed by the forms that such programs make, since green0 and tape0 are somebody's own names.
IGNORED_DEVICES = re.compile(
    r"veth\S*|docker([0-9]+|_gwbridge)|br-\S*|cali[0-9a-f]+|cilium\S*|lxc\S*|flannel\S*|cni([0-9]+|-\S+)|nerdctl\S*|podman[0-9]+"
    r"|kube-\S*|virbr\S*|vnet[0-9]+|tap([0-9]+(i[0-9]+|_kata)?|[0-9a-f]{8}-[0-9a-f]{2})"
    r"|dummy[0-9]+|tunl[0-9]+|ip6tnl[0-9]+|sit[0-9]+|gre(tap)?[0-9]+"
)
# A container's layers and volumes: many, and each on a filesystem that is reported anyway.
IGNORED_MOUNTS = re.compile(
    r"/(proc|sys|dev/pts|snap|run/(user|credentials|netns|docker|containerd|snapd)"
    r"|var/lib/(docker|containers|containerd|kubelet))(/.*)?"
)


@dataclass(frozen=True, slots=True)
class Paths:
    """Where the host's pseudo filesystems are mounted; a container sees them elsewhere.

    ``rootfs`` is put before mount points that are asked for their size.
    """

    procfs: Path = Path("/proc")
    sysfs: Path = Path("/sys")
    rootfs: Path = Path("/")

    def proc(self, *parts: str) -> Path:
        """Path of a file under procfs."""
        return self.procfs.joinpath(*parts)

    def sys(self, *parts: str) -> Path:
        """Path of a file under sysfs."""
        return self.sysfs.joinpath(*parts)


# The name of a group of other hosts, such as a rack, and the addresses that it has.
RemoteGroup = tuple[str, IPv4Network | IPv6Network]


@dataclass(frozen=True, slots=True)
class Ignored:
    """What of the host is left out: patterns of whole names of network devices, and of whole mount points."""

    devices: re.Pattern[str] = IGNORED_DEVICES
    mounts: re.Pattern[str] = IGNORED_MOUNTS


@dataclass(slots=True)
class _Slot:
    """The kept descriptor of one path; its lock keeps a reader from a descriptor that another is closing."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    descriptor: int | None = None


@dataclass(slots=True)
class FileReader:
    """Reads small kernel files on descriptors that stay open.

    Opening costs more than reading (19 procfs files: 511 us reopened, 192 us by ``pread``). A kept descriptor of a
    device that vanished answers ENODEV or an empty text; it is closed and the next read opens anew. Safe for several
    threads: one lock a path, so that a file whose driver hangs holds up nobody who reads another.
    """

    _slots: dict[str, _Slot] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self, path: Path | str) -> bytes:
        """Whole content of ``path``, whose descriptor stays open: for the few files that are read again and again.

        Raises
        ------
        ReadError
            If the file does not exist, cannot be read, or is larger than any kernel table.
        """
        return self._read(os.fspath(path), sys.maxsize)

    def read_start(self, path: Path | str, most: int) -> bytes:
        """The first lines of ``path``, of at most so many bytes: the kernel makes no more of it. As `read` otherwise."""
        data = self._read(os.fspath(path), most)
        return data if len(data) < most else data[: data.rfind(b"\n") + 1]

    def _read(self, key: str, most: int) -> bytes:
        slot = self._slots.get(key)
        if slot is None:
            with self._lock:
                slot = self._slots.setdefault(key, _Slot())
        with slot.lock:
            try:
                if slot.descriptor is None:
                    slot.descriptor = _open(key)
                data = _read_all(slot.descriptor, key, most)
            except OSError as error:
                _close(slot)
                raise ReadError(f"{key}: {error.strerror or error}") from error
            if not data:
                _close(slot)
            return data

    def read_once(self, path: Path | str) -> bytes:
        """Whole content of ``path``, closed at once.

        For the many small files of sysfs, which would use up the descriptors that a process may have.

        Raises
        ------
        ReadError
            As `read`.
        """
        key = os.fspath(path)
        try:
            descriptor = _open(key)
            try:
                return _read_all(descriptor, key)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise ReadError(f"{key}: {error.strerror or error}") from error

    def __del__(self) -> None:
        # Descriptors are plain numbers: nobody else would give them back.
        with suppress(Exception):
            self.close()

    def close(self) -> None:
        """Close every kept descriptor."""
        with self._lock:
            slots = list(self._slots.values())
            self._slots.clear()
        for slot in slots:
            with slot.lock:
                _close(slot)


def _open(key: str) -> int:
    return os.open(key, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)


def _read_all(descriptor: int, key: str, most: int = sys.maxsize) -> bytes:
    """All of a file, or its first ``most`` bytes."""
    # Only an empty answer is the end: a seq_file gives whole records of about a page together, and one long record (a
    # CPU in cpuinfo, an overlay in mountinfo) leaves the page before it half empty.
    data = os.pread(descriptor, min(_CHUNK, most), 0)
    pieces, size = [data], len(data)
    while data and size < most:
        data = os.pread(descriptor, min(_CHUNK, most - size), size)
        pieces.append(data)
        size += len(data)
        if size > MAX_FILE_BYTES:
            raise ReadError(f"{key}: larger than {MAX_FILE_BYTES} bytes, not a kernel table")
    return b"".join(pieces)


def _close(slot: _Slot) -> None:
    if slot.descriptor is not None:
        with suppress(OSError):
            os.close(slot.descriptor)
        slot.descriptor = None


class Rejections:
    """Counts readings that cannot be true, such as the patterns of bits with which devices say "not known"."""

    def __init__(self) -> None:
        self.count = 0
        self._lock = threading.Lock()

    def add(self, number: int = 1) -> None:
        """Count readings that were left out."""
        if number:
            with self._lock:
                self.count += number


@dataclass(frozen=True, slots=True)
class Host:
    """What a collector is given: the paths, the reader that keeps files open, and what to leave out.

    ``rejections`` is where it counts readings that it does not believe.

    ``remote_groups`` gives the present names for addresses of other hosts. ``textfiles`` is the directory in which other
    programs leave metrics, if there is one. ``mesh`` gives what the mesh probe has found, or None where it has nothing to do;
    it is None itself where there is none. ``workloads`` gives the present bounds on workloads. ``nvml`` asks the driver of NVIDIA's
    GPUs; all collectors share it.
    """

    paths: Paths = field(default_factory=Paths)
    files: FileReader = field(default_factory=FileReader)
    ignored: Ignored = field(default_factory=Ignored)
    remote_groups: Callable[[], tuple[RemoteGroup, ...]] = tuple
    textfiles: Path | None = None
    mesh: Callable[[], Sequence[Sample] | None] | None = None
    workloads: Callable[[], WorkloadOptions] = WorkloadOptions
    nvml: Client | None = None
    rejections: Rejections = field(default_factory=Rejections, compare=False)
