"""How a GPU is: memory errors, remapped rows, fabric; what it is and how it is set. Groups that are read less often."""

from __future__ import annotations

from collections.abc import Iterator

from hwsonde_exporter.nvml.gpu import Gpu, Row, named_fields, rows
from hwsonde_exporter.nvml.read_state import DOMAINS

ERROR_TYPES = (("corrected", "NVML_MEMORY_ERROR_TYPE_CORRECTED"), ("uncorrected", "NVML_MEMORY_ERROR_TYPE_UNCORRECTED"))
LOCATIONS = (
    ("l1_cache", "NVML_MEMORY_LOCATION_L1_CACHE"),
    ("l2_cache", "NVML_MEMORY_LOCATION_L2_CACHE"),
    ("dram", "NVML_MEMORY_LOCATION_DRAM"),
    ("register_file", "NVML_MEMORY_LOCATION_REGISTER_FILE"),
    ("texture_memory", "NVML_MEMORY_LOCATION_TEXTURE_MEMORY"),
    ("texture_shared", "NVML_MEMORY_LOCATION_TEXTURE_SHM"),
    ("cbu", "NVML_MEMORY_LOCATION_CBU"),
    ("sram", "NVML_MEMORY_LOCATION_SRAM"),
)
THRESHOLDS = (
    ("shutdown", "NVML_TEMPERATURE_THRESHOLD_SHUTDOWN"),
    ("slowdown", "NVML_TEMPERATURE_THRESHOLD_SLOWDOWN"),
    ("memory_max", "NVML_TEMPERATURE_THRESHOLD_MEM_MAX"),
    ("gpu_max", "NVML_TEMPERATURE_THRESHOLD_GPU_MAX"),
)
# Of newer cards, by their distance from the temperature at which they slow down.
MARGINS = (
    ("shutdown", "NVML_FI_DEV_TEMPERATURE_SHUTDOWN_TLIMIT"),
    ("slowdown", "NVML_FI_DEV_TEMPERATURE_SLOWDOWN_TLIMIT"),
    ("memory_max", "NVML_FI_DEV_TEMPERATURE_MEM_MAX_TLIMIT"),
    ("gpu_max", "NVML_FI_DEV_TEMPERATURE_GPU_MAX_TLIMIT"),
)
# Places of two bits each in the mask of the fabric's health: 0 says "not supported", 1 "yes", 2 "no".
FABRIC_ASPECTS = (
    ("degraded_bandwidth", 0),
    ("route_recovery", 2),
    ("route_unhealthy", 4),
    ("access_timeout_recovery", 6),
)
_CONFIGURATION_SHIFT, _CONFIGURATION_MASK = 8, 0xF  # 0 not supported, 1 none is wrong, others say what is
ARCHITECTURES = {
    2: "kepler", 3: "maxwell", 4: "pascal", 5: "volta", 6: "turing", 7: "ampere", 8: "ada", 9: "hopper", 10: "blackwell", 13: "rubin",
}  # fmt: skip
_C2C_ERRORS = (
    ("interrupt", "NVML_FI_DEV_C2C_LINK_ERROR_INTR"),
    ("replay", "NVML_FI_DEV_C2C_LINK_ERROR_REPLAY"),
    ("replay_back_to_back", "NVML_FI_DEV_C2C_LINK_ERROR_REPLAY_B2B"),
)
_MAX_C2C_LINKS = 16
_MAX_PAGES = 4096


def identity(gpu: Gpu) -> Iterator[Row]:
    """What it is, as texts; the number says nothing."""
    name, serial = gpu.ask("nvmlDeviceGetName"), gpu.ask("nvmlDeviceGetSerial")
    vbios, architecture = gpu.ask("nvmlDeviceGetVbiosVersion"), gpu.ask("nvmlDeviceGetArchitecture")
    capability, node = gpu.ask("nvmlDeviceGetCudaComputeCapability"), gpu.ask("nvmlDeviceGetNumaNodeId")
    yield (
        "info",
        (
            name or "",
            gpu.bus_id,
            serial or "",
            vbios or "",
            ARCHITECTURES.get(architecture, "") if architecture is not None else "",
            f"{capability[0]}.{capability[1]}" if capability else "",
            str(node) if node is not None and 0 <= node < 4096 else "",
        ),
        1,
    )
    firmware = (
        gpu.ask("nvmlDeviceGetInforomImageVersion") or "",
        gpu.ask("nvmlDeviceGetGspFirmwareVersion") or "",
        gpu.ask("nvmlDeviceGetBoardPartNumber") or "",
    )
    if any(firmware):
        yield "firmware_info", firmware, 1


