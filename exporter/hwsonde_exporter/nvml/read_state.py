"""What a GPU is doing: use, memory, clocks, heat, power. Groups that are read every second; functions of the worker."""

from __future__ import annotations

from collections.abc import Iterator

from hwsonde_exporter.nvml.gpu import Gpu, Row, named_fields, rows

ENGINES = (
    ("encoder", "nvmlDeviceGetEncoderUtilization"),
    ("decoder", "nvmlDeviceGetDecoderUtilization"),
    ("jpeg", "nvmlDeviceGetJpgUtilization"),
    ("optical_flow", "nvmlDeviceGetOfaUtilization"),
)
DOMAINS = (
    ("graphics", "NVML_CLOCK_GRAPHICS"),
    ("sm", "NVML_CLOCK_SM"),
    ("memory", "NVML_CLOCK_MEM"),
    ("video", "NVML_CLOCK_VIDEO"),
)
# Bits of the mask of reasons. Those of the older call have the same meaning.
EVENT_REASONS = (
    ("gpu_idle", 0x1),
    ("applications_clocks_setting", 0x2),
    ("sw_power_cap", 0x4),
    ("hw_slowdown", 0x8),
    ("sync_boost", 0x10),
    ("sw_thermal_slowdown", 0x20),
    ("hw_thermal_slowdown", 0x40),
    ("hw_power_brake_slowdown", 0x80),
    ("display_clock_setting", 0x100),
)
THROTTLE_FIELDS = (
    ("power", "NVML_FI_DEV_PERF_POLICY_POWER"),
    ("thermal", "NVML_FI_DEV_PERF_POLICY_THERMAL"),
    ("sync_boost", "NVML_FI_DEV_PERF_POLICY_SYNC_BOOST"),
    ("board_limit", "NVML_FI_DEV_PERF_POLICY_BOARD_LIMIT"),
    ("low_utilization", "NVML_FI_DEV_PERF_POLICY_LOW_UTILIZATION"),
    ("reliability", "NVML_FI_DEV_PERF_POLICY_RELIABILITY"),
    ("sw_thermal_slowdown", "NVML_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN"),
    ("hw_thermal_slowdown", "NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN"),
    ("hw_power_brake_slowdown", "NVML_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN"),
)
POWER_SCOPES = (
    ("gpu", "NVML_POWER_SCOPE_GPU"),
    ("module", "NVML_POWER_SCOPE_MODULE"),
    ("memory", "NVML_POWER_SCOPE_MEMORY"),
)
PCIE_ERRORS = (
    ("correctable", "NVML_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS"),
    ("naks_received", "NVML_FI_DEV_PCIE_COUNT_NAKS_RECEIVED"),
    ("receiver_error", "NVML_FI_DEV_PCIE_COUNT_RECEIVER_ERROR"),
    ("bad_tlp", "NVML_FI_DEV_PCIE_COUNT_BAD_TLP"),
    ("naks_sent", "NVML_FI_DEV_PCIE_COUNT_NAKS_SENT"),
    ("bad_dllp", "NVML_FI_DEV_PCIE_COUNT_BAD_DLLP"),
    ("non_fatal", "NVML_FI_DEV_PCIE_COUNT_NON_FATAL_ERROR"),
    ("fatal", "NVML_FI_DEV_PCIE_COUNT_FATAL_ERROR"),
    ("unsupported_request", "NVML_FI_DEV_PCIE_COUNT_UNSUPPORTED_REQ"),
    ("lcrc", "NVML_FI_DEV_PCIE_COUNT_LCRC_ERROR"),
    ("lane", "NVML_FI_DEV_PCIE_COUNT_LANE_ERROR"),
)
PCIE_BYTES = (("transmit", "NVML_FI_DEV_PCIE_COUNT_TX_BYTES"), ("receive", "NVML_FI_DEV_PCIE_COUNT_RX_BYTES"))


def utilization(gpu: Gpu) -> Iterator[Row]:
    """Percentages of the driver's last sample period."""
    rates = gpu.ask("nvmlDeviceGetUtilizationRates")
    if rates is not None:
        yield "utilization_ratio", (), rates.gpu
        yield "memory_busy_ratio", (), rates.memory
    for engine, function in ENGINES:
        found = gpu.ask(function)
        if found is not None:
            yield "engine_utilization_ratio", (engine,), found[0]


def memory(gpu: Gpu) -> Iterator[Row]:
    """Bytes of device memory; what the driver keeps for itself is told apart by the second version only."""
    nvml, handle = gpu.nvml, gpu.handle
    found = gpu.first(
        ("nvmlDeviceGetMemoryInfo_v2", lambda: nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)),
        ("nvmlDeviceGetMemoryInfo", lambda: nvml.nvmlDeviceGetMemoryInfo(handle)),
    )
    if found is not None:
        yield "memory_size_bytes", (), found.total
        yield "memory_used_bytes", (), found.used
        yield "memory_free_bytes", (), found.free
        if hasattr(found, "reserved"):
            yield "memory_reserved_bytes", (), found.reserved
    aperture = gpu.ask("nvmlDeviceGetBAR1MemoryInfo")
    if aperture is not None:
        yield "bar1_memory_size_bytes", (), aperture.bar1Total
        yield "bar1_memory_used_bytes", (), aperture.bar1Used


