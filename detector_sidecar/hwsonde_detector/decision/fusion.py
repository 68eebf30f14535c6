"""One score of several: their mean, or their agreement, as a number and not only a vote; and members that need nobody to agree with them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hwsonde_detector.decision.calibration import bent
from hwsonde_detector.settings import DetectorSettings
from hwsonde_detector.types import Floats


def fuse(surprises: Floats, names: Sequence[str], settings: DetectorSettings) -> Floats:
    """Fused surprise (n) of members' surprises (n, members).

    It is the mean of those that vote or the ``agreement``-th largest of them, or what one of the ``alone`` says where that is more.
    """
    if not any(name in settings.alone for name in names):
        return voted(surprises, names, settings)
    return np.maximum(voted(surprises, names, settings), spoken_alone(surprises, names, settings))


def voted(surprises: Floats, names: Sequence[str], settings: DetectorSettings) -> Floats:
    """What those say (n) that must agree, of surprises (n, members); 0 where nobody votes."""
    apart = np.array([name in settings.alone for name in names], np.bool_)
    if apart.all():
        return np.zeros(len(surprises))
    voters = surprises[:, ~apart]
    found = np.mean(voters, axis=1) if settings.fusion == "mean" else k_of_n(voters, settings.agreement)
    return np.asarray(found, np.float64)


def spoken_alone(surprises: Floats, names: Sequence[str], settings: DetectorSettings) -> Floats:
    """What the loudest (n) of the members says that need nobody to agree, of surprises (n, members); 0 where there is none."""
    apart = [place for place, name in enumerate(names) if name in settings.alone]
    return np.asarray(surprises[:, apart].max(axis=1, initial=0.0), np.float64)


def alone_decades(ratios: Floats, at: float, risk: float) -> Floats:
    """Decades of surprise that ratios of a member's own unit count as: none at 1, which healthy time reaches, those of the risk at ``at``.

    As with other members, they grow with the logarithm beyond six.

    Raises
    ------
    ValueError
        If ``at`` is not above 1.
    """
    if at <= 1.0:
        raise ValueError(f"the ratio that counts as the risk must lie above 1, got {at}")
    return bent(-np.log10(risk) * np.maximum(np.asarray(ratios, np.float64) - 1.0, 0.0) / (at - 1.0))


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