def limits(gpu: Gpu) -> Iterator[Row]:
    """What it may: megahertz, milliwatts, degrees, and the link's best."""
    for domain, name in DOMAINS:
        value = gpu.ask("nvmlDeviceGetMaxClockInfo", getattr(gpu.nvml, name), key=domain)
        if value is not None:
            yield "clock_max_hertz", (domain,), value
        if domain in {"graphics", "memory"}:
            value = gpu.ask("nvmlDeviceGetApplicationsClock", getattr(gpu.nvml, name), key=domain)
            if value is not None:
                yield "application_clock_hertz", (domain,), value
    constraints = gpu.ask("nvmlDeviceGetPowerManagementLimitConstraints") or (None, None)
    yield from rows(
        "power_limit_watts",
        (
            (("enforced",), gpu.ask("nvmlDeviceGetEnforcedPowerLimit")),
            (("requested",), gpu.ask("nvmlDeviceGetPowerManagementLimit")),
            (("default",), gpu.ask("nvmlDeviceGetPowerManagementDefaultLimit")),
            (("min",), constraints[0]),
            (("max",), constraints[1]),
        ),
    )
    for threshold, name in THRESHOLDS:
        value = gpu.ask("nvmlDeviceGetTemperatureThreshold", getattr(gpu.nvml, name), key=threshold)
        if value is not None:
            yield "temperature_threshold_celsius", (threshold,), value
    yield from named_fields(gpu, "temperature_threshold_margin_celsius", MARGINS)
    for reading, function in (
        ("pcie_link_max_generation", "nvmlDeviceGetMaxPcieLinkGeneration"),
        ("pcie_link_max_width_lanes", "nvmlDeviceGetMaxPcieLinkWidth"),
    ):
        value = gpu.ask(function)
        if value is not None:
            yield reading, (), value


def mode(gpu: Gpu) -> Iterator[Row]:
    """How it is set."""
    for reading, function in (
        ("persistence_mode_enabled", "nvmlDeviceGetPersistenceMode"),
        ("compute_mode", "nvmlDeviceGetComputeMode"),
    ):
        value = gpu.ask(function)
        if value is not None:
            yield reading, (), value


def ecc(gpu: Gpu) -> Iterator[Row]:
    """Memory errors, and whether they are looked for."""
    nvml = gpu.nvml
    enabled = gpu.ask("nvmlDeviceGetEccMode")
    if enabled is not None:
        yield from rows("ecc_enabled", ((("current",), enabled[0]), (("pending",), enabled[1])))
    for label, name in ERROR_TYPES:
        kind = getattr(nvml, name)
        for reading, counter in (
            ("ecc_errors_total", nvml.NVML_VOLATILE_ECC),
            ("ecc_lifetime_errors_total", nvml.NVML_AGGREGATE_ECC),
        ):
            value = gpu.ask("nvmlDeviceGetTotalEccErrors", kind, counter, key=(kind, counter))
            if value is not None:
                yield reading, (label,), value
        for location, constant in LOCATIONS:
            place = getattr(nvml, constant)
            value = gpu.ask("nvmlDeviceGetMemoryErrorCounter", kind, nvml.NVML_VOLATILE_ECC, place, key=(kind, place))
            if value is not None:
                yield "ecc_location_errors_total", (label, location), value
    status = gpu.call("nvmlDeviceGetSramEccErrorStatus", lambda: _filled(nvml, "nvmlDeviceGetSramEccErrorStatus", gpu))
    if status is not None:
        yield "sram_ecc_threshold_exceeded", (), int(bool(status.bThresholdExceeded))


