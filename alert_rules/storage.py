"""Alerts about file systems, disks and arrays. No input, no output."""

from __future__ import annotations

from alert_rules.timing import Timing
from alert_rules.wording import words
from alert_rules.writing import CRITICAL, WARNING, Rule, Writer, record, was

SPACE = "filesystem:hwsonde_storage_filesystem_available_bytes:ratio"
INODES = "filesystem:hwsonde_storage_filesystem_free_inodes:ratio"
STALLED = "entity:hwsonde_storage_pressure_stalled_seconds:rate5m"

_MOUNT = "{{ $labels.mountpoint }}"
_DEVICE = "{{ $labels.device }}"
_ARRAY = "{{ or $labels.device $labels.pool }}"


def recording_rules() -> list[Rule]:
    """Shares and rates that alerts and boards look at."""
    name = "hwsonde_storage_filesystem"
    return [
        record(SPACE, f"{name}_available_bytes / ({name}_size_bytes > 0)"),
        record(INODES, f"{name}_free_inodes / ({name}_inodes > 0)"),
        record(STALLED, "rate(hwsonde_storage_pressure_stalled_seconds_total[5m])"),
    ]


def _filesystems(timing: Timing, writer: Writer) -> list[Rule]:
    """File systems that are full, cannot be written or do not answer."""
    readonly = "hwsonde_storage_filesystem_readonly"
    return [
        writer.alert(
            "HwsondeStorageFilesystemFull",
            WARNING,
            f"({SPACE} < 0.05 and {readonly} == 0)\nor\n({INODES} < 0.05 and {readonly} == 0)\n",
            words(
                "storage",
                f"{_MOUNT} has only {{{{ $value | humanizePercentage }}}} of its space or inodes left. Find what fills it.",
                "Checkpoints, logs and caches of jobs are about to fail. A nearly full file system is also slower.",
            ),
            wait=timing.state,
        ),
        writer.alert(
            "HwsondeStorageReadOnly",
            CRITICAL,
            f"{readonly} == 1\nand\n{was(readonly, 0)}\n",
            words(
                "storage",
                f"{_MOUNT} became read-only. Read the kernel's log: the file system or its disk has most likely failed.",
                "The kernel stops all writing to a file system whose errors it cannot mend. Jobs that write there fail.",
            ),
            wait=timing.state,
        ),
        writer.alert(
            "HwsondeStorageStuck",
            CRITICAL,
            "hwsonde_storage_filesystem_stuck == 1",
            words(
                "storage",
                f"{_MOUNT} does not answer. See whether its server or disk is reachable.",
                "A question for its size hangs or fails. Processes that touch it hang too and cannot be ended.",
            ),
            wait=timing.state,
        ),
    ]


def _waiting(timing: Timing, writer: Writer) -> list[Rule]:
    """Errors of file systems and servers, and tasks that wait for them."""
    return [
        writer.alert(
            "HwsondeStorageFilesystemErrors",
            WARNING,
            "increase(hwsonde_storage_filesystem_errors_total[1h]) > 0",
            words(
                "storage",
                f"the file system on {_DEVICE} recorded errors. Check its disk, then the file system itself.",
                "Its structures are damaged or could not be read. The next error may make it read-only.",
            ),
        ),
        writer.alert(
            "HwsondeStorageNfsTimeouts",
            WARNING,
            "increase(hwsonde_storage_nfs_timeouts_total[15m]) > 0",
            words(
                "storage",
                "the server of {{ $labels.export }} lets requests time out. Look at the server and at the network to it.",
                "Each time-out is a minute in which a process waited for nothing. Jobs that load data from there stand still.",
            ),
        ),
        writer.alert(
            "HwsondeStoragePressure",
            WARNING,
            f"{STALLED} > 0.5",
            words(
                "storage",
                "for {{ $value | humanizePercentage }} of the time every task waits for storage. Find the disk that is busy and what uses it.",
                "Nothing on this host makes progress while all of its tasks wait for storage.",
            ),
            wait=timing.lasting,
        ),
    ]


