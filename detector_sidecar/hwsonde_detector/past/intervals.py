"""How sure a count is: exact Poisson intervals of rates, Wilson's intervals of shares. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95
# The normal distribution's 97.5th percentile.
_Z = 1.959963984540054
_PRECISION = 1e-12
_STEPS = 200


@dataclass(frozen=True, slots=True)
class Share:
    """``count`` of ``total``, with the bounds of the 95 % interval; ``value`` is None where there was nothing to count."""

    count: int
    total: int
    value: float | None
    low: float
    high: float


def share(count: int, total: int) -> Share:
    """A share with Wilson's score interval.

    The interval of E. B. Wilson ("Probable inference, the law of succession, and statistical inference", JASA 22, 1927) holds also for few
    cases and for shares of 0 and 1, where the usual plus or minus is nonsense.

    Raises
    ------
    ValueError
        If the count is not within 0 and the total.
    """
    if not 0 <= count <= total:
        raise ValueError(f"a share of {count} in {total} cannot be")
    if total == 0:
        return Share(0, 0, None, 0.0, 1.0)
    part, square = count / total, _Z * _Z
    centre = (part + square / (2 * total)) / (1 + square / total)
    half = _Z / (1 + square / total) * math.sqrt(part * (1 - part) / total + square / (4 * total * total))
    # At the ends the bounds are exact, whatever rounding makes of them.
    low = 0.0 if count == 0 else max(centre - half, 0.0)
    high = 1.0 if count == total else min(centre + half, 1.0)
    return Share(count, total, part, low, high)


def poisson_bounds(count: int) -> tuple[float, float]:
    """Exact 95 % interval of the mean of a Poisson distribution of which ``count`` was seen.

    The bounds of F. Garwood ("Fiducial limits for the Poisson distribution", Biometrika 28, 1936): the mean with which so many or more come
    with a chance of 2.5 %, and the one with which so many or fewer do.

    Raises
    ------
    ValueError
        If the count is below 0.
    """
    if count < 0:
        raise ValueError(f"a count of {count} cannot be")
    outside = (1 - CONFIDENCE) / 2
    low = 0.0 if count == 0 else _mean_with(count - 1, 1 - outside)
    return low, _mean_with(count, outside)


def _mean_with(count: int, chance: float) -> float:
    """The mean with which ``count`` or fewer come with a given chance; the chance falls as the mean grows."""
    low, high = 0.0, count + 10 * math.sqrt(count + 1.0) + 10
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, count + 1)))])
    numbers = np.arange(count + 1)
    for _ in range(_STEPS):
        middle = (low + high) / 2
        chance_here = float(np.exp(numbers * math.log(middle) - middle - logs).sum())
        low, high = (middle, high) if chance_here > chance else (low, middle)
        if high - low <= _PRECISION * high:
            break
    return (low + high) / 2
