"""GPUs as NVML tells of them, made from a few physical figures so that all answers of one GPU fit together.

Power swings around a mean; energy is its exact integral; the driver's average lags behind by half a second; the SM clock
falls when power nears the limit; temperature follows power; memory in use is what processes hold and what contexts need.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Calls = dict[str, Any]
MIB = 1 << 20
NOT_SUPPORTED = {"error": 3}
SW_POWER_CAP = 4
UP_SECONDS = 864_000


@dataclass(frozen=True)
class Model:
    """What a kind of board has: sizes in MiB, clocks in MHz, power in W, temperatures in degrees."""

    name: str
    architecture: int
    capability: tuple[int, int]
    device_id: int
    memory: int
    reserved: int
    bar1: int
    clocks: Mapping[str, int]  # highest, by NVML's number of the domain
    limits: tuple[int, int, int]  # default, least, most
    hottest: int  # the highest temperature at which it should work
    idle: int  # temperature without power
    degrees_per_watt: float
    pcie: int = 5
    vbios: str = "96.00.CF.00.02"
    relative_thresholds: bool = True  # told as distances from the highest temperature
    hbm: bool = True
    ecc: bool = True
    events: int = 0x1F
    remap_banks: int = 0


@dataclass(frozen=True)
class Load:
    """What a GPU does: a sine of ``swing`` watts and of ``period`` seconds around ``watts``.

    ``busy`` and ``dram`` are shares of time; ``used`` is memory in MiB that processes hold; PCIe in bytes a second.
    """

    watts: float = 610.0
    swing: float = 45.0
    period: float = 9.0
    phase: float = 0.0
    busy: float = 0.96
    dram: float = 0.44
    used: int = 120_000
    received: float = 3.1e9
    sent: float = 1.4e9
    pids: Sequence[int] = ()
    capped: float = 0.0  # share of time at the power limit


@dataclass(frozen=True)
class Board:
    """One GPU of a host."""

    model: Model
    load: Load
    bus: str
    uuid: str
    serial: str = ""
    minor: int = 0
    widths: tuple[int, int] = (16, 16)
    limit: int = 0
    more: Calls = field(default_factory=dict)

    @property
    def enforced(self) -> int:
        """The power limit that holds, in W."""
        return self.limit or self.model.limits[0]


def reading(mean: float, swing: float = 0.0, load: Load | None = None, turn: float = 0.0, **more: object) -> Any:
    """A number that swings with a load, ``turn`` radians behind it."""
    if load is None or not swing:
        return {"mean": mean, **more} if more else mean
    return {"mean": mean, "swing": swing, "period": load.period, "phase": round(load.phase - turn, 6), **more}


def counter(start: float, rate: float, swing: float = 0.0, load: Load | None = None, **more: object) -> dict[str, Any]:
    """A counter whose rate swings with a load."""
    found: dict[str, Any] = {"start": round(start), "rate": rate}
    if load is not None and swing:
        found |= {"swing": swing, "period": load.period, "phase": load.phase}
    return found | more


def by_argument(values: Sequence[object], first: int = 0) -> dict[str, Any]:
    """Answers numbered from ``first``."""
    return {str(first + place): value for place, value in enumerate(values)}


def identity(board: Board) -> Calls:
    """Names, versions, numbers."""
    model = board.model
    calls: Calls = {
        "nvmlDeviceGetName": model.name,
        "nvmlDeviceGetUUID": board.uuid,
        "nvmlDeviceGetVbiosVersion": model.vbios,
        "nvmlDeviceGetArchitecture": model.architecture,
        "nvmlDeviceGetCudaComputeCapability": {"major": model.capability[0], "minor": model.capability[1]},
        "nvmlDeviceGetMinorNumber": board.minor,
        "nvmlDeviceGetPciInfo_v3": {
            "busId": board.bus,
            "pciDeviceId": model.device_id << 16 | 0x10DE,
            "pciSubSystemId": 0x18BE10DE,
        },
        "nvmlDeviceGetSupportedEventTypes": model.events,
    }
    if board.serial:
        calls["nvmlDeviceGetSerial"] = board.serial
    return calls


def memory(board: Board) -> Calls:
    """Sizes in bytes: total = reserved + free + used; the older call counts what is reserved as used."""
    total, reserved = board.model.memory * MIB, board.model.reserved * MIB
    used = board.load.used * MIB
    return {
        "nvmlDeviceGetMemoryInfo": {"total": total, "free": total - reserved - used, "used": reserved + used},
        "nvmlDeviceGetMemoryInfo_v2": {
            "total": total,
            "reserved": reserved,
            "free": total - reserved - used,
            "used": used,
        },
        "nvmlDeviceGetBAR1MemoryInfo": {
            "bar1Total": board.model.bar1 * MIB,
            "bar1Free": (board.model.bar1 - 514) * MIB,
            "bar1Used": 514 * MIB,
        },
    }


def power(board: Board) -> Calls:
    """Power in mW, limits, energy in mJ."""
    load, limit = board.load, board.enforced
    if load.watts + load.swing > limit * 1.02:
        raise ValueError(f"{load.watts} + {load.swing} W are above the limit of {limit} W")
    # The mean over the last second of a sine: smaller, and half a second behind.
    turn = math.pi / load.period
    average = reading(load.watts * 1000, round(load.swing * 1000 * math.sin(turn) / turn, 3), load, turn)
    default, least, most = board.model.limits
    return {
        "nvmlDeviceGetPowerUsage": average,
        "nvmlDeviceGetEnforcedPowerLimit": limit * 1000,
        "nvmlDeviceGetPowerManagementLimit": limit * 1000,
        "nvmlDeviceGetPowerManagementDefaultLimit": default * 1000,
        "nvmlDeviceGetPowerManagementLimitConstraints": {"min": least * 1000, "max": most * 1000},
        "nvmlDeviceGetPowerManagementMode": 1,
        "nvmlDeviceGetTotalEnergyConsumption": counter(
            0.7 * load.watts * 1000 * UP_SECONDS, load.watts * 1000, load.swing * 1000, load
        ),
        "nvmlDeviceGetFieldValues": {
            "83": counter(0.7 * load.watts * 1000 * UP_SECONDS, load.watts * 1000, load.swing * 1000, load),
            "185": average | {"type": "uint"},
            "186": reading(load.watts * 1000, load.swing * 1000, load, type="uint", every=0.1),
        },
    }


def sm_clock(board: Board) -> tuple[float, float]:
    """Mean and swing of the SM clock in MHz: against the power, and lower where the limit is reached."""
    load, highest = board.load, board.model.clocks["1"]
    if load.busy < 0.05:
        return 0.17 * highest, 0.0
    lowered = 0.10 * load.capped * highest + 0.02 * load.busy * highest
    return round(highest - lowered), round(min(lowered, 0.02 * highest))


def clocks(board: Board) -> Calls:
    """Clocks in MHz, and why they are held down."""
    mean, swing = sm_clock(board)
    load, highest = board.load, board.model.clocks
    graphics = reading(mean, swing, load, math.pi)
    idle = load.busy < 0.05
    # A GPU that does nothing lets its memory's clock fall only where it has display memory.
    memory_clock = highest["2"] if board.model.hbm or not idle else 405
    violation = counter(2.1e13 * load.capped, round(1e9 * load.capped))
    zero = {"start": 0, "rate": 0}
    return {
        "nvmlDeviceGetClockInfo": {"0": graphics, "1": graphics, "2": memory_clock, "3": round(0.78 * mean)},
        "nvmlDeviceGetMaxClockInfo": dict(highest),
        "nvmlDeviceGetPerformanceState": 8 if idle and not board.model.hbm else 0,
        "nvmlDeviceGetCurrentClocksEventReasons": (1 if idle else 0) | (SW_POWER_CAP if load.capped else 0),
        "nvmlDeviceGetCurrentClocksThrottleReasons": (1 if idle else 0) | (SW_POWER_CAP if load.capped else 0),
        "nvmlDeviceGetSupportedClocksEventReasons": 0x1FF,
        "nvmlDeviceGetSupportedClocksThrottleReasons": 0x1FF,
        "nvmlDeviceGetViolationStatus": {
            str(policy): {"violationTime": violation if policy == 0 else zero} for policy in (0, 1, 2, 3, 4, 5, 10, 11)
        },
        "nvmlDeviceGetFieldValues": {
            "74": violation, **{str(number): zero for number in range(75, 82)},
        },
    }  # fmt: skip


def temperatures(board: Board) -> Calls:
    """Degrees: the die follows power, its memory is warmer; thresholds as the architecture tells them."""
    load, model = board.load, board.model
    mean = round(model.idle + model.degrees_per_watt * load.watts, 1)
    swing = round(model.degrees_per_watt * load.swing / 2, 2)
    calls: Calls = {"nvmlDeviceGetTemperature": {"0": reading(mean, swing, load, 0.8)}, "nvmlDeviceGetFieldValues": {}}
    if model.hbm:
        calls["nvmlDeviceGetFieldValues"]["82"] = reading(mean + 9, swing / 2, load, 1.2, type="uint")
    if model.relative_thresholds:
        calls["nvmlDeviceGetTemperatureV"] = calls["nvmlDeviceGetTemperature"]
        calls["nvmlDeviceGetMarginTemperature"] = reading(model.hottest - mean, -swing, load, 0.8)
        for number, value in (("193", -8), ("194", -2), ("195", 0), ("196", 0)):
            calls["nvmlDeviceGetFieldValues"][number] = {"mean": value, "type": "int"}
    else:
        calls["nvmlDeviceGetTemperatureThreshold"] = by_argument(
            [model.hottest + 7, model.hottest + 4, model.hottest + 10 if model.hbm else NOT_SUPPORTED, model.hottest]
        )
    return calls


def utilization(board: Board) -> Calls:
    """Shares of time in percent, and the driver's buffers of samples."""
    load = board.load
    swing = round(min(3.0, 100 - 100 * load.busy, 100 * load.busy), 2)
    gpu = reading(100 * load.busy, swing, load, type="uint", every=0.2)
    dram = reading(100 * load.dram, swing, load, type="uint", every=0.2)
    mean, clock_swing = sm_clock(board)
    return {
        "nvmlDeviceGetUtilizationRates": {"gpu": gpu, "memory": dram},
        "nvmlDeviceGetEncoderUtilization": {"utilization": 0, "samplingPeriodUs": 167000},
        "nvmlDeviceGetDecoderUtilization": {"utilization": 0, "samplingPeriodUs": 167000},
        "nvmlDeviceGetSamples": {
            "0": {
                "interval": 0.02, "count": 120,
                "value": reading(load.watts * 1000, load.swing * 1000, load, type="uint"),
            },
            "1": {"interval": 0.2, "count": 100, "value": gpu},
            "2": {"interval": 0.2, "count": 100, "value": dram},
            "5": {"interval": 0.02, "count": 120, "value": reading(mean, clock_swing, load, math.pi, type="uint")},
            "6": {"interval": 0.02, "count": 120, "value": {"mean": board.model.clocks["2"], "type": "uint"}},
        },
    }  # fmt: skip


