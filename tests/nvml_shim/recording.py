"""Recordings of what NVML answers on a host, in JSON, and the lines that the stand-in library reads.

JSON is for people and for the recorder; the library reads one value a line, so that its C needs no parser worth attacking or
debugging and every mistake in a recording is reported here, by path. A recording::

    {
      "format": "hwsonde-nvml 1",
      "about": "what this host is",
      "missing": ["nvmlDeviceGetTemperatureV"],        functions that this driver's library lacks
      "system": {"nvmlSystemGetDriverVersion": "570.124.06"},
      "devices": [{
        "calls": {
          "nvmlDeviceGetName": "NVIDIA H200",
          "nvmlDeviceGetFanSpeed": {"error": 3},       a call that is not named here gives 3, not supported
          "nvmlDeviceGetClockInfo": {"0": 1980, "2": 3201},       by argument; several are joined by /, * is for all others
          "nvmlDeviceGetMigMode": {"current": 0, "pending": 0},   by field of the struct, or name of the output
          "nvmlDeviceGetComputeRunningProcesses_v3": [{"pid": 4711, "usedGpuMemory": 1073741824}],
          "nvmlDeviceGetTotalEnergyConsumption": {"start": 1000, "rate": 640000, "swing": 40000, "period": 9}
        },
        "mig": [{"calls": {}}],                         MIG devices in the order of their indices
        "mig_off": {}, "mig_on": {}                     calls that answer otherwise when a test switches MIG
      }],
      "faults": [{"device": 3, "error": 15}]            faults that the host has from the start, see control.py
    }

Numbers that change with time (t, in seconds since the recording's start):

``{"mean": m, "swing": a, "period": p, "phase": f}``
    a reading: ``m + a sin(2 pi t / p + f)``.
``{"start": s, "rate": r, "swing": a, "period": p, "phase": f, "wrap": bits}``
    a counter whose rate at any time is ``r + a sin(2 pi t / p + f)``: the exact integral of the reading with the same figures.

Both may have ``"every": seconds``, the time between two readings of the driver, and ``"type"``, the member of nvmlValue_t.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

FORMAT = "hwsonde-nvml 1"
TYPES = ("double", "uint", "ulong", "ullong", "llong", "int", "ushort")
_WAVE = frozenset(("mean", "start", "rate", "swing", "period", "phase", "wrap", "every", "type"))
_ARGUMENTS = re.compile(r"\d+(/\d+)*\Z|\*\Z")
_FUNCTION = re.compile(r"nvml[A-Z][A-Za-z0-9]*(_v\d+)?\Z")
_FIELD = re.compile(r"[A-Za-z][A-Za-z0-9]*\Z")
_MAX_LINE = 500
RECORDINGS = Path(__file__).with_name("recordings")


class RecordingError(ValueError):
    """A recording is not sound; the text names the place."""


def load(name: str) -> dict[str, Any]:
    """A recording of this folder by its name."""
    data: dict[str, Any] = json.loads((RECORDINGS / f"{name}.json").read_text())
    return data


def names() -> list[str]:
    """Names of all recordings of this folder."""
    return sorted(path.stem for path in RECORDINGS.glob("*.json"))


def lines(recording: Mapping[str, Any]) -> list[str]:
    """The lines of a whole recording, without its faults.

    Raises
    ------
    RecordingError
        If something in it has no meaning.
    """
    if recording.get("format") != FORMAT:
        raise RecordingError(f"format: {recording.get('format')!r} is not {FORMAT!r}")
    unknown = recording.keys() - {"format", "about", "missing", "system", "devices", "faults"}
    if unknown:
        raise RecordingError(f"{sorted(unknown)}: unknown")
    found = list(_calls("s", recording.get("system", {})))
    for number, device in enumerate(recording["devices"]):
        # A GPU that told nothing is there all the same.
        found.append(_line(f"{number} nvmlDeviceGetIndex -", "-", number))
        found += _calls(str(number), device["calls"])
        for mode in ("off", "on"):
            found += _calls(f"{number}~{mode}", device.get(f"mig_{mode}", {}))
        for index, mig in enumerate(device.get("mig", ())):
            found += _calls(f"{number}.{index}", mig["calls"])
    return found


def answer_lines(scope: str, function: str, answer: object) -> list[str]:
    """The lines of one call's answer; ``scope`` is ``s``, a GPU's number, or that with a MIG device's index as ``0.1``."""
    return list(_calls(scope, {function: answer}))


