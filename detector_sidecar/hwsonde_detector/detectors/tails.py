"""How surprising a value is for its own column: every column's distance from its centre, on one scale.

With the median c of the training values, u the 98th percentile of the distance |x - c| and b the mean excess over u, in decades (-log10 p)::

    surprise(x) = 1.7 |x - c| / u                        up to u, where p is 0.02
                = 1.7 + 0.4343 (|x - c| - u) / b         beyond: an exponential tail
                = 6 (1 + ln(s / 6))                      of that s, above 6 decades: more or less broken, not more or less rare

A column that bursts every minute has a large b and is not surprising when it bursts; one that always rested is when it moves.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwsonde_detector.types import Floats

# p of 0.02: where counting ends and the tail begins.
KNEE = 1.7
_PERCENTILE = 98.0
_LOG10_E = 0.4343
_LINEAR_END = 6.0
# The mean excess is at least this part of the usual distance: a column that never moved must not make any move infinite.
_LEAST_EXCESS = 1.0 / 3.0


@dataclass(frozen=True, slots=True, eq=False)
class ColumnTails:
    """Tails of d columns.

    Attributes
    ----------
    centre, usual, excess
        float64 (d) each: median, 98th percentile of the distance from it, and mean excess over that.
    """

    centre: Floats
    usual: Floats
    excess: Floats

    def surprise(self, rows: Floats) -> Floats:
        """Decades (n, d) of rows (n, d); a value that is not known surprises nobody."""
        distance = np.abs(np.nan_to_num(rows - self.centre, posinf=1e12, neginf=-1e12))
        beyond = KNEE + _LOG10_E * (distance - self.usual) / self.excess
        tail = np.where(distance <= self.usual, KNEE * distance / self.usual, beyond)
        high = np.maximum(tail, _LINEAR_END)
        return np.asarray(np.where(tail > _LINEAR_END, _LINEAR_END * (1.0 + np.log(high / _LINEAR_END)), tail))

    def array(self) -> NDArray[Any]:
        """What was learned, float64 (3, d), for the state on disk."""
        return np.stack([self.centre, self.usual, self.excess])

    @staticmethod
    def of(array: NDArray[Any]) -> ColumnTails:
        """Take back what `array` gave; raises ValueError if it is of another shape."""
        centre, usual, excess = np.array(array, np.float64)
        return ColumnTails(centre, usual, excess)


def fit_columns(rows: Floats, floor: float) -> ColumnTails:
    """Learn the tails of rows (n, d); ``floor`` is the smallest usual distance, in the unit of the columns.

    Values that are not finite are left out; a column without any is centred on 0.
    """
    known = np.isfinite(rows)
    with warnings.catch_warnings():
        # A column without a value is centred on 0 below.
        warnings.simplefilter("ignore", RuntimeWarning)
        centre = np.nan_to_num(np.nanmedian(np.where(known, rows, np.nan), axis=0))
    distance = np.where(known, np.abs(np.where(known, rows, 0.0) - centre), 0.0)
    usual = np.percentile(distance, _PERCENTILE, axis=0)
    over = distance > usual
    excess = np.where(over, distance - usual, 0.0).sum(axis=0) / np.maximum(over.sum(axis=0), 1)
    usual = np.maximum(usual, floor)
    return ColumnTails(centre, usual, np.maximum(excess, _LEAST_EXCESS * usual))
