"""Kinds of boards, and what the hosts of the recordings have in common."""

from __future__ import annotations

import hashlib
from typing import Any

from tests.nvml_shim.boards import MIB, NOT_SUPPORTED, Board, Calls, Model
from tests.nvml_shim.recording import FORMAT

H200 = Model(
    "NVIDIA H200", 9, (9, 0), 0x2335, 143_771, 616, 262_144, {"0": 1980, "1": 1980, "2": 3201, "3": 1545},
    (700, 200, 700), 87, 30, 0.047, remap_banks=3072,
)  # fmt: skip
A100 = Model(
    "NVIDIA A100-SXM4-80GB", 7, (8, 0), 0x20B2, 81_920, 641, 131_072, {"0": 1410, "1": 1410, "2": 1593, "3": 1290},
    (400, 100, 400), 85, 28, 0.08, pcie=4, vbios="92.00.45.00.03", relative_thresholds=False, remap_banks=640,
)  # fmt: skip
V100 = Model(
    "Tesla V100-SXM2-32GB", 5, (7, 0), 0x1DB5, 32_510, 0, 32_768, {"0": 1530, "1": 1530, "2": 877, "3": 1372},
    (300, 150, 300), 83, 30, 0.11, pcie=3, vbios="88.00.80.00.01", relative_thresholds=False,
)  # fmt: skip
RTX = Model(
    "NVIDIA GeForce RTX 4080 SUPER", 8, (8, 9), 0x2702, 16_376, 280, 16_384,
    {"0": 3120, "1": 3120, "2": 11_501, "3": 2415}, (320, 150, 352), 84, 34, 0.11, pcie=4, vbios="95.03.45.00.AE",
    hbm=False, ecc=False, events=0x1D,
)  # fmt: skip
NODE192 = ("3A", "3C", "4A", "4C", "BA", "BC", "CA", "CC")
NVLINK4, NVLINK3, NVLINK2 = (18, 26_562), (12, 25_781), (6, 25_781)
HOPPER_LOCATIONS, AMPERE_LOCATIONS, VOLTA_LOCATIONS = (2, 7), (0, 1, 2, 3), (0, 1, 2, 3, 4, 6)

# Functions that came with a later driver.
AFTER_560 = ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetFanSpeedRPM")
AFTER_535 = (
    *AFTER_560, "nvmlDeviceGetMarginTemperature", "nvmlDeviceGetPciInfoExt", "nvmlDeviceGetSramEccErrorStatus",
    "nvmlDeviceGetProcessesUtilizationInfo", "nvmlSystemGetDriverBranch",
)  # fmt: skip
AFTER_470 = (
    *AFTER_535, "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetComputeRunningProcesses_v3",
    "nvmlDeviceGetGraphicsRunningProcesses_v3", "nvmlDeviceGetMPSComputeRunningProcesses_v3",
    "nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetSupportedClocksEventReasons", "nvmlDeviceGetGpuFabricInfo",
    "nvmlDeviceGetGpuFabricInfoV", "nvmlDeviceGetJpgUtilization", "nvmlDeviceGetOfaUtilization", "nvmlDeviceGetNumaNodeId",
    "nvmlDeviceGetNumGpuCores", "nvmlDeviceGetMemoryBusWidth", "nvmlDeviceGetPowerSource", "nvmlDeviceGetPcieSpeed",
    "nvmlDeviceGetPcieLinkMaxSpeed", "nvmlDeviceGetIrqNum", "nvmlDeviceGetGspFirmwareMode",
    "nvmlDeviceGetGspFirmwareVersion", "nvmlDeviceGetModuleId", "nvmlDeviceGetBusType", "nvmlGpmQueryDeviceSupport",
    "nvmlGpmSampleAlloc", "nvmlGpmSampleFree", "nvmlGpmSampleGet", "nvmlGpmMigSampleGet", "nvmlGpmMetricsGet",
)  # fmt: skip


def uuid(host: str, number: int, prefix: str = "GPU") -> str:
    """An identity that is the same each time."""
    digits = hashlib.sha256(f"{host}/{prefix}/{number}".encode()).hexdigest()
    return f"{prefix}-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:32]}"