def clock(gpu: Gpu) -> Iterator[Row]:
    """Megahertz of each domain, and the performance state."""
    for domain, name in DOMAINS:
        value = gpu.ask("nvmlDeviceGetClockInfo", getattr(gpu.nvml, name), key=domain)
        if value is not None:
            yield "clock_hertz", (domain,), value
    state = gpu.ask("nvmlDeviceGetPerformanceState")
    if state is not None:
        yield "performance_state", (), state


def throttle(gpu: Gpu) -> Iterator[Row]:
    """What holds the clocks down now, and nanoseconds for which it did."""
    nvml, handle = gpu.nvml, gpu.handle
    mask = gpu.first(
        ("nvmlDeviceGetCurrentClocksEventReasons", lambda: nvml.nvmlDeviceGetCurrentClocksEventReasons(handle)),
        ("nvmlDeviceGetCurrentClocksThrottleReasons", lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)),
    )
    if mask is not None and 0 <= mask < 1 << 16:
        yield from rows("clocks_event_active", (((reason,), int(bool(mask & bit))) for reason, bit in EVENT_REASONS))
    yield from named_fields(gpu, "throttled_seconds_total", THROTTLE_FIELDS)


def temperature(gpu: Gpu) -> Iterator[Row]:
    """Degrees Celsius."""
    nvml, handle = gpu.nvml, gpu.handle
    die = gpu.first(
        ("nvmlDeviceGetTemperatureV", lambda: nvml.nvmlDeviceGetTemperatureV(handle, nvml.NVML_TEMPERATURE_GPU)),
        ("nvmlDeviceGetTemperature", lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
    )
    if die is not None:
        yield "temperature_celsius", ("gpu",), die
    yield from named_fields(gpu, "temperature_celsius", (("memory", "NVML_FI_DEV_MEMORY_TEMP"),))
    margin = gpu.ask("nvmlDeviceGetMarginTemperature")
    if margin is not None:
        yield "temperature_margin_celsius", (), margin


def power(gpu: Gpu) -> Iterator[Row]:
    """Milliwatts: at this instant by part of the module, and averaged over about a second."""
    nvml = gpu.nvml
    scopes = {name: (nvml.NVML_FI_DEV_POWER_INSTANT, getattr(nvml, scope)) for name, scope in POWER_SCOPES}
    average = (nvml.NVML_FI_DEV_POWER_AVERAGE, nvml.NVML_POWER_SCOPE_GPU)
    found = gpu.fields([*scopes.values(), average])
    for name, field in scopes.items():
        # Parts that a board does not measure are 0 on some drivers; a GPU that draws nothing is none.
        if field in found and found[field][0] > 0:
            yield "power_watts", (name,), found[field][0]
    value = gpu.field_or(average, found, "nvmlDeviceGetPowerUsage")
    if value is not None:
        yield "power_average_watts", (), value


def energy(gpu: Gpu) -> Iterator[Row]:
    """Millijoules since the driver was loaded."""
    value = gpu.ask("nvmlDeviceGetTotalEnergyConsumption")
    if value is not None:
        yield "energy_joules_total", (), value


def pcie(gpu: Gpu) -> Iterator[Row]:
    """The link as it runs now, and its counters."""
    for name, function in (
        ("pcie_link_generation", "nvmlDeviceGetCurrPcieLinkGeneration"),
        ("pcie_link_width_lanes", "nvmlDeviceGetCurrPcieLinkWidth"),
    ):
        value = gpu.ask(function)
        if value is not None:
            yield name, (), value
    counter = (gpu.nvml.NVML_FI_DEV_PCIE_REPLAY_COUNTER, 0)
    replays = gpu.field_or(counter, gpu.fields([counter]), "nvmlDeviceGetPcieReplayCounter")
    if replays is not None:
        yield "pcie_replays_total", (), replays
    for _, _, value in named_fields(gpu, "", (("", "NVML_FI_DEV_PCIE_L0_TO_RECOVERY_COUNTER"),)):
        yield "pcie_recoveries_total", (), value
    yield from named_fields(gpu, "pcie_errors_total", PCIE_ERRORS)
    fields = {(getattr(gpu.nvml, name), 0): direction for direction, name in PCIE_BYTES}
    for field, (value, bits) in gpu.fields(fields).items():
        # How many bits the counter has decides what a fall means.
        yield f"pcie_bytes_total@{bits}", (fields[field],), value


def pcie_throughput(gpu: Gpu) -> Iterator[Row]:
    """Kilobytes a second over 20 ms, which each of the two calls waits for; only where there are no counters of bytes."""
    if gpu.fields([(gpu.nvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, 0)]):
        gpu.memory["counts pcie bytes"] = True
    if "counts pcie bytes" in gpu.memory:
        return
    for direction, name in (("transmit", "NVML_PCIE_UTIL_TX_BYTES"), ("receive", "NVML_PCIE_UTIL_RX_BYTES")):
        value = gpu.ask("nvmlDeviceGetPcieThroughput", getattr(gpu.nvml, name), key=direction)
        if value is not None:
            yield "pcie_throughput_bytes_per_second", (direction,), value


def fan(gpu: Gpu) -> Iterator[Row]:
    """Percent of the greatest speed of each fan; boards without fans have none."""
    count = gpu.ask("nvmlDeviceGetNumFans")
    if count is None:
        value = gpu.ask("nvmlDeviceGetFanSpeed")
        if value is not None:
            yield "fan_speed_ratio", ("0",), value
        return
    for number in range(min(count, 16)):
        value = gpu.ask("nvmlDeviceGetFanSpeed_v2", number, key=number)
        if value is not None:
            yield "fan_speed_ratio", (str(number),), value
