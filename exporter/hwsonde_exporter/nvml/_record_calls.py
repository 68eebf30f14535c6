"""Every question that a recording answers, asked through the binding; runs in the recorder's child process.

An answer has the form in which recordings keep it: a number, a text, a mapping by argument or by name of the output, a list;
``{"error": code}`` where the library refuses. What is not supported is left out, since that is what a recording's reader
assumes. Nothing here changes any state of the driver.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from ctypes import byref
from math import isfinite
from typing import Any

Ask = Callable[[Any, Any], Any]  # binding and handle to answer
_NOT_SUPPORTED, _INVALID_ARGUMENT = 3, 2
_MAX_LINKS = 36
_MAX_MIG = 16
_AT_ONCE = 64
VALUE_TYPES = ("double", "uint", "ulong", "ullong", "llong", "int", "ushort")
_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
# Fields that are asked of each link, and of each scope of power.
_LINK_FIELDS = (
    *range(138, 142),
    *range(146, 147),
    *range(161, 169),
    *range(201, 224),
    *range(231, 251),
    *range(289, 296),
)
_POWER_FIELDS = range(185, 193)
# Fields that count, so that their rate is worth having.
_COUNTING_FIELDS = frozenset((
    *range(3, 29), *range(32, 82), 83, *range(94, 132), *range(138, 142), *range(148, 164), 169, *range(173, 184), 191, 197, 198,
    *range(201, 223), *range(231, 234), *range(235, 251), *range(269, 272), *range(289, 291), 294, 295,
))  # fmt: skip
_COUNTING = frozenset((
    "nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetPcieReplayCounter", "nvmlDeviceGetTotalEccErrors",
    "nvmlDeviceGetMemoryErrorCounter", "nvmlDeviceGetNvLinkErrorCounter", "nvmlDeviceGetViolationStatus",
))  # fmt: skip

_NUMBERS = (
    "Architecture", "BoardId", "Brand", "ComputeMode", "CurrPcieLinkGeneration", "CurrPcieLinkWidth", "CurrentClocksEventReasons",
    "CurrentClocksThrottleReasons", "DisplayActive", "DisplayMode", "EnforcedPowerLimit", "FanSpeed", "GpuMaxPcieLinkGeneration",
    "MarginTemperature", "MaxMigDeviceCount", "MaxPcieLinkGeneration", "MaxPcieLinkWidth", "MemoryBusWidth", "MinorNumber", "ModuleId",
    "MultiGpuBoard", "NumFans", "NumGpuCores", "NumaNodeId", "PcieLinkMaxSpeed", "PcieReplayCounter", "PcieSpeed", "PerformanceState",
    "PersistenceMode", "PowerManagementDefaultLimit", "PowerManagementLimit", "PowerManagementMode", "PowerState", "PowerUsage",
    "RetiredPagesPendingStatus", "SupportedClocksEventReasons", "SupportedClocksThrottleReasons", "SupportedEventTypes",
    "TotalEnergyConsumption",
)  # fmt: skip
_TEXTS = (
    "BoardPartNumber", "GspFirmwareVersion", "InforomImageVersion", "Name", "Serial", "UUID", "VbiosVersion",
)  # fmt: skip
_TUPLES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("CudaComputeCapability", ("major", "minor")),
    ("DecoderUtilization", ("utilization", "samplingPeriodUs")),
    ("EccMode", ("current", "pending")),
    ("EncoderUtilization", ("utilization", "samplingPeriodUs")),
    ("GspFirmwareMode", ("isEnabled", "defaultMode")),
    ("JpgUtilization", ("utilization", "samplingPeriodUs")),
    ("MigMode", ("current", "pending")),
    ("OfaUtilization", ("utilization", "samplingPeriodUs")),
    ("PowerManagementLimitConstraints", ("min", "max")),
    ("RemappedRows", ("corrRows", "uncRows", "isPending", "failureOccurred")),
)
_STRUCTS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("BAR1MemoryInfo", ("bar1Total", "bar1Free", "bar1Used")),
    ("MemoryInfo", ("total", "free", "used")),
    ("RowRemapperHistogram", ("max", "high", "partial", "low", "none")),
    ("UtilizationRates", ("gpu", "memory")),
)
# Functions with one argument, and the values that it is asked with.
_INDEXED = (
    ("ApplicationsClock", range(4)), ("ClockInfo", range(4)), ("DefaultApplicationsClock", range(4)), ("FanSpeed_v2", range(8)),
    ("MaxClockInfo", range(4)), ("NvLinkRemoteDeviceType", range(_MAX_LINKS)), ("NvLinkState", range(_MAX_LINKS)),
    ("NvLinkVersion", range(_MAX_LINKS)), ("PcieThroughput", range(2)), ("Temperature", range(1)), ("TemperatureThreshold", range(8)),
    ("TemperatureV", range(1)),
)  # fmt: skip
_SRAM = (
    "aggregateUncParity", "aggregateUncSecDed", "aggregateCor", "volatileUncParity", "volatileUncSecDed", "volatileCor",
    "aggregateUncBucketL2", "aggregateUncBucketSm", "aggregateUncBucketPcie", "aggregateUncBucketMcu", "aggregateUncBucketOther",
    "bThresholdExceeded",
)  # fmt: skip
_ATTRIBUTES = (
    "multiprocessorCount", "sharedCopyEngineCount", "sharedDecoderCount", "sharedEncoderCount", "sharedJpegCount", "sharedOfaCount",
    "gpuInstanceSliceCount", "computeInstanceSliceCount", "memorySizeMB",
)  # fmt: skip


def error_code(error: Exception) -> int:
    """Number of what a call raised; 13, function not found, for what the binding itself lacks."""
    value = getattr(error, "value", None)
    if type(value) is int:
        return value
    missing = isinstance(error, AttributeError) or type(error).__name__ == "NVMLLibraryMismatchError"
    return 13 if missing else 999


def _members(found: Any, names: Sequence[str]) -> dict[str, Any]:  # noqa: ANN401  (the binding's structs)
    return {name: getattr(found, name) for name in names}


def _each(call: Callable[..., Any], arguments: Sequence[tuple[int, ...]]) -> dict[str, Any]:
    """Answers by argument, up to the first one that is not valid."""
    found: dict[str, Any] = {}
    for numbers in arguments:
        try:
            found["/".join(map(str, numbers))] = call(*numbers)
        except Exception as error:
            code = error_code(error)
            if code == _INVALID_ARGUMENT:
                found["*"] = {"error": code}
                break
            if code != _NOT_SUPPORTED:
                if len(arguments) == 1 or code == 13:
                    raise
                found["/".join(map(str, numbers))] = {"error": code}
    return found


def _pci(found: Any) -> dict[str, Any]:  # noqa: ANN401  (the binding's struct)
    text = found.busId
    return {
        "busId": text.decode("ascii", "replace") if isinstance(text, bytes) else text,
        "pciDeviceId": found.pciDeviceId,
        "pciSubSystemId": found.pciSubSystemId,
    }


def _fabric(nvml: Any, handle: Any) -> dict[str, Any]:  # noqa: ANN401  (the binding)
    names = ("status", "cliqueId", "state", "healthMask")
    newest = nvml.c_nvmlGpuFabricInfo_v3_t()
    try:
        nvml.nvmlDeviceGetGpuFabricInfoV(handle, byref(newest))
        found = _members(newest, (*names, "healthSummary"))
    except Exception as error:
        if error_code(error) != 25:
            raise
        newest = nvml.c_nvmlGpuFabricInfo_v2_t()
        nvml.nvmlDeviceGetGpuFabricInfoV(handle, byref(newest))
        found = _members(newest, names)
    # Only one byte of the state is the library's.
    digits = bytes(newest.clusterUuid).hex()
    uuid = "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
    return {**found, "state": found["state"] & 0xFF, "clusterUuid": uuid}


def _sram(nvml: Any, handle: Any) -> dict[str, Any]:  # noqa: ANN401  (the binding)
    status = nvml.c_nvmlEccSramErrorStatus_v1_t()
    nvml.nvmlDeviceGetSramEccErrorStatus(handle, byref(status))
    return _members(status, _SRAM)


def _samples(nvml: Any, handle: Any) -> dict[str, Any]:  # noqa: ANN401  (the binding)
    def one(kind: int) -> dict[str, Any]:
        number, samples = nvml.nvmlDeviceGetSamples(handle, kind, 0)
        times = [sample.timeStamp for sample in samples if sample.timeStamp]
        values = [getattr(sample.sampleValue, _MEMBERS[number]) for sample in samples if sample.timeStamp]
        interval = (times[-1] - times[0]) / 1e6 / (len(times) - 1) if len(times) > 1 else 1.0
        mean = {"mean": sum(values) / max(1, len(values)), "type": VALUE_TYPES[number]}
        return {"interval": max(interval, 1e-3), "count": len(samples), "value": mean}

    return _each(one, [(kind,) for kind in range(10)])


def _processes(name: str) -> Ask:
    def ask(nvml: Any, handle: Any) -> list[dict[str, Any]]:  # noqa: ANN401  (the binding)
        names = ("pid", "usedGpuMemory", "gpuInstanceId", "computeInstanceId")
        rows = [_members(process, names) for process in getattr(nvml, name)(handle)]
        return [{key: value for key, value in row.items() if value not in {None, 0xFFFFFFFF}} for row in rows]

    return ask


def _utilization(nvml: Any, handle: Any) -> list[dict[str, Any]]:  # noqa: ANN401  (the binding)
    names = ("pid", "smUtil", "memUtil", "encUtil", "decUtil")
    try:
        found = nvml.nvmlDeviceGetProcessUtilization(handle, 0)
    except Exception as error:
        if error_code(error) in {0, 6}:
            return []
        raise
    newest = {sample.pid: _members(sample, names) for sample in sorted(found, key=lambda sample: sample.timeStamp)}
    return [row for pid, row in newest.items() if pid]


def _fields(nvml: Any, handle: Any) -> dict[str, Any]:  # noqa: ANN401  (the binding)
    links = _links(nvml, handle)
    wanted = [(number, 0) for number in range(1, nvml.NVML_FI_MAX)]
    wanted += [(number, link) for number in _LINK_FIELDS for link in range(1, links)]
    wanted += [(number, scope) for number in _POWER_FIELDS for scope in range(1, 4)]
    found: dict[str, Any] = {}
    refused: Counter[int] = Counter()
    for start in range(0, len(wanted), _AT_ONCE):
        for value in nvml.nvmlDeviceGetFieldValues(handle, wanted[start : start + _AT_ONCE]):
            if value.nvmlReturn != 0 or not 0 <= value.valueType < len(_MEMBERS):
                refused[value.nvmlReturn] += 1
                continue
            number = getattr(value.value, _MEMBERS[value.valueType])
            if isfinite(number):
                key = f"{value.fieldId}/{value.scopeId}" if value.scopeId else str(value.fieldId)
                found[key] = {"mean": number, "type": VALUE_TYPES[value.valueType]}
    if refused and (usual := refused.most_common(1)[0][0]) != _NOT_SUPPORTED:
        found["*"] = {"error": usual}
    return found


def _links(nvml: Any, handle: Any) -> int:  # noqa: ANN401  (the binding)
    for link in range(_MAX_LINKS):
        try:
            nvml.nvmlDeviceGetNvLinkState(handle, link)
        except Exception:  # noqa: BLE001  (the binding raises what it likes)
            return link
    return _MAX_LINKS


def _numbered(name: str, ranges: Sequence[range]) -> Ask:
    arguments: list[tuple[int, ...]] = [()]
    for numbers in ranges:
        arguments = [(*before, number) for before in arguments for number in numbers]
    return lambda nvml, handle: _each(lambda *numbers: getattr(nvml, name)(handle, *numbers), arguments)


def _retired(nvml: Any, handle: Any) -> dict[str, Any]:  # noqa: ANN401  (the binding)
    return _each(lambda cause: {"count": len(nvml.nvmlDeviceGetRetiredPages_v2(handle, cause))}, [(0,), (1,)])


def _links_errors(nvml: Any, handle: Any) -> dict[str, Any]:  # noqa: ANN401  (the binding)
    arguments = [(link, kind) for link in range(_links(nvml, handle)) for kind in range(4)]
    return _each(lambda link, kind: nvml.nvmlDeviceGetNvLinkErrorCounter(handle, link, kind), arguments)


def device_calls() -> dict[str, Ask]:
    """What is asked of a GPU, by the name under which the library has the function."""
    calls: dict[str, Ask] = {}
    for name in (*_NUMBERS, *_TEXTS):
        calls[f"nvmlDeviceGet{name}"] = lambda nvml, handle, name=name: getattr(nvml, f"nvmlDeviceGet{name}")(handle)  # type: ignore[misc]
    for name, names in _TUPLES:
        calls[f"nvmlDeviceGet{name}"] = lambda nvml, handle, name=name, names=names: dict(  # type: ignore[misc]
            zip(names, getattr(nvml, f"nvmlDeviceGet{name}")(handle), strict=True)
        )
    for name, names in _STRUCTS:
        calls[f"nvmlDeviceGet{name}"] = lambda nvml, handle, name=name, names=names: _members(  # type: ignore[misc]
            getattr(nvml, f"nvmlDeviceGet{name}")(handle), names
        )
    for name, numbers in _INDEXED:
        calls[f"nvmlDeviceGet{name}"] = _numbered(f"nvmlDeviceGet{name}", [numbers])
    for name in ("Compute", "Graphics", "MPSCompute"):
        function = f"nvmlDeviceGet{name}RunningProcesses_"
        calls[f"{function}v3"], calls[f"{function}v2"] = _processes(f"{function}v3"), _processes(f"{function}v2")
    calls |= {
        "nvmlDeviceGetMemoryInfo_v2": lambda nvml, handle: _members(
            nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2), ("total", "reserved", "free", "used")
        ),
        "nvmlDeviceGetPciInfo_v3": lambda nvml, handle: _pci(nvml.nvmlDeviceGetPciInfo_v3(handle)),
        "nvmlDeviceGetNvLinkRemotePciInfo_v2": lambda nvml, handle: _each(
            lambda link: _pci(nvml.nvmlDeviceGetNvLinkRemotePciInfo(handle, link)), [(link,) for link in range(_links(nvml, handle))]
        ),
        "nvmlDeviceGetNvLinkErrorCounter": _links_errors,
        "nvmlDeviceGetTotalEccErrors": _numbered("nvmlDeviceGetTotalEccErrors", [range(2), range(2)]),
        "nvmlDeviceGetMemoryErrorCounter": _numbered("nvmlDeviceGetMemoryErrorCounter", [range(2), range(2), range(8)]),
        "nvmlDeviceGetViolationStatus": lambda nvml, handle: _each(
            lambda policy: {"violationTime": nvml.nvmlDeviceGetViolationStatus(handle, policy).violationTime},
            [(policy,) for policy in (*range(6), 10, 11)],
        ),
        "nvmlDeviceGetRetiredPages_v2": _retired,
        "nvmlDeviceGetFanSpeedRPM": lambda nvml, handle: {"0": nvml.nvmlDeviceGetFanSpeedRPM(handle)},
        "nvmlDeviceGetGpuFabricInfoV": _fabric,
        "nvmlDeviceGetSramEccErrorStatus": _sram,
        "nvmlDeviceGetProcessUtilization": _utilization,
        "nvmlDeviceGetSamples": _samples,
        "nvmlDeviceGetFieldValues": _fields,
        "nvmlGpmQueryDeviceSupport": lambda nvml, handle: nvml.nvmlGpmQueryDeviceSupport(handle).isSupportedDevice,
    }  # fmt: skip
    return calls


def mig_calls() -> dict[str, Ask]:
    """What is asked of a MIG device."""
    everything = device_calls()
    wanted = (
        "nvmlDeviceGetName", "nvmlDeviceGetUUID", "nvmlDeviceGetMemoryInfo", "nvmlDeviceGetMemoryInfo_v2",
        "nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2",
    )  # fmt: skip
    return {name: everything[name] for name in wanted} | {
        "nvmlDeviceGetGpuInstanceId": lambda nvml, handle: nvml.nvmlDeviceGetGpuInstanceId(handle),
        "nvmlDeviceGetComputeInstanceId": lambda nvml, handle: nvml.nvmlDeviceGetComputeInstanceId(handle),
        "nvmlDeviceGetAttributes_v2": lambda nvml, handle: _members(
            nvml.nvmlDeviceGetAttributes_v2(handle), _ATTRIBUTES
        ),
    }


def system_calls() -> dict[str, Callable[[Any], Any]]:
    """What is asked of the system."""
    return {
        "nvmlSystemGetDriverVersion": lambda nvml: nvml.nvmlSystemGetDriverVersion(),
        "nvmlSystemGetNVMLVersion": lambda nvml: nvml.nvmlSystemGetNVMLVersion(),
        "nvmlSystemGetCudaDriverVersion_v2": lambda nvml: nvml.nvmlSystemGetCudaDriverVersion_v2(),
        "nvmlSystemGetDriverBranch": lambda nvml: nvml.nvmlSystemGetDriverBranch().branch,
    }


def counting_calls() -> dict[str, Ask]:
    """Of what is asked of a GPU, that which counts: asked twice, so that it has a rate."""
    return {
        name: ask for name, ask in device_calls().items() if name in _COUNTING or name == "nvmlDeviceGetFieldValues"
    }


def counts(function: str, key: str) -> bool:
    """Whether a function's answer for these arguments is a count; ``key`` is empty where it has none."""
    if function == "nvmlDeviceGetFieldValues":
        number = key.partition("/")[0]
        return number.isdigit() and int(number) in _COUNTING_FIELDS
    return function in _COUNTING


def mig_handles(nvml: Any, handle: Any) -> Iterator[Any]:  # noqa: ANN401  (the binding)
    """Handles of a GPU's MIG devices, in the order of their indices."""
    for index in range(_MAX_MIG):
        try:
            yield nvml.nvmlDeviceGetMigDeviceHandleByIndex(handle, index)
        except Exception:  # noqa: BLE001, S112  (gaps between indices are usual)
            continue
