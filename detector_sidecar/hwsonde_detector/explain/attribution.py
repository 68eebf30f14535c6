"""Which channel, which device, which subsystem: shares of an anomalous score. Pure.

Evidence is additive and made of each channel alone, so that a channel which has none moves no share of any other. What a channel
counts for is its weight: a cause (waiting, errors, stalls) counts in full, use and throughput, which a fault elsewhere moves as well,
for a part; CPU time, which everything needs, for the least. Flow and use that fell count for less again: work that does not get done is held
up by something else.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hwsonde_detector.decision.model import EntityModel
from hwsonde_detector.decision.scaling import untransform
from hwsonde_detector.detectors.tails import KNEE
from hwsonde_detector.explain.directions import directions, told_values
from hwsonde_detector.types import Channel, Contribution, Device, Floats, Subsystem

# A subsystem is judged by its loudest channels, so that one with many channels does not win by their number.
_LOUDEST = 3
# Decades beyond which a channel is more or less broken, not more or less rare, and what is left of those: enough to rank channels.
_RARE = 6.0
_BEYOND = 0.1
# Weight below which a channel tells of use or throughput.
_USE = 0.5
# What is left of the evidence of flow or use that fell, and how far it must have fallen, in spreads.
_FELL_WEIGHT = 0.1
_FELL = -1.0
# A device is named when its loudest channel has at least this part of the evidence that the loudest one of the subsystem has.
_DEVICE_PART = 0.5
# Devices of its kind that carry at least this part of what the first one does are in it too.
_ALIKE = 0.5


def evidence(surprises: Floats, channels: Sequence[Channel], deviations: Floats | None = None) -> Floats:
    """Weighted evidence (n, c) of surprises (n, c): what lies beyond the usual; a quiet channel has exactly none.

    That a quiet channel has none is why shares do not move when an unrelated channel is added. Beyond one in a million it hardly grows: a
    channel that had never moved at all is infinitely surprising when it does, and must not outvote three that speak of a fault.

    Parameters
    ----------
    surprises
        float64 (n, c): decades.
    channels
        c channels.
    deviations
        float64 (n, c): signed mean deviation over the window, in spreads, NaN where not known; without it no flow is known to have fallen.
    """
    decades = np.minimum(surprises, _RARE) + _BEYOND * np.maximum(surprises - _RARE, 0.0)
    return weighed(np.maximum(decades - KNEE, 0.0), channels, deviations)


def weighed(parts: Floats, channels: Sequence[Channel], deviations: Floats | None = None) -> Floats:
    """Parts (n, c) times the weights of c channels; flow and use that fell count a tenth: something else may hold them up.

    Deviations are as in `evidence`.
    """
    strength = parts * np.array([channel.weight for channel in channels])
    if deviations is not None:
        flows = np.array([channel.flow or channel.weight < _USE for channel in channels], np.bool_)
        strength = np.where(flows & (np.nan_to_num(deviations) < _FELL), strength * _FELL_WEIGHT, strength)
    return np.asarray(strength, np.float64)


def by_subsystem(strength: Floats, channels: Sequence[Channel]) -> dict[Subsystem, float]:
    """Share of each subsystem that has channels (sum 1, or all 0 while nothing deviates), from the strength (c) of its loudest channels."""
    loud: dict[Subsystem, list[float]] = {}
    for channel, value in zip(channels, strength.tolist(), strict=True):
        loud.setdefault(channel.subsystem, []).append(value)
    sums = {subsystem: sum(sorted(values)[-_LOUDEST:]) for subsystem, values in sorted(loud.items())}
    total = sum(sums.values())
    return {subsystem: value / total if total > 0 else 0.0 for subsystem, value in sums.items()}


def by_device(strength: Floats, channels: Sequence[Channel]) -> dict[Device, float]:
    """Share of each device in the strength (c) of all channels, largest first; channels of the whole host count for none.

    All channels of a device count, so that several of one GPU outvote one of another; devices without any are left out.
    """
    total = float(strength.sum())
    sums: dict[Device, float] = {}
    for index in np.flatnonzero(strength > 0).tolist():
        device = channels[index].device
        if device is not None:
            sums[device] = sums.get(device, 0.0) + float(strength[index])
    return dict(
        sorted(((device, value / total) for device, value in sums.items()), key=lambda pair: (-pair[1], pair[0]))
    )


def devices_to_blame(strength: Floats, channels: Sequence[Channel], subsystem: Subsystem) -> tuple[Device, ...]:
    """Give the device whose channels carry the deviation of a subsystem, and those of its kind that carry about as much.

    Empty where the channels of the whole host speak louder: a host that waits for its disks names one only if that one stands out.

    Parameters
    ----------
    strength
        float64 (c): evidence.
    channels
        c channels.
    subsystem
        The one that is named; only devices that have evidence in it are looked at, with their evidence in all of them.
    """
    loudest: dict[Device | None, float] = {}
    for index in np.flatnonzero(strength > 0).tolist():
        if channels[index].subsystem is subsystem:
            device = channels[index].device
            loudest[device] = max(loudest.get(device, 0.0), float(strength[index]))
    shares = by_device(strength, channels)
    ranked = [device for device in shares if device in loudest]
    if not ranked or loudest[ranked[0]] < _DEVICE_PART * max(loudest.values()):
        return ()
    first = ranked[0]
    alike = [device for device in ranked[1:] if device.kind == first.kind and shares[device] >= _ALIKE * shares[first]]
    return (first, *alike)


def top_channels(
    strength: Floats, rows: Floats, model: EntityModel, limit: int, width: int, span: int
) -> tuple[Contribution, ...]:
    """Give the ``limit`` channels with most evidence, largest first; those without any are left out.

    Parameters
    ----------
    strength
        float64 (c): evidence.
    rows
        float64 (n, c): the newest rows in the channels' own units, the last one now.
    limit
        How many channels at most.
    width
        Rows of a window.
    span
        Rows from which the evidence comes, whose values may be told.
    """
    total = float(strength.sum())
    if total <= 0:
        return ()
    ranked = sorted(
        np.flatnonzero(strength > 0).tolist(), key=lambda index: (-strength[index], model.channels[index].name)
    )
    order = ranked[:limit]
    found = directions(model, rows, order, width)
    told = told_values(model, rows, order, found, span)
    top = []
    for index, direction, (value, deviation) in zip(order, found, told, strict=True):
        lower, upper = expected_band(model, index)
        share = float(strength[index]) / total
        top.append(Contribution(model.channels[index], share, deviation, value, lower, upper, direction))
    return tuple(top)


def expected_band(model: EntityModel, index: int) -> tuple[float, float]:
    """Lower and upper bound of what a channel is expected to be, in its own unit."""
    channel, scale = model.channels[index], model.scale
    half = scale.spread[index] * scale.band[index]
    bounds = untransform(np.array([scale.centre[index] - half, scale.centre[index] + half]), channel)
    lower, upper = float(bounds[0]), float(bounds[1])
    # Rates, shares and sizes of a host are never negative; changes of a level may be.
    return (max(lower, 0.0) if not channel.signed else lower), upper
