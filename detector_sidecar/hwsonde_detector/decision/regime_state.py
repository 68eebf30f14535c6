"""A host's regimes as a JSON document and arrays, and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwsonde_detector.decision.ages import Ages
from hwsonde_detector.decision.bank import Former
from hwsonde_detector.decision.learning import Memory
from hwsonde_detector.decision.marks import Marks
from hwsonde_detector.decision.model import model_arrays, restore_model
from hwsonde_detector.decision.regime import Regimes, Settling
from hwsonde_detector.settings import Settings
from hwsonde_detector.types import Channel

Arrays = dict[str, NDArray[Any]]
Write = Callable[[Channel], dict[str, Any]]
Read = Callable[[Mapping[str, Any]], Channel]

_PLAIN = ("born_ms", "apart", "excusing", "young", "spent")


def snapshot_regimes(regimes: Regimes, write: Write) -> tuple[dict[str, Any], Arrays]:
    """Document and arrays; ``write`` gives the document of a channel. What was counted for the next report is not kept."""
    on = regimes.marks.on
    document: dict[str, Any] = {name: getattr(regimes, name) for name in _PLAIN}
    document |= {
        "on": sorted(on) if on is not None else None,
        "missing": sorted(regimes.marks.missing),
        "busy": regimes.busy,
        "looked": regimes.looked,
        "settling": asdict(regimes.settling) if regimes.settling is not None else None,
        "pending": [write(channel) for channel in regimes.pending.channels],
        "former": [],
    }
    arrays: Arrays = {"pending.times": regimes.pending.times, "pending.values": regimes.pending.values}
    document["ages"] = _write_ages(regimes.ages, "ages.", arrays, write)
    for index, one in enumerate(regimes.former):
        prefix = f"former.{index}."
        model, own = model_arrays(one.model)
        arrays |= {f"{prefix}model.{key}": value for key, value in own.items()}
        document["former"].append(
            {
                "busy": one.busy, "born_ms": one.born_ms, "used_ms": one.used_ms,
                "quiet": one.quiet, "loudness": one.loudness, "loud": one.loud, "barred": one.barred,
                "ages": _write_ages(one.ages, f"{prefix}ages.", arrays, write),
                "model": {**model, "channels": [write(channel) for channel in one.model.channels]},
            }
        )  # fmt: skip
    return document, arrays


def restore_regimes(
    document: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
    settings: Settings,
    read: Read,
    *,
    same_settings: bool,
) -> Regimes:
    """Take back what `snapshot_regimes` gave; ``read`` takes the document of a channel.

    With other settings than those that shaped the models the former regimes are forgotten, and a change is not learned any further.

    Raises
    ------
    KeyError, ValueError, TypeError
        If something is missing or of another shape.
    """
    on, settling = document["on"], document["settling"]
    regimes = Regimes(
        marks=Marks(frozenset(map(str, on)) if on is not None else None, frozenset(map(str, document["missing"]))),
        busy=document["busy"],
        ages=_read_ages(document["ages"], arrays, "ages.", read),
        settling=Settling(**settling) if settling is not None else None,
        pending=_memory(document["pending"], arrays, read),
        # States of versions in which every look fell on its very row lack it.
        looked=int(document.get("looked", 0)),
        **{name: document[name] for name in _PLAIN},
    )
    if not same_settings:
        regimes.settling = None
        regimes.drop_pending()
        return regimes
    for index, part in enumerate(document["former"]):
        prefix = f"former.{index}."
        own = {key.removeprefix(f"{prefix}model."): value for key, value in arrays.items() if key.startswith(prefix)}
        channels = tuple(read(channel) for channel in part["model"]["channels"])
        regimes.former.append(
            Former(
                _read_ages(part["ages"], arrays, f"{prefix}ages.", read),
                restore_model(part["model"], own, channels, settings),
                part["busy"],
                int(part["born_ms"]),
                int(part["used_ms"]),
                int(part["quiet"]),
                float(part["loudness"]),
                int(part["loud"]),
                int(part["barred"]),
            )
        )
    return regimes


def _write_ages(ages: Ages, prefix: str, arrays: Arrays, write: Write) -> dict[str, Any]:
    arrays |= {f"{prefix}times": ages.times, f"{prefix}values": ages.values}
    return {"seen": ages.seen, "channels": [write(channel) for channel in ages.channels]}


def _read_ages(document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], prefix: str, read: Read) -> Ages:
    channels = tuple(read(channel) for channel in document["channels"])
    times, values = np.asarray(arrays[f"{prefix}times"], np.int64), np.asarray(arrays[f"{prefix}values"], np.float32)
    if times.ndim != 2 or (times.size and values.shape != (*times.shape, len(channels))):
        raise ValueError("the blocks of a regime do not match its channels")
    return Ages(channels, times, values, int(document["seen"]))


def _memory(document: list[Any], arrays: Mapping[str, NDArray[Any]], read: Read) -> Memory:
    channels = tuple(read(channel) for channel in document)
    times, values = np.asarray(arrays["pending.times"], np.int64), np.asarray(arrays["pending.values"], np.float32)
    if values.shape != (len(times), len(channels)):
        raise ValueError("the rows that were kept apart do not match their channels")
    return Memory(channels, times, values)
