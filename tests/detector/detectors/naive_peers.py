"""Slow, obvious versions of the comparison of peers."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence


def deviations(
    values: Mapping[str, float], floor: float, minimum: int, logarithmic: bool, usual: float = 0.0
) -> dict[str, float]:
    """Distance of each value from the median of all known ones, in spreads; NaN where too few are known."""
    moved = {
        name: math.asinh(value / floor) if logarithmic else value
        for name, value in values.items()
        if math.isfinite(value)
    }
    result = dict.fromkeys(values, math.nan)
    if len(moved) < minimum:
        return result
    middle = statistics.median(moved.values())
    mad = statistics.median(abs(value - middle) for value in moved.values())
    spread = max(1.4826 * mad, usual, 0.3 if logarithmic else floor)
    return result | {name: (value - middle) / spread for name, value in moved.items()}


def tail(past: Sequence[float]) -> tuple[float, float, float]:
    """Centre, usual distance and mean excess of what is known of one cell's past."""
    known = sorted(value for value in past if not math.isnan(value))
    centre = statistics.median(known) if known else 0.0
    usual, excess = distance(known, centre)
    return centre, usual, excess


def distance(known: Sequence[float], centre: float) -> tuple[float, float]:
    """98th percentile (the next larger value) of the distance from a centre, and the mean excess over it."""
    if len(known) < 20:
        return 1e30, 1e30
    distances = sorted(abs(value - centre) for value in known)
    usual = distances[math.ceil(0.98 * (len(distances) - 1))]
    over = [value - usual for value in distances if value > usual]
    excess = sum(over) / len(over) if over else 0.0
    usual = max(usual, 1.0)
    return usual, max(excess, usual / 3.0)


def loudest(strengths: Mapping[str, Sequence[float]]) -> float:
    """Mean of the three largest channels, each the largest of its cells."""
    channels = sorted((max(cells) for cells in strengths.values()), reverse=True)[:3]
    return sum(channels) / len(channels)