def _calls(scope: str, calls: Mapping[str, Any]) -> Iterator[str]:
    for function, answer in calls.items():
        if not _FUNCTION.match(function):
            raise RecordingError(f"{scope} {function}: not the name of a function of NVML")
        yield from _answer(scope, function, "-", answer)


def _answer(scope: str, function: str, arguments: str, answer: Any) -> Iterator[str]:
    place = f"{scope} {function} {arguments}"
    if isinstance(answer, list):
        yield _line(place, "count", len(answer))
        for number, entry in enumerate(answer):
            for field, value in entry.items():
                if value is not None:
                    yield _line(f"{scope} {function} #{number}", field, value)
    elif _is_leaf(answer):
        yield _line(place, "-", answer)
    elif arguments == "-" and all(_ARGUMENTS.match(key) for key in answer):
        for key, value in answer.items():
            yield from _answer(scope, function, key, value)
    else:
        for field, value in answer.items():
            yield _line(place, field, value)


def _is_leaf(answer: object) -> bool:
    return not isinstance(answer, dict) or "error" in answer or bool(answer.keys() & {"mean", "start"})


def _line(place: str, field: str, answer: Any) -> str:
    if field != "-" and not _FIELD.match(field):
        raise RecordingError(f"{place} {field!r}: neither arguments nor the name of a field")
    where = f"{place} {field}"
    if isinstance(answer, dict) and "error" in answer:
        text = f"{where} e {int(answer['error'])}"
    elif isinstance(answer, str):
        text = f"{where} t {_escaped(answer)}"
    elif isinstance(answer, (int, float)):
        text = f"{where} {_number(where, {'mean': answer})}"
    elif isinstance(answer, dict):
        text = f"{where} {_number(where, answer)}"
    else:
        raise RecordingError(f"{where}: {answer!r} is no answer")
    if len(text) > _MAX_LINE:
        raise RecordingError(f"{where}: longer than {_MAX_LINE} bytes")
    return text


def _number(where: str, wave: Mapping[str, Any]) -> str:
    if wave.keys() - _WAVE or ("mean" in wave) == ("start" in wave):
        raise RecordingError(f"{where}: {dict(wave)} is no number that changes")
    value = wave["start"] if "start" in wave else wave["mean"]
    kind = wave.get("type", "double" if isinstance(value, float) else "ullong")
    rate, swing, period = wave.get("rate", 0), wave.get("swing", 0), wave.get("period", 0)
    if kind not in TYPES:
        raise RecordingError(f"{where}: type {kind!r} is none of {', '.join(TYPES)}")
    if swing and period <= 0:
        raise RecordingError(f"{where}: a swing needs a period")
    if "start" in wave and abs(swing) > rate:
        raise RecordingError(f"{where}: a counter would go backwards")
    if "mean" in wave and rate:
        raise RecordingError(f"{where}: a reading has no rate")
    if kind == "double" or not math.isfinite(value):
        whole, fraction = 0, float(value)
    else:
        whole = math.floor(value)
        fraction = value - whole
    letter = "c" if "start" in wave else "g"
    figures = " ".join(repr(float(figure)) for figure in (fraction, rate, swing, period, wave.get("phase", 0)))
    rest = f"{int(wave.get('wrap', 0))} {float(wave.get('every', 0))!r}"
    return f"{letter} {TYPES.index(kind)} {whole % 2**64} {figures} {rest}"


def _escaped(text: str) -> str:
    if not text:
        return "%"
    return "".join(
        character
        if character.isprintable() and character not in " %"
        else "".join(f"%{byte:02x}" for byte in character.encode())
        for character in text
    )
