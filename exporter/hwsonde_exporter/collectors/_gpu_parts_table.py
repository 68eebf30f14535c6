"""Links, users and parts of a GPU, as `hwsonde_exporter.nvml.read_nvlink` and `read_parts` read them."""

from __future__ import annotations

from hwsonde_exporter.collectors._gpu_columns import FIELD, MOST_BYTES, PERCENT, active, counter, gauge

NVLINK = (
    counter(
        "nvlink_bytes_total",
        "Payload bytes over an NVLink.",
        "nvmlDeviceGetFieldValues (NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX, _RX, scope=link) KiB x 1024; NVLink 5: "
        "NVML_FI_DEV_NVLINK_COUNT_XMIT_BYTES, NVML_FI_DEV_NVLINK_COUNT_RCV_BYTES",
        "link", "direction", unit="bytes",
    ),
)  # fmt: skip

NVLINK_HEALTH = (
    gauge("nvlink_up", "Whether an NVLink is active (1) or not (0).", "nvmlDeviceGetNvLinkState", 0, 1, "link"),
    counter(
        "nvlink_errors_total",
        "NVLink errors, by kind.",
        "nvmlDeviceGetNvLinkErrorCounter(NVML_NVLINK_ERROR_DL_REPLAY, _RECOVERY, _CRC_FLIT, _CRC_DATA); NVLink 5: "
        "NVML_FI_DEV_NVLINK_COUNT_MALFORMED_PACKET_ERRORS and its like",
        "link", "error",
    ),
    counter(
        "nvlink_packets_total",
        "Packets over an NVLink.",
        f"{FIELD}NVLINK_COUNT_XMIT_PACKETS, NVML_FI_DEV_NVLINK_COUNT_RCV_PACKETS (NVLink 5)",
        "link", "direction",
    ),
    gauge(
        "nvlink_speed_bytes_per_second",
        "Line rate of an NVLink.",
        "nvmlDeviceGetFieldValues (NVML_FI_DEV_NVLINK_GET_SPEED, scope=link) MB/s x 1e6",
        1, 10_000_000, "link", unit="bytes_per_second", scale=1e6,
    ),
    gauge(
        "nvlink_bit_error_ratio",
        "Bit error ratio of an NVLink as the hardware computes it.",
        f"{FIELD}NVLINK_COUNT_EFFECTIVE_BER, NVML_FI_DEV_NVLINK_COUNT_SYMBOL_BER (NVLink 5; mantissa and exponent packed in the value)",
        0, 1, "link", "kind", unit="ratio",
    ),
    gauge(
        "nvlink_remote_info",
        "Constant 1 labelled with what an NVLink is wired to.",
        "nvmlDeviceGetNvLinkRemoteDeviceType, nvmlDeviceGetNvLinkRemotePciInfo",
        1, 1, "link", "remote_type", "remote_pci_bus_id",
    ),
)  # fmt: skip

PROCESSES = (
    gauge(
        "processes",
        "Processes with a context on the GPU.",
        "len of nvmlDeviceGetComputeRunningProcesses_v3, nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlDeviceGetMPSComputeRunningProcesses_v3",
        0, 1 << 16, "type",
    ),
    gauge(
        "process_memory_bytes",
        "Device memory a process uses.",
        "nvmlDeviceGetComputeRunningProcesses_v3 usedGpuMemory; absent when None",
        0, MOST_BYTES, "pid", unit="bytes",
    ),
    gauge(
        "process_sm_utilization_ratio",
        "Share of the sample period the process had kernels running; absent on MIG-enabled GPUs.",
        "nvmlDeviceGetProcessesUtilizationInfo (R550 or later), else nvmlDeviceGetProcessUtilization smUtil / 100, values above 100 dropped",
        0, 100, "pid", unit="ratio", scale=PERCENT,
    ),
    gauge(
        "process_memory_busy_ratio",
        "Share of the sample period the process kept device memory busy.",
        "nvmlDeviceGetProcessesUtilizationInfo, else nvmlDeviceGetProcessUtilization memUtil / 100",
        0, 100, "pid", unit="ratio", scale=PERCENT,
    ),
)  # fmt: skip

MIG = (
    gauge("mig_enabled", "Whether MIG is on (1) or off (0).", "nvmlDeviceGetMigMode (current, pending)", 0, 1, "state"),
    gauge(
        "mig_info",
        "Constant 1 labelled with the identity of a MIG device.",
        "nvmlDeviceGetMigDeviceHandleByIndex, nvmlDeviceGetGpuInstanceId, nvmlDeviceGetComputeInstanceId, nvmlDeviceGetName",
        1, 1, "mig_uuid", "gpu_instance", "compute_instance", "profile",
    ),
    gauge(
        "mig_multiprocessors",
        "Streaming multiprocessors of a MIG GPU instance.",
        "nvmlDeviceGetAttributes_v2 on the MIG handle, once per GPU instance",
        1, 1024, "gpu_instance",
    ),
    gauge(
        "mig_memory_size_bytes",
        "Memory of a MIG GPU instance.",
        "nvmlDeviceGetMemoryInfo on the MIG handle, once per GPU instance",
        1, MOST_BYTES, "gpu_instance", unit="bytes",
    ),
    gauge(
        "mig_memory_used_bytes",
        "Memory used in a MIG GPU instance.",
        "nvmlDeviceGetMemoryInfo on the MIG handle, once per GPU instance",
        0, MOST_BYTES, "gpu_instance", unit="bytes",
    ),
    active(
        "mig_sm_active_ratio",
        "Share of cycles the instance's multiprocessors had a warp.",
        "nvmlGpmMigSampleGet and nvmlGpmMetricsGet NVML_GPM_METRIC_SM_UTIL",
        "gpu_instance",
    ),
)  # fmt: skip
