"""How a channel deviates: above or below its band, restless, or standing still. Pure.

A channel whose newest row lies outside of its band is high or low, unless it went in and out of it again and again in the last rows:
then it is noisy. One that deviates inside of its band does so by its mean (high or low), by being more restless than it was (noisy),
or by repeating one value to the last bit although it always moved (stuck). Rates of counters that stay at one value are low or high: an
idle counter is no frozen sensor; and one that came in a burst is high for as long as the burst is in the window.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hwsonde_detector.decision.model import EntityModel
from hwsonde_detector.detectors.tails import ColumnTails
from hwsonde_detector.signals.windows import transform, window_features
from hwsonde_detector.types import Direction, Floats, Mask

# The rows that tell whether a channel goes in and out of its band, and how often it must: a step does so once, a hiccup twice.
LOOK_ROWS = 8
_CROSSINGS = 3
# A channel always moves if its usual deviation within a window is at least this many spreads.
_MOVES = 0.1
# What a model's tails of windows hold for each channel, in this order.
_SHAPE = ("mean", "deviation")
_SIDES = {Direction.HIGH: 1.0, Direction.LOW: -1.0}


@dataclass(frozen=True, slots=True)
class _Window:
    """The last window of k channels, judged by its shape.

    ``up`` says whether its mean lies above the usual, ``restless`` whether it is its deviation that surprises, by being larger than it
    was, and ``still`` whether a channel that always moves stands still: bool (k) each.
    """

    up: Mask
    restless: Mask
    still: Mask


def directions(model: EntityModel, rows: Floats, indices: Sequence[int], width: int) -> tuple[Direction, ...]:
    """Give the direction of some channels, now.

    Parameters
    ----------
    model
        What the channels' usual values and movements are.
    rows
        float64 (n, c), oldest first: the newest rows in the channels' own units, the last one now; `rows_needed` of them tell all there is.
    indices
        k channels.
    width
        Rows of a window.

    Returns
    -------
    tuple of Direction
        One for each index.
    """
    if not len(indices):
        return ()
    chosen = np.asarray(indices, np.int64)
    channels = [model.channels[index] for index in indices]
    own = np.asarray(rows, np.float64)[-rows_needed(width) :, chosen]
    with np.errstate(over="ignore", invalid="ignore"):
        moved = (transform(own, channels) - model.scale.centre[chosen]) / model.scale.spread[chosen]
    band = model.scale.band[chosen]
    # 1 above the band, -1 below it, 0 inside of it or not known.
    sides = np.where(moved > band, 1, np.where(moved < -band, -1, 0))
    crossings = np.count_nonzero(np.diff(sides[-LOOK_ROWS:], axis=0), axis=0)
    window = _window(model, own, moved, chosen, width)
    found = []
    for place, channel in enumerate(channels):
        if crossings[place] >= _CROSSINGS:
            found.append(Direction.NOISY)
        elif sides[-1, place] != 0:
            found.append(Direction.HIGH if sides[-1, place] > 0 else Direction.LOW)
        elif channel.flow and (sides[-width:, place] > 0).any():
            found.append(Direction.HIGH)
        elif window.restless[place]:
            found.append(Direction.NOISY)
        elif window.still[place] and not channel.flow:
            found.append(Direction.STUCK)
        else:
            found.append(Direction.HIGH if window.up[place] else Direction.LOW)
    return tuple(found)


def told_values(
    model: EntityModel, rows: Floats, indices: Sequence[int], found: Sequence[Direction], span: int
) -> list[tuple[float, float]]:
    """Give the value that shows how some channels deviate, with its deviation in spreads: what a sentence can name as the size.

    That is the newest one, unless it lies inside of the band again: errors come in one burst, and the row after it is as quiet as any. Then
    it is the one furthest out, on the side that the direction names.

    Parameters
    ----------
    model, rows, indices
        As for `directions`.
    found
        The directions of these channels.
    span
        How many of the newest rows may be told of.
    """
    chosen = np.asarray(indices, np.int64)
    own = np.asarray(rows, np.float64)[-span:, chosen]
    with np.errstate(over="ignore", invalid="ignore"):
        level = transform(own, [model.channels[index] for index in indices])
        moved = (level - model.scale.centre[chosen]) / model.scale.spread[chosen]
    told = []
    for place, (index, direction) in enumerate(zip(indices, found, strict=True)):
        known = np.flatnonzero(np.isfinite(moved[:, place]))
        row = int(known[-1]) if len(known) else -1
        if direction in _SIDES and len(known):
            outwards = np.nan_to_num(_SIDES[direction] * moved[:, place], nan=-np.inf)
            furthest, band = int(np.argmax(outwards)), model.scale.band[index]
            row = furthest if outwards[row] <= band < outwards[furthest] else row
        told.append((float(own[row, place]), float(np.nan_to_num(moved[row, place]))))
    return told


def rows_needed(width: int) -> int:
    """How many of the newest rows `directions` looks at, for windows of ``width`` rows."""
    return max(LOOK_ROWS, width)


def _window(model: EntityModel, own: Floats, moved: Floats, chosen: NDArray[np.int64], width: int) -> _Window:
    count = len(chosen)
    if len(own) < width:
        none = np.zeros(count, np.bool_)
        return _Window(np.nan_to_num(moved[-1]) >= 0, none, none)
    shape = window_features(moved[-width:], width, _SHAPE)
    columns = (2 * chosen[:, None] + np.arange(2)).ravel()
    tails = ColumnTails(model.shape.centre[columns], model.shape.usual[columns], model.shape.excess[columns])
    loudness = tails.surprise(shape).reshape(count, 2)
    centres = tails.centre.reshape(count, 2)
    mean, deviation = shape.reshape(count, 2).T
    with np.errstate(invalid="ignore"):
        return _Window(
            up=np.nan_to_num(mean - centres[:, 0]) >= 0,
            restless=(loudness[:, 1] > loudness[:, 0]) & (deviation > centres[:, 1]),
            # Equal rows have a deviation of a rounding error.
            still=(np.ptp(own[-width:], axis=0) == 0) & (centres[:, 1] >= _MOVES),
        )
