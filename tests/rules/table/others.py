"""Cases of the alerts on the names of other exporters."""

from __future__ import annotations

from tests.rules.table.row import Row, grown, jumped, series, steady, turned

NODE = {"job": "node-exporter", "instance": "n1:9100", "cluster": "a", "node": "n1"}
DCGM_JOB = {"job": "dcgm-exporter", "instance": "10.0.0.1:9400", "cluster": "a", "Hostname": "n1"}
GPU = {"gpu": "3", "UUID": "GPU-3"}
SMI_JOB = {"job": "nvidia_gpu_exporter", "instance": "n1:9835", "cluster": "a", "node": "n1"}
MOUNT = {"mountpoint": "/scratch", "device": "/dev/md0", "fstype": "xfs"}
PORT = {"device": "mlx5_0", "port": "1"}
SENSOR = {"chip": "platform_coretemp_0", "sensor": "temp1"}
EXPORT = {"export": "filer:/home", "operation": "READ", "mountaddr": "1.2.3.4", "protocol": "tcp"}


def dcgm(field: str, **labels: str) -> str:
    return series(f"DCGM_FI_DEV_{field}", DCGM_JOB, **GPU, **labels)


def smi(name: str) -> str:
    return series(f"nvidia_smi_{name}", SMI_JOB, uuid="GPU-3")


def node(name: str, **labels: str) -> str:
    return series(f"node_{name}", NODE, **labels)


def space(available: int, readonly: int) -> dict[str, str]:
    return {
        node("filesystem_size_bytes", **MOUNT): steady(1000),
        node("filesystem_avail_bytes", **MOUNT): steady(available),
        node("filesystem_readonly", **MOUNT): steady(readonly),
    }


def both(name: str, bad: str, good: str) -> tuple[dict[str, str], dict[str, str]]:
    return {name: bad}, {name: good}