def _drives(timing: Timing, writer: Writer) -> list[Rule]:
    """NVMe drives, by what they say of themselves."""
    name = "hwsonde_storage_nvme"
    return [
        writer.alert(
            "HwsondeStorageNvmeLost",
            CRITICAL,
            f"{name}_live == 0\nor\n{name}_stuck == 1\n",
            words(
                "storage",
                f"NVMe drive {_DEVICE} does not answer. Drain the host, look at its kernel log, then reset or replace the drive.",
                "Its controller is not live any more, or leaves questions for its health unanswered.",
            ),
            wait=timing.state,
        ),
        writer.alert(
            "HwsondeStorageNvmeCritical",
            CRITICAL,
            f'{name}_critical_warning{{condition!="temperature"}} == 1',
            words(
                "storage",
                f"NVMe drive {_DEVICE} warns of itself: {{{{ $labels.condition }}}}. Copy what is needed off it and have it replaced.",
                "The drive says that it cannot be relied on any more.",
            ),
            wait=timing.state,
        ),
        writer.alert(
            "HwsondeStorageNvmeHot",
            WARNING,
            f'{name}_critical_warning{{condition="temperature"}} == 1\nor\n'
            f"sum without (level) (increase({name}_thermal_throttled_seconds_total[1h])) > 90\n",
            words(
                "storage",
                f"NVMe drive {_DEVICE} is too hot and slows itself down. Check fans, inlet temperature and its heat sink.",
                "It was above its temperature limit. Reading and writing are slower, and heat shortens its life.",
            ),
            wait=timing.state,
        ),
        writer.alert(
            "HwsondeStorageNvmeWorn",
            WARNING,
            f"{name}_wear_ratio > 0.9",
            words(
                "storage",
                f"NVMe drive {_DEVICE} has used {{{{ $value | humanizePercentage }}}} of its rated life. Plan its replacement.",
                "The drive has written most of what it is built for. It works on, with less and less in reserve.",
            ),
            wait=timing.state,
        ),
    ]


def _media(timing: Timing, writer: Writer) -> list[Rule]:
    """Disks that lose data, and arrays that lost a disk."""
    return [
        writer.alert(
            "HwsondeStorageMediaErrors",
            WARNING,
            "increase(hwsonde_storage_nvme_media_errors_total[1h]) > 0\nor\n"
            "increase(hwsonde_storage_scsi_timeouts_total[1h]) > 0\nor\nhwsonde_storage_scsi_running == 0\n",
            words(
                "storage",
                f"disk {_DEVICE} loses data or commands. Look at the kernel's log and its health, and have it replaced.",
                "It could not read back what was written, let commands time out, or was taken offline by the kernel.",
            ),
        ),
        writer.alert(
            "HwsondeStorageArrayDown",
            CRITICAL,
            'hwsonde_storage_md_running == 0\nor\nhwsonde_storage_zfs_pool_state{state=~"faulted|suspended|unavail"} == 1\n',
            words(
                "storage",
                f"array {_ARRAY} does not run. Look at its members before anything is written or rebuilt.",
                "Too many of its members are gone, so what lies on it cannot be had.",
            ),
            wait=timing.state,
        ),
        writer.alert(
            "HwsondeStorageArrayDegraded",
            WARNING,
            'hwsonde_storage_md_degraded_devices > 0\nor\nhwsonde_storage_zfs_pool_state{state="degraded"} == 1\n',
            words(
                "storage",
                f"array {_ARRAY} has lost a member. Replace the disk: the next one may cost the data.",
                "The array still works, slower and with less or no redundancy.",
            ),
            wait=timing.state,
        ),
    ]


def rules(timing: Timing, writer: Writer) -> list[Rule]:
    """Every rule of the group."""
    parts = (_filesystems, _waiting, _drives, _media)
    return [*recording_rules(), *(rule for part in parts for rule in part(timing, writer))]