def remap(gpu: Gpu) -> Iterator[Row]:
    """Rows (Ampere and later) or pages (before) of memory that were taken out of use."""
    nvml = gpu.nvml
    found = gpu.ask("nvmlDeviceGetRemappedRows")
    if found is None:
        fields = [nvml.NVML_FI_DEV_REMAPPED_COR, nvml.NVML_FI_DEV_REMAPPED_UNC]
        fields += [nvml.NVML_FI_DEV_REMAPPED_PENDING, nvml.NVML_FI_DEV_REMAPPED_FAILURE]
        values = gpu.fields([(field, 0) for field in fields])
        found = tuple(values[field, 0][0] if (field, 0) in values else None for field in fields)
    corrected, uncorrected, pending, failed = found
    yield from rows("remapped_rows_total", ((("corrected",), corrected), (("uncorrected",), uncorrected)))
    yield from rows("row_remap_pending", (((), pending),))
    yield from rows("row_remap_failed", (((), failed),))
    banks = gpu.ask("nvmlDeviceGetRowRemapperHistogram")
    if banks is not None:
        # The member called max counts the banks that have all their spare rows.
        for availability in ("max", "high", "partial", "low", "none"):
            yield "row_remap_banks", (availability,), getattr(banks, availability)
    for cause, name in (
        ("single_bit", "NVML_PAGE_RETIREMENT_CAUSE_MULTIPLE_SINGLE_BIT_ECC_ERRORS"),
        ("double_bit", "NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR"),
    ):
        pages = gpu.ask("nvmlDeviceGetRetiredPages_v2", getattr(nvml, name), key=cause)
        if pages is not None:
            yield "retired_pages", (cause,), min(len(pages), _MAX_PAGES)
    waiting = gpu.ask("nvmlDeviceGetRetiredPagesPendingStatus")
    if waiting is not None:
        yield "retired_pages_pending", (), waiting


def recovery(gpu: Gpu) -> Iterator[Row]:
    """What the driver asks to be done about it."""
    for _, _, value in named_fields(gpu, "", (("", "NVML_FI_DEV_GET_GPU_RECOVERY_ACTION"),)):
        yield "recovery_action", (), value


def fabric(gpu: Gpu) -> Iterator[Row]:
    """How it is joined to the switches of NVLink."""
    nvml = gpu.nvml
    info = gpu.first(
        ("nvmlDeviceGetGpuFabricInfoV", lambda: _filled(nvml, "nvmlDeviceGetGpuFabricInfoV", gpu)),
        ("nvmlDeviceGetGpuFabricInfo", lambda: _filled(nvml, "nvmlDeviceGetGpuFabricInfo", gpu)),
    )
    if info is None:
        return
    # The library fills in one byte of the four that the binding reads.
    state = info.state & 0xFF
    yield "fabric_state", (), state
    if state == nvml.NVML_GPU_FABRIC_STATE_COMPLETED:
        # What the registration ended with: 0 is success.
        yield "fabric_status", (), info.status
    mask = getattr(info, "healthMask", 0)
    for aspect, shift in FABRIC_ASPECTS:
        said = mask >> shift & 3
        if said in {1, 2}:
            yield "fabric_degraded", (aspect,), int(said == 1)
    configuration = mask >> _CONFIGURATION_SHIFT & _CONFIGURATION_MASK
    if configuration:
        yield "fabric_degraded", ("incorrect_configuration",), int(configuration > 1)


def c2c(gpu: Gpu) -> Iterator[Row]:
    """Errors of the links between the chips of one module (Grace Hopper)."""
    nvml = gpu.nvml
    counted = gpu.fields([(nvml.NVML_FI_DEV_C2C_LINK_COUNT, 0)]).values()
    links = min((int(value) for value, _ in counted), default=0)
    labels = {
        (getattr(nvml, name), link): (str(link), label)
        for link in range(min(links, _MAX_C2C_LINKS))
        for label, name in _C2C_ERRORS
    }
    for field, (value, _) in gpu.fields(labels).items():
        yield "c2c_errors_total", labels[field], value


_STRUCTURES = {
    "nvmlDeviceGetSramEccErrorStatus": "c_nvmlEccSramErrorStatus_v1_t",
    "nvmlDeviceGetGpuFabricInfoV": "c_nvmlGpuFabricInfoV_t",
    "nvmlDeviceGetGpuFabricInfo": "c_nvmlGpuFabricInfo_t",
}


def _filled(nvml, function: str, gpu: Gpu):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202  (as the binding)
    """Structure that a function of the binding fills in and does not return."""
    from ctypes import byref  # noqa: PLC0415  (only these three need it)

    structure = getattr(nvml, _STRUCTURES[function])()
    getattr(nvml, function)(gpu.handle, byref(structure))
    return structure
