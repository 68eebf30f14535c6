from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hwsonde_detector.detectors.bounds import Bounds
from hwsonde_detector.types import Floats


def windows(values: Floats, width: int = 3) -> Floats:
    """Rows (n, c) as windows (n - w + 1, c * w), a channel's columns side by side."""
    count = len(values) - width + 1
    return np.stack([values[shift : shift + count] for shift in range(width)], axis=2).reshape(count, -1)


def naive(rows: Floats, asked: Floats, width: int, floor: float) -> list[float]:
    """Slow and obvious: one channel, one window at a time."""
    channels = rows.shape[1] // width
    n, m = len(rows), width // 2 + 1
    borders = [round(k * n / min(5, n)) for k in range(min(5, n) + 1)]
    best = [0.0] * len(asked)
    for channel in range(channels):
        columns = slice(channel * width, (channel + 1) * width)
        high = [sorted(row)[width - m] for row in rows[:, columns].tolist()]
        low = [sorted(row)[m - 1] for row in rows[:, columns].tolist()]
        middle = [(a + b) / 2 for a, b in zip(high, low, strict=True)]
        above = below = floor
        for begin, end in pairwise(borders):
            others = middle[:begin] + middle[end:]
            centre = float(np.median(others)) if others else float(np.median(middle))
            for index in range(begin, end):
                above, below = max(above, high[index] - centre), max(below, centre - low[index])
        centre = float(np.median(middle))
        for index, row in enumerate(asked[:, columns].tolist()):
            ratio = max((sorted(row)[width - m] - centre) / above, (centre - sorted(row)[m - 1]) / below, 0.0)
            best[index] = max(best[index], ratio)
    return best


@given(
    hnp.arrays(np.float64, st.tuples(st.integers(3, 20), st.just(6)), elements=st.floats(-50, 50)),
    hnp.arrays(np.float64, (4, 6), elements=st.floats(-200, 200)),
)
def test_equals_the_naive_version(rows: Floats, asked: Floats) -> None:
    found = Bounds(group=3).fit(rows).score(asked)
    assert found == pytest.approx(naive(rows, asked, 3, 1.0))


def test_healthy_rows_stay_near_their_bounds_and_a_fault_in_one_channel_does_not() -> None:
    rng = np.random.default_rng(0)
    healthy = rng.normal(size=(3000, 40))
    detector = Bounds(group=3).fit(windows(healthy[:2000]))
    later = windows(healthy[2000:])
    assert detector.score(later).max() < 1.6
    fault = healthy[2000:].copy()
    fault[500:510, 7] += 15.0
    found = detector.score(windows(fault))
    assert found[500:508].min() > 3.0
    assert detector.contributions(windows(fault)[503:504]).reshape(40, 3).sum(axis=1).argmax() == 7


def test_one_bad_row_of_three_tells_nothing() -> None:
    healthy = np.random.default_rng(1).normal(size=(500, 2))
    detector = Bounds(group=3).fit(windows(healthy))
    assert detector.score(np.array([[0.0, 1e6, 0.0, 0.0, 0.0, 0.0]]))[0] < 1.0
    assert detector.score(np.array([[0.0, 1e6, 1e6, 0.0, 0.0, 0.0]]))[0] > 1e4


def test_columns_that_cannot_be_grouped_are_refused() -> None:
    with pytest.raises(ValueError, match="columns in groups of 3 expected, got 4"):
        Bounds(group=3).fit(np.zeros((5, 4)))
