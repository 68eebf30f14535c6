"""The level that a host's fused surprise must reach, from a budget in pages per 100 node-days. Pure.

Where a host's own healthy time tells how high its peaks go, the level follows from it; where it tells little, from what hosts are like. Then it
moves a little with what happens: up when an episode ends, down while it is quiet, within a floor and a ceiling, never during an episode.
It is not chased: a level that follows every alarm also rises while something is wrong, and then misses the next thing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hwsonde_detector.settings import EpisodeSettings
from hwsonde_detector.types import Floats

DAY_MS = 86_400_000
# Peaks nearer than this many rows are one.
_APART = 10
# A level below lets one window in 25 pass, one above needs what no healthy host shows in years.
_LEAST, _MOST = 1.4, 6.0
# What hosts are like: the chance of a row to begin a page is about a twentieth of the chance of a row to be as high, and few rows a day
# are no reason to go below two decades.
_ROWS_FOR_PAGE = 20.0
_USUAL_LEAST = 2.0
# Persistence, grouping and the level's own movement leave about 0.4 of the pages that a level alone would give.
_LEFT = 0.4
# How much the host's own peaks count against that.
_OWN = 0.25
# Decades that the level moves when an episode ends, and how far it may get from its start.
_UP = 0.2
_RANGE = (-1.0, 2.0)


@dataclass(slots=True)
class Watch:
    """How long a host was judged by scores that count, and how many episodes opened in that time: the realised rate."""

    watched_ms: int = 0
    pages: int = 0


@dataclass(slots=True)
class Threshold:
    """A host's level in decades of surprise: where it started, and where it is; None before anything was learned."""

    start: float | None = None
    value: float | None = None

    def level(self, rules: EpisodeSettings) -> float:
        """The level in force: fixed by the risk where there is no budget, and before the first start."""
        fixed = -float(np.log10(rules.risk))
        return fixed if rules.budget == 0 or self.value is None else self.value

    def learn(self, healthy: Floats, interval_ms: int, rules: EpisodeSettings) -> None:
        """Take the start from fused surprises (n) of healthy rows, oldest first, that were judged before they were learned.

        The more of them there are the more they tell; how far the level had moved from its start before is kept.
        """
        if rules.budget == 0:
            return
        start = starting_level(healthy, interval_ms, rules.budget)
        moved = 0.0 if self.start is None or self.value is None else self.value - self.start
        self.start = self.value = start
        self.shift(moved)

    def rise(self, steps: int = 1) -> float:
        """Rise a little, as after an episode: another one as high would have paged again; give by how much, in decades."""
        return self.shift(_UP * steps)

    def quiet(self, passed_ms: float, rules: EpisodeSettings) -> None:
        """Fall a little for quiet time: as much in the time that the budget grants one page as one page raises."""
        self.shift(-_UP * passed_ms / DAY_MS * rules.budget / 100.0)

    def shift(self, by: float) -> float:
        """Move within the floor and the ceiling; give by how much it really moved."""
        if self.start is None or self.value is None:
            return 0.0
        low, high, before = max(self.start + _RANGE[0], _LEAST), min(self.start + _RANGE[1], _MOST), self.value
        self.value = min(max(self.value + by, low), high)
        return self.value - before


def starting_level(healthy: Floats, interval_ms: int, budget: float) -> float:
    """Level that healthy time like this passes ``budget`` times in 100 days.

    Part of it is the host's own: the k-th highest peak, where the budget allows k peaks in the time that was seen, and where it allows
    less than one the highest plus what an exponential tail of the peaks adds. That counts a quarter, what hosts are like at this scrape
    interval the rest: own peaks also hold what was wrong while nobody watched.

    Parameters
    ----------
    healthy
        float64 (n), decades of surprise; NaN is left out.
    interval_ms
        Distance of two rows.
    budget
        Pages in 100 node-days.
    """
    rows_a_day, budget = DAY_MS / interval_ms, budget / _LEFT
    usual = max(float(np.log10(rows_a_day * 100.0 / budget / _ROWS_FOR_PAGE)), _USUAL_LEAST)
    known = np.asarray(healthy, np.float64)[np.isfinite(healthy)]
    own = _own_peak(peaks(known), budget * len(known) / rows_a_day / 100.0) if len(known) else usual
    return float(np.clip(_OWN * own + (1.0 - _OWN) * usual, _LEAST, _MOST))


def _own_peak(heights: Floats, allowed: float) -> float:
    if not len(heights):
        return _LEAST
    if allowed >= 1.0:
        return float(heights[min(int(allowed), len(heights)) - 1])
    upper = heights[: max(int(0.3 * len(heights)), 1)]
    scale = max(float((upper - upper[-1]).mean()), 0.05) if len(upper) > 1 else 0.2
    return float(heights[0] + scale * np.log(1.0 / max(allowed, 1e-9)))


def peaks(values: Floats) -> Floats:
    """Heights, highest first, of the stretches in the highest tenth of values (n); stretches within ten rows of each other are one."""
    if not len(values):
        return np.zeros(0)
    places = np.flatnonzero(values >= np.quantile(values, 0.9))
    parts = np.split(places, np.flatnonzero(np.diff(places) > _APART) + 1)
    return np.sort(np.array([float(values[part].max()) for part in parts]))[::-1]
