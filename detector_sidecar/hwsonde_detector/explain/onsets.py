"""Which channels moved first, as far as that can be told. Pure.

A channel is seen to leave its band in a row, and left it some time after the row before: onsets are known to one scrape interval, and
two of them that lie no further apart are told as one. A channel that is read at a pace of its own may have left it as early as its last
reading; rows that repeat a value tell how long ago that was.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from hwsonde_detector.decision.model import EntityModel
from hwsonde_detector.signals.windows import transform
from hwsonde_detector.types import Floats


@dataclass(frozen=True, slots=True, order=True)
class Onset:
    """When a channel left its band: in the row of ``at_ms``, and not before ``after_ms``, the last time at which it was known to be inside."""

    at_ms: int
    name: str
    after_ms: int


def onset_order(
    values: Floats, times: Sequence[int], model: EntityModel, names: Collection[str], interval_ms: int = 0
) -> tuple[Onset, ...]:
    """Channels among ``names`` in order of the first row of the run up to now in which they left their band.

    Parameters
    ----------
    values
        float64 (rows, c), oldest first; the last row is now.
    times
        Milliseconds of the rows.
    model
        What the bands are.
    names
        Channels to look at; one that never left its band is left out.
    interval_ms
        The scrape interval: how long before the very first row a channel that begins outside may have left it.
    """
    chosen = [index for index, channel in enumerate(model.channels) if channel.name in names]
    if not chosen or not len(values):
        return ()
    channels = [model.channels[index] for index in chosen]
    own = np.asarray(values, np.float64)[:, chosen]
    moved = (transform(own, channels) - model.scale.centre[chosen]) / model.scale.spread[chosen]
    outside = np.nan_to_num(np.abs(moved)) > model.scale.band[chosen]
    found = []
    for place, channel in enumerate(channels):
        rows = np.flatnonzero(outside[:, place])
        if not len(rows):
            continue
        # The run begins after the last row inside before the last one outside.
        inside = np.flatnonzero(~outside[: rows[-1], place])
        start = int(inside[-1]) + 1 if len(inside) else 0
        before = start - 1
        if channel.paced:
            # A repeated value may be one reading that is only shown again.
            while before > 0 and own[before - 1, place] == own[before, place]:
                before -= 1
        after_ms = int(times[before]) if before >= 0 else int(times[0]) - interval_ms
        found.append(Onset(int(times[start]), channel.name, after_ms))
    return tuple(sorted(found))


def together(onsets: Sequence[Onset], interval_ms: int) -> tuple[str, ...]:
    """Names of the channels that may have been the first: all whose onset cannot be told from the earliest one.

    Parameters
    ----------
    onsets
        In any order.
    interval_ms
        The scrape interval. Onsets no further apart than that moved together; one that is uncertain by more counts as early as it may be.
    """
    if not onsets:
        return ()
    # Nobody left later than the first row that saw anybody outside, and one interval.
    limit = min(onset.at_ms for onset in onsets) + interval_ms
    return tuple(onset.name for onset in sorted(onsets) if _earliest(onset, interval_ms) <= limit)


def _earliest(onset: Onset, interval_ms: int) -> int:
    """The earliest row that could have seen it, had it been read at every scrape."""
    return min(onset.at_ms, onset.after_ms + interval_ms)
