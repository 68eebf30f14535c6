"""What a GPU is doing, as `hwsonde_exporter.nvml.read_state` and `read_gpm` read it."""

from __future__ import annotations

from hwsonde_exporter.collectors._gpu_columns import (
    FIELD,
    HOTTEST,
    MOST_BYTES,
    MOST_MEGAHERTZ,
    MOST_MILLIWATTS,
    PERCENT,
    active,
    counter,
    gauge,
)

_GPM = "nvmlGpmMetricsGet NVML_GPM_METRIC_"

STATE = (
    gauge(
        "utilization_ratio",
        "Share of the driver's last sample period in which at least one kernel ran; says nothing of how full the GPU was.",
        "nvmlDeviceGetUtilizationRates gpu / 100; absent on MIG-enabled GPUs",
        0, 100, unit="ratio", scale=PERCENT,
    ),
    gauge(
        "memory_busy_ratio",
        "Share of the driver's last sample period in which device memory was read or written.",
        "nvmlDeviceGetUtilizationRates memory / 100",
        0, 100, unit="ratio", scale=PERCENT,
    ),
    gauge(
        "engine_utilization_ratio",
        "Share of the driver's last sample period in which a media engine was busy.",
        "nvmlDeviceGetEncoderUtilization, nvmlDeviceGetDecoderUtilization, nvmlDeviceGetJpgUtilization, nvmlDeviceGetOfaUtilization / 100",
        0, 100, "engine", unit="ratio", scale=PERCENT,
    ),
    active(
        "graphics_active_ratio",
        "Share of the collection window in which any compute or graphics work was on the GPU, by hardware counters.",
        f"{_GPM}GRAPHICS_UTIL (Hopper or later)",
    ),
    active(
        "sm_active_ratio",
        "Share of cycles a streaming multiprocessor had at least one warp, averaged over the collection window.",
        f"{_GPM}SM_UTIL over the last window (nvmlGpmQueryDeviceSupport; Hopper or later)",
    ),
    active(
        "sm_occupancy_ratio",
        "Resident warps over the theoretical maximum, averaged over the collection window.",
        f"{_GPM}SM_OCCUPANCY",
    ),
    active(
        "tensor_active_ratio",
        "Share of cycles any tensor pipe was active in the collection window.",
        f"{_GPM}ANY_TENSOR_UTIL",
    ),
    active(
        "dram_active_ratio",
        "Device memory bandwidth used over the theoretical maximum in the collection window.",
        f"{_GPM}DRAM_BW_UTIL",
    ),
    active(
        "pipe_active_ratio",
        "Share of cycles a math pipe was active in the collection window.",
        f"{_GPM}FP16_UTIL, FP32_UTIL, FP64_UTIL, INTEGER_UTIL, HMMA_TENSOR_UTIL, IMMA_TENSOR_UTIL, DFMA_TENSOR_UTIL",
        "pipe",
    ),
    gauge(
        "memory_size_bytes",
        "Device memory installed.",
        "nvmlDeviceGetMemoryInfo(handle, version=nvmlMemory_v2).total",
        1, MOST_BYTES, unit="bytes",
    ),
    gauge(
        "memory_used_bytes",
        "Device memory allocated by contexts.",
        "nvmlDeviceGetMemoryInfo(handle, version=nvmlMemory_v2).used",
        0, MOST_BYTES, unit="bytes",
    ),
    gauge(
        "memory_free_bytes",
        "Device memory not allocated.",
        "nvmlDeviceGetMemoryInfo(handle, version=nvmlMemory_v2).free",
        0, MOST_BYTES, unit="bytes",
    ),
    gauge(
        "memory_reserved_bytes",
        "Device memory reserved by the driver and firmware.",
        "nvmlDeviceGetMemoryInfo(handle, version=nvmlMemory_v2).reserved",
        0, MOST_BYTES, unit="bytes",
    ),
    gauge(
        "bar1_memory_size_bytes",
        "Size of the BAR1 aperture.",
        "nvmlDeviceGetBAR1MemoryInfo.bar1Total",
        1, MOST_BYTES, unit="bytes",
    ),
    gauge(
        "bar1_memory_used_bytes",
        "BAR1 aperture in use, for example by GPUDirect RDMA.",
        "nvmlDeviceGetBAR1MemoryInfo.bar1Used",
        0, MOST_BYTES, unit="bytes",
    ),
    gauge(
        "clock_hertz",
        "Current clock of a domain.",
        "nvmlDeviceGetClockInfo(NVML_CLOCK_GRAPHICS, NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_CLOCK_VIDEO) x 1e6",
        0, MOST_MEGAHERTZ, "domain", unit="hertz", scale=1e6,
    ),
    gauge(
        "performance_state",
        "Performance state, 0 (fastest) to 15.",
        "nvmlDeviceGetPerformanceState; 32 (unknown) is not exported",
        0, 15,
    ),
    gauge(
        "temperature_celsius",
        "Temperature of the GPU die or of its memory.",
        f"nvmlDeviceGetTemperatureV(NVML_TEMPERATURE_GPU), else nvmlDeviceGetTemperature; {FIELD}MEMORY_TEMP",
        1, HOTTEST, "sensor", unit="celsius", subsystem="thermal",
    ),
    gauge(
        "temperature_margin_celsius",
        "Degrees left before the nearest slowdown threshold.",
        "nvmlDeviceGetMarginTemperature",
        -HOTTEST, HOTTEST, unit="celsius", subsystem="thermal",
    ),
    gauge(
        "power_watts",
        "Instantaneous power draw.",
        "nvmlDeviceGetFieldValues (NVML_FI_DEV_POWER_INSTANT, scope NVML_POWER_SCOPE_GPU, _MODULE, _MEMORY) / 1000",
        1, MOST_MILLIWATTS, "scope", unit="watts", scale=1e-3, subsystem="power",
    ),
    gauge(
        "power_average_watts",
        "Power draw averaged by the driver over about one second.",
        f"{FIELD}POWER_AVERAGE / 1000, else nvmlDeviceGetPowerUsage / 1000",
        1, MOST_MILLIWATTS, unit="watts", scale=1e-3, subsystem="power",
    ),
    counter(
        "energy_joules_total",
        "Energy used since the driver was loaded.",
        "nvmlDeviceGetTotalEnergyConsumption / 1000 (Volta or later)",
        unit="joules", scale=1e-3, subsystem="power",
    ),
    gauge(
        "clocks_event_active",
        "Whether a reason that holds the clocks down is active (1) or not (0).",
        "nvmlDeviceGetCurrentClocksEventReasons bits, else nvmlDeviceGetCurrentClocksThrottleReasons",
        0, 1, "reason",
    ),
    counter(
        "throttled_seconds_total",
        "Seconds the clocks were held down, by reason.",
        f"{FIELD}PERF_POLICY_POWER, _THERMAL, _SYNC_BOOST, _BOARD_LIMIT, _LOW_UTILIZATION, _RELIABILITY, "
        "NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN, _HW_THERM_SLOWDOWN, _HW_POWER_BRAKE_SLOWDOWN (ns) / 1e9",
        "reason", unit="seconds", scale=1e-9,
    ),
    gauge(
        "pcie_link_generation",
        "PCIe generation the link runs at now; drops when the GPU idles.",
        "nvmlDeviceGetCurrPcieLinkGeneration",
        1, 8, subsystem="pcie",
    ),
    gauge(
        "pcie_link_width_lanes",
        "PCIe lanes in use.",
        "nvmlDeviceGetCurrPcieLinkWidth",
        1, 32, unit="lanes", subsystem="pcie",
    ),
    counter(
        "pcie_bytes_total",
        "Bytes over PCIe since the exporter started.",
        f"{FIELD}PCIE_COUNT_TX_BYTES, NVML_FI_DEV_PCIE_COUNT_RX_BYTES; the driver's counter may wrap, so increases are summed up here",
        "direction", unit="bytes", subsystem="pcie", cumulative=True,
    ),
    gauge(
        "pcie_rate_bytes_per_second",
        "Bytes a second over PCIe in the collection window, by hardware counters.",
        f"{_GPM}PCIE_TX_PER_SEC, PCIE_RX_PER_SEC (MiB/s) x 2^20",
        0, 1 << 20, "direction", unit="bytes_per_second", scale=1 << 20, subsystem="pcie",
    ),
    counter(
        "pcie_replays_total",
        "PCIe replays.",
        f"{FIELD}PCIE_REPLAY_COUNTER, else nvmlDeviceGetPcieReplayCounter",
        subsystem="pcie",
    ),
    counter(
        "pcie_recoveries_total",
        "Transitions of the PCIe link from L0 to recovery.",
        f"{FIELD}PCIE_L0_TO_RECOVERY_COUNTER",
        subsystem="pcie",
    ),
    counter(
        "pcie_errors_total",
        "PCIe link errors, by kind.",
        f"{FIELD}PCIE_COUNT_CORRECTABLE_ERRORS, _NAKS_RECEIVED, _RECEIVER_ERROR, _BAD_TLP, _NAKS_SENT, _BAD_DLLP, _NON_FATAL_ERROR, "
        "_FATAL_ERROR, _UNSUPPORTED_REQ, _LCRC_ERROR, _LANE_ERROR",
        "error", subsystem="pcie",
    ),
)  # fmt: skip
