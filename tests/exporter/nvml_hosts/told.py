"""A recording read as the driver would tell it at a time: numbers, refusals, missing functions."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

Rows = Iterator[tuple[dict[str, str], float]]


def number_at(answer: Any, time: float, *, real: bool = False) -> float:
    """A number of a recording at a time, see recording.py; all but ``real`` ones are rounded as the driver rounds."""
    if not isinstance(answer, dict):
        answer = {"mean": answer}
    start = answer["start"] if "start" in answer else answer["mean"]
    if answer.get("every"):
        time = math.floor(time / answer["every"]) * answer["every"]
    grown = answer.get("rate", 0) * time
    if answer.get("swing"):
        turn, phase = 2 * math.pi / answer["period"], answer.get("phase", 0)
        if "mean" in answer:
            grown += answer["swing"] * math.sin(turn * time + phase)
        else:
            grown -= answer["swing"] / turn * (math.cos(turn * time + phase) - math.cos(phase))
    if real or answer.get("type") == "double":
        return float(start + grown)
    whole = math.floor(start)
    return whole + math.floor(start - whole + grown + 0.5)


class Told:
    """What a recording tells of one GPU or MIG device at a time."""

    def __init__(self, calls: Mapping[str, Any], missing: list[str], time: float) -> None:
        self.calls, self.missing, self.time = calls, missing, time

    def answer(self, function: str, key: str | None = None, field: str | None = None) -> Any:
        """The recorded answer, or None if the library lacks the function or the GPU refuses."""
        found = (
            None if function in self.missing else self.calls.get(f"nvml{function}" if function[0] == "G" else function)
        )
        if function in self.missing or f"nvml{function}" in self.missing:
            return None
        for name in (key, field):
            if name is not None:
                found = found.get(name) if isinstance(found, dict) else None
        return None if isinstance(found, dict) and "error" in found else found

    def number(self, function: str, key: str | None = None, field: str | None = None) -> float | None:
        """The same as a number."""
        found = self.answer(function, key, field)
        return None if found is None else number_at(found, self.time, real=function.startswith("nvmlGpm"))

    def get(self, name: str, key: object = None, field: str | None = None) -> float | None:
        """Number of a getter of a device."""
        return self.number(f"nvmlDeviceGet{name}", None if key is None else str(key), field)

    def field(self, number: int, scope: int = 0) -> float | None:
        """Number of a field value."""
        return self.get("FieldValues", f"{number}/{scope}" if scope else number)

    @property
    def links(self) -> list[int]:
        """Numbers of its NVLinks."""
        states = self.answer("nvmlDeviceGetNvLinkState") or {}
        return [int(key) for key in states if key != "*"]
