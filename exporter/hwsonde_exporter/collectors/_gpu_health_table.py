"""How a GPU is and what it is, as `hwsonde_exporter.nvml.read_health` reads it."""

from __future__ import annotations

from hwsonde_exporter.collectors._gpu_columns import (
    FIELD,
    HOTTEST,
    MOST_MEGAHERTZ,
    MOST_MILLIWATTS,
    PERCENT,
    counter,
    gauge,
)

HEALTH = (
    gauge(
        "fan_speed_ratio",
        "Fan speed over its maximum; absent on passively cooled boards.",
        "nvmlDeviceGetFanSpeed_v2 / 100, nvmlDeviceGetNumFans; else nvmlDeviceGetFanSpeed",
        0, 200, "fan", unit="ratio", scale=PERCENT, subsystem="thermal",
    ),
    counter(
        "ecc_errors_total",
        "ECC errors since the driver was loaded.",
        "nvmlDeviceGetTotalEccErrors(NVML_MEMORY_ERROR_TYPE_CORRECTED or NVML_MEMORY_ERROR_TYPE_UNCORRECTED, NVML_VOLATILE_ECC)",
        "type",
    ),
    counter(
        "ecc_lifetime_errors_total",
        "ECC errors over the life of the board, as its InfoROM keeps them.",
        "nvmlDeviceGetTotalEccErrors(..., NVML_AGGREGATE_ECC)",
        "type",
    ),
    counter(
        "ecc_location_errors_total",
        "ECC errors since the driver was loaded, by memory location.",
        "nvmlDeviceGetMemoryErrorCounter(type, NVML_VOLATILE_ECC, NVML_MEMORY_LOCATION_DRAM, NVML_MEMORY_LOCATION_SRAM and the older ones)",
        "type", "location",
    ),
    gauge("ecc_enabled", "Whether ECC is on (1) or off (0), for the current and the pending state.", "nvmlDeviceGetEccMode", 0, 1, "state"),
    gauge(
        "sram_ecc_threshold_exceeded",
        "Whether the SRAM uncorrectable error threshold was passed (1) or not (0).",
        "nvmlDeviceGetSramEccErrorStatus.bThresholdExceeded",
        0, 1,
    ),
    counter(
        "remapped_rows_total",
        "Memory rows remapped over the life of the board.",
        "nvmlDeviceGetRemappedRows (corrRows, uncRows); NVML_FI_DEV_REMAPPED_COR, NVML_FI_DEV_REMAPPED_UNC",
        "cause",
    ),
    gauge(
        "row_remap_pending",
        "Whether a row remap waits for a GPU reset (1) or not (0).",
        "nvmlDeviceGetRemappedRows isPending; NVML_FI_DEV_REMAPPED_PENDING",
        0, 1,
    ),
    gauge(
        "row_remap_failed",
        "Whether a row remap has failed (1) or not (0).",
        "nvmlDeviceGetRemappedRows failureOccurred; NVML_FI_DEV_REMAPPED_FAILURE",
        0, 1,
    ),
    gauge(
        "row_remap_banks",
        "Memory banks by how many spare rows they have left.",
        "nvmlDeviceGetRowRemapperHistogram (max, high, partial, low, none)",
        0, 1 << 20, "availability",
    ),
    gauge(
        "retired_pages",
        "Memory pages retired (boards before Ampere).",
        "len(nvmlDeviceGetRetiredPages_v2(handle, NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS or _DOUBLE_BIT_ECC_ERROR))",
        0, 4096, "cause",
    ),
    gauge(
        "retired_pages_pending",
        "Whether a page retirement waits for a reboot (1) or not (0).",
        "nvmlDeviceGetRetiredPagesPendingStatus",
        0, 1,
    ),
    gauge(
        "recovery_action",
        "Recovery the driver asks for: 0 none, 1 GPU reset, 2 node reboot, 3 drain P2P, 4 drain and reset, 5 recover IMEX domain, 6 bus reset, "
        "7 system reboot.",
        f"{FIELD}GET_GPU_RECOVERY_ACTION",
        0, 31,
    ),
    gauge(
        "fabric_state",
        "NVLink fabric registration: 0 not supported, 1 not started, 2 in progress, 3 completed.",
        "nvmlDeviceGetGpuFabricInfoV.state",
        0, 3,
    ),
    gauge(
        "fabric_status",
        "Error with which the registration in the NVLink fabric was completed, as NVML numbers it; 0 is success.",
        "nvmlDeviceGetGpuFabricInfoV.status",
        0, 999,
    ),
    gauge(
        "fabric_degraded",
        "Whether an aspect of NVLink fabric health is degraded (1) or not (0).",
        "nvmlDeviceGetGpuFabricInfoV.healthMask (degraded bandwidth, route recovery, route unhealthy, access timeout, configuration)",
        0, 1, "aspect",
    ),
    counter(
        "c2c_errors_total",
        "Chip-to-chip link errors (Grace Hopper and later).",
        f"{FIELD}C2C_LINK_ERROR_INTR, _REPLAY, _REPLAY_B2B (scope=link, up to NVML_FI_DEV_C2C_LINK_COUNT)",
        "link", "error",
    ),
    gauge(
        "pcie_throughput_bytes_per_second",
        "PCIe throughput over the driver's 20 ms window; only where the byte counters are missing.",
        "nvmlDeviceGetPcieThroughput(NVML_PCIE_UTIL_TX_BYTES, NVML_PCIE_UTIL_RX_BYTES) x 1000; blocks about 20 ms a call",
        0, 1 << 30, "direction", unit="bytes_per_second", scale=1000, subsystem="pcie",
    ),
)  # fmt: skip