# A job that began and ended: the same GPU with another pod's labels, and an error that is long past.
OLD_XID = {
    dcgm("XID_ERRORS", pod="before"): "79+0x100 stale",
    dcgm("XID_ERRORS", pod="after"): "_x100 79+0x140",
    dcgm("XID_ERRORS").replace("GPU-3", "GPU-4"): turned(0, 31),
}
ROWS = (
    Row(
        "HwsondeGpuXid",
        {dcgm("XID_ERRORS"): "0+0x90 79+0x150"},
        OLD_XID,
        # A GPU that had no error before has no series before.
        also=({series("up", DCGM_JOB): steady(1), dcgm("XID_ERRORS"): "_x90 79+0x150"},),
    ),
    Row(
        "HwsondeGpuLost",
        {series("up", DCGM_JOB): steady(1), dcgm("GPU_TEMP"): "40+0x60 stale"},
        {
            series("up", DCGM_JOB): steady(1),
            dcgm("GPU_TEMP", pod="x"): "40+0x60 stale",
            dcgm("GPU_TEMP", pod="y"): "_x60 40+0x180",
        },
    ),
    Row(
        "HwsondeGpuMemoryFailed",
        *both(dcgm("ROW_REMAP_FAILURE"), turned(0, 1), steady(0)),
        also=(
            {smi("remapped_rows_failure"): turned(0, 1)},
            {smi("ecc_errors_uncorrected_aggregate_sram_threshold_exceeded"): turned(0, 1)},
        ),
    ),
    Row(
        "HwsondeGpuResetNeeded",
        *both(smi("remapped_rows_pending"), turned(0, 1), steady(0)),
        also=(
            {dcgm("RETIRED_PENDING"): turned(0, 1)},
            {smi("retired_pages_pending"): turned(0, 1)},
            {smi("gpu_recovery_action"): turned(0, 1)},
        ),
    ),
    Row(
        "HwsondeGpuEccUncorrected",
        *both(dcgm("ECC_DBE_VOL_TOTAL"), jumped(1), steady(1)),
        also=({smi("ecc_errors_uncorrected_volatile_total"): jumped(1)},),
    ),
    Row(
        "HwsondeGpuEccCorrected",
        *both(smi("ecc_errors_corrected_volatile_total"), grown(3), grown(1)),
        also=({dcgm("ECC_SBE_VOL_TOTAL"): grown(3)},),
    ),
    Row("HwsondeGpuSpareRowsGone", *both(smi("remapped_rows_histogram_none"), turned(0, 1), steady(0))),
    Row(
        "HwsondeGpuNvlinkErrors",
        *both(dcgm("NVLINK_REPLAY_ERROR_COUNT_TOTAL"), grown(1), grown(0.1)),
        also=(
            {dcgm("NVLINK_RECOVERY_ERROR_COUNT_TOTAL"): grown(1)},
            {dcgm("NVLINK_CRC_DATA_ERROR_COUNT_TOTAL"): grown(1)},
        ),
    ),
    Row(
        "HwsondeGpuPcieDegraded",
        {smi("pcie_link_width_current"): turned(16, 8), smi("pcie_link_width_max"): steady(16)},
        {smi("pcie_link_width_current"): steady(8), smi("pcie_link_width_max"): steady(8)},
    ),
    Row("HwsondeGpuPcieErrors", *both(dcgm("PCIE_REPLAY_COUNTER"), grown(12), grown(4))),
    Row(
        "HwsondeGpuThrottled",
        *both(dcgm("THERMAL_VIOLATION"), grown(6e9), grown(6e8)),
        also=(
            {smi("clocks_event_reasons_hw_thermal_slowdown"): turned(0, 1)},
            {smi("clocks_event_reasons_hw_power_brake_slowdown"): turned(0, 1)},
            {smi("clocks_event_reasons_hw_slowdown"): turned(0, 1)},
        ),
    ),
    Row("HwsondeGpuFabricNotReady", *both(smi("fabric_state"), turned(3, 2), steady(3))),
    Row("HwsondeNetworkRdmaDown", *both(node("infiniband_state_id", **PORT), turned(4, 1), steady(1))),
    Row(
        "HwsondeNetworkDown",
        {node("network_up", device="eth0"): turned(1, 0)},
        {node("network_up", device="veth12ab"): turned(1, 0), node("network_up", device="eth0"): steady(0)},
    ),
    Row(
        "HwsondeNetworkLinkFlapping",
        *both(node("infiniband_link_downed_total", **PORT), jumped(2), jumped(1)),
        also=({node("network_carrier_changes_total", device="eth0"): jumped(4)},),
    ),
    Row(
        "HwsondeNetworkLinkSlow",
        *both(node("infiniband_rate_bytes_per_second", **PORT), turned(50e9, 25e9), turned(25e9, 50e9)),
        also=({node("network_speed_bytes", device="eth0"): turned(50e9, 25e9)},),
    ),
    Row(
        "HwsondeNetworkBondDegraded",
        {node("bonding_slaves", master="bond0"): steady(2), node("bonding_active", master="bond0"): turned(2, 1)},
        {node("bonding_slaves", master="bond0"): steady(2), node("bonding_active", master="bond0"): steady(2)},
    ),
    Row(
        "HwsondeNetworkCableErrors",
        *both(node("infiniband_symbol_error_total", **PORT), grown(10), grown(1)),
        also=(
            {node("infiniband_local_link_integrity_errors_total", **PORT): grown(10)},
            {node("network_receive_frame_total", device="eth0"): grown(10)},
        ),
    ),
    Row(
        "HwsondeNetworkRetransmits",
        {node("netstat_Tcp_RetransSegs"): grown(1800), node("netstat_Tcp_OutSegs"): grown(60_000)},
        {node("netstat_Tcp_RetransSegs"): grown(300), node("netstat_Tcp_OutSegs"): grown(60_000)},
    ),
    Row(
        "HwsondeStorageFilesystemFull",
        space(40, 0),
        space(40, 1),
        also=(
            {
                node("filesystem_files", **MOUNT): steady(1000),
                node("filesystem_files_free", **MOUNT): steady(10),
                node("filesystem_readonly", **MOUNT): steady(0),
            },
        ),
    ),
    Row("HwsondeStorageReadOnly", *both(node("filesystem_readonly", **MOUNT), turned(0, 1), steady(1))),
    Row("HwsondeStorageStuck", *both(node("filesystem_device_error", **MOUNT), turned(0, 1), steady(1))),
    Row(
        "HwsondeStorageNfsTimeouts",
        *both(node("mountstats_nfs_operations_major_timeouts_total", **EXPORT), jumped(3), steady(3)),
    ),
    Row("HwsondeStoragePressure", *both(node("pressure_io_stalled_seconds_total"), grown(36), grown(24))),
    Row(
        "HwsondeStorageArrayDown",
        {node("md_state", device="md0", state="inactive"): turned(0, 1)},
        # A container of IMSM never runs.
        {
            node("md_state", device="md0", state="inactive"): steady(0),
            node("md_state", device="md127", state="inactive"): steady(1),
        },
        also=({node("zfs_zpool_state", zpool="archive", state="suspended"): turned(0, 1)},),
    ),
    Row(
        "HwsondeStorageArrayDegraded",
        {
            node("md_disks_required", device="md0"): steady(2),
            node("md_disks", device="md0", state="active"): turned(2, 1),
        },
        {node("md_disks_required", device="md0"): steady(2), node("md_disks", device="md0", state="active"): steady(2)},
        also=({node("zfs_zpool_state", zpool="archive", state="degraded"): turned(0, 1)},),
    ),
    Row("HwsondeExporterDown", *both(series("up", NODE), turned(1, 0), "1+0x60 0 1+0x200")),
    Row(
        "HwsondeMemoryEccUncorrected",
        *both(node("edac_uncorrectable_errors_total", controller="0"), jumped(1), steady(1)),
    ),
    Row("HwsondeMemoryEccCorrected", *both(node("edac_correctable_errors_total", controller="0"), grown(3), grown(1))),
    Row("HwsondeMemoryOomKills", *both(node("vmstat_oom_kill"), jumped(1), steady(1))),
    Row("HwsondeMemoryPressure", *both(node("pressure_memory_stalled_seconds_total"), grown(12), grown(3))),
    Row(
        "HwsondeThermalAlarm",
        *both(node("hwmon_temp_alarm", **SENSOR), turned(0, 1), steady(0)),
        also=(
            {
                node("hwmon_temp_celsius", **SENSOR): turned(60, 101),
                node("hwmon_temp_crit_celsius", **SENSOR): steady(100),
            },
            {node("hwmon_fan_alarm", **SENSOR): turned(0, 1)},
        ),
    ),
    Row("HwsondeClockUnsynchronized", *both(node("timex_sync_status"), turned(1, 0), steady(1))),
    Row("HwsondeClockOffset", *both(node("timex_offset_seconds"), turned(0, -0.25), steady(0.01))),
)
