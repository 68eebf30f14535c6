"""Mean surprise of the loudest channels: for faults that move few channels among hundreds, far.

Averages over all columns, as `zscore` and `mahalanobis` take them, drown a fault that shows in five of four hundred columns. With the
surprise s of every column by its own tail (`hwsonde_detector.detectors.tails`), of which a channel's is the largest of its features::

    score(x) = mean of the 3 largest channel surprises

The idea of per-channel tails and their largest few is that of extreme value statistics (Pickands 1975; Coles, "An Introduction to
Statistical Modeling of Extreme Values", 2001); three and not one, because one sensor may fail by itself.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hwsonde_detector.detectors.base import Arrays
from hwsonde_detector.detectors.columns import learned, training_rows
from hwsonde_detector.detectors.tails import ColumnTails, fit_columns
from hwsonde_detector.types import Floats


class Extremes:
    """Mean of the largest channel surprises.

    Parameters
    ----------
    group
        Neighbouring columns that belong to one channel (its features); rows have a multiple of it.
    loudest
        How many channels are averaged; all of them where there are fewer.
    floor
        Smallest usual distance of a column, in units of the (roughly standardised) columns.

    Attributes
    ----------
    tails_ : ColumnTails
        Tails of the d columns.

    Examples
    --------
    Ten columns of noise; one that is six deviations off counts for a third.

    >>> import numpy as np
    >>> noise = np.random.default_rng(0).normal(size=(500, 10))
    >>> detector = Extremes().fit(noise)
    >>> quiet, wild = detector.score(np.array([[0.0] * 10, [0.0] * 9 + [6.0]]))
    >>> bool(quiet < 0.2 and wild > 1.0)
    True
    """

    name: ClassVar[str] = "extremes"

    def __init__(self, group: int = 1, loudest: int = 3, floor: float = 1.0) -> None:
        self.group = group
        self.loudest = loudest
        self.floor = floor

    def fit(self, rows: Floats) -> Extremes:
        """Learn each column's tail from rows (n, d).

        Raises
        ------
        ValueError
            If the columns cannot be grouped.
        """
        rows = training_rows(rows)
        if rows.shape[1] % self.group:
            raise ValueError(f"columns in groups of {self.group} expected, got {rows.shape[1]}")
        self.tails_ = fit_columns(rows, self.floor)
        return self

    def score(self, rows: Floats) -> Floats:
        """Mean surprise (n) of the loudest channels of rows (n, d), in decades."""
        channels = self._surprises(rows).max(axis=2)
        count = min(self.loudest, channels.shape[1])
        return np.asarray(
            np.partition(channels, channels.shape[1] - count, axis=1)[:, -count:].mean(axis=1), np.float64
        )

    def contributions(self, rows: Floats) -> Floats:
        """Parts (n, d): a loud channel's surprise over their number, given to its loudest column; rows sum to the score."""
        surprises = self._surprises(rows)
        channels = surprises.max(axis=2)
        count = min(self.loudest, channels.shape[1])
        loud = np.argsort(-channels, axis=1, kind="stable")[:, :count]
        row = np.arange(len(channels))[:, None]
        parts = np.zeros_like(surprises)
        parts[row, loud, surprises.argmax(axis=2)[row, loud]] = channels[row, loud] / count
        return parts.reshape(np.shape(rows))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Tails, float64 (3, d)."""
        return {"tails": self.tails_.array()}

    def restore(self, arrays: Arrays) -> Extremes:
        """Take back what `arrays` gave; raises ValueError if something is missing."""
        self.tails_ = ColumnTails.of(learned(arrays, "tails", np.float64, 2))
        return self

    def _surprises(self, rows: Floats) -> Floats:
        rows = np.asarray(rows, np.float64)
        if rows.ndim != 2 or rows.shape[1] != len(self.tails_.centre):
            raise ValueError(f"rows of {len(self.tails_.centre)} columns expected, got an array of shape {rows.shape}")
        # An infinite value is as unknown as NaN here: a reading of a broken sensor, not a large one.
        known = np.where(np.isfinite(rows), rows, np.nan)
        return self.tails_.surprise(known).reshape(len(rows), rows.shape[1] // self.group, self.group)
