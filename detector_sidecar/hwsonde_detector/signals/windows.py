"""Features of sliding windows, which windows are full, and the axis on which deviations are judged."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hwsonde_detector.settings import FEATURES
from hwsonde_detector.types import Channel, Floats, Mask, Times

FULL_INTERVALS = 1.5
_BLOCK_VALUES = 1 << 15


def transform(values: Floats, channels: Sequence[Channel]) -> Floats:
    """Move values (rows, c) onto the axis on which they are judged: asinh(value / floor) for logarithmic channels, unchanged otherwise."""
    floors = np.array([channel.floor if channel.logarithmic else 1.0 for channel in channels], np.float64)
    logarithmic = np.array([channel.logarithmic for channel in channels], np.bool_)
    values = np.asarray(values, np.float64)
    if not logarithmic.any():
        return values.copy()
    return np.where(logarithmic, np.arcsinh(values / floors), values)


def _slices(values: Floats, rows: int) -> list[Floats]:
    count = len(values) - rows + 1
    return [values[shift : shift + count] for shift in range(rows)]


def _mean(shifted: list[Floats]) -> Floats:
    total = shifted[0].copy()
    for part in shifted[1:]:
        total += part
    return total / len(shifted)


def _deviation(shifted: list[Floats]) -> Floats:
    mean = _mean(shifted)
    # From differences to the mean, not from sums of squares, which lose all digits of a large steady value.
    return np.sqrt(_mean([(part - mean) ** 2 for part in shifted]))


def _minimum(shifted: list[Floats]) -> Floats:
    result = shifted[0].copy()
    for part in shifted[1:]:
        np.minimum(result, part, out=result)
    return result


def _maximum(shifted: list[Floats]) -> Floats:
    result = shifted[0].copy()
    for part in shifted[1:]:
        np.maximum(result, part, out=result)
    return result


def _slope(shifted: list[Floats]) -> Floats:
    centre = (len(shifted) - 1) / 2.0
    weights = [place - centre for place in range(len(shifted))]
    scale = sum(weight * weight for weight in weights) or 1.0
    # Relative to the first row, so that a large steady value gives exactly 0.
    total = np.zeros_like(shifted[0])
    for weight, part in zip(weights, shifted, strict=True):
        total += (weight / scale) * (part - shifted[0])
    return total


def _difference(shifted: list[Floats]) -> Floats:
    return shifted[-1] - shifted[-2] if len(shifted) > 1 else np.zeros_like(shifted[0])


def _energy(shifted: list[Floats]) -> Floats:
    return _mean([part * part for part in shifted])


_COMPUTE: dict[str, Callable[[list[Floats]], Floats]] = dict(
    zip(FEATURES, (_mean, _deviation, _minimum, _maximum, _slope, _difference, _energy), strict=True)
)


def window_features(values: Floats, rows: int, features: Sequence[str]) -> Floats:
    """Features of every window of consecutive rows.

    Parameters
    ----------
    values
        float64 (n, c).
    rows
        Width w of a window, at least 1.
    features
        f names out of `hwsonde_detector.settings.FEATURES`: mean, population deviation, minimum, maximum, least-squares slope a
        row, last difference, energy (mean of squares). Slope and difference of a single row are 0.

    Returns
    -------
    Floats
        float64 (n - w + 1, c * f), channel by channel: column ``channel * f + feature``. Window i covers rows i to i + w - 1. All
        features of a channel are NaN where any of its rows in the window is not finite, or the result is not.

    Raises
    ------
    ValueError
        If the width is below 1 or a feature is not known.
    """
    unknown = [name for name in features if name not in _COMPUTE]
    if unknown or rows < 1:
        raise ValueError(
            f"window of {rows} rows with features {list(features)}: at least 1 row, features out of {FEATURES}"
        )
    values = np.asarray(values, np.float64)
    count, channels = max(len(values) - rows + 1, 0), values.shape[1]
    result = np.full((count, channels, len(features)), np.nan)
    if channels:
        # A block of windows at a time stays in the processor's cache, which makes an hour of history several times faster.
        block = max(_BLOCK_VALUES // channels, 1)
        for start in range(0, count, block):
            stop = min(start + block, count)
            _fill(result[start:stop], values[start : stop + rows - 1], rows, features)
    return result.reshape(count, channels * len(features))


def _fill(result: Floats, values: Floats, rows: int, features: Sequence[str]) -> None:
    """Write the features of the windows of values (n, c) into result (n - rows + 1, c, f)."""
    shifted = _slices(np.where(np.isfinite(values), values, np.nan), rows)
    with np.errstate(over="ignore", invalid="ignore"):
        known = np.isfinite(_mean(shifted))
        for place, name in enumerate(features):
            feature = _COMPUTE[name](shifted)
            result[:, :, place] = np.where(known & np.isfinite(feature), feature, np.nan)


def full_windows(times: Times, interval_ms: int, rows: int) -> Mask:
    """Which windows have no gap.

    Parameters
    ----------
    times
        int64 (n), ascending, milliseconds.
    interval_ms
        The scrape interval.
    rows
        Width w of a window, at least 1.

    Returns
    -------
    Mask
        bool (n - w + 1): True where every two neighbouring rows of the window are at most 1.5 intervals apart, and ascend.
    """
    count = max(len(times) - rows + 1, 0)
    full = np.ones(count, np.bool_)
    gaps = np.diff(times)
    near = (gaps > 0) & (gaps <= FULL_INTERVALS * interval_ms)
    for shift in range(rows - 1):
        full &= near[shift : shift + count]
    return full
