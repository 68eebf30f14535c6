"""Settings of disks and mounted filesystems.

Sources: linux/Documentation/ABI/stable/sysfs-block, Documentation/block/queue-sysfs.rst, proc_pid_mountinfo(5) and the
mount options of mount(8), nfs(5), xfs(5), ext4(5) and mount.lustre(8).
"""

from __future__ import annotations

from collections.abc import Iterator

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._files import entries, sys_number
from hwsonde_exporter.collectors._setting_rows import Row, file_rows, kibibytes, plain, row, selected, switch, words
from hwsonde_exporter.collectors.filesystem import Mount, choose, read_mounts
from hwsonde_exporter.collectors.storage import MADE_IN_ADVANCE, NVME_PATH
from hwsonde_exporter.errors import ReadError
from hwsonde_exporter.host import Host

_QUEUE_FILES = (
    ("storage.scheduler", "queue/scheduler", selected),
    ("storage.read_ahead_bytes", "queue/read_ahead_kb", kibibytes),
    ("storage.queue_requests", "queue/nr_requests", plain),
    ("storage.largest_request_bytes", "queue/max_sectors_kb", kibibytes),
    ("storage.request_affinity", "queue/rq_affinity", plain),
    ("storage.merging", "queue/nomerges", words({"0": "on", "1": "simple", "2": "off"})),
    ("storage.write_back_latency_target_microseconds", "queue/wbt_lat_usec", plain),
    ("storage.write_cache", "queue/write_cache", plain),
    ("storage.polling", "queue/io_poll", switch),
    ("storage.firmware", "device/firmware_rev", plain),
    ("storage.raid_level", "md/level", plain),
    ("storage.raid_chunk_bytes", "md/chunk_size", plain),
    ("storage.raid_stripe_cache", "md/stripe_cache_size", plain),
)

# Options that say how a filesystem works. Left out are those that hold addresses, user names, paths, sizes of this host,
# or numbers that every mount has anew.
# fmt: off
_OPTIONS = frozenset((
    "acl", "acregmax", "acregmin", "acdirmax", "acdirmin", "actimeo", "allocsize", "attr2", "autodefrag", "barrier", "block_validity",
    "checksum", "commit", "compress", "compress-force", "data", "data_err", "dax", "delalloc", "dirsync", "discard", "errors",
    "extra", "filestreams", "flock", "fsc", "hard", "ikeep", "inode32", "inode64", "journal_async_commit", "journal_checksum",
    "largeio", "lazytime", "lazystatfs", "local_lock", "localflock", "logbsize", "logbufs", "lookupcache", "max_batch_time",
    "min_batch_time", "namlen", "nconnect", "noac", "noacl", "noatime", "noattr2", "nobarrier", "noblock_validity", "nocto",
    "nodelalloc", "nodev", "nodiratime", "nodiscard", "noexec", "noflock", "nolazystatfs", "nolock", "noquota", "norecovery",
    "nosuid", "nouser_xattr", "nouuid", "prjquota", "proto", "quota", "relatime", "resvport", "retrans", "retry", "ro", "rsize", "rw",
    "sec", "size", "soft", "softerr", "softreval", "space_cache", "ssd", "strictatime", "stripe", "sunit", "swidth", "sync", "timeo",
    "user_xattr", "usrjquota", "usrquota", "verify", "vers", "wsize", "wsync", "xattr",
))
# fmt: on
_LONGEST_OPTION = 40
_MAX_MOUNTS = 100  # where every user's home is a mount of its own, there may be any number
_FORCED = frozenset((b"emergency_ro", b"shutdown"))
# Filesystems that the kernel makes read-only when their disk fails it.
_LOCAL = frozenset((b"btrfs", b"exfat", b"ext2", b"ext3", b"ext4", b"f2fs", b"jfs", b"nilfs2", b"vfat", b"xfs"))


def storage_rows(host: Host) -> Iterator[Row]:
    """Settings of whole disks that have a queue, and of the filesystems that hold files."""
    base = host.paths.sys("block")
    for name in entries(base):
        if MADE_IN_ADVANCE.match(name) or NVME_PATH.match(name):
            continue
        if sys_number(host, base / name / "size"):
            yield from file_rows(host, base / name, _QUEUE_FILES, name.replace("!", "/"))
    yield from _mount_rows(host)


def _mount_rows(host: Host) -> Iterator[Row]:
    try:
        mounts = read_mounts(host)
    except ReadError:
        return
    for mount in choose(mounts, host.ignored.mounts)[:_MAX_MOUNTS]:
        device = parsing.text(mount.mountpoint)
        yield row("mount.access", access(mount), device)
        yield row("mount.options", f"{parsing.text(mount.fstype)} {options(mount)}", device)


def access(mount: Mount) -> str:
    """``rw``, ``ro``, or ``forced ro``: the kernel made the filesystem read-only by itself.

    Who mounts read-only makes both the mount and the filesystem so; after an error (``errors=remount-ro``) only the
    filesystem is.
    """
    own, shared = mount.options.split(b","), mount.filesystem_options.split(b",")
    if not _FORCED.isdisjoint(shared) or (mount.fstype in _LOCAL and b"ro" in shared and b"rw" in own):
        return "forced ro"
    return "ro" if b"ro" in own or b"ro" in shared else "rw"


def options(mount: Mount) -> str:
    """The known options of a mount and of its filesystem, in order of name; ``defaults`` if there is none."""
    words = set()
    for option in f"{_printable(mount.options)},{_printable(mount.filesystem_options)}".split(","):
        name, _, _ = option.partition("=")
        # Read-only or not is a row of its own.
        if name in _OPTIONS and name not in {"ro", "rw"} and len(option) <= _LONGEST_OPTION:
            words.add(_size(option) if name == "size" else option)
    return ",".join(sorted(words)) or "defaults"


def _size(option: str) -> str:
    """A size in KiB, rounded: a tmpfs may be given a part of the memory, which differs a little from host to host."""
    kib = parsing.number(option.removeprefix("size=").removesuffix("k").encode())
    if kib is None:
        return option
    mib = kib / 1024
    return f"size={round(mib / 1024)}GiB" if mib >= 4096 else f"size={max(1, round(mib / 64)) * 64}MiB"


def _printable(data: bytes) -> str:
    """Text of a list of options, with what is not printable replaced."""
    return "".join(character if character.isprintable() else "?" for character in data.decode("utf-8", "replace"))
