"""Hosts with other GPUs: A100 with MIG, a workstation, an old driver."""

from __future__ import annotations

from typing import Any

from tests.nvml_shim.boards import (
    MIB,
    NOT_SUPPORTED,
    Board,
    Load,
    clocks,
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
from tests.nvml_shim.models import (
    A100,
    AFTER_470,
    AFTER_535,
    AFTER_560,
    AMPERE_LOCATIONS,
    NVLINK2,
    NVLINK3,
    RTX,
    V100,
    VOLTA_LOCATIONS,
    mig_device,
    mig_parent,
    recording,
    settings,
    system,
    uuid,
)
from tests.nvml_shim.modern import nvlinks, remapping


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
            processes(board), pcie(board), ecc(board, AMPERE_LOCATIONS, 2 if number == 3 else 0),
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
    made = recording("4 x A100 SXM4 80 GB, the first two with MIG", system(driver, 12_020), devices)
    made["missing"] = list(AFTER_535)
    return made


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
    made = recording(
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
            processes(board), pcie(board), ecc(board, VOLTA_LOCATIONS, 3 * number, number),
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
    made = recording("2 x V100 under the driver 470", system(driver, 11_040), devices)
    made["missing"] = list(AFTER_470)
    return made
