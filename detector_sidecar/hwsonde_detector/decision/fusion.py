"""One score of several: their mean, or their agreement, as a number and not only a vote."""

from __future__ import annotations

import numpy as np

from hwsonde_detector.settings import DetectorSettings
from hwsonde_detector.types import Floats


def fuse(surprises: Floats, settings: DetectorSettings) -> Floats:
    """Fused surprise (n) of members' surprises (n, members): their mean, or the ``agreement``-th largest."""
    if settings.fusion == "mean":
        return np.asarray(np.mean(surprises, axis=1), np.float64)
    return k_of_n(surprises, settings.agreement)


def k_of_n(scores: Floats, k: int) -> Floats:
    """The k-th largest calibrated score of each row: at least k members say this much or more.

    Parameters
    ----------
    scores
        float64 (n, members), one unit for all members; NaN where a member has nothing to say.
    k
        How many must agree, from 1. A row in which fewer members speak asks for all of those.

    Returns
    -------
    float64 (n)
        NaN only where no member speaks.

    Raises
    ------
    ValueError
        If k is below 1 or there is no member.

    Examples
    --------
    >>> import numpy as np
    >>> k_of_n(np.array([[0.2, 3.0, 1.1], [np.nan, 3.0, 1.1]]), 2)
    array([1.1, 1.1])
    """
    scores = np.asarray(scores, np.float64)
    if k < 1 or scores.ndim != 2 or scores.shape[1] == 0:
        raise ValueError(f"k-of-n needs k >= 1 and at least one member, got k={k} and scores of shape {scores.shape}")
    ascending = np.sort(scores, axis=1)  # NaN last
    speaking = (~np.isnan(scores)).sum(axis=1)
    place = np.where(speaking > 0, np.maximum(speaking - k, 0), 0)
    return np.asarray(np.take_along_axis(ascending, place[:, None], axis=1)[:, 0], np.float64)
