"""Which channel, which device, which subsystem: shares of an anomalous score. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hwsonde_detector.decision.model import EntityModel
from hwsonde_detector.decision.scaling import untransform
from hwsonde_detector.detectors.tails import KNEE
from hwsonde_detector.signals.windows import transform
from hwsonde_detector.types import Channel, Contribution, Device, Floats, Subsystem

# A subsystem is judged by its loudest channels, so that one with many channels does not win by their number.
_LOUDEST = 3


def evidence(surprises: Floats, channels: Sequence[Channel]) -> Floats:
    """Weighted evidence (n, c) of surprises (n, c): what lies beyond the usual; a quiet channel has exactly none.

    That a quiet channel has none is why shares do not move when an unrelated channel is added.
    """
    weights = np.array([channel.weight for channel in channels])
    return np.asarray(np.maximum(surprises - KNEE, 0.0) * weights, np.float64)


def by_subsystem(strength: Floats, channels: Sequence[Channel]) -> dict[Subsystem, float]:
    """Share of each subsystem that has channels (sum 1, or all 0 while nothing deviates), from the strength (c) of its loudest channels."""
    loud: dict[Subsystem, list[float]] = {}
    for channel, value in zip(channels, strength, strict=True):
        loud.setdefault(channel.subsystem, []).append(float(value))
    sums = {subsystem: sum(sorted(values)[-_LOUDEST:]) for subsystem, values in sorted(loud.items())}
    total = sum(sums.values())
    return {subsystem: value / total if total > 0 else 0.0 for subsystem, value in sums.items()}


def by_device(contributions: Sequence[Contribution]) -> dict[Device, float]:
    """Share of each device among the contributions, largest first; channels of the whole host count for none."""
    shares: dict[Device, float] = {}
    for contribution in contributions:
        device = contribution.channel.device
        if device is not None:
            shares[device] = shares.get(device, 0.0) + contribution.share
    return dict(sorted(shares.items(), key=lambda pair: (-pair[1], pair[0])))


def top_channels(
    strength: Floats, deviations: Floats, values: Floats, model: EntityModel, limit: int
) -> tuple[Contribution, ...]:
    """Give the ``limit`` channels with most evidence, largest first; those without any are left out.

    Parameters
    ----------
    strength, deviations, values
        float64 (c): evidence, signed deviation in spreads, and the newest value in the channel's own unit.
    """
    total = float(strength.sum())
    if total <= 0:
        return ()
    order = sorted(range(len(strength)), key=lambda index: (-strength[index], model.channels[index].name))
    top = []
    for index in order[:limit]:
        if strength[index] <= 0:
            break
        lower, upper = expected_band(model, index)
        top.append(
            Contribution(
                model.channels[index],
                float(strength[index]) / total,
                float(deviations[index]),
                float(values[index]),
                lower,
                upper,
            )
        )
    return tuple(top)


def expected_band(model: EntityModel, index: int) -> tuple[float, float]:
    """Lower and upper bound of what a channel is expected to be, in its own unit."""
    channel, scale = model.channels[index], model.scale
    half = scale.spread[index] * scale.band[index]
    bounds = untransform(np.array([scale.centre[index] - half, scale.centre[index] + half]), channel)
    lower, upper = float(bounds[0]), float(bounds[1])
    # Rates, shares and sizes of a host are never negative; changes of a level may be.
    return (max(lower, 0.0) if not channel.signed else lower), upper


def onset_order(
    values: Floats, times: Sequence[int], model: EntityModel, names: Mapping[str, float]
) -> tuple[tuple[str, int], ...]:
    """Channels among ``names`` in order of the first row of the run up to now in which they left their band.

    Parameters
    ----------
    values
        float64 (rows, c), oldest first; the last row is now.
    times
        Milliseconds of the rows.
    """
    moved = (transform(values, model.channels) - model.scale.centre) / model.scale.spread
    outside = np.nan_to_num(np.abs(moved)) > model.scale.band
    first: list[tuple[int, str]] = []
    for index, channel in enumerate(model.channels):
        if channel.name in names and outside[:, index].any():
            inside = np.flatnonzero(~outside[:, index])
            last_run = outside[:, index].nonzero()[0]
            start = (
                last_run[0]
                if not len(inside)
                else last_run[last_run > (inside[inside < last_run[-1]].max(initial=-1))][0]
            )
            first.append((int(times[int(start)]), channel.name))
    return tuple((name, at) for at, name in sorted(first))
