"""Filesystems: size, space, inodes, and whether they answer at all."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, NamedTuple

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._asking import Asker
from hwsonde_exporter.collectors._files import read_or_none
from hwsonde_exporter.errors import ReadError
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.registry import register

# Filesystems that hold no files of anybody's, and read-only images, which are full by their nature.
# fmt: off
_PSEUDO = frozenset((
    "autofs", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs", "devpts", "devtmpfs", "efivarfs", "erofs",
    "fuse.gvfsd-fuse", "fuse.lxcfs", "fuse.portal", "fuse.snapfuse", "fusectl", "hugetlbfs", "iso9660", "mqueue", "nfsd",
    "nsfs", "proc", "pstore", "ramfs", "resctrl", "rpc_pipefs", "securityfs", "selinuxfs", "squashfs", "sysfs", "tracefs",
))
# fmt: on
# Since Linux 6.12 ext4 stays nominally writable after an error that made it read-only, and names that state since 6.15.
_READONLY = frozenset((b"ro", b"emergency_ro", b"shutdown"))
_ESCAPE = re.compile(rb"\\([0-7]{3})")
_TIMEOUT_SECONDS = 1.0

_LABELS = ("mountpoint", "device", "fstype")
_SOURCE = "/proc/1/mountinfo and statvfs(2) under path.rootfs"
_gauge = partial(Metric, kind=Kind.GAUGE, subsystem="storage", labels=_LABELS)

SIZE = _gauge(
    name="hwsonde_storage_filesystem_size_bytes",
    help="Size of a filesystem.",
    unit="bytes",
    source=f"{_SOURCE}: f_blocks x f_frsize",
)
AVAILABLE = _gauge(
    name="hwsonde_storage_filesystem_available_bytes",
    help="Space of a filesystem open to unprivileged users.",
    unit="bytes",
    source=f"{_SOURCE}: f_bavail x f_frsize",
)
INODES = _gauge(name="hwsonde_storage_filesystem_inodes", help="Inodes of a filesystem.", source=f"{_SOURCE}: f_files")
FREE_INODES = _gauge(
    name="hwsonde_storage_filesystem_free_inodes", help="Free inodes of a filesystem.", source=f"{_SOURCE}: f_ffree"
)
READONLY = _gauge(
    name="hwsonde_storage_filesystem_readonly",
    help="Whether a filesystem is mounted read-only (1) or not (0).",
    source="/proc/1/mountinfo: ro, emergency_ro or shutdown among the options of the mount or of the filesystem",
)
STUCK = _gauge(
    name="hwsonde_storage_filesystem_stuck",
    help="Whether asking a filesystem for its size hangs or fails (1) or not (0); absent where it may not be asked or seen.",
    source=f"{_SOURCE}, which did not come back in time",
)


@dataclass(frozen=True, slots=True)
class Mount:
    """One line of mountinfo.

    ``number`` is the device number (``major:minor``) of the filesystem, ``root`` the folder of it that is mounted,
    ``readonly`` whether the mount or the filesystem is; ``options`` are the mount's and ``filesystem_options`` those that
    all mounts of the filesystem share, joined by commas.
    """

    number: bytes
    root: bytes
    mountpoint: bytes
    fstype: bytes
    source: bytes
    readonly: bool
    options: bytes = b""
    filesystem_options: bytes = b""

    @property
    def key(self) -> tuple[bytes, bytes]:
        """What tells this mount from another that comes to the same place later."""
        return self.mountpoint, self.number

    @property
    def labels(self) -> tuple[str, str, str]:
        """Values of the labels of every metric here."""
        return parsing.text(self.mountpoint), parsing.text(self.source), parsing.text(self.fstype)


class Usage(NamedTuple):
    """What statvfs says, in bytes and inodes."""

    size: int
    available: int
    inodes: int
    free_inodes: int


def parse_mountinfo(data: bytes) -> list[Mount]:
    """Parse /proc/PID/mountinfo; see proc_pid_mountinfo(5)."""
    mounts = []
    for line in parsing.lines(data):
        head, dash, tail = line.partition(b" - ")
        front, back = head.split(b" "), tail.split(b" ")
        if not dash or len(front) < 6 or len(back) < 3:
            continue
        readonly = b"ro" in front[5].split(b",") or not _READONLY.isdisjoint(back[2].split(b","))
        place = unescape(front[3]), unescape(front[4])
        mounts.append(Mount(front[2], *place, back[0], unescape(back[1]), readonly, front[5], back[2]))
    return mounts


def read_mounts(host: Host) -> list[Mount]:
    """Mounts of process 1, which are the host's; where it is hidden, those that this process sees.

    Raises
    ------
    ReadError
        If neither can be read.
    """
    for process in ("1", "self"):
        data = read_or_none(host, host.paths.proc(process, "mountinfo"))
        if data:
            return parse_mountinfo(data)
    raise ReadError(f"{host.paths.proc('1', 'mountinfo')}: cannot be read; is --path.procfs right?")


def unescape(field: bytes) -> bytes:
    r"""Text of a field in which the kernel wrote blanks and the like as ``\040``."""
    return _ESCAPE.sub(lambda match: bytes((int(match.group(1), 8) & 0xFF,)), field)


def choose(mounts: Iterable[Mount], ignored: re.Pattern[str]) -> list[Mount]:
    """Mounts worth reporting: no pseudo filesystem, the uppermost at each mount point, each filesystem once.

    Of several mounts of one filesystem (binds, containers) the one of its root is taken, then the one with the shortest
    mount point.
    """
    visible = {mount.mountpoint: mount for mount in mounts}
    filesystems: dict[bytes, Mount] = {}
    for mount in sorted(
        visible.values(), key=lambda mount: (mount.root != b"/", len(mount.mountpoint), mount.mountpoint)
    ):
        layer = mount.fstype == b"overlay" and mount.mountpoint != b"/"
        name = parsing.text(mount.mountpoint)
        if layer or parsing.text(mount.fstype) in _PSEUDO or ignored.fullmatch(name) or b"\0" in mount.mountpoint:
            continue
        filesystems.setdefault(mount.number, mount)
    # Two mount points may read alike once they are cut to a label's length.
    return list({mount.labels: mount for mount in filesystems.values()}.values())


def statvfs_usage(path: bytes) -> Usage:
    """Ask a mounted filesystem for its size; may hang for ever where a server is gone."""
    answer = os.statvfs(path)
    return Usage(answer.f_blocks * answer.f_frsize, answer.f_bavail * answer.f_frsize, answer.f_files, answer.f_ffree)


@register
class FilesystemCollector:
    """Size, space and inodes of mounted filesystems, and those that hang.

    A filesystem whose server is gone hangs every call on it, for hours, so each mount is asked through an `Asker`; one that
    has not come back is reported as stuck and not asked again until it has.
    """

    name: ClassVar[str] = "filesystem"
    help: ClassVar[str] = "Size, space and inodes of filesystems"
    metrics: ClassVar[tuple[Metric, ...]] = (SIZE, AVAILABLE, INODES, FREE_INODES, READONLY, STUCK)
    period: ClassVar[float | None] = 15.0
    enabled: ClassVar[bool] = True

    def __init__(
        self,
        host: Host,
        *,
        ask: Callable[[bytes], Usage] = statvfs_usage,
        timeout: float = _TIMEOUT_SECONDS,
    ) -> None:
        self.host = host
        self._ask = ask
        self._asker: Asker[tuple[bytes, bytes], Usage] = Asker("statvfs", timeout)

    def probe(self) -> None:
        """Every Linux host has filesystems; what cannot be read shows at the first collection."""

    def collect(self) -> Iterable[Sample]:
        """Ask every filesystem at once and wait for all of them together, at most the time-out."""
        mounts = choose(read_mounts(self.host), self.host.ignored.mounts)
        root = os.fsencode(self.host.paths.rootfs).rstrip(b"/")
        answers = self._asker.ask({mount.key: partial(self._ask, root + mount.mountpoint) for mount in mounts})
        samples: list[Sample] = []
        for mount in mounts:
            samples.append(Sample(READONLY, mount.labels, int(mount.readonly)))
            answer = answers.get(mount.key)
            # A mount of another user's, or one that is not below our root, is not known to be in trouble.
            if answer is not None and not isinstance(answer, (PermissionError, FileNotFoundError, NotADirectoryError)):
                samples += _usage_samples(mount, answer if isinstance(answer, Usage) else None)
        return samples


def _usage_samples(mount: Mount, usage: Usage | None) -> list[Sample]:
    labels = mount.labels
    samples = [Sample(STUCK, labels, int(usage is None))]
    if usage is not None and usage.size > 0:
        samples += [Sample(SIZE, labels, usage.size), Sample(AVAILABLE, labels, usage.available)]
    # Filesystems that make inodes as they need them (btrfs, many network ones) say 0.
    if usage is not None and usage.inodes > 0:
        samples += [Sample(INODES, labels, usage.inodes), Sample(FREE_INODES, labels, usage.free_inodes)]
    return samples
