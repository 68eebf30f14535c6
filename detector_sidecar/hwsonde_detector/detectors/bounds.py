"""How far a channel goes beyond all that its healthy time has shown: for faults that show in one channel alone.

A window's rows x_1..x_w of one channel, the newest last, reach hi = min(x_w, the m-th largest of them) and lo = max(x_w, the m-th smallest), with
m the smallest majority: one bad row tells nothing, nor does a window whose newest row is well again. Of a ``quick`` channel hi = lo = x_w: a row
that sums up many seconds is no moment's hiccup. Training windows are cut into up to 24 stretches of time b, and with c the channel's median::

    h_b = max over windows in b of  hi - c          l_b = the same of  c - lo
    H = s-th largest of the h_b                     L = the same of the l_b               both at least ``floor``
    score = max over channels of  max((hi - c) / H, (c - lo) / L)

With ``seen`` = s = 1, 1 is the furthest that healthy time ever was; with 3, what it was in three separate stretches: one burst of a neighbour while
the host was learned must not hide every later one. A channel that wanders has wide bounds, whatever its variance is called; one that never moved has
narrow ones, and one that was not there for half of the time says nothing. The largest and not a mean: a fork storm shows in the forks, a stopped
process in the count of stopped ones, and an average over hundreds of channels that rest drowns both.

Block maxima as a way to extremes of dependent data are Gumbel's ("Statistics of Extremes", 1958); the largest of n as a bound that a fresh value
passes with chance 1 / (n + 1) is conformal prediction's (Vovk, Gammerman and Shafer 2005).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hwsonde_detector.detectors.base import Arrays
from hwsonde_detector.detectors.columns import LIMIT, learned, spread_over, training_rows
from hwsonde_detector.types import Floats, Mask

# Stretches, how many windows one has at least, and how many there are even so.
_BLOCKS, _BLOCK_ROWS, _FEWEST = 24, 20, 5


@dataclass(frozen=True, slots=True)
class Lone:
    """Of the c channels that may be told of alone, bool (c) each: of which the newest row tells enough, and which are too new to speak."""

    quick: Mask
    mute: Mask


class Bounds:
    """Largest ratio of a channel's distance from its median to the furthest of healthy time.

    Parameters
    ----------
    group
        Rows w of a window: so many neighbouring columns belong to one channel, in order of time.
    floor
        Smallest bound, in units of the (standardised) columns: less is noise of the sensor.
    seen
        In how many of 24 stretches something must have been to count as usual; fewer where there are fewer stretches.
    lone
        Of which channels the newest row tells enough, and which say nothing whatever their rows are; None: none of either.

    Attributes
    ----------
    centre_ : ndarray of float64 (c)
        Medians of the c channels.
    bounds_ : ndarray of float64 (2, c)
        Furthest distance above and below it; infinite where the channel is too new.

    Examples
    --------
    A channel that was never more than 2 from its median, at 8 in two of three rows, and at 8 in one of them.

    >>> import numpy as np
    >>> healthy = np.array([[0.0, 0.0, 0.0], [2.0, 2.0, 2.0], [-2.0, -2.0, -2.0]] * 10)
    >>> Bounds(group=3).fit(healthy).score(np.array([[0.0, 8.0, 8.0], [0.0, 0.0, 8.0]]))
    array([4., 0.])
    """

    name: ClassVar[str] = "bounds"

    def __init__(self, group: int = 1, floor: float = 1.0, seen: int = 1, lone: Lone | None = None) -> None:
        self.group = group
        self.floor = floor
        self.seen = seen
        self.quick = lone.quick if lone is not None else None
        self._mute = lone.mute if lone is not None else None

    def fit(self, rows: Floats) -> Bounds:
        """Learn medians and bounds from rows (n, c * group).

        Raises
        ------
        ValueError
            If the columns cannot be grouped, or ``quick`` has another number of channels.
        """
        rows = training_rows(rows)
        if rows.shape[1] % self.group:
            raise ValueError(f"columns in groups of {self.group} expected, got {rows.shape[1]}")
        if self.quick is not None and len(self.quick) * self.group != rows.shape[1]:
            raise ValueError(f"{len(self.quick)} channels are quick or not, got {rows.shape[1] // self.group}")
        high, low = self._levels(rows)
        self.centre_ = np.median((high + low) / 2, axis=0)
        blocks = min(max(len(rows) // _BLOCK_ROWS, _FEWEST), _BLOCKS, len(rows))
        borders = np.linspace(0, len(rows), blocks + 1).round().astype(np.intp)[:-1]
        # Few stretches cannot have shown anything often.
        place = blocks - min(max(round(self.seen * blocks / _BLOCKS), 1), blocks)
        furthest = np.maximum.reduceat(high - self.centre_, borders), np.maximum.reduceat(self.centre_ - low, borders)
        above, below = (np.maximum(np.partition(part, place, axis=0)[place], self.floor) for part in furthest)
        self.bounds_ = np.stack([above, below])
        if self._mute is not None:
            self.bounds_[:, self._mute] = np.inf
        return self

    def score(self, rows: Floats) -> Floats:
        """Largest ratio (n) over the channels of rows (n, c * group)."""
        return np.asarray(self._ratios(rows).max(axis=1), np.float64)

    def contributions(self, rows: Floats) -> Floats:
        """Parts (n, c * group): the score, split over the channels by the square of their ratios; a channel's part is its newest column's."""
        ratios = self._ratios(rows)
        parts = np.zeros(np.shape(rows))
        parts[:, self.group - 1 :: self.group] = spread_over(ratios.max(axis=1), np.square(ratios))
        return parts

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Medians (c), bounds (2, c), and which channels are quick (c), if any is."""
        found: dict[str, NDArray[Any]] = {"centre": self.centre_, "bounds": self.bounds_}
        return found if self.quick is None else {**found, "quick": self.quick}

    def restore(self, arrays: Arrays) -> Bounds:
        """Take back what `arrays` gave; raises ValueError if something is missing."""
        self.centre_ = learned(arrays, "centre", np.float64, 1)
        self.bounds_ = learned(arrays, "bounds", np.float64, 2)
        self.quick = learned(arrays, "quick", np.bool_, 1) if "quick" in arrays else None
        if self.bounds_.shape != (2, len(self.centre_)) or len(self.centre_) != len(
            self.centre_ if self.quick is None else self.quick
        ):
            raise ValueError("the kept model does not fit this version: bounds is missing or of another shape")
        return self

    def _levels(self, rows: Floats) -> tuple[Floats, Floats]:
        """What the newest row and most of the w rows reach at least (n, c), and what they do not exceed; 0 stands for a value that is not finite."""
        known = np.where(np.isfinite(rows), np.clip(rows, -LIMIT, LIMIT), 0.0)
        by_channel = known.reshape(len(rows), rows.shape[1] // self.group, self.group)
        ordered, most, newest = np.sort(by_channel, axis=2), self.group // 2 + 1, by_channel[:, :, -1]
        high, low = np.minimum(ordered[:, :, self.group - most], newest), np.maximum(ordered[:, :, most - 1], newest)
        if self.quick is None:
            return high, low
        return np.where(self.quick, newest, high), np.where(self.quick, newest, low)

    def _ratios(self, rows: Floats) -> Floats:
        rows = np.asarray(rows, np.float64)
        if rows.ndim != 2 or rows.shape[1] != len(self.centre_) * self.group:
            raise ValueError(
                f"rows of {len(self.centre_) * self.group} columns expected, got an array of shape {rows.shape}"
            )
        high, low = self._levels(rows)
        ratios = np.maximum((high - self.centre_) / self.bounds_[0], (self.centre_ - low) / self.bounds_[1])
        # A channel whose newest value is not known says nothing, wherever its median lies.
        known = np.isfinite(rows).reshape(len(rows), len(self.centre_), self.group)[:, :, -1]
        return np.asarray(np.where(known, np.maximum(ratios, 0.0), 0.0), np.float64)
