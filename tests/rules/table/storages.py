"""Cases of the alerts about storage and memory."""

from __future__ import annotations

from tests.rules.table.row import HOST, Row, grown, jumped, series, steady, turned

MOUNT = {"mountpoint": "/scratch", "device": "/dev/md0", "fstype": "xfs"}
IMAGE = {"mountpoint": "/snap", "device": "/dev/loop0", "fstype": "squashfs"}
FS = "hwsonde_storage_filesystem"
NVME = "hwsonde_storage_nvme"
WARNING, THROTTLED = f"{NVME}_critical_warning", f"{NVME}_thermal_throttled_seconds_total"
RUNNING, POOL = "hwsonde_storage_md_running", "hwsonde_storage_zfs_pool_state"
EDAC = "hwsonde_memory_edac_errors_total"


def space(where: dict[str, str], available: float, readonly: int) -> dict[str, str]:
    return {
        series(f"{FS}_size_bytes", **where): steady(1000),
        series(f"{FS}_available_bytes", **where): steady(available),
        series(f"{FS}_readonly", **where): steady(readonly),
    }


ROWS = (
    Row(
        "HwsondeStorageFilesystemFull",
        space(MOUNT, 40, 0),
        {**space(MOUNT, 60, 0), **space(IMAGE, 0, 1)},
        {**HOST, **MOUNT},
        "a/n1: /scratch has only 4% of its space or inodes left. Find what fills it.",
        also=(
            {
                series(f"{FS}_inodes", **MOUNT): steady(1000),
                series(f"{FS}_free_inodes", **MOUNT): steady(10),
                series(f"{FS}_readonly", **MOUNT): steady(0),
            },
        ),
    ),
    Row(
        "HwsondeStorageReadOnly",
        {series(f"{FS}_readonly", **MOUNT): turned(0, 1)},
        {series(f"{FS}_readonly", **MOUNT): steady(0), series(f"{FS}_readonly", **IMAGE): steady(1)},
        {**HOST, **MOUNT},
        "a/n1: /scratch became read-only. Read the kernel's log: the file system or its disk has most likely failed.",
    ),
    Row(
        "HwsondeStorageStuck",
        {series(f"{FS}_stuck", **MOUNT): turned(0, 1)},
        {series(f"{FS}_stuck", **MOUNT): "0+0x60 1 0+0x100"},
        {**HOST, **MOUNT},
        "a/n1: /scratch does not answer. See whether its server or disk is reachable.",
    ),
    Row(
        "HwsondeStorageFilesystemErrors",
        {series(f"{FS}_errors_total", device="nvme0n1p2", fstype="ext4", kind="any"): jumped(1)},
        {series(f"{FS}_errors_total", device="nvme0n1p2", fstype="ext4", kind="any"): steady(12)},
        {**HOST, "device": "nvme0n1p2", "fstype": "ext4", "kind": "any"},
        "a/n1: the file system on nvme0n1p2 recorded errors. Check its disk, then the file system itself.",
    ),
    Row(
        "HwsondeStorageNfsTimeouts",
        {series("hwsonde_storage_nfs_timeouts_total", export="filer:/home"): jumped(3)},
        {series("hwsonde_storage_nfs_timeouts_total", export="filer:/home"): steady(3)},
        {**HOST, "export": "filer:/home"},
        "a/n1: the server of filer:/home lets requests time out. Look at the server and at the network to it.",
    ),
    Row(
        "HwsondeStoragePressure",
        {series("hwsonde_storage_pressure_stalled_seconds_total"): grown(36)},
        {series("hwsonde_storage_pressure_stalled_seconds_total"): grown(24)},
        HOST,
        "a/n1: for 60% of the time every task waits for storage. Find the disk that is busy and what uses it.",
    ),
    Row(
        "HwsondeStorageNvmeLost",
        {series(f"{NVME}_live", device="nvme1"): turned(1, 0), series(f"{NVME}_stuck", device="nvme1"): steady(0)},
        {series(f"{NVME}_live", device="nvme1"): steady(1), series(f"{NVME}_stuck", device="nvme1"): steady(0)},
        {**HOST, "device": "nvme1"},
        "a/n1: NVMe drive nvme1 does not answer. Drain the host, look at its kernel log, then reset or replace the drive.",
        also=({series(f"{NVME}_stuck", device="nvme1"): turned(0, 1)},),
    ),
    Row(
        "HwsondeStorageNvmeCritical",
        {series(WARNING, device="nvme1", condition="read_only"): turned(0, 1)},
        {
            series(WARNING, device="nvme1", condition="read_only"): steady(0),
            series(WARNING, device="nvme1", condition="temperature"): steady(1),
        },
        {**HOST, "device": "nvme1", "condition": "read_only"},
        "a/n1: NVMe drive nvme1 warns of itself: read_only. Copy what is needed off it and have it replaced.",
    ),
    Row(
        "HwsondeStorageNvmeHot",
        {series(THROTTLED, device="nvme1", level="warning"): grown(6)},
        {series(THROTTLED, device="nvme1", level="warning"): jumped(60)},
        {**HOST, "device": "nvme1"},
        "a/n1: NVMe drive nvme1 is too hot and slows itself down. Check fans, inlet temperature and its heat sink.",
        also=({series(WARNING, device="nvme1", condition="temperature"): turned(0, 1)},),
    ),
    Row(
        "HwsondeStorageNvmeWorn",
        {series(f"{NVME}_wear_ratio", device="nvme1"): steady(0.95)},
        {series(f"{NVME}_wear_ratio", device="nvme1"): steady(0.85)},
        {**HOST, "device": "nvme1"},
        "a/n1: NVMe drive nvme1 has used 95% of its rated life. Plan its replacement.",
    ),
    Row(
        "HwsondeStorageMediaErrors",
        {series(f"{NVME}_media_errors_total", device="nvme1"): jumped(1)},
        {series(f"{NVME}_media_errors_total", device="nvme1"): steady(5)},
        {**HOST, "device": "nvme1"},
        "a/n1: disk nvme1 loses data or commands. Look at the kernel's log and its health, and have it replaced.",
        also=(
            {series("hwsonde_storage_scsi_timeouts_total", device="sda"): jumped(1)},
            {series("hwsonde_storage_scsi_running", device="sda"): turned(1, 0)},
        ),
    ),
    Row(
        "HwsondeStorageArrayDown",
        {series(RUNNING, device="md0"): turned(1, 0), series(POOL, pool="archive", state="online"): steady(1)},
        {
            series(RUNNING, device="md0"): steady(1),
            series(POOL, pool="archive", state="suspended"): steady(0),
            series(POOL, pool="archive", state="degraded"): steady(1),
        },
        {**HOST, "device": "md0"},
        "a/n1: array md0 does not run. Look at its members before anything is written or rebuilt.",
        also=({series(POOL, pool="archive", state="suspended"): turned(0, 1)},),
    ),
    Row(
        "HwsondeStorageArrayDegraded",
        {series(POOL, pool="archive", state="degraded"): turned(0, 1)},
        {series(POOL, pool="archive", state="degraded"): steady(0), series(POOL, pool="archive", state="online"): steady(1)},
        {**HOST, "pool": "archive", "state": "degraded"},
        "a/n1: array archive has lost a member. Replace the disk: the next one may cost the data.",
        also=({series("hwsonde_storage_md_degraded_devices", device="md0"): turned(0, 1)},),
    ),
    Row(
        "HwsondeMemoryEccUncorrected",
        {series(EDAC, controller="mc0", type="uncorrected"): jumped(1)},
        {series(EDAC, controller="mc0", type="uncorrected"): steady(2), series(EDAC, controller="mc0", type="corrected"): grown(9)},
        {**HOST, "controller": "mc0", "type": "uncorrected"},
        "a/n1: memory controller mc0 had an error that it could not correct. Drain the host and have the module replaced.",
    ),
    Row(
        "HwsondeMemoryEccCorrected",
        {series(EDAC, controller="mc0", type="corrected"): grown(3)},
        {series(EDAC, controller="mc0", type="corrected"): grown(1)},
        {**HOST, "controller": "mc0"},
        "a/n1: memory controller mc0 corrected more than a hundred errors within an hour. Plan the replacement of the module.",
    ),
    Row(
        "HwsondeMemoryPagesOffline",
        {series("hwsonde_memory_hardware_corrupted_bytes"): turned(0, 8192)},
        {series("hwsonde_memory_hardware_corrupted_bytes"): steady(0)},
        HOST,
        "a/n1: 8kiB of memory were taken out of use for hardware faults. Look at the counts of the modules.",
    ),
    Row(
        "HwsondeMemoryOomKills",
        {series("hwsonde_memory_oom_kills_total"): jumped(1)},
        {series("hwsonde_memory_oom_kills_total"): steady(4)},
        HOST,
        "a/n1: the kernel ended processes for want of memory. Read its log for which, and whose limit was met.",
    ),
    Row(
        "HwsondeMemoryPressure",
        {series("hwsonde_memory_pressure_stalled_seconds_total"): grown(12)},
        {series("hwsonde_memory_pressure_stalled_seconds_total"): grown(3)},
        HOST,
        "a/n1: for 20% of the time every task waits for memory. Find what grew.",
    ),
)  # fmt: skip
