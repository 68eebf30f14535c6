"""The contract that every detector keeps; ``tests/detector/contracts/test_detectors.py`` runs one suite over all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from hwsonde_detector.types import Floats

Arrays: TypeAlias = Mapping[str, NDArray[Any]]


class Detector(Protocol):
    """Scores rows of standardised window features without labels.

    The constructor only stores parameters. ``fit`` learns into attributes that end in ``_`` and returns ``self``. Rows are finite when
    they come from the worker; a detector must nevertheless not fail on NaN, Inf, constant columns, one row or one column: a value
    that is not finite counts as the column's centre and contributes nothing. Input is never changed. Equal seed and rows give equal
    results on any machine.
    """

    name: ClassVar[str]

    def fit(self, rows: Floats) -> Detector:
        """Learn from rows (n, d) of healthy time."""

    def score(self, rows: Floats) -> Floats:
        """Raw scores (n), higher is worse, finite, not below 0."""

    def contributions(self, rows: Floats) -> Floats:
        """Parts (n, d) of the score by column, not below 0; rows sum to the score (or to 0 where the method cannot split it)."""

    def arrays(self) -> dict[str, NDArray[Any]]:
        """What was learned, for the state on disk; `restore` of it scores equally."""

    def restore(self, arrays: Arrays) -> Detector:
        """Take back what `arrays` gave."""


def finite(rows: Floats, centre: Floats) -> Floats:
    """Copy of rows (n, d) with every value that is not finite replaced by the centre (d) of its column."""
    rows = np.asarray(rows, np.float64)
    return np.where(np.isfinite(rows), rows, centre)
