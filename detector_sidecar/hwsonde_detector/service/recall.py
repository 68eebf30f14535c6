"""Closed episodes and counters as plain JSON values for the state on disk, and back. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from hwsonde_detector.types import Channel, Contribution, Device, Entity, Episode, Subsystem


def write_episode(episode: Episode) -> dict[str, Any]:
    """Plain values of an episode; numbers that JSON cannot hold become null."""
    return {
        "identity": episode.identity,
        "entity": [list(pair) for pair in episode.entity.labels],
        "start_ms": episode.start_ms,
        "onset_ms": episode.onset_ms,
        "end_ms": episode.end_ms,
        "subsystem": str(episode.subsystem),
        "peak": _number(episode.peak),
        "title": episode.title,
        "top": [_write_contribution(part) for part in episode.top],
        "first_channels": [[name, at_ms] for name, at_ms in episode.first_channels],
    }


def read_episode(document: Mapping[str, Any]) -> Episode:
    """Inverse of `write_episode`; raises KeyError, TypeError or ValueError for anything else."""
    end = document["end_ms"]
    return Episode(
        identity=str(document["identity"]),
        entity=Entity(tuple((str(name), str(value)) for name, value in document["entity"])),
        start_ms=int(document["start_ms"]),
        onset_ms=int(document["onset_ms"]),
        end_ms=None if end is None else int(end),
        subsystem=Subsystem(document["subsystem"]),
        peak=_value(document["peak"]),
        title=str(document["title"]),
        top=tuple(_read_contribution(part) for part in document["top"]),
        first_channels=tuple((str(name), int(at_ms)) for name, at_ms in document["first_channels"]),
    )


def _write_contribution(part: Contribution) -> dict[str, Any]:
    channel, device = part.channel, part.channel.device
    return {
        "name": channel.name,
        "subsystem": str(channel.subsystem),
        "device": None if device is None else [device.kind, device.name],
        "floor": channel.floor,
        "logarithmic": channel.logarithmic,
        "weight": channel.weight,
        "unit": channel.unit,
        "share": _number(part.share),
        "deviation": _number(part.deviation),
        "value": _number(part.value),
        "lower": _number(part.lower),
        "upper": _number(part.upper),
    }


def _read_contribution(document: Mapping[str, Any]) -> Contribution:
    device = document["device"]
    channel = Channel(
        name=str(document["name"]),
        subsystem=Subsystem(document["subsystem"]),
        device=None if device is None else Device(str(device[0]), str(device[1])),
        floor=float(document["floor"]),
        logarithmic=bool(document["logarithmic"]),
        weight=float(document["weight"]),
        unit=str(document["unit"]),
    )
    share, deviation, value, lower, upper = (
        _value(document[key]) for key in ("share", "deviation", "value", "lower", "upper")
    )
    return Contribution(channel, share, deviation, value, lower, upper)


def _number(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _value(value: float | None) -> float:
    return math.nan if value is None else float(value)
