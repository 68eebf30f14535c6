"""What of the newest rows a detector looks at: the values, their change against the recent past, their restlessness, their course.

All streams are made of standardised rows (`hwsonde_detector.decision.scaling.Scale.standardise`), end in the same row, and depend on a fixed
number of rows before it, so that a row's streams are the same however rows were handed over.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import numpy as np

from hwsonde_detector.signals.windows import FULL_INTERVALS, window_features
from hwsonde_detector.types import Floats, Mask, Times

# Weight of the newest row in the moving average, and how many rows it reaches back (what lies further weighs 1 % together).
_ALPHA = 0.2
PAST_ROWS = 20
# A standardised value beyond this is broken, not further away: its square must not decide a covariance alone.
_CLIP = 20.0


class Stream(StrEnum):
    """A view of the rows that end in one row; c channels, windows of w rows.

    ``WINDOW`` has the configured features of the window (c * f columns), ``LEVEL`` the newest row (c), ``CHANGE`` its difference to a moving
    average of the rows before it (c), ``UNREST`` the deviation within the window (c), ``ROWS`` the window's rows (c * w), ``COURSE`` the same
    with a limit and ``JUMPS`` the changes of each of them (c * w). Columns of one channel are neighbours.
    """

    WINDOW = "window"
    LEVEL = "level"
    CHANGE = "change"
    UNREST = "unrest"
    ROWS = "rows"
    COURSE = "course"
    JUMPS = "jumps"


def columns(stream: Stream, rows: int, features: Sequence[str]) -> int:
    """How many columns of a stream belong to one channel."""
    return {Stream.WINDOW: len(features), Stream.ROWS: rows, Stream.COURSE: rows, Stream.JUMPS: rows}.get(stream, 1)


def past_rows(stream: Stream) -> int:
    """How many rows before its window a stream looks at."""
    return PAST_ROWS if stream in {Stream.CHANGE, Stream.JUMPS} else 0


def make_stream(
    stream: Stream, rows: Floats, width: int, features: Sequence[str], past: int = 0, fresh: Mask | None = None
) -> Floats:
    """One row of a stream for every window.

    Parameters
    ----------
    stream
        Which.
    rows
        float64 (past + n, c), standardised; NaN where not known.
    width
        Rows w of a window, at least 1.
    features
        Features of `Stream.WINDOW`.
    past
        Rows at the beginning that belong to no window and only tell what was before; fewer than `PAST_ROWS` tell less.
    fresh
        bool (past + n): rows that do not follow the row before them in time; None: all do.

    Returns
    -------
    Floats
        float64 (n - w + 1, columns); NaN where not known.
    """
    count = max(len(rows) - past - width + 1, 0)
    if stream is Stream.WINDOW:
        return window_features(rows[past:], width, features)
    if stream is Stream.UNREST:
        return window_features(rows[past:], width, ("deviation",))
    last = past + width - 1
    if stream is Stream.LEVEL:
        return np.array(rows[last : last + count])
    if stream is Stream.CHANGE:
        return changes(rows, fresh)[last : last + count]
    moved = changes(rows, fresh) if stream is Stream.JUMPS else rows
    shifted = [moved[past + shift : past + shift + count] for shift in range(width)]
    side_by_side = np.stack(shifted, axis=2).reshape(count, rows.shape[1] * width)
    return side_by_side if stream is Stream.ROWS else np.clip(side_by_side, -_CLIP, _CLIP)


def gaps(times: Times, interval_ms: int) -> Mask:
    """Which rows do not follow the row before them, bool (n): more intervals lie between than in a full window, or time runs backwards."""
    steps = np.diff(times, prepend=times[:1])
    return np.asarray((steps < 0) | (steps > FULL_INTERVALS * interval_ms), np.bool_)


def changes(rows: Floats, fresh: Mask | None = None) -> Floats:
    """Difference of each row (n, c) to the moving average of the rows before it; 0 where nothing is known of those.

    The average weighs the row j rows back with 0.2 * 0.8^(j - 1), up to 20 rows back, and leaves out what is not known and what lies before a
    ``fresh`` row (n), one that does not follow the row before it.
    """
    rows = np.asarray(rows, np.float64)
    known = np.isfinite(rows)
    stretch = np.zeros(len(rows), np.int64) if fresh is None else np.cumsum(fresh)
    total, weight = np.zeros_like(rows), np.zeros_like(rows)
    values = np.where(known, rows, 0.0)
    for back in range(1, min(PAST_ROWS, len(rows) - 1) + 1):
        share = _ALPHA * (1.0 - _ALPHA) ** (back - 1)
        same = share * (stretch[back:] == stretch[:-back])[:, None]
        total[back:] += same * values[:-back]
        weight[back:] += same * known[:-back]
    average = np.divide(total, weight, out=np.where(known, rows, 0.0), where=weight > 0)
    return np.where(known, rows - average, np.nan)
