"""Hosts with eight H200: a healthy one, and one with seven kinds of trouble."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from tests.nvml_shim.boards import (
    Board,
    Calls,
    Load,
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
from tests.nvml_shim.models import (
    H200,
    HOPPER_LOCATIONS,
    NODE192,
    NVLINK4,
    mig_device,
    mig_parent,
    recording,
    settings,
    system,
    uuid,
)
from tests.nvml_shim.modern import counted_bytes, fabric, monitors, nvlinks, remapping, sram

_HW_SLOWDOWN, _HW_THERMAL, _SW_THERMAL = 8, 0x40, 0x20


def identity_of(host: str, number: int) -> str:
    """UUID of a GPU; that of the healthy host is the one that the kernel files of node192 tell."""
    return f"GPU-5a11000{number}-3d7c-4f0e-9b21-0c4e7a61d00{number}" if host == "h200" else uuid(host, number)


def h200(host: str, number: int, load: Load, widths: tuple[int, int] = (16, 16)) -> Calls:
    """One GPU of an HGX board; what goes over its links is a third of what they could carry."""
    board = Board(
        H200,
        load,
        f"00000000:{NODE192[number]}:00.0",
        identity_of(host, number),
        f"16548241{number:05d}",
        number,
        widths,
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
    return merged(
        identity(board), memory(board), power(board), clocks(board), temperatures(board), utilization(board),
        processes(board), pcie(board), counted_bytes(board), ecc(board, HOPPER_LOCATIONS), remapping(board), sram(),
        nvlinks(board, *NVLINK4, share, "00000000:0{}:00.0", 6), fabric(), monitors(board, *NVLINK4, share),
        settings("570.124.06", board),
        {
            "nvmlDeviceGetFieldValues": extra,
            "nvmlDeviceGetModuleId": number + 1,
            "nvmlDeviceGetJpgUtilization": {"utilization": 0, "samplingPeriodUs": 167000},
            "nvmlDeviceGetOfaUtilization": {"utilization": 0, "samplingPeriodUs": 167000},
        },
    )  # fmt: skip


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
    return recording("8 x H200 SXM with NVLink 4 over NVSwitches, training", system("570.124.06", 12_080), devices)


def sick_host() -> dict[str, Any]:
    """The same board with seven kinds of trouble and one healthy GPU, the first."""
    host = "sick"
    found = loads(52_000)
    found[1] = replace(found[1], pids=(), busy=0.0, dram=0.0, watts=118.0, swing=2.0, used=2, sent=0, received=0)
    found[7] = replace(found[7], received=2.1e9, sent=1.0e9)
    found[5] = replace(found[5], watts=352.0, swing=20.0, busy=0.97, capped=0.0)
    calls = [h200(host, number, load, (4, 16) if number == 7 else (16, 16)) for number, load in enumerate(found)]
    board = Board(H200, found[1], "", "")
    # 1: no spare rows are left for a bank.
    calls[1] = merged(
        calls[1], remapping(board, 3, 8, failed=1), ecc(board, HOPPER_LOCATIONS, 41, 6), sram(1, 11),
        {"nvmlDeviceGetFieldValues": {"230": {"mean": 4, "type": "uint"}}},
    )  # fmt: skip
    # 2: a row waits for a reset.
    calls[2] = merged(
        calls[2], remapping(board, 0, 1, pending=1), ecc(board, HOPPER_LOCATIONS, 7, 1),
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
    made = recording("8 x H200: failed remap, pending remap, lost, hung, hot, NVLink errors, PCIe degraded",
                      system("570.124.06", 12_080), [{"calls": one} for one in calls])  # fmt: skip
    made["faults"] = [{"device": 3, "error": 15}, {"device": 4, "function": "nvmlDeviceGet[!HUIN]*", "hang": "asleep"}]
    return made