def processes(board: Board) -> Calls:
    """Who computes: the memory in use but for what the driver needs for each context."""
    load = board.load
    share = (load.used - 600 * len(load.pids)) * MIB // max(1, len(load.pids))
    return {
        "nvmlDeviceGetComputeRunningProcesses_v3": [{"pid": pid, "usedGpuMemory": share} for pid in load.pids],
        "nvmlDeviceGetGraphicsRunningProcesses_v3": [],
        "nvmlDeviceGetMPSComputeRunningProcesses_v3": [],
        "nvmlDeviceGetProcessUtilization": [
            {
                "pid": pid,
                "smUtil": round(100 * load.busy),
                "memUtil": round(100 * load.dram),
                "encUtil": 0,
                "decUtil": 0,
            }
            for pid in load.pids
        ],
    }


def pcie(board: Board) -> Calls:
    """The link and what went over it; the plain rates are in kB a second."""
    load = board.load
    none = {"start": 0, "rate": 0, "type": "uint"}
    return {
        "nvmlDeviceGetCurrPcieLinkGeneration": board.model.pcie,
        "nvmlDeviceGetMaxPcieLinkGeneration": board.model.pcie,
        "nvmlDeviceGetGpuMaxPcieLinkGeneration": board.model.pcie,
        "nvmlDeviceGetCurrPcieLinkWidth": board.widths[0],
        "nvmlDeviceGetMaxPcieLinkWidth": board.widths[1],
        "nvmlDeviceGetPcieReplayCounter": 0,
        "nvmlDeviceGetPcieThroughput": by_argument([round(load.sent / 1000), round(load.received / 1000)]),
        "nvmlDeviceGetFieldValues": {"94": none},
    }


def ecc(board: Board, locations: Sequence[int], corrected: int = 0, uncorrected: int = 0) -> Calls:
    """Memory errors; all that happened were in the device's memory, and some before the driver was loaded."""
    counts = {"0": corrected, "1": uncorrected}
    return {
        "nvmlDeviceGetEccMode": {"current": 1, "pending": 1},
        "nvmlDeviceGetTotalEccErrors": {
            f"{kind}/{since}": count + 2 * since * count for kind, count in counts.items() for since in (0, 1)
        },
        "nvmlDeviceGetMemoryErrorCounter": {
            f"{kind}/{since}/{location}": count + 2 * since * count if location == 2 else 0
            for kind, count in counts.items()
            for since in (0, 1)
            for location in locations
        },
    }


def merged(*parts: Mapping[str, Any]) -> Calls:
    """One dictionary of calls; of calls with arguments the arguments are put together."""
    found: Calls = {}
    for part in parts:
        for function, answer in part.items():
            before = found.get(function)
            found[function] = {**before, **answer} if isinstance(before, dict) and isinstance(answer, dict) else answer
    return found
