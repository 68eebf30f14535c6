"""Makes recordings/*.json: hosts made up from public knowledge of their boards, physically consistent.

    python -m tests.nvml_shim.make_recordings

A real host's recording comes from hwsonde_exporter.nvml.record and has the same form.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from tests.nvml_shim.boards import (
    MIB,
    NOT_SUPPORTED,
    Board,
    Calls,
    Load,
    Model,
    clocks,
    counter,
    ecc,
    identity,
    memory,
    merged,
    pcie,
    power,
    processes,
    temperatures,
    utilization,
)
from tests.nvml_shim.modern import counted_bytes, fabric, monitors, nvlinks, remapping, sram
from tests.nvml_shim.recording import FORMAT, RECORDINGS

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
_HOPPER_LOCATIONS, _AMPERE_LOCATIONS, _VOLTA_LOCATIONS = (2, 7), (0, 1, 2, 3), (0, 1, 2, 3, 4, 6)
_HW_SLOWDOWN, _HW_THERMAL, _SW_THERMAL = 8, 0x40, 0x20

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
        "nvmlSystemGetDriverBranch": f"r{driver.split('.')[0]}_00",
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


# ---- eight H200 with NVSwitches -------------------------------------------------------------------------------------


def h200(host: str, number: int, load: Load, widths: tuple[int, int] = (16, 16)) -> Calls:
    """One GPU of an HGX board; what goes over its links is a third of what they could carry."""
    board = Board(
        H200, load, f"00000000:{NODE192[number]}:00.0", uuid(host, number), f"16548241{number:05d}", number, widths
    )
    busy = load.busy > 0.05
    share = 0.32 if busy else 0.0
    extra = {
        "186/1": {"mean": load.watts * 1000 + 92_000, "type": "uint"},
        "186/2": {"mean": round(0.13 * load.watts * 1000), "type": "uint"},
        "187": {"mean": 200_000, "type": "uint"}, "188": {"mean": 700_000, "type": "uint"},
        "189": {"mean": 700_000, "type": "uint"}, "190": {"mean": 700_000, "type": "uint"},
        "230": {"mean": 0, "type": "uint"},
        **{str(field): {"start": 0, "rate": 0} for field in (269, 270, 271)},
    }  # fmt: skip
    calls = merged(
        identity(board), memory(board), power(board), clocks(board), temperatures(board), utilization(board),
        processes(board), pcie(board), counted_bytes(board), ecc(board, _HOPPER_LOCATIONS), remapping(board), sram(),
        nvlinks(board, *NVLINK4, share, "00000000:0{}:00.0", 6), fabric(), monitors(board, *NVLINK4, share),
        settings("570.124.06", board),
        {
            "nvmlDeviceGetFieldValues": extra,
            "nvmlDeviceGetModuleId": number + 1,
            "nvmlDeviceGetJpgUtilization": {"utilization": 0, "samplingPeriodUs": 167000},
            "nvmlDeviceGetOfaUtilization": {"utilization": 0, "samplingPeriodUs": 167000},
        },
    )  # fmt: skip
    return calls


def h200_mig(host: str, parent: Calls) -> tuple[list[dict[str, Any]], Calls]:
    """The seventh GPU cut into two, if a test switches MIG on: its MIG devices, and what it answers then."""
    devices = []
    for index, (instance, profile, processors, size) in enumerate(
        ((1, "4g.71gb", 64, 72_192), (2, "3g.71gb", 60, 72_192))
    ):
        devices.append({"calls": mig_device("NVIDIA H200", host, 7, index, (instance, 0, profile, processors, size))})
        devices[-1]["calls"]["nvmlGpmMetricsGet"] = {"2": 80.0 - 30 * index, "5": 40.0 - 20 * index, "10": 30.0}
    return devices, mig_parent() | {
        "nvmlDeviceGetMaxMigDeviceCount": 7,
        "nvmlGpmMetricsGet": parent["nvmlGpmMetricsGet"],
    }


def loads(pids: int) -> list[Load]:
    """Eight ranks of one training: the same rhythm, each a little of its own."""
    random = Random(200)
    found = []
    for number in range(8):
        watts = round(random.uniform(598, 626), 1)
        capped = 0.12 if number == 2 else 0.0
        found.append(
            Load(
                watts=648.0 if capped else watts,
                swing=52.0 if capped else 44.0,
                phase=round(0.05 * number, 3),
                busy=round(random.uniform(0.95, 0.97), 3),
                dram=round(random.uniform(0.41, 0.46), 3),
                used=118_000 + 210 * number,
                received=round(random.uniform(2.9e9, 3.3e9)),
                sent=round(random.uniform(1.2e9, 1.5e9)),
                pids=(pids + number,),
                capped=capped,
            )
        )
    return found


def h200_host() -> dict[str, Any]:
    """The GPUs of the fixture host node192, whose fifth one has half of its lanes."""
    host = "h200"
    found = loads(48_400)
    devices: list[dict[str, Any]] = []
    for number, load in enumerate(found):
        calls = h200(host, number, load, (8, 16) if number == 4 else (16, 16))
        if number == 4:
            calls["nvmlDeviceGetPcieReplayCounter"] = counter(204, 0.02)
            calls["nvmlDeviceGetFieldValues"] |= {
                "94": counter(204, 0.02, type="uint"), "175": counter(4118, 0.4, type="uint"),
                "176": counter(204, 0.02, type="uint"), "173": counter(4322, 0.42, type="uint"),
            }  # fmt: skip
        devices.append({"calls": calls})
    devices[7]["mig"], devices[7]["mig_on"] = h200_mig(host, devices[7]["calls"])
    return _recording("8 x H200 SXM with NVLink 4 over NVSwitches, training", system("570.124.06", 12_080), devices)


def sick_host() -> dict[str, Any]:
    """The same board with seven kinds of trouble and one healthy GPU, the first."""
    host = "sick"
    found = loads(52_000)
    found[1] = replace(found[1], pids=(), busy=0.0, dram=0.0, watts=118.0, swing=2.0, used=2, sent=0, received=0)
    found[5] = replace(found[5], watts=352.0, swing=20.0, busy=0.97, capped=0.0)
    calls = [h200(host, number, load, (4, 16) if number == 7 else (16, 16)) for number, load in enumerate(found)]
    board = Board(H200, found[1], "", "")
    # 1: no spare rows are left for a bank.
    calls[1] = merged(
        calls[1], remapping(board, 3, 8, failed=1), ecc(board, _HOPPER_LOCATIONS, 41, 6), sram(1, 11),
        {"nvmlDeviceGetFieldValues": {"230": {"mean": 4, "type": "uint"}}},
    )  # fmt: skip
    # 2: a row waits for a reset.
    calls[2] = merged(
        calls[2], remapping(board, 0, 1, pending=1), ecc(board, _HOPPER_LOCATIONS, 7, 1),
        {"nvmlDeviceGetFieldValues": {"230": {"mean": 1, "type": "uint"}}},
    )  # fmt: skip
    # 5: its cooling has failed: at the limit, clocks fall.
    reasons = _HW_SLOWDOWN | _HW_THERMAL | _SW_THERMAL
    hot = {"mean": 87.4, "swing": 0.9, "period": 9.0}
    calls[5] = merged(
        calls[5],
        {
            "nvmlDeviceGetTemperature": {"0": hot}, "nvmlDeviceGetTemperatureV": {"0": hot},
            "nvmlDeviceGetClockInfo": {"0": 705, "1": 705, "3": 660},
            "nvmlDeviceGetViolationStatus": {"1": {"violationTime": counter(9.1e12, 8.2e8)}},
            "nvmlDeviceGetFieldValues": {
                "82": {"mean": 96.0, "swing": 0.8, "period": 9.0, "type": "uint"},
                "75": counter(9.1e12, 8.2e8), "269": counter(8.8e12, 7.9e8), "270": counter(2.1e12, 3.0e8),
            },
        },
    )  # fmt: skip
    calls[5] |= {
        "nvmlDeviceGetMarginTemperature": {"mean": -0.4, "swing": 0.9, "period": 9.0, "phase": 3.141593},
        "nvmlDeviceGetCurrentClocksEventReasons": reasons,
        "nvmlDeviceGetCurrentClocksThrottleReasons": reasons,
    }
    # 6: one link is down, another makes errors.
    silent = {f"{field}/11": {"start": 40_118_000, "rate": 0} for field in (138, 139, 140, 141)}
    calls[6] = merged(
        calls[6],
        {
            "nvmlDeviceGetNvLinkState": {"11": 0},
            "nvmlDeviceGetNvLinkErrorCounter": {
                "3/0": counter(412, 0.8), "3/1": counter(19, 0.05), "3/2": counter(70_411, 130.0), "3/3": counter(204, 0.4),
                "11/1": 3,
            },
            "nvmlDeviceGetGpuFabricInfoV": {"healthMask": 0x1A9, "healthSummary": 3},
            "nvmlDeviceGetFieldValues": silent | {"164/11": {"mean": 0, "type": "uint"}},
        },
    )  # fmt: skip
    # 7: a bad riser: a quarter of the lanes, an older generation, replays.
    calls[7] = merged(
        calls[7],
        {
            "nvmlDeviceGetFieldValues": {
                "94": counter(88_412, 31.0, type="uint"), "169": counter(977, 0.5, type="uint"),
                "173": counter(90_118, 33.0, type="uint"), "175": counter(61_204, 20.0, type="uint"),
                "176": counter(14_204, 6.0, type="uint"), "178": counter(13_004, 5.0, type="uint"),
            },
        },
    )  # fmt: skip
    calls[7] |= {"nvmlDeviceGetCurrPcieLinkGeneration": 3, "nvmlDeviceGetPcieReplayCounter": counter(88_412, 31.0)}
    made = _recording("8 x H200: failed remap, pending remap, lost, hung, hot, NVLink errors, PCIe degraded",
                      system("570.124.06", 12_080), [{"calls": one} for one in calls])  # fmt: skip
    made["faults"] = [{"device": 3, "error": 15}, {"device": 4, "function": "nvmlDeviceGet[!HUIN]*", "hang": "asleep"}]
    return made


# ---- four A100, two of them with MIG --------------------------------------------------------------------------------


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


def a100_host() -> dict[str, Any]:
    """Two whole GPUs and two that are cut, one into four and one into seven."""
    host, driver = "a100-mig", "535.183.06"
    cuts = (
        ((1, 0, "3g.40gb", 42, 40_192), (3, 0, "2g.20gb", 28, 19_968), (9, 0, "1g.10gb", 14, 9_728), (10, 0, "1g.10gb", 14, 9_728)),
        tuple((7 + place, 0, "1g.10gb", 14, 9_728) for place in range(7)),
    )  # fmt: skip
    devices: list[dict[str, Any]] = []
    for number, bus in enumerate(("07", "0F", "47", "4E")):
        cut = cuts[number] if number < 2 else ()
        names = [mig_device(A100.name, host, number, index, instance) for index, instance in enumerate(cut)]
        used = sum(one["nvmlDeviceGetMemoryInfo"]["used"] for one in names) // MIB
        load = Load(
            watts=(238.0, 262.0, 351.0, 84.0)[number], swing=(9.0, 9.0, 30.0, 1.0)[number], period=7.0, phase=0.3 * number,
            busy=(0.6, 0.7, 0.93, 0.0)[number], dram=(0.3, 0.3, 0.5, 0.0)[number], used=used or (61_000, 3)[number - 2],
            received=1.1e9 if number < 3 else 0, sent=0.4e9 if number < 3 else 0,
            pids=(60_412,) if number == 2 else (),
        )  # fmt: skip
        board = Board(A100, load, f"00000000:{bus}:00.0", uuid(host, number), f"15650{number:08d}", number)
        calls = merged(
            identity(board), memory(board), power(board), clocks(board), temperatures(board), utilization(board),
            processes(board), pcie(board), ecc(board, _AMPERE_LOCATIONS, 2 if number == 3 else 0),
            remapping(board, 1 if number == 3 else 0), nvlinks(board, *NVLINK3, 0.2 if number == 2 else 0.0, "00000000:C{}:00.0", 4),
            settings(driver, board),
            {"nvmlGpmQueryDeviceSupport": 0, "nvmlDeviceGetGpuFabricInfoV": NOT_SUPPORTED},
        )  # fmt: skip
        device: dict[str, Any] = {"calls": calls}
        if cut:
            off = {name: calls[name] for name in mig_parent()}
            device["calls"] = merged(calls, mig_parent()) | {
                name: answer for name, answer in mig_parent().items() if answer == NOT_SUPPORTED
            }
            device["calls"]["nvmlDeviceGetComputeRunningProcesses_v3"] = []
            device |= {"mig": [{"calls": one} for one in names], "mig_off": off}
        devices.append(device)
    made = _recording("4 x A100 SXM4 80 GB, the first two with MIG", system(driver, 12_020), devices)
    made["missing"] = list(AFTER_535)
    return made


# ---- a workstation, an old driver -----------------------------------------------------------------------------------


def workstation_host() -> dict[str, Any]:
    """A GeForce with a screen: fans, no ECC, no serial number, no NVLink, few settings."""
    host = "workstation"
    load = Load(
        watts=41.0, swing=6.0, period=5.0, busy=0.07, dram=0.03, used=1_622, received=4.0e6, sent=1.0e6, pids=(),
    )  # fmt: skip
    board = Board(RTX, load, "00000000:01:00.0", uuid(host, 0))
    calls = merged(
        identity(board), memory(board), power(board), clocks(board), temperatures(board), utilization(board),
        processes(board), pcie(board),
        {
            "nvmlDeviceGetFieldValues": {"*": NOT_SUPPORTED},
            "nvmlDeviceGetClockInfo": {"0": 645, "1": 645, "2": 810, "3": 1185},
            "nvmlDeviceGetNumFans": 2,
            "nvmlDeviceGetFanSpeed": 34,
            "nvmlDeviceGetFanSpeed_v2": {"0": 34, "1": 33, "*": {"error": 2}},
            "nvmlDeviceGetFanSpeedRPM": {"0": 1204},
            "nvmlDeviceGetPersistenceMode": 0,
            "nvmlDeviceGetComputeMode": 0,
            "nvmlDeviceGetDisplayActive": 1,
            "nvmlDeviceGetDisplayMode": 0,
            "nvmlDeviceGetMaxMigDeviceCount": 0,
            "nvmlGpmQueryDeviceSupport": 0,
        },
    )  # fmt: skip
    calls |= {
        "nvmlDeviceGetPerformanceState": 5,
        # An idle link falls to an older generation.
        "nvmlDeviceGetCurrPcieLinkGeneration": 1,
        "nvmlDeviceGetGraphicsRunningProcesses_v3": [
            {"pid": 2210, "usedGpuMemory": 611 * MIB}, {"pid": 2311, "usedGpuMemory": 204 * MIB}, {"pid": 4120, "usedGpuMemory": None},
        ],
        "nvmlDeviceGetProcessUtilization": [{"pid": 2210, "smUtil": 5, "memUtil": 2, "encUtil": 0, "decUtil": 0}],
        "nvmlDeviceGetEncoderUtilization": {"utilization": 12, "samplingPeriodUs": 100000},
        "nvmlDeviceGetDecoderUtilization": {"utilization": 3, "samplingPeriodUs": 100000},
    }  # fmt: skip
    made = _recording(
        "a workstation with a GeForce RTX 4080 SUPER and a screen", system("560.35.03", 12_060), [{"calls": calls}]
    )
    made["missing"] = list(AFTER_560)
    return made


def old_host() -> dict[str, Any]:
    """Two V100 under driver 470: pages instead of rows, no performance monitors, no newer field ids."""
    host, driver = "old-driver", "470.256.02"
    devices = []
    for number, bus in enumerate(("15", "16")):
        load = Load(
            watts=214.0 - 20 * number, swing=12.0, period=6.0, busy=0.88, dram=0.4, used=22_118, received=8.0e8, sent=3.0e8,
            pids=(7_104 + number,),
        )  # fmt: skip
        board = Board(V100, load, f"00000000:{bus}:00.0", uuid(host, number), f"03235190{number:05d}", number)
        links, speed = NVLINK2
        calls = merged(
            identity(board), memory(board), power(board), clocks(board), temperatures(board), utilization(board),
            processes(board), pcie(board), ecc(board, _VOLTA_LOCATIONS, 3 * number, number),
            nvlinks(board, links, speed, 0.1, "00000000:8{}:00.0", 2), settings(driver, board),
            {
                "nvmlDeviceGetFieldValues": {
                    "29": {"mean": 2 * number, "type": "uint"}, "30": {"mean": number, "type": "uint"},
                    "31": {"mean": number, "type": "uint"},
                },
                "nvmlDeviceGetRetiredPages_v2": {"0": {"count": 2 * number}, "1": {"count": number}},
                "nvmlDeviceGetRetiredPagesPendingStatus": number,
            },
        )  # fmt: skip
        fields = calls["nvmlDeviceGetFieldValues"]
        # Field ids that this driver does not know are wrong arguments to it.
        calls["nvmlDeviceGetFieldValues"] = {
            key: answer for key, answer in fields.items() if int(key.split("/")[0]) <= 160
        } | {"*": {"error": 2}}
        calls["nvmlDeviceGetMigMode"] = NOT_SUPPORTED
        devices.append({"calls": calls})
    made = _recording("2 x V100 under the driver 470", system(driver, 11_040), devices)
    made["missing"] = list(AFTER_470)
    return made


def _recording(about: str, system_calls: Calls, devices: list[dict[str, Any]]) -> dict[str, Any]:
    return {"format": FORMAT, "about": about, "missing": [], "system": system_calls, "devices": devices}


HOSTS = {
    "h200": h200_host, "sick": sick_host, "a100-mig": a100_host, "workstation": workstation_host, "old-driver": old_host,
}  # fmt: skip


def text(recording: Mapping[str, Any]) -> str:
    """JSON with one call a line, for people who compare."""

    def calls(found: Calls, indent: str) -> str:
        rows = ",\n".join(f"{indent} {json.dumps(name)}: {json.dumps(found[name])}" for name in sorted(found))
        return f"{{\n{rows}\n{indent}}}"

    def device(found: Mapping[str, Any]) -> str:
        parts = [f'"calls": {calls(found["calls"], "  ")}']
        if "mig" in found:
            parts.append(f'"mig": [{", ".join(device(one) for one in found["mig"])}]')
        parts += [f'"{mode}": {calls(found[mode], "  ")}' for mode in ("mig_off", "mig_on") if mode in found]
        return "{" + ", ".join(parts) + "}"

    devices = ",\n  ".join(device(one) for one in recording["devices"])
    rest = {key: value for key, value in recording.items() if key not in {"system", "devices"}}
    head = ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in rest.items())
    return f'{{\n{head},\n "system": {calls(recording["system"], " ")},\n "devices": [\n  {devices}\n ]\n}}\n'


def main(folder: Path = RECORDINGS) -> None:
    """Write every recording."""
    folder.mkdir(exist_ok=True)
    for name, make in HOSTS.items():
        (folder / f"{name}.json").write_text(text(make()))


if __name__ == "__main__":
    main()
