"""A GPU whose cooling fails: what it answers from the first degree to the last, and when it has got well again."""

from __future__ import annotations

import time
from typing import Any

from tests.nvml_shim.control import Control
from tests.nvml_shim.recording import load

HOT = 3
LIMITED = 6
# The one in a bad slot, and fields of nvml.h that count what is sent again there.
SLOT, REPLAYS = 4, ("94", "173", "175", "176")
# Nanoseconds for which clocks were held down before the recording began: counters may not start at 0, nor go back.
HELD = 10**13
# Fields of nvml.h: time held down for heat, in all and by its reason; temperature of the memory; power.
SLOWED = ("75", "269")
MEMORY_TEMPERATURE, POWER_AVERAGE, POWER_NOW = "82", "185", "186"
REASONS = 8 | 0x40 | 0x20  # slowed by the hardware, and that for heat; and by the driver for heat


def recorded() -> dict[str, Any]:
    """The GPUs of the recording h200; in good slots, the one that gets hot was slowed before, and of another somebody has set the power limit."""
    recording = load("h200")
    recording["devices"][HOT]["calls"] |= _slowed(recording["devices"][HOT]["calls"], {"start": HELD, "rate": 0})
    bad, good = (recording["devices"][place]["calls"] for place in (SLOT, 0))
    for name in ("nvmlDeviceGetCurrPcieLinkWidth", "nvmlDeviceGetPcieReplayCounter"):
        bad[name] = good[name]
    bad["nvmlDeviceGetFieldValues"] |= {name: good["nvmlDeviceGetFieldValues"][name] for name in REPLAYS}
    for name in ("nvmlDeviceGetEnforcedPowerLimit", "nvmlDeviceGetPowerManagementLimit"):
        recording["devices"][LIMITED]["calls"][name] = 650_000
    return recording


def _slowed(calls: dict[str, Any], counter: dict[str, Any]) -> dict[str, Any]:
    fields = {**calls["nvmlDeviceGetFieldValues"], **dict.fromkeys(SLOWED, counter)}
    return {"nvmlDeviceGetFieldValues": fields, "nvmlDeviceGetViolationStatus": {"1": {"violationTime": counter}}}


class HotGpu:
    """Changes what the GPU answers.

    Parameters
    ----------
    control
        Of the library.
    """

    def __init__(self, control: Control) -> None:
        self._control = control
        self._part = 0.0
        self._held = float(HELD)
        self._since = 0.0

    @property
    def speed(self) -> float:
        """How fast a training runs that waits for this GPU, as a share of its usual speed."""
        return 1 - 0.45 * self._part

    def heat(self, part: float) -> None:
        """Let it be as it is: 0 well, 1 at its limit with clocks that have fallen."""
        now = (time.time_ns() - self._control.page.start_ns) / 1e9
        # Where the counter has come by now: it goes on from there, at another rate.
        self._held += (now - self._since) * _rate(self._part)
        self._since, self._part = now, part
        rate = _rate(part)
        self._control.heal()
        for function, answer in answers(part, {"start": round(self._held - rate * now), "rate": rate}).items():
            self._control.answer(HOT, function, answer)


def _rate(part: float) -> float:
    """Nanoseconds in a second for which clocks are held down."""
    return 0.9e9 * part


def answers(part: float, slowed: dict[str, Any]) -> dict[str, Any]:
    """What it answers; ``slowed`` is its counter of the time for which it was held down."""
    wave = {"swing": 0.8, "period": 9.0}
    power = {"mean": 612_000 - 258_000 * part, "swing": 30_000, "period": 9.0}
    fields: dict[str, Any] = dict.fromkeys(SLOWED, slowed)
    found: dict[str, Any] = {"nvmlDeviceGetViolationStatus": {"1": {"violationTime": slowed}}}
    if part > 0:
        chip = {"mean": 58 + 30 * part, **wave}
        clock = round(1942 - 1230 * part)
        fields |= {
            MEMORY_TEMPERATURE: {"mean": 66 + 31 * part, **wave, "type": "uint"},
            POWER_AVERAGE: {**power, "type": "uint"},
            POWER_NOW: {**power, "type": "uint"},
        }
        found |= {
            "nvmlDeviceGetTemperature": {"0": chip},
            "nvmlDeviceGetTemperatureV": {"0": chip},
            "nvmlDeviceGetMarginTemperature": {"mean": 30 - 30 * part, **wave},
            "nvmlDeviceGetClockInfo": {"0": clock, "1": clock, "2": 3201, "3": round(1515 - 800 * part)},
            "nvmlDeviceGetPowerUsage": power,
        }
    if part > 0.5:
        found |= dict.fromkeys(
            ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"), REASONS
        )
    return found | {"nvmlDeviceGetFieldValues": fields}
