"""Mean absolute z-score: the plainest detector, and hard to beat on hosts that it has not seen.

With mean m and deviation s of each column over the training rows, the score of a row x of d columns is::

    z_j      = (x_j - m_j) / max(s_j, floor)
    score(x) = 1/d * sum_j g(|z_j|)          g(z) = z up to the knee, then knee * (1 + ln(z / knee))

It is one of the three members of Reveal (a hardware-telemetry detector for machine-learning clusters). Reveal's mean has no knee; ours
keeps one column that moves for the first time from outweighing all others (`softened`). It is additive: a column's part is its own
g(|z|) / d.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from hwsonde_detector.detectors.base import Arrays
from hwsonde_detector.detectors.columns import learned, standardised, standards, training_rows
from hwsonde_detector.types import Floats


class ZScore:
    """Mean absolute z-score over the columns.

    Parameters
    ----------
    floor
        Smallest deviation, in units of the (roughly standardised) columns: a column that was constant in training is judged
        against it, so its first change counts as a finite novelty.
    knee
        Deviation from which a column's say grows with the logarithm only.

    Attributes
    ----------
    centre_ : ndarray of float64 (d)
        Means of the columns.
    scale_ : ndarray of float64 (d)
        Deviations of the columns, not below ``floor``.

    Examples
    --------
    >>> import numpy as np
    >>> detector = ZScore().fit(np.array([[0.0, 10.0], [2.0, 14.0]]))
    >>> detector.score(np.array([[1.0, 12.0], [4.0, 12.0]]))
    array([0. , 1.5])
    >>> detector.contributions(np.array([[4.0, 12.0]]))
    array([[1.5, 0. ]])
    """

    name: ClassVar[str] = "zscore"

    def __init__(self, floor: float = 0.3, knee: float = 5.0) -> None:
        self.floor = floor
        self.knee = knee

    def fit(self, rows: Floats) -> ZScore:
        """Learn each column's mean and deviation from rows (n, d)."""
        rows = training_rows(rows)
        self.centre_, self.scale_ = standards(rows, self.floor)
        return self

    def score(self, rows: Floats) -> Floats:
        """Mean softened |z| (n) of rows (n, d)."""
        return np.asarray(self._deviations(rows).mean(axis=1), np.float64)

    def contributions(self, rows: Floats) -> Floats:
        """Each column's softened |z| / d (n, d); rows sum to the score."""
        return self._deviations(rows) / len(self.centre_)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Centre and scale, float64 (d) each."""
        return {"centre": self.centre_, "scale": self.scale_}

    def restore(self, arrays: Arrays) -> ZScore:
        """Take back what `arrays` gave; raises ValueError if something is missing."""
        self.centre_ = learned(arrays, "centre", np.float64, 1)
        self.scale_ = learned(arrays, "scale", np.float64, 1)
        return self

    def _deviations(self, rows: Floats) -> Floats:
        return np.abs(standardised(rows, self.centre_, self.scale_, self.knee))
