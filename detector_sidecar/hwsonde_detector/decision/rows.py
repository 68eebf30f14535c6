"""Parts of frames, and frames put together."""

from __future__ import annotations

import numpy as np

from hwsonde_detector.decision.learning import align
from hwsonde_detector.types import Frame

# Rows kept beside the newest ones: enough for a window to go on, and to look back for the onset of a deviation.
_RECENT_ROWS = 60


def part(frame: Frame, start: int, stop: int) -> Frame:
    """Rows from ``start`` up to ``stop``; views, nothing is copied."""
    return Frame(frame.entity, frame.channels, frame.times[start:stop], frame.values[start:stop])


def newest(frame: Frame, most: int) -> Frame:
    """The newest ``most`` rows."""
    count = len(frame.times)
    return part(frame, max(count - most, 0), count)


def recent_rows(width: int) -> int:
    """How many of the newest rows are kept for windows of ``width`` rows."""
    return max(_RECENT_ROWS, width)


def joined(recent: Frame | None, block: Frame) -> Frame:
    """Rows of ``block`` behind those of ``recent``, with the channels of ``block``."""
    if recent is None:
        return block
    old = align(recent.values, recent.channels, block.channels)
    return Frame(
        block.entity, block.channels, np.concatenate([recent.times, block.times]), np.concatenate([old, block.values])
    )
