"""Values over time in a bounded number of points, without losing a peak. Pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from hwsonde_detector.types import Floats, Score, Times


@dataclass(frozen=True, slots=True)
class Points:
    """A line.

    Attributes
    ----------
    times, values
        Of each point: milliseconds, ascending, and the value in the channel's own unit.
    step_ms
        Usual distance of two points; where two are further apart than two and a half times that, something is missing between them.
    """

    times: tuple[int, ...]
    values: tuple[float, ...]
    step_ms: int


def between(scores: Sequence[Score], first_ms: int, last_ms: int) -> Sequence[Score]:
    """Windows, given in order of time, that ended from ``first_ms`` to ``last_ms``, both included."""
    start = bisect_left(scores, first_ms, key=_end)
    return scores[start : bisect_right(scores, last_ms, lo=start, key=_end)]


def _end(score: Score) -> int:
    return score.end_ms


def peaks(values: Sequence[float] | Floats, most: int) -> list[int]:
    """Places of at most ``most`` of the values, which are numbers: of each run of neighbours the largest (of equal ones the first)."""
    count = len(values)
    if count <= most:
        return list(range(count))
    heights = np.asarray(values, np.float64)
    edges = [count * part // most for part in range(most + 1)]
    return [start + int(heights[start:end].argmax()) for start, end in pairwise(edges)]


class Envelope:
    """Lowest and highest value of each of a fixed number of stretches of time: bounded however many rows are added.

    Parameters
    ----------
    start_ms, end_ms
        The time that is kept: rows before or after it are passed over.
    channels
        How many values a row has.
    stretches
        How many stretches; at most twice as many points come out for a channel.
    """

    def __init__(self, start_ms: int, end_ms: int, channels: int, stretches: int = 150) -> None:
        self._start, self._end = start_ms, end_ms
        self._count = max(min(stretches, end_ms - start_ms + 1), 1)
        shape = (self._count, channels)
        self._low, self._high = np.full(shape, np.inf), np.full(shape, -np.inf)
        self._low_ms, self._high_ms = np.zeros(shape, np.int64), np.zeros(shape, np.int64)

    def add(self, times: Times, values: Floats) -> None:
        """Take rows: times int64 (rows), ascending, and values float64 (rows, channels); what is not finite is not there."""
        first = int(np.searchsorted(times, self._start))
        last = int(np.searchsorted(times, self._end, side="right"))
        for row in range(first, last):
            at_ms = int(times[row])
            place = (at_ms - self._start) * self._count // (self._end - self._start + 1)
            own = np.where(np.isfinite(values[row]), values[row], np.nan)
            # Comparisons with NaN are false, so that a missing value changes nothing.
            lower, higher = own < self._low[place], own > self._high[place]
            self._low[place, lower], self._low_ms[place, lower] = own[lower], at_ms
            self._high[place, higher], self._high_ms[place, higher] = own[higher], at_ms

    def points(self, channel: int, interval_ms: int) -> Points:
        """The line of one channel, whose rows are ``interval_ms`` apart."""
        found: dict[int, float] = {}
        for place in range(self._count):
            if self._low[place, channel] <= self._high[place, channel]:
                found[int(self._low_ms[place, channel])] = float(self._low[place, channel])
                found[int(self._high_ms[place, channel])] = float(self._high[place, channel])
        times = tuple(sorted(found))
        length = (self._end - self._start + 1) // self._count
        return Points(times, tuple(float(f"{found[at_ms]:.6g}") for at_ms in times), max(interval_ms, length))