def system(driver: str, cuda: int) -> Calls:
    """Versions of the driver's parts."""
    return {
        "nvmlSystemGetDriverVersion": driver,
        "nvmlSystemGetNVMLVersion": f"{cuda // 1000}.{driver}",
        "nvmlSystemGetCudaDriverVersion": cuda,
        "nvmlSystemGetCudaDriverVersion_v2": cuda,
        "nvmlSystemGetDriverBranch": f"r{driver.split('.', maxsplit=1)[0]}_00",
    }


def settings(driver: str, board: Board) -> Calls:
    """What an administrator sets, as data-centre boards have it."""
    highest = board.model.clocks
    return {
        "nvmlDeviceGetPersistenceMode": 1,
        "nvmlDeviceGetComputeMode": 0,
        "nvmlDeviceGetApplicationsClock": {"0": highest["0"], "2": highest["2"]},
        "nvmlDeviceGetDefaultApplicationsClock": {"0": highest["0"], "2": highest["2"]},
        "nvmlDeviceGetMigMode": {"current": 0, "pending": 0},
        "nvmlDeviceGetMaxMigDeviceCount": 0,
        "nvmlDeviceGetGspFirmwareVersion": driver,
        "nvmlDeviceGetGspFirmwareMode": {"isEnabled": 1, "defaultMode": 1},
        "nvmlDeviceGetDisplayActive": 0,
        "nvmlDeviceGetDisplayMode": 1,
        "nvmlDeviceGetNumFans": 0,
    }


def mig_parent() -> Calls:
    """What a GPU no longer tells as a whole when it is cut into instances."""
    return {
        "nvmlDeviceGetMigMode": {"current": 1, "pending": 1},
        "nvmlDeviceGetMaxMigDeviceCount": 7,
        "nvmlDeviceGetUtilizationRates": NOT_SUPPORTED,
        "nvmlDeviceGetEncoderUtilization": NOT_SUPPORTED,
        "nvmlDeviceGetDecoderUtilization": NOT_SUPPORTED,
        "nvmlDeviceGetProcessUtilization": NOT_SUPPORTED,
        "nvmlDeviceGetSamples": {"1": NOT_SUPPORTED, "2": NOT_SUPPORTED},
    }


def mig_device(name: str, host: str, gpu: int, index: int, instance: tuple[int, int, str, int, int]) -> Calls:
    """One MIG device: GPU instance, compute instance, profile, multiprocessors, memory in MiB."""
    gpu_instance, compute_instance, profile, processors, size = instance
    used = round(size * (0.62 - 0.07 * index))
    slices = int(profile[0])
    return {
        "nvmlDeviceGetName": f"{name} MIG {profile}",
        "nvmlDeviceGetUUID": uuid(host, 100 * gpu + index, "MIG"),
        "nvmlDeviceGetGpuInstanceId": gpu_instance,
        "nvmlDeviceGetComputeInstanceId": compute_instance,
        "nvmlDeviceGetAttributes_v2": {
            "multiprocessorCount": processors, "sharedCopyEngineCount": slices, "sharedDecoderCount": slices // 2,
            "sharedEncoderCount": 0, "sharedJpegCount": 0, "sharedOfaCount": 0, "gpuInstanceSliceCount": slices,
            "computeInstanceSliceCount": slices, "memorySizeMB": size,
        },
        "nvmlDeviceGetMemoryInfo": {"total": size * MIB, "free": (size - used) * MIB, "used": used * MIB},
        "nvmlDeviceGetMemoryInfo_v2": {
            "total": size * MIB, "reserved": 0, "free": (size - used) * MIB, "used": used * MIB,
        },
        "nvmlDeviceGetComputeRunningProcesses_v3": [
            {"pid": 61_000 + 100 * gpu + index, "usedGpuMemory": (used - 400) * MIB, "gpuInstanceId": gpu_instance,
             "computeInstanceId": compute_instance}
        ],
        "nvmlDeviceGetGraphicsRunningProcesses_v3": [],
        "nvmlDeviceGetMPSComputeRunningProcesses_v3": [],
    }  # fmt: skip


def recording(about: str, system_calls: Calls, devices: list[dict[str, Any]]) -> dict[str, Any]:
    return {"format": FORMAT, "about": about, "missing": [], "system": system_calls, "devices": devices}
