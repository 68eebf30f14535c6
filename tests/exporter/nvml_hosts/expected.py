"""What each metric of a GPU should be, worked out from the recording alone.

This is a second telling of the tables in ``collectors/_gpu_*_table.py`` and of the groups that the worker reads, on purpose
without any of their code: from the name of the recorded call, its arguments and its field straight to labels and value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.exporter.nvml_hosts.expected_parts import TYPES_OF_PROCESSES, process_memory, process_share, processes
from tests.exporter.nvml_hosts.told import Rows, Told

DOMAINS = {"graphics": 0, "sm": 1, "memory": 2, "video": 3}
REASONS = {
    "gpu_idle": 1, "applications_clocks_setting": 2, "sw_power_cap": 4, "hw_slowdown": 8, "sync_boost": 16, "sw_thermal_slowdown": 32,
    "hw_thermal_slowdown": 64, "hw_power_brake_slowdown": 128, "display_clock_setting": 256,
}  # fmt: skip
THROTTLED = {
    "power": 74, "thermal": 75, "sync_boost": 76, "board_limit": 77, "low_utilization": 78, "reliability": 79,
    "sw_thermal_slowdown": 269, "hw_thermal_slowdown": 270, "hw_power_brake_slowdown": 271,
}  # fmt: skip
PCIE_ERRORS = (
    "correctable", "naks_received", "receiver_error", "bad_tlp", "naks_sent", "bad_dllp", "non_fatal", "fatal", "unsupported_request",
    "lcrc", "lane",
)  # fmt: skip
LOCATIONS = {
    "l1_cache": 0, "l2_cache": 1, "dram": 2, "register_file": 3, "texture_memory": 4, "texture_shm": 5, "cbu": 6, "sram": 7,
}  # fmt: skip
PIPES = {
    "fp16": 13, "fp32": 12, "fp64": 11, "integer": 4, "tensor_hmma": 7, "tensor_imma": 9, "tensor_dfma": 6,
}  # fmt: skip
THRESHOLDS = ("shutdown", "slowdown", "memory_max", "gpu_max")
NVLINK_ERRORS = ("replay", "recovery", "crc_flit", "crc_data")
BANKS = ("max", "high", "partial", "low", "none")
ASPECTS = {"degraded_bandwidth": 0, "route_recovery": 2, "route_unhealthy": 4, "access_timeout_recovery": 6}
ARCHITECTURES = {5: "volta", 7: "ampere", 8: "ada", 9: "hopper"}


def plain(name: str, scale: float = 1.0, key: object = None, field: str | None = None) -> Callable[[Told], Rows]:
    """One value without further labels."""

    def rows(told: Told) -> Rows:
        value = told.get(name, key, field)
        if value is not None:
            yield {}, value * scale

    return rows


def labelled(
    label: str, values: Callable[[Told], Mapping[str, float | None]], scale: float = 1.0
) -> Callable[[Told], Rows]:
    """One value for each value of a label, where it is known."""

    def rows(told: Told) -> Rows:
        for name, value in values(told).items():
            if value is not None:
                yield {label: name}, value * scale

    return rows


def first(*values: float | None) -> float | None:
    """The first that is known."""
    return next((value for value in values if value is not None), None)


def alone(value: Callable[[Told], float | None], scale: float = 1.0) -> Callable[[Told], Rows]:
    """One value without further labels, however it is made."""

    def rows(told: Told) -> Rows:
        found = value(told)
        if found is not None:
            yield {}, found * scale

    return rows


def memory(part: str) -> Callable[[Told], Rows]:
    return alone(lambda told: first(told.get("MemoryInfo_v2", None, part), told.get("MemoryInfo", None, part)))


def monitor(number: int) -> Callable[[Told], Rows]:
    return alone(lambda told: gpm(told, number), 0.01)


def gpm(told: Told, number: int) -> float | None:
    if not told.number("nvmlGpmQueryDeviceSupport"):
        return None
    return told.number("nvmlGpmMetricsGet", str(number))


def retired(told: Told) -> Rows:
    for label, cause in (("single_bit", 0), ("double_bit", 1)):
        value = told.get("RetiredPages_v2", cause, "count")
        if value is not None:
            yield {"cause": label}, value


def ecc_locations(told: Told) -> Rows:
    for kind, number in (("corrected", 0), ("uncorrected", 1)):
        for location, place in LOCATIONS.items():
            value = told.get("MemoryErrorCounter", f"{number}/0/{place}")
            if value is not None:
                yield {"type": kind, "location": location}, value


def fabric(name: str) -> Callable[[Told], Rows]:
    return plain("GpuFabricInfoV", field=name)


def fabric_degraded(told: Told) -> Rows:
    mask = told.get("GpuFabricInfoV", None, "healthMask")
    if mask is None:
        return
    for aspect, shift in ASPECTS.items():
        said = int(mask) >> shift & 3
        if said:
            yield {"aspect": aspect}, int(said == 1)
    if int(mask) >> 8 & 15:
        yield {"aspect": "incorrect_configuration"}, int(int(mask) >> 8 & 15 > 1)


def by_link(value: Callable[[Told, int], float | None]) -> Callable[[Told], Rows]:
    def rows(told: Told) -> Rows:
        for link in told.links:
            found = value(told, link)
            if found is not None:
                yield {"link": str(link)}, found

    return rows


def nvlink_bytes(told: Told) -> Rows:
    for link in told.links:
        for direction, number in (("transmit", 138), ("receive", 139)):
            value = (
                told.field(number, link) if link else first(told.field(number), told.get("FieldValues", f"{number}/0"))
            )
            if value is not None:
                yield {"link": str(link), "direction": direction}, value * 1024


def nvlink_errors(told: Told) -> Rows:
    for link in told.links:
        for number, name in enumerate(NVLINK_ERRORS):
            value = told.get("NvLinkErrorCounter", f"{link}/{number}")
            if value is not None:
                yield {"link": str(link), "error": name}, value


def nvlink_speed(told: Told, link: int) -> float | None:
    value = told.get("FieldValues", f"164/{link}")
    return value * 1e6 if value else None


def nvlink_remote(told: Told) -> Rows:
    for link in told.links:
        if told.get("NvLinkState", link) == 1:
            kind = {0: "gpu", 2: "switch"}[int(told.get("NvLinkRemoteDeviceType", link) or 0)]
            bus = told.answer("nvmlDeviceGetNvLinkRemotePciInfo_v2", str(link), "busId")
            yield {"link": str(link), "remote_type": kind, "remote_pci_bus_id": address(bus)}, 1


def address(bus: str) -> str:
    """PCI address as sysfs has it."""
    return bus.lower().removeprefix("0000")


def info(told: Told) -> Rows:
    capability = told.answer("nvmlDeviceGetCudaComputeCapability")
    yield (
        {
            "name": told.answer("nvmlDeviceGetName"),
            "pci_bus_id": address(told.answer("nvmlDeviceGetPciInfo_v3", None, "busId")),
            "serial": "",  # shown only where it is asked for
            "vbios_version": told.answer("nvmlDeviceGetVbiosVersion"),
            "architecture": ARCHITECTURES[told.answer("nvmlDeviceGetArchitecture")],
            "compute_capability": f"{capability['major']}.{capability['minor']}",
            "numa_node": "0",
        },
        1,
    )


def firmware(told: Told) -> Rows:
    version = told.answer("nvmlDeviceGetGspFirmwareVersion")
    if version:
        yield {"gsp_version": version, "inforom_version": "", "board_part_number": ""}, 1


def fans(told: Told) -> Rows:
    for fan in range(int(told.get("NumFans") or 0)):
        value = told.get("FanSpeed_v2", fan)
        if value is not None:
            yield {"fan": str(fan)}, value / 100


def reasons(told: Told) -> Rows:
    mask = first(told.get("CurrentClocksEventReasons"), told.get("CurrentClocksThrottleReasons"))
    for reason, bit in REASONS.items() if mask is not None else ():
        yield {"reason": reason}, int(bool(int(mask or 0) & bit))


def power_limits(told: Told) -> dict[str, float | None]:
    return {
        "enforced": told.get("EnforcedPowerLimit"),
        "requested": told.get("PowerManagementLimit"),
        "default": told.get("PowerManagementDefaultLimit"),
        "min": told.get("PowerManagementLimitConstraints", None, "min"),
        "max": told.get("PowerManagementLimitConstraints", None, "max"),
    }


def throughput(told: Told) -> Rows:
    """Only where the bytes are not counted."""
    if told.field(197) is None:
        for direction, number in (("transmit", 0), ("receive", 1)):
            value = told.get("PcieThroughput", number)
            if value is not None:
                yield {"direction": direction}, value * 1000


GPU: dict[str, Callable[[Told], Rows]] = {
    "utilization_ratio": plain("UtilizationRates", 0.01, field="gpu"),
    "memory_busy_ratio": plain("UtilizationRates", 0.01, field="memory"),
    "engine_utilization_ratio": labelled(
        "engine",
        lambda told: {
            label: told.get(f"{name}Utilization", None, "utilization")
            for label, name in (
                ("encoder", "Encoder"),
                ("decoder", "Decoder"),
                ("jpeg", "Jpg"),
                ("optical_flow", "Ofa"),
            )
        },
        0.01,
    ),
    "graphics_active_ratio": monitor(1),
    "sm_active_ratio": monitor(2),
    "sm_occupancy_ratio": monitor(3),
    "tensor_active_ratio": monitor(5),
    "dram_active_ratio": monitor(10),
    "pipe_active_ratio": labelled(
        "pipe", lambda told: {name: gpm(told, number) for name, number in PIPES.items()}, 0.01
    ),
    "pcie_rate_bytes_per_second": labelled(
        "direction", lambda told: {"transmit": gpm(told, 20), "receive": gpm(told, 21)}, 2.0**20
    ),
    "memory_size_bytes": memory("total"),
    "memory_used_bytes": memory("used"),
    "memory_free_bytes": memory("free"),
    "memory_reserved_bytes": plain("MemoryInfo_v2", field="reserved"),
    "bar1_memory_size_bytes": plain("BAR1MemoryInfo", field="bar1Total"),
    "bar1_memory_used_bytes": plain("BAR1MemoryInfo", field="bar1Used"),
    "clock_hertz": labelled(
        "domain", lambda told: {name: told.get("ClockInfo", n) for name, n in DOMAINS.items()}, 1e6
    ),
    "clock_max_hertz": labelled(
        "domain", lambda told: {name: told.get("MaxClockInfo", n) for name, n in DOMAINS.items()}, 1e6
    ),
    "application_clock_hertz": labelled(
        "domain",
        lambda told: {"graphics": told.get("ApplicationsClock", 0), "memory": told.get("ApplicationsClock", 2)},
        1e6,
    ),
    "performance_state": plain("PerformanceState"),
    "temperature_celsius": labelled(
        "sensor",
        lambda told: {"gpu": first(told.get("TemperatureV", 0), told.get("Temperature", 0)), "memory": told.field(82)},
    ),
    "temperature_margin_celsius": plain("MarginTemperature"),
    "temperature_threshold_celsius": labelled(
        "threshold",
        lambda told: {name: told.get("TemperatureThreshold", place) for place, name in enumerate(THRESHOLDS)},
    ),
    "temperature_threshold_margin_celsius": labelled(
        "threshold", lambda told: {name: told.field(193 + place) for place, name in enumerate(THRESHOLDS)}
    ),
    "power_watts": labelled(
        "scope",
        lambda told: {name: told.field(186, scope) for scope, name in enumerate(("gpu", "module", "memory"))},
        1e-3,
    ),
    "power_average_watts": alone(lambda told: first(told.field(185), told.get("PowerUsage")), 1e-3),
    "power_limit_watts": labelled("limit", power_limits, 1e-3),
    "energy_joules_total": plain("TotalEnergyConsumption", 1e-3),
    "fan_speed_ratio": fans,
    "clocks_event_active": reasons,
    "throttled_seconds_total": labelled(
        "reason", lambda told: {name: told.field(number) for name, number in THROTTLED.items()}, 1e-9
    ),
    "ecc_enabled": labelled(
        "state", lambda told: {name: told.get("EccMode", None, name) for name in ("current", "pending")}
    ),
    "ecc_errors_total": labelled(
        "type",
        lambda told: {"corrected": told.get("TotalEccErrors", "0/0"), "uncorrected": told.get("TotalEccErrors", "1/0")},
    ),
    "ecc_lifetime_errors_total": labelled(
        "type",
        lambda told: {"corrected": told.get("TotalEccErrors", "0/1"), "uncorrected": told.get("TotalEccErrors", "1/1")},
    ),
    "ecc_location_errors_total": ecc_locations,
    "sram_ecc_threshold_exceeded": plain("SramEccErrorStatus", field="bThresholdExceeded"),
    "remapped_rows_total": labelled(
        "cause",
        lambda told: {
            "corrected": told.get("RemappedRows", None, "corrRows"),
            "uncorrected": told.get("RemappedRows", None, "uncRows"),
        },
    ),
    "row_remap_pending": plain("RemappedRows", field="isPending"),
    "row_remap_failed": plain("RemappedRows", field="failureOccurred"),
    "row_remap_banks": labelled(
        "availability", lambda told: {name: told.get("RowRemapperHistogram", None, name) for name in BANKS}
    ),
    "retired_pages": retired,
    "retired_pages_pending": plain("RetiredPagesPendingStatus"),
    "recovery_action": alone(lambda told: told.field(230)),
    "pcie_link_generation": plain("CurrPcieLinkGeneration"),
    "pcie_link_max_generation": plain("MaxPcieLinkGeneration"),
    "pcie_link_width_lanes": plain("CurrPcieLinkWidth"),
    "pcie_link_max_width_lanes": plain("MaxPcieLinkWidth"),
    "pcie_replays_total": alone(lambda told: first(told.field(94), told.get("PcieReplayCounter"))),
    "pcie_recoveries_total": alone(lambda told: told.field(169)),
    "pcie_errors_total": labelled(
        "error", lambda told: {name: told.field(173 + place) for place, name in enumerate(PCIE_ERRORS)}
    ),
    # Counted from the start of the exporter: nothing while time stands still.
    "pcie_bytes_total": labelled(
        "direction",
        lambda told: {
            name: None if told.field(number) is None else 0 for name, number in (("transmit", 197), ("receive", 198))
        },
    ),
    "pcie_throughput_bytes_per_second": throughput,
    "nvlink_up": by_link(lambda told, link: told.get("NvLinkState", link)),
    "nvlink_bytes_total": nvlink_bytes,
    "nvlink_errors_total": nvlink_errors,
    "nvlink_speed_bytes_per_second": by_link(nvlink_speed),
    "nvlink_remote_info": nvlink_remote,
    "fabric_state": fabric("state"),
    "fabric_status": fabric("status"),
    "fabric_degraded": fabric_degraded,
    "processes": labelled(
        "type",
        lambda told: {
            label: None if (found := processes(told, kind)) is None else len(found)
            for label, kind in TYPES_OF_PROCESSES.items()
        },
    ),
    "process_memory_bytes": process_memory,
    "process_sm_utilization_ratio": process_share("smUtil"),
    "process_memory_busy_ratio": process_share("memUtil"),
    "mig_enabled": labelled(
        "state", lambda told: {name: told.get("MigMode", None, name) for name in ("current", "pending")}
    ),
    "info": info,
    "firmware_info": firmware,
    "persistence_mode_enabled": plain("PersistenceMode"),
    "compute_mode": plain("ComputeMode"),
}


# Of hardware that no recording has: NVLink 5 and Grace Hopper.
UNRECORDED = ("nvlink_packets_total", "nvlink_bit_error_ratio", "c2c_errors_total")
