"""What a raw score means: how rarely healthy time gives one as high, and whether that passes the configured risk.

Every detector's scores go through a tail of their own, so that they can be compared and fused::

    surprise = -log10 P(healthy score >= x)        3 means: once in a thousand healthy windows
    calibrated = surprise / -log10(risk)           1.0 is the configured risk, for every detector alike

The tail is learned from scores of rows that the scoring model had not seen (`cross_fit`): scores of a model's own training rows
are too low, and a tail of those calls the next healthy hour an anomaly.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwsonde_detector.detectors.base import Arrays, Detector
from hwsonde_detector.types import Floats

# Decades from which surprise grows with the logarithm only: beyond one in a million there is more or less broken, not more or less rare.
_LINEAR_DECADES = 6.0
# Knots that the empirical part is thinned to; with 98 % of the rows below the tail, neighbours are then 0.4 % of the rows apart.
_KNOTS = 256


@dataclass(frozen=True, slots=True, eq=False)
class Tail:
    """The distribution of a detector's healthy scores, as far as n of them tell.

    Attributes
    ----------
    knots
        float64 (k), ascending scores; the last is where the fitted tail begins.
    surprises
        float64 (k), ascending: -log10 of the share of healthy scores at or above each knot.
    scale
        Mean excess of the scores beyond the last knot: the tail's scale, in units of the score.
    excesses
        How many scores that mean was taken of, plus one.
    """

    knots: Floats
    surprises: Floats
    scale: float
    excesses: float

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What was learned, for the state on disk."""
        return {"knots": self.knots, "surprises": self.surprises, "tail": np.array([self.scale, self.excesses])}

    @staticmethod
    def restore(arrays: Arrays) -> Tail:
        """Take back what `arrays` gave.

        Raises
        ------
        ValueError
            If something is missing or of the wrong shape.
        """
        knots, surprises, tail = (np.array(arrays.get(name, ()), np.float64) for name in ("knots", "surprises", "tail"))
        if knots.shape != surprises.shape or knots.ndim != 1 or len(knots) == 0 or tail.shape != (2,):
            raise ValueError("the kept calibration does not fit this version: an array is missing or of another shape")
        return Tail(knots, surprises, float(tail[0]), float(tail[1]))


def fit_tail(scores: Floats, quantile: float = 0.98, excesses: int = 10, floor: float = 0.01) -> Tail:
    """Learn how healthy scores are distributed.

    Up to the quantile the share at or above a score is counted, as rank / (n + 1): with n scores no share below 1 / (n + 1) is claimed
    there. Beyond it the excesses are taken as exponential, whose mean is the mean excess. That mean is itself known only from m excesses, so the
    share beyond a distance t is the predictive one, (1 + t / (m scale))^-m, which is the exponential for many excesses and heavier for few: few rows
    extrapolate less boldly.

    Parameters
    ----------
    scores
        float64 (n), out-of-sample scores of healthy rows; values that are not finite are left out.
    quantile
        Where counting ends and the fitted tail begins.
    excesses
        The tail begins earlier where fewer than this many scores lie beyond the quantile (under 500 rows), but never below the median.
    floor
        Smallest scale of the tail, as a ratio of the score at the quantile: scores that hardly varied in training must not make
        a small change infinitely surprising.

    Raises
    ------
    ValueError
        If no score is finite.
    """
    known = np.sort(np.asarray(scores, np.float64)[np.isfinite(scores)])
    n = len(known)
    if n == 0:
        raise ValueError("a tail needs at least one finite score")
    begin = min(int(quantile * (n - 1)), max(n - 1 - excesses, (n - 1) // 2))
    limit = known[begin]
    # Ties count as a whole: the share at or above a score includes all that equal it.
    knots, first = np.unique(known[: begin + 1], return_index=True)
    surprises = -np.log10((n - first) / (n + 1))
    if len(knots) > _KNOTS:
        chosen = np.unique(np.linspace(0, len(knots) - 1, _KNOTS).round().astype(np.intp))
        knots, surprises = knots[chosen], surprises[chosen]
    beyond = known[known > limit] - limit
    smallest = max(floor * abs(float(limit)), float(np.finfo(np.float32).tiny))
    scale = max(float(beyond.mean()), smallest) if len(beyond) else smallest
    return Tail(knots, surprises, scale, float(len(beyond) + 1))


def surprise(tail: Tail, scores: Floats) -> Floats:
    """-log10 of the share of healthy scores at or above each score; any shape; NaN stays NaN.

    It grows with the score everywhere: exact to 6 decades, with the logarithm beyond (60 decades give 10), so that one broken member cannot
    drown all others in a sum.
    """
    scores = np.asarray(scores, np.float64)
    counted = np.interp(scores, tail.knots, tail.surprises)
    distance = np.clip(scores - tail.knots[-1], 0.0, 1e30) / tail.scale
    decades = counted + tail.excesses * np.log1p(distance / tail.excesses) / np.log(10)
    return bent(decades)


def bent(decades: Floats) -> Floats:
    """Decades of surprise as they are told: exact to 6, with the logarithm beyond (60 give 10); any shape."""
    over = np.maximum(np.asarray(decades, np.float64) - _LINEAR_DECADES, 0.0)
    return np.asarray(np.minimum(decades, _LINEAR_DECADES) + np.log1p(over), np.float64)


def calibrated(surprises: Floats, risk: float) -> Floats:
    """Surprises in units of the configured risk's: 1.0 is the score that a healthy window reaches with chance ``risk``.

    Raises
    ------
    ValueError
        If the risk is not between 0 and 1.
    """
    if not 0 < risk < 1:
        raise ValueError(f"the risk must lie between 0 and 1, got {risk}")
    return np.asarray(np.asarray(surprises, np.float64) / -np.log10(risk), np.float64)


def cross_fit(factory: Callable[[], Detector], rows: Floats, folds: int = 5, gap: int = 0) -> Floats:
    """Score every training row by a model that has not seen it nor its neighbours.

    Rows are cut into contiguous folds, because neighbours in time are alike and a random cut would leak. Each fold is scored by a model of
    all rows further than ``gap`` from it.

    Parameters
    ----------
    factory
        Gives an unfitted detector.
    rows
        float64 (n, d), in order of time.
    folds
        How many models are fitted; at most n.
    gap
        Rows left out at each border of a fold: the window's rows - 1 where windows overlap.

    Returns
    -------
    float64 (n)
        Out-of-sample scores. Where a fold leaves no row to learn from (very few rows), a model of all rows scores it.

    Raises
    ------
    ValueError
        If there is no row, folds are below 2 or the gap is below 0.
    """
    rows = np.asarray(rows, np.float64)
    n = len(rows)
    if n == 0 or folds < 2 or gap < 0:
        raise ValueError(f"cross-fitting needs a row, 2 folds and a gap from 0, got {n} rows, {folds} folds, gap {gap}")
    borders = np.linspace(0, n, min(folds, n) + 1).round().astype(np.intp)
    scores = np.empty(n)
    for begin, end in pairwise(borders):
        others = np.concatenate([rows[: max(begin - gap, 0)], rows[end + gap :]])
        model = factory().fit(others if len(others) else rows)
        scores[begin:end] = model.score(rows[begin:end])
    return scores
