"""Slow and obvious versions of calibration and agreement."""

from __future__ import annotations

import math
from collections.abc import Sequence


def share_at_or_above(training: Sequence[float], x: float) -> float:
    """(healthy scores at or above x) / (n + 1)."""
    return sum(score >= x for score in training) / (len(training) + 1)


def tail_share(excesses: float, scale: float, distance: float) -> float:
    """Chance that an exponential excess passes the distance, its mean known from so many excesses: the Lomax survival function."""
    return (1 + distance / (excesses * scale)) ** -excesses


def k_th_largest(row: Sequence[float], k: int) -> float:
    """Of the members that speak, the k-th largest, or the smallest where fewer speak."""
    speaking = sorted((x for x in row if not math.isnan(x)), reverse=True)
    return speaking[min(k, len(speaking)) - 1] if speaking else math.nan


def folds(n: int, count: int, gap: int) -> list[tuple[list[int], list[int]]]:
    """For each fold: the rows that it scores and the rows that it may learn from."""
    out = []
    for fold in range(count):
        begin, end = round(fold * n / count), round((fold + 1) * n / count)
        others = [i for i in range(n) if i < begin - gap or i >= end + gap]
        out.append((list(range(begin, end)), others))
    return out
