"""Full-rank Mahalanobis distance with a ridge: rows that break how a host's channels move together, or move one after the other.

Columns are standardised to z (softened beyond a knee). With the covariance C of z over n training rows of d columns::

    A        = (C + r I)^-1            r = ridge * (1 + d/n): directions that few rows tell nothing of must not decide
    D(x)^2   = z' A z / d

Fed with the last few rows side by side (`hwsonde_detector.signals.streams`), it sees the course of a value and not only the value. Hoerl and
Kennard ("Ridge Regression", Technometrics 12, 1970) gave the ridge its name; the shrunken covariance under a distance is Friedman's
("Regularized Discriminant Analysis", JASA 84, 1989).

Of many channels a covariance of all is neither affordable nor known. They are split into blocks of neighbouring channels, of at most
``block`` each, and the score is the root mean square of the three largest block distances: a fault that moves one block must
not be averaged away by ten that rest. Up to 3 blocks that is the distance under a block-diagonal covariance.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hwsonde_detector.detectors.base import Arrays
from hwsonde_detector.detectors.columns import learned, spread_over, standardised, standards, training_rows
from hwsonde_detector.types import Floats

_LOUDEST = 3


class Ridge:
    """Root mean square of the largest block distances.

    Parameters
    ----------
    group
        Neighbouring columns that belong to one channel; rows have a multiple of it.
    ridge
        Added to the variance of every direction, in units of a standardised column's variance, times 1 + columns/rows.
    block
        Channels in a block, at most.
    floor, knee
        Smallest deviation of a column, and where its say begins to grow with the logarithm only, as in
        `hwsonde_detector.detectors.zscore.ZScore`.

    Attributes
    ----------
    centre_, scale_ : ndarray of float64 (d)
        Means and deviations of the columns.
    borders_ : ndarray of int64 (blocks + 1)
        Where the blocks begin and end, in columns.
    precision_ : ndarray of float32 (sum of squared block sizes)
        The inverse covariances A of the blocks, one after the other, row by row.

    Examples
    --------
    Two columns that always move together; a row in which they part is worse than one in which both go further out.

    >>> import numpy as np
    >>> t = np.linspace(-1, 1, 50)
    >>> detector = Ridge().fit(np.stack([t, t], axis=1))
    >>> together, apart = detector.score(np.array([[2.0, 2.0], [1.0, -1.0]]))
    >>> bool(apart > together)
    True
    """

    name: ClassVar[str] = "ridge"

    def __init__(
        self, group: int = 1, ridge: float = 0.1, block: int = 40, floor: float = 0.1, knee: float = 20.0
    ) -> None:
        self.group = group
        self.ridge = ridge
        self.block = block
        self.floor = floor
        self.knee = knee

    def fit(self, rows: Floats) -> Ridge:
        """Learn centre, scale and covariances from rows (n, d); fewer rows than columns are enough.

        Raises
        ------
        ValueError
            If the columns cannot be grouped.
        """
        rows = training_rows(rows)
        n, d = rows.shape
        if d % self.group:
            raise ValueError(f"columns in groups of {self.group} expected, got {d}")
        self.centre_, self.scale_ = standards(rows, self.floor)
        z = standardised(rows, self.centre_, self.scale_, self.knee)
        channels = d // self.group
        blocks = -(-channels // self.block)
        self.borders_ = (np.linspace(0, channels, blocks + 1).round() * self.group).astype(np.int64)
        self.precision_ = np.concatenate([self._inverse(z[:, begin:end], n).ravel() for begin, end in self._blocks()])
        return self

    def score(self, rows: Floats) -> Floats:
        """Root mean squared distance (n) of rows (n, d)."""
        z = self._deviations(rows)
        return _fused(self._distances(z, self._slopes(z)))

    def contributions(self, rows: Floats) -> Floats:
        """Parts (n, d) of the score: |z_j (A z)_j| within each of the blocks that decide, scaled so that rows sum to the score.

        The products z_j (A z)_j sum to a block's squared distance: what each column adds when cross terms are split evenly.
        """
        z = self._deviations(rows)
        slopes = self._slopes(z)
        squared = self._distances(z, slopes)
        quiet = np.argsort(-squared, axis=1, kind="stable")[:, _LOUDEST:]
        weights = np.abs(z * slopes)
        for place, (begin, end) in enumerate(self._blocks()):
            weights[np.any(quiet == place, axis=1), begin:end] = 0.0
            weights[:, begin:end] /= end - begin
        return spread_over(_fused(squared), weights)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Centre and scale (d), borders of the blocks, and the inverse covariances."""
        return {
            "centre": self.centre_,
            "scale": self.scale_,
            "borders": self.borders_,
            "precision": self.precision_,
        }

    def restore(self, arrays: Arrays) -> Ridge:
        """Take back what `arrays` gave; raises ValueError if something is missing."""
        self.centre_ = learned(arrays, "centre", np.float64, 1)
        self.scale_ = learned(arrays, "scale", np.float64, 1)
        self.borders_ = learned(arrays, "borders", np.int64, 1)
        self.precision_ = learned(arrays, "precision", np.float32, 1)
        if int(np.square(np.diff(self.borders_)).sum()) != len(self.precision_):
            raise ValueError("the kept model does not fit this version: precision is missing or of another shape")
        return self

    def _blocks(self) -> list[tuple[int, int]]:
        return list(zip(self.borders_[:-1].tolist(), self.borders_[1:].tolist(), strict=True))

    def _inverse(self, z: Floats, n: int) -> NDArray[np.float32]:
        d = z.shape[1]
        covariance = z.T @ z / n
        covariance[np.diag_indices(d)] += self.ridge * (1 + d / n)
        # Symmetric to the last bit, so that the order of the columns cannot matter.
        inverse = np.linalg.inv(covariance)
        return ((inverse + inverse.T) / 2).astype(np.float32)

    def _deviations(self, rows: Floats) -> Floats:
        return standardised(rows, self.centre_, self.scale_, self.knee)

    def _slopes(self, z: Floats) -> Floats:
        slopes = np.empty_like(z)
        start = 0
        for begin, end in self._blocks():
            size = end - begin
            precision = self.precision_[start : start + size * size].reshape(size, size)
            slopes[:, begin:end] = z[:, begin:end] @ precision.astype(np.float64)
            start += size * size
        return slopes

    def _distances(self, z: Floats, slopes: Floats) -> Floats:
        """Squared distance (n, blocks) a column; rounding must not make one negative."""
        parts = z * slopes
        return np.stack(
            [np.maximum(parts[:, begin:end].sum(axis=1), 0.0) / (end - begin) for begin, end in self._blocks()], axis=1
        )


def _fused(squared: Floats) -> Floats:
    count = min(_LOUDEST, squared.shape[1])
    largest = np.partition(squared, squared.shape[1] - count, axis=1)[:, -count:]
    return np.asarray(np.sqrt(largest.mean(axis=1)), np.float64)
