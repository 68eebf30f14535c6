"""Which channels are worth a detector's time: not the constant ones, and of several that move together one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hwsonde_detector.types import Channel, Floats

# Movement below this part of a column's size is rounding.
_CONSTANT = 1e-9


def prune(values: Floats, channels: Sequence[Channel], bound: float) -> NDArray[np.int64]:
    """Choose channels.

    Dropped are constant channels (no two known values differ) and, one after the other, those whose absolute correlation
    with a channel already kept is above the bound. First come those of larger weight (causes before symptoms), then those
    with fewer missing values, then the name decides. A subsystem that has a channel that moves keeps at least its first one.

    Missing values count as the column's mean, which lowers a correlation of two channels that were hardly known together.

    Parameters
    ----------
    values
        float64 (rows, c), best on the axis on which they are judged (`windows.transform`).
    channels
        c channels, of different names.
    bound
        Largest correlation allowed, 0 to 1.

    Returns
    -------
    NDArray
        int64 (kept), ascending. The set of names does not depend on the order of the channels.
    """
    values = np.asarray(values, np.float64)
    known = np.isfinite(values)
    moving = _moving(values, known)
    missing = (~known).sum(axis=0)
    order = sorted(
        np.flatnonzero(moving).tolist(),
        key=lambda index: (-channels[index].weight, int(missing[index]), channels[index].name),
    )
    if not order:
        return np.zeros(0, np.int64)
    # In order of preference, so that the product is rounded equally whatever the order of the input.
    related = _correlations(values[:, order], known[:, order]) > bound
    kept: list[int] = []
    barred = np.zeros(len(order), np.bool_)
    for place in range(len(order)):
        if not barred[place]:
            kept.append(place)
            barred |= related[place]
    present = {channels[order[place]].subsystem for place in kept}
    for place, index in enumerate(order):
        if channels[index].subsystem not in present:
            present.add(channels[index].subsystem)
            kept.append(place)
    return np.array(sorted(order[place] for place in kept), np.int64)


def _moving(values: Floats, known: NDArray[np.bool_]) -> NDArray[np.bool_]:
    if not len(values):
        return np.zeros(values.shape[1], np.bool_)
    low = np.where(known, values, np.inf).min(axis=0)
    high = np.where(known, values, -np.inf).max(axis=0)
    with np.errstate(over="ignore", invalid="ignore"):
        moving: NDArray[np.bool_] = high - low > _CONSTANT * np.maximum(np.abs(low), np.abs(high))
    result: NDArray[np.bool_] = moving & (known.sum(axis=0) > 1)
    return result


def _correlations(values: Floats, known: NDArray[np.bool_]) -> NDArray[np.float32]:
    """Absolute correlations (k, k) by one float32 product of unit columns."""
    values = np.where(known, values, 0.0)
    # Scaled by the largest value first, so that squares of huge values stay finite.
    values = values / np.maximum(np.abs(values).max(axis=0), 1e-300)
    centred = np.where(known, values - values.sum(axis=0) / known.sum(axis=0), 0.0)
    unit = (centred / np.sqrt((centred**2).sum(axis=0))).astype(np.float32)
    product: NDArray[np.float32] = np.abs(unit.T @ unit)
    return product
