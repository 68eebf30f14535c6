"""Mahalanobis distance in a principal subspace, and outside of it.

Columns are standardised to z and softened beyond a knee as in `zscore`; squares need it more, so the knee is nearer. With the
eigenvalues l_1 >= l_2 >= ... and eigenvectors v_k of their covariance, the first K keep the share ``variance_kept`` of the variance. For
y_k = v_k . z and the residual e = z - sum_k y_k v_k the score is::

    T2    = sum_k y_k^2 / (l_k + r)              deviations along the ways in which this host usually varies
    Q     = |e|^2 / (q + r)                      deviations that break its usual correlations
    score = sqrt((T2 + Q) / d)

where q is the mean of the eigenvalues left out, the mean residual energy of a direction outside of the subspace. T2 is Hotelling's
statistic on principal components and Q the residual statistic of Jackson and Mudholkar (Technometrics 21, 1979; Jackson, "A User's Guide
to Principal Components", 1991). T2 alone, as in Reveal, is blind to everything outside of the subspace, and that is where a fault shows
that decouples two channels. Dividing Q by its own mean gives every direction the same say, and makes the sum the full-rank
distance under a covariance whose small eigenvalues are replaced by their mean (Tipping and Bishop, "Probabilistic Principal Component
Analysis", 1999): small eigenvalues are the least certain ones, and one value for all of them is what the data can support. The root of the mean grows
like a z.

The ridge r = ridge * (1 + d/n) keeps near-zero eigenvalues from exploding. It grows when rows n are few for d columns, where
directions that never varied in training are ignorance and not evidence; with very few rows the score tends to the plain root mean square of z.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hwsonde_detector.detectors.base import Arrays
from hwsonde_detector.detectors.columns import learned, spread_over, standardised, standards, training_rows
from hwsonde_detector.types import Floats

# Eigenvalues below this part of the largest are rounding noise, and their vectors have no direction.
_RANK_TOLERANCE = 1e-10


class Mahalanobis:
    """Distance in the principal subspace plus the residual outside of it.

    Parameters
    ----------
    variance_kept
        Share of the variance that the subspace holds, in (0, 1].
    ridge
        Added to every eigenvalue, in units of a standardised column's variance, times 1 + columns/rows.
    floor, knee
        Smallest deviation of a column and where its say begins to grow with the logarithm only, as in
        `hwsonde_detector.detectors.zscore.ZScore`.
    residual
        False: T2 alone, without Q, as in Reveal.

    Attributes
    ----------
    centre_, scale_ : ndarray of float64 (d)
        Means and deviations of the columns.
    directions_ : ndarray of float64 (d, K)
        Kept eigenvectors.
    precisions_ : ndarray of float64 (K + 1)
        1 / (l_k + r) of the kept directions, and last 1 / (q + r) of the residual.

    Examples
    --------
    Two columns that always move together; a row in which they part is worse than one in which both go further out.

    >>> import numpy as np
    >>> t = np.linspace(-1, 1, 50)
    >>> detector = Mahalanobis().fit(np.stack([t, t], axis=1))
    >>> together, apart = detector.score(np.array([[2.0, 2.0], [1.0, -1.0]]))
    >>> bool(apart > together)
    True
    """

    name: ClassVar[str] = "mahalanobis"

    def __init__(
        self,
        variance_kept: float = 0.95,
        ridge: float = 0.5,
        floor: float = 0.1,
        knee: float = 2.0,
        *,
        residual: bool = True,
    ) -> None:
        self.variance_kept = variance_kept
        self.ridge = ridge
        self.floor = floor
        self.knee = knee
        self.residual = residual

    def fit(self, rows: Floats) -> Mahalanobis:
        """Learn centre, scale and subspace from rows (n, d); fewer rows than columns are enough."""
        rows = training_rows(rows)
        n, d = rows.shape
        self.centre_, self.scale_ = standards(rows, self.floor)
        z = standardised(rows, self.centre_, self.scale_, self.knee)
        values, vectors = _principal(z)
        total = float(np.square(z).sum() / n)
        kept = (
            int(np.searchsorted(np.cumsum(values), self.variance_kept * total * (1 - 1e-12)) + 1) if len(values) else 0
        )
        kept = min(kept, len(values))
        ridge = self.ridge * (1 + d / n)
        left = max(total - float(values[:kept].sum()), 0.0) / max(d - kept, 1)
        self.directions_ = np.ascontiguousarray(vectors[:, :kept])
        self.precisions_ = 1 / (np.append(values[:kept], left) + ridge)
        if not self.residual:
            self.precisions_[-1] = 0.0
        return self

    def score(self, rows: Floats) -> Floats:
        """Root mean squared distance (n) of rows (n, d)."""
        _, inside, outside = self._split(rows)
        return self._distance(inside, outside)

    def contributions(self, rows: Floats) -> Floats:
        """Parts (n, d) of the score: |z_j (A z)_j| scaled so that rows sum to the score.

        A is the inverse covariance of the module's formula. The products z_j (A z)_j sum to the squared distance; they are what
        each column adds when the cross terms of a pair are split evenly between the two (the Shapley value of a quadratic form about
        the centre). Cross terms can make one negative; its size says how much the column is involved.
        """
        z, inside, outside = self._split(rows)
        score = self._distance(inside, outside)
        slope = (inside * self.precisions_[:-1]) @ self.directions_.T + outside * self.precisions_[-1]
        return spread_over(score, np.abs(z * slope))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Centre, scale (d), directions (d, K) and precisions (K + 1), all float64."""
        return {
            "centre": self.centre_,
            "scale": self.scale_,
            "directions": self.directions_,
            "precisions": self.precisions_,
        }

    def restore(self, arrays: Arrays) -> Mahalanobis:
        """Take back what `arrays` gave; raises ValueError if something is missing."""
        self.centre_ = learned(arrays, "centre", np.float64, 1)
        self.scale_ = learned(arrays, "scale", np.float64, 1)
        self.directions_ = learned(arrays, "directions", np.float64, 2)
        self.precisions_ = learned(arrays, "precisions", np.float64, 1)
        return self

    def _split(self, rows: Floats) -> tuple[Floats, Floats, Floats]:
        """Give z (n, d), its coordinates in the subspace (n, K) and its residual outside (n, d)."""
        z = standardised(rows, self.centre_, self.scale_, self.knee)
        inside = z @ self.directions_
        return z, inside, z - inside @ self.directions_.T

    def _distance(self, inside: Floats, outside: Floats) -> Floats:
        # Sums of squares, never a difference of two large numbers, so that nothing can come out below 0.
        squared = np.square(inside) @ self.precisions_[:-1] + np.square(outside).sum(axis=1) * self.precisions_[-1]
        return np.asarray(np.sqrt(squared / len(self.centre_)), np.float64)


def _principal(z: Floats) -> tuple[Floats, Floats]:
    """Eigenvalues, largest first, and eigenvectors (d, rank) of z'z / n, by way of the smaller of the two products."""
    n, d = z.shape
    wide = d > n
    values, vectors = np.linalg.eigh((z @ z.T if wide else z.T @ z) / n)
    values, vectors = values[::-1], vectors[:, ::-1]
    real = values > max(_RANK_TOLERANCE * float(values[0]), 0.0)
    values, vectors = values[real], vectors[:, real]
    if wide:
        vectors = z.T @ vectors / np.sqrt(n * values)
    return values, vectors
