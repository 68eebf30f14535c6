"""Scores of healthy rows as they were given, before the rows were learned: what a tail should be learned from.

A model's scores of its own training rows are too low, and cross-fitted ones know the rows after a row as well as those before it. What the
next hour's scores will look like is told by what the last hour's looked like, given by models that had not seen it (Dawid, "Present position and
potential developments: the prequential approach", JRSS A 147, 1984): they hold the drift that a host has.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwsonde_detector.types import Floats, Mask

# A model that had seen less than this part of what the next one will see says little of it.
_MATURE = 0.5
# Scores of a tail that is worth more than a cross-fitted one.
ENOUGH = 200


class Heard:
    """The newest scores, oldest first, up to a limit; each with the number of rows that its model had learned.

    Parameters
    ----------
    scores
        (m, members + 1): the members' raw scores, then the fused surprise in decades.
    learned
        (m), rows that the judging model had learned.
    """

    def __init__(self, scores: NDArray[Any] | None = None, learned: NDArray[Any] | None = None) -> None:
        self.scores = np.zeros((0, 0), np.float32) if scores is None else np.asarray(scores, np.float32)
        self.learned = np.zeros(0, np.int64) if learned is None else np.asarray(learned, np.int64)
        if self.scores.ndim != 2 or len(self.scores) != len(self.learned):
            raise ValueError("the kept scores do not fit this version: an array is missing or of another shape")

    def append(self, raw: Floats, fused: Floats, learned: int, limit: int) -> None:
        """Add raw scores (n, members) and fused surprises (n) of accepted rows; other members than before start anew."""
        if not len(raw):
            return
        new = np.column_stack([raw, fused]).astype(np.float32)
        known = new[np.isfinite(new).all(axis=1)]
        same = self.scores.shape[1] == new.shape[1]
        scores, rows = (
            (self.scores, self.learned) if same else (np.zeros((0, new.shape[1]), np.float32), np.zeros(0, np.int64))
        )
        self.scores = np.concatenate([scores, known])[-limit:]
        self.learned = np.concatenate([rows, np.full(len(known), learned, np.int64)])[-limit:]

    def raw(self, rows: int) -> Floats:
        """Raw scores (n, members) by models that had learned about as much as one of ``rows`` rows."""
        return self.scores[self._mature(rows), :-1].astype(np.float64)

    def fused(self, rows: int) -> Floats:
        """Fused surprises (n) of the same."""
        return self.scores[self._mature(rows), -1].astype(np.float64) if self.scores.shape[1] else np.zeros(0)

    def _mature(self, rows: int) -> Mask:
        return np.asarray(self.learned >= _MATURE * rows)
