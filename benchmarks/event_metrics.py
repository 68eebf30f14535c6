"""How good scores and alarms are on labelled rows, without point adjustment. Rows are in order of time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

SLACK_ROWS = 10
BLOCK_ROWS = 10
_THRESHOLDS = 400


def runs(mask: Mask, gap: int = 0) -> list[tuple[int, int]]:
    """Runs of True as (first, last) row; those with at most ``gap`` rows between their ends count as one."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], np.asarray(mask, np.int8), [0]])))
    found: list[tuple[int, int]] = []
    for begin, end in zip(edges[::2].tolist(), (edges[1::2] - 1).tolist(), strict=True):
        if found and begin - found[-1][1] <= gap:
            found[-1] = (found[-1][0], end)
        else:
            found.append((begin, end))
    return found


def near_events(label: Mask) -> Mask:
    """Rows within `SLACK_ROWS` of a labelled event: an alarm there is neither true nor false."""
    label = np.asarray(label, np.bool_)
    near = label.copy()
    for shift in range(1, SLACK_ROWS + 1):
        near[shift:] |= label[:-shift]
        near[:-shift] |= label[shift:]
    return near


def average_precision(label: Mask, score: Floats) -> float:
    """Area under precision over recall; ties share one threshold. NaN if no row is labelled."""
    if not np.any(label):
        return float("nan")
    order = np.argsort(-score, kind="stable")
    hits = np.cumsum(label[order])
    last = np.append(np.flatnonzero(np.diff(score[order])), len(score) - 1)
    recall = hits[last] / hits[-1]
    return float(np.sum(np.diff(recall, prepend=0.0) * hits[last] / (last + 1)))


def false_events(alarm: Mask, label: Mask) -> int:
    """Number of alarms away from events; a long one counts once for every `BLOCK_ROWS` rows begun."""
    away = np.asarray(alarm, np.bool_) & ~near_events(label)
    return sum(-(-(end - begin + 1) // BLOCK_ROWS) for begin, end in runs(away))


def hit_events(alarm: Mask, label: Mask) -> int:
    """Number of labelled events with an alarm inside."""
    return sum(bool(np.any(alarm[begin : end + 1])) for begin, end in runs(label))


def recall_at_budget(label: Mask, score: Floats, per_1000: float = 1.0) -> tuple[int, int]:
    """Events hit, and events in all, at the lowest threshold before false events first pass the budget: the best in hindsight."""
    events = len(runs(label))
    shares = np.geomspace(1 / len(score), 0.5, _THRESHOLDS)
    best = 0
    for threshold in np.unique(np.quantile(score, 1 - shares))[::-1]:
        alarm = score > threshold
        if false_events(alarm, label) > per_1000 * len(score) / 1000:
            break
        best = hit_events(alarm, label)
    return best, events


def false_pages(alarm: Mask, label: Mask, gap: int = 10) -> int:
    """Pages that touch no event nor its neighbourhood; runs closer than ``gap`` rows are one page."""
    near = near_events(label)
    return sum(not np.any(near[begin : end + 1]) for begin, end in runs(alarm, gap))
