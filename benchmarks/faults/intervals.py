"""Intervals of a share and of a rate. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable

_HALVINGS = 64


def wilson(hits: float, trials: float, deviations: float = 1.959963984540054) -> tuple[float, float]:
    """Wilson's score interval of a share, by default at 95 %.

    Parameters
    ----------
    hits, trials
        How many of how many; fractions where some of the trials tell the same.
    deviations
        Quantile of the normal distribution.

    Returns
    -------
    tuple
        Lower and upper bound; 0 and 1 where nothing was tried.

    Notes
    -----
    E. B. Wilson, Probable inference, the law of succession, and statistical inference, JASA 22 (1927).
    """
    if not trials:
        return 0.0, 1.0
    share, square = hits / trials, deviations * deviations
    centre = share + square / (2 * trials)
    half = deviations * math.sqrt(share * (1 - share) / trials + square / (4 * trials * trials))
    scale = 1 + square / trials
    # Rounding must not leave the share itself outside.
    return max(min((centre - half) / scale, share), 0.0), min(max((centre + half) / scale, share), 1.0)


def poisson(events: int, risk: float = 0.05) -> tuple[float, float]:
    """Exact interval of the mean of a Poisson count.

    Parameters
    ----------
    events
        How many were seen.
    risk
        Chance to lie outside, half of it on each side.

    Notes
    -----
    F. Garwood, Fiducial limits for the Poisson distribution, Biometrika 28 (1936): the means at which so many events or more,
    and so many or fewer, have a chance of half the risk.
    """
    most = events + 20.0 * math.sqrt(events + 1.0) + 20.0
    lower = 0.0 if not events else _root(lambda mean: 1 - _at_most(events - 1, mean) - risk / 2, 0.0, float(events))
    upper = _root(lambda mean: risk / 2 - _at_most(events, mean), float(events), most)
    return lower, upper


def _at_most(events: int, mean: float) -> float:
    """Chance of so many events or fewer."""
    if mean <= 0:
        return 1.0
    logarithm = math.log(mean)
    return math.fsum(math.exp(k * logarithm - mean - math.lgamma(k + 1)) for k in range(events + 1))


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """Where a rising function passes 0."""
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if function(middle) < 0:
            low = middle
        else:
            high = middle
    return (low + high) / 2
