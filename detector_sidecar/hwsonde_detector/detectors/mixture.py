"""Gaussian mixture: how unlikely a row is under the few clusters that healthy time falls into.

Columns are standardised to z, softened beyond a knee, and projected on their first principal directions; the mixture has a few Gaussians
with covariances of their own, chosen by the Bayesian information criterion. The score is the distance to the nearest cluster, in its own
shape, and the distance from the subspace, so that it grows without bound and is never negative::

    M_k(x)^2 = (y - m_k)' C_k^-1 (y - m_k) + log det C_k - min over clusters of log det C
    score(x) = sqrt((min over k of M_k(x)^2 + |e|^2 / q) / (K + d))        y: the K coordinates of z, e: what lies outside of them

It is the detector of eACGM, which sees per-process GPU use and call metrics fall into the phases of a job. A host that alternates between
loading and computing has two centres and none of them is its mean.
"""

from __future__ import annotations

import warnings
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from hwsonde_detector.detectors.base import Arrays
from hwsonde_detector.detectors.columns import learned, spread_over, standardised, standards, training_rows
from hwsonde_detector.types import Floats

# More directions than this need more rows than a first hour has.
_DIRECTIONS = 8
_ROWS_FOR_CLUSTER = 30
_SMALLEST = 1e-2


class Mixture:
    """Distance to the nearest of a few learned clusters.

    Parameters
    ----------
    clusters
        Most clusters that are tried.
    floor, knee
        Smallest deviation of a column, and where its say begins to grow with the logarithm only.
    seed
        Seed of all randomness.

    Attributes
    ----------
    centre_, scale_ : ndarray of float64 (d)
        Means and deviations of the columns.
    directions_ : ndarray of float64 (d, K)
        Principal directions.
    means_ : ndarray of float64 (clusters, K)
        Centres of the clusters.
    precisions_ : ndarray of float64 (clusters, K, K)
        Inverse covariances of the clusters.
    offsets_ : ndarray of float64 (clusters + 1)
        log det C_k above the smallest; last the mean squared residual q of a column outside of the subspace.

    Examples
    --------
    Two phases; the place between them is where the mean is, and where the host never was.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> rows = np.concatenate([rng.normal(-5, 0.3, (200, 2)), rng.normal(5, 0.3, (200, 2))])
    >>> phase, between = Mixture().fit(rows).score(np.array([[5.0, 5.0], [0.0, 0.0]]))
    >>> bool(between > 3 * phase)
    True
    """

    name: ClassVar[str] = "mixture"

    def __init__(self, clusters: int = 4, floor: float = 0.3, knee: float = 20.0, seed: int = 1) -> None:
        self.clusters = clusters
        self.floor = floor
        self.knee = knee
        self.seed = seed

    def fit(self, rows: Floats) -> Mixture:
        """Learn from rows (n, d); any number of rows from 1."""
        rows = training_rows(rows)
        n, d = rows.shape
        self.centre_, self.scale_ = standards(rows, self.floor)
        z = standardised(rows, self.centre_, self.scale_, self.knee)
        self.directions_ = _principal(z, min(_DIRECTIONS, d, max(n // _ROWS_FOR_CLUSTER, 1)))
        inside = z @ self.directions_
        outside = z - inside @ self.directions_.T
        found = self._mixture(inside)
        if found is None:
            self.means_ = inside.mean(axis=0)[None]
            covariances = np.diag(np.maximum(inside.var(axis=0), _SMALLEST))[None]
        else:
            self.means_, covariances = found.means_, found.covariances_
        self.precisions_ = np.linalg.inv(covariances)
        sizes = np.linalg.slogdet(covariances)[1]
        residual = max(float(np.square(outside).mean()), _SMALLEST)
        self.offsets_ = np.append(sizes - sizes.min(), residual)
        return self

    def score(self, rows: Floats) -> Floats:
        """Distances (n) of rows (n, d)."""
        return self._distance(*self._split(rows))

    def contributions(self, rows: Floats) -> Floats:
        """Parts (n, d) of the score: |z_j - centre_j| times the slope of the squared distance, scaled so that rows sum to the score."""
        z, inside, outside = self._split(rows)
        nearest = self._squared(inside).argmin(axis=1)
        away = inside - self.means_[nearest]
        slope = np.einsum("nk,nkl->nl", away, self.precisions_[nearest]) @ self.directions_.T
        slope += outside / self.offsets_[-1]
        offset = z - self.means_[nearest] @ self.directions_.T
        # A value that is not known stands at its column's centre and has no part.
        offset[~np.isfinite(np.asarray(rows, np.float64))] = 0.0
        return spread_over(self._distance(z, inside, outside), np.abs(offset * slope))

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Centre, scale (d), directions (d, K), means, precisions, offsets, all float64."""
        return {
            "centre": self.centre_, "scale": self.scale_, "directions": self.directions_, "means": self.means_,
            "precisions": self.precisions_, "offsets": self.offsets_,
        }  # fmt: skip

    def restore(self, arrays: Arrays) -> Mixture:
        """Take back what `arrays` gave; raises ValueError if something is missing."""
        self.centre_ = learned(arrays, "centre", np.float64, 1)
        self.scale_ = learned(arrays, "scale", np.float64, 1)
        self.directions_ = learned(arrays, "directions", np.float64, 2)
        self.means_ = learned(arrays, "means", np.float64, 2)
        self.precisions_ = learned(arrays, "precisions", np.float64, 3)
        self.offsets_ = learned(arrays, "offsets", np.float64, 1)
        return self

    def _mixture(self, inside: Floats) -> GaussianMixture | None:
        """The mixture with the best criterion; None where rows are too few for one."""
        best, lowest = None, np.inf
        most = min(self.clusters, len(inside) // _ROWS_FOR_CLUSTER)
        for clusters in range(1, most + 1):
            mixture = GaussianMixture(clusters, reg_covar=_SMALLEST, max_iter=50, random_state=self.seed)
            with warnings.catch_warnings():
                # Not yet converged after 50 rounds is near enough for a distance.
                warnings.simplefilter("ignore", ConvergenceWarning)
                mixture.fit(inside)
            criterion = float(mixture.bic(inside))
            if criterion < lowest:
                best, lowest = mixture, criterion
        return best

    def _split(self, rows: Floats) -> tuple[Floats, Floats, Floats]:
        z = standardised(rows, self.centre_, self.scale_, self.knee)
        inside = z @ self.directions_
        return z, inside, z - inside @ self.directions_.T

    def _squared(self, inside: Floats) -> Floats:
        """Squared distance (n, clusters) to each cluster, plus what its size costs."""
        away = inside[:, None, :] - self.means_[None]
        squared = np.einsum("nck,ckl,ncl->nc", away, self.precisions_, away)
        return np.asarray(np.maximum(squared, 0.0) + self.offsets_[:-1], np.float64)

    def _distance(self, z: Floats, inside: Floats, outside: Floats) -> Floats:
        nearest = self._squared(inside).min(axis=1)
        squared = nearest + np.square(outside).sum(axis=1) / self.offsets_[-1]
        return np.asarray(np.sqrt(squared / (z.shape[1] + inside.shape[1])), np.float64)


def _principal(z: Floats, count: int) -> Floats:
    """First principal directions (d, count or fewer) of z (n, d), each with its largest part positive."""
    _, values, vectors = np.linalg.svd(z, full_matrices=False)
    kept = int(min(count, max((values > 1e-9 * max(values[0], 1e-300)).sum(), 1)))
    directions = vectors[:kept].T
    signs = np.sign(directions[np.abs(directions).argmax(axis=0), np.arange(kept)])
    return np.ascontiguousarray(directions * np.where(signs == 0, 1.0, signs))