IDENTITY = (
    gauge(
        "info",
        "Constant 1 labelled with the identity of a GPU; join the other GPU series to it on uuid.",
        "nvmlDeviceGetName, nvmlDeviceGetUUID, nvmlDeviceGetPciInfo, nvmlDeviceGetSerial, nvmlDeviceGetVbiosVersion, "
        "nvmlDeviceGetArchitecture, nvmlDeviceGetCudaComputeCapability, nvmlDeviceGetNumaNodeId, else /sys/bus/pci/devices/ADDRESS/numa_node",
        1, 1, "name", "pci_bus_id", "serial", "vbios_version", "architecture", "compute_capability", "numa_node",
    ),
    gauge(
        "firmware_info",
        "Constant 1 labelled with the versions of the firmware on a GPU and with its part number.",
        "nvmlDeviceGetInforomImageVersion, nvmlDeviceGetGspFirmwareVersion, nvmlDeviceGetBoardPartNumber",
        1, 1, "inforom_version", "gsp_version", "board_part_number",
    ),
    gauge(
        "clock_max_hertz",
        "Highest clock of a domain.",
        "nvmlDeviceGetMaxClockInfo x 1e6",
        1, MOST_MEGAHERTZ, "domain", unit="hertz", scale=1e6,
    ),
    gauge(
        "application_clock_hertz",
        "Clock that applications are given where power and heat allow it.",
        "nvmlDeviceGetApplicationsClock x 1e6",
        1, MOST_MEGAHERTZ, "domain", unit="hertz", scale=1e6,
    ),
    gauge(
        "power_limit_watts",
        "Power limit of the GPU; limit is enforced, requested, default, min or max.",
        "nvmlDeviceGetEnforcedPowerLimit, nvmlDeviceGetPowerManagementLimit, nvmlDeviceGetPowerManagementDefaultLimit, "
        "nvmlDeviceGetPowerManagementLimitConstraints / 1000",
        1, MOST_MILLIWATTS, "limit", unit="watts", scale=1e-3, subsystem="power",
    ),
    gauge(
        "temperature_threshold_celsius",
        "Temperature threshold of the GPU.",
        "nvmlDeviceGetTemperatureThreshold(NVML_TEMPERATURE_THRESHOLD_SHUTDOWN, _SLOWDOWN, _MEM_MAX, _GPU_MAX)",
        1, HOTTEST, "threshold", unit="celsius", subsystem="thermal",
    ),
    gauge(
        "temperature_threshold_margin_celsius",
        "Threshold of the GPU on the scale of its temperature margin: it is reached where the margin falls to this.",
        f"{FIELD}TEMPERATURE_SHUTDOWN_TLIMIT, _SLOWDOWN_TLIMIT, _MEM_MAX_TLIMIT, _GPU_MAX_TLIMIT",
        -HOTTEST, HOTTEST, "threshold", unit="celsius", subsystem="thermal",
    ),
    gauge(
        "pcie_link_max_generation",
        "Highest PCIe generation of GPU and slot together.",
        "nvmlDeviceGetMaxPcieLinkGeneration",
        1, 8, subsystem="pcie",
    ),
    gauge(
        "pcie_link_max_width_lanes",
        "PCIe lanes GPU and slot could use.",
        "nvmlDeviceGetMaxPcieLinkWidth",
        1, 32, unit="lanes", subsystem="pcie",
    ),
    gauge("persistence_mode_enabled", "Whether persistence mode is on (1) or off (0).", "nvmlDeviceGetPersistenceMode", 0, 1),
    gauge("compute_mode", "Compute mode: 0 default, 2 prohibited, 3 exclusive process.", "nvmlDeviceGetComputeMode", 0, 3),
)  # fmt: skip
