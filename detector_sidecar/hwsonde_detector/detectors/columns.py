"""What several detectors need of their columns: centres and scales that survive NaN, Inf and huge values; reading learned arrays back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwsonde_detector.detectors.base import Arrays
from hwsonde_detector.types import Floats

# Far beyond any standardised value, and its square times any number of columns is still finite.
LIMIT = 1e15


def centres(rows: Floats) -> Floats:
    """Mean (d) of each column's finite values; 0 where a column has none."""
    known = np.isfinite(rows)
    total = np.where(known, np.clip(rows, -LIMIT, LIMIT), 0.0).sum(axis=0)
    return np.asarray(total / np.maximum(known.sum(axis=0), 1), np.float64)


def filled(rows: Floats, centre: Floats) -> Floats:
    """Copy of rows (n, d), limited to +-1e15, a value that is not finite replaced by its column's centre (d).

    Raises
    ------
    ValueError
        If rows are not two-dimensional or have another number of columns than the centre.
    """
    rows = np.asarray(rows, np.float64)
    if rows.ndim != 2 or rows.shape[1] != len(centre):
        raise ValueError(f"rows of {len(centre)} columns expected, got an array of shape {rows.shape}")
    return np.where(np.isfinite(rows), np.clip(rows, -LIMIT, LIMIT), centre)


def training_rows(rows: Floats) -> Floats:
    """The rows (n, d) as float64, after checking that there is something to learn from.

    Raises
    ------
    ValueError
        If rows are not two-dimensional, or without a row or a column.
    """
    rows = np.asarray(rows, np.float64)
    if rows.ndim != 2 or 0 in rows.shape:
        raise ValueError(
            f"at least one row and one column are needed to learn from, got an array of shape {rows.shape}"
        )
    return rows


def softened(z: Floats, knee: float) -> Floats:
    """Deviations of any shape, unchanged up to the knee; from there |z| becomes knee * (1 + ln(|z| / knee)), so that it still grows.

    Among hundreds of columns there is always one that rests for minutes and then moves: unsoftened, its z of hundreds
    outweighs a fault that moves thirty columns by ten.
    """
    size = np.abs(z)
    far = size > knee
    return np.asarray(np.where(far, np.sign(z) * knee * (1 + np.log(np.where(far, size, knee) / knee)), z), np.float64)


def standards(rows: Floats, floor: float) -> tuple[Floats, Floats]:
    """Centre and scale (d each) of training rows (n, d): means and deviations of the columns, the latter not below ``floor``."""
    centre = centres(rows)
    deviation = np.sqrt(centres(np.square(filled(rows, centre) - centre)))
    return centre, np.maximum(deviation, floor)


def standardised(rows: Floats, centre: Floats, scale: Floats, knee: float) -> Floats:
    """Deviations z (n, d) of rows (n, d) from the centre (d) in units of the scale (d), softened beyond the knee.

    Raises
    ------
    ValueError
        As `filled`.
    """
    return softened((filled(rows, centre) - centre) / scale, knee)


def spread_over(score: Floats, weights: Floats) -> Floats:
    """Split scores (n) over columns in proportion to weights (n, d), which are not below 0; a row without weight gives zeros."""
    total = weights.sum(axis=1)
    ratio = np.divide(score, total, out=np.zeros_like(total), where=total > 0)
    return np.asarray(weights * ratio[:, None], np.float64)


def learned(arrays: Arrays, name: str, dtype: type[np.generic], dimensions: int) -> NDArray[Any]:
    """One learned array out of the state, checked.

    Raises
    ------
    ValueError
        If it is missing, or of another kind or number of dimensions than this detector writes.
    """
    array = arrays.get(name)
    if array is None or array.dtype != np.dtype(dtype) or array.ndim != dimensions:
        raise ValueError(f"the kept model does not fit this version: {name} is missing or of another shape")
    return np.array(array)
