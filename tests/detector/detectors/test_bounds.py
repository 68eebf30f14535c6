from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from hwsonde_detector.detectors.bounds import Bounds, Lone
from hwsonde_detector.types import Floats


def windows(values: Floats, width: int = 3) -> Floats:
    """Rows (n, c) as windows (n - w + 1, c * w), a channel's columns side by side."""
    count = len(values) - width + 1
    return np.stack([values[shift : shift + count] for shift in range(width)], axis=2).reshape(count, -1)


def naive(rows: Floats, asked: Floats, width: int, floor: float, seen: int) -> list[float]:
    """Slow and obvious: one channel, one window at a time."""
    n, m = len(rows), width // 2 + 1
    blocks = min(max(n // 20, 5), 24, n)
    borders = [round(k * n / blocks) for k in range(blocks + 1)]
    place = min(max(round(seen * blocks / 24), 1), blocks)
    best = [0.0] * len(asked)
    for channel in range(rows.shape[1] // width):
        columns = slice(channel * width, (channel + 1) * width)
        high = [min(sorted(row)[width - m], row[-1]) for row in rows[:, columns].tolist()]
        low = [max(sorted(row)[m - 1], row[-1]) for row in rows[:, columns].tolist()]
        centre = float(np.median([(a + b) / 2 for a, b in zip(high, low, strict=True)]))
        above = sorted((max(high[begin:end]) - centre for begin, end in pairwise(borders)), reverse=True)
        below = sorted((centre - min(low[begin:end]) for begin, end in pairwise(borders)), reverse=True)
        up, down = max(above[place - 1], floor), max(below[place - 1], floor)
        for index, row in enumerate(asked[:, columns].tolist()):
            reached, left = min(sorted(row)[width - m], row[-1]), max(sorted(row)[m - 1], row[-1])
            best[index] = max(best[index], (reached - centre) / up, (centre - left) / down, 0.0)
    return best


@given(
    hnp.arrays(np.float64, st.tuples(st.integers(3, 20), st.just(6)), elements=st.floats(-50, 50)),
    hnp.arrays(np.float64, (4, 6), elements=st.floats(-200, 200)),
    st.integers(1, 4),
)
def test_equals_the_naive_version(rows: Floats, asked: Floats, seen: int) -> None:
    found = Bounds(group=3, seen=seen).fit(rows).score(asked)
    assert found == pytest.approx(naive(rows, asked, 3, 1.0, seen))


@given(hnp.arrays(np.float64, (500, 6), elements=st.floats(-50, 50)), st.integers(1, 24))
def test_equals_the_naive_version_of_many_stretches(rows: Floats, seen: int) -> None:
    found = Bounds(group=3, seen=seen).fit(rows).score(rows[:5])
    assert found == pytest.approx(naive(rows, rows[:5], 3, 1.0, seen))


def test_what_happened_in_two_stretches_hides_nothing_and_in_three_it_is_usual() -> None:
    healthy = np.random.default_rng(2).normal(size=(2400, 3))
    fault = windows(np.array([[0.0, 14.0, 0.0]] * 3))
    for count, least, most in ((0, 2.0, 100.0), (2, 2.0, 100.0), (3, 0.0, 1.5)):
        learned = healthy.copy()
        for burst in range(count):
            learned[335 + 700 * burst : 365 + 700 * burst, 1] += 12.0
        assert least < Bounds(group=3, seen=3).fit(windows(learned)).score(fault)[0] < most


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
    assert detector.score(np.array([[0.0, 0.0, 1e6, 0.0, 0.0, 0.0]]))[0] < 1.0
    assert detector.score(np.array([[0.0, 1e6, 1e6, 0.0, 0.0, 0.0]]))[0] > 1e4
    assert detector.score(np.array([[1e6, 0.0, 1e6, 0.0, 0.0, 0.0]]))[0] > 1e4


def test_a_window_whose_newest_row_is_well_again_tells_nothing() -> None:
    healthy = np.random.default_rng(1).normal(size=(500, 2))
    assert Bounds(group=3).fit(windows(healthy)).score(np.array([[1e6, 1e6, 0.0, 0.0, 0.0, 0.0]]))[0] < 1.0


def test_one_row_of_a_quick_channel_tells_enough_and_only_of_that() -> None:
    healthy = np.random.default_rng(1).normal(size=(500, 2))
    detector = Bounds(group=3, lone=Lone(np.array([True, False]), np.array([False, False]))).fit(windows(healthy))
    assert detector.score(np.array([[0.0, 0.0, 1e6, 0.0, 0.0, 0.0]]))[0] > 1e4
    assert detector.score(np.array([[0.0, 0.0, -1e6, 0.0, 0.0, 0.0]]))[0] > 1e4
    assert detector.score(np.array([[0.0, 0.0, 0.0, 0.0, 0.0, 1e6]]))[0] < 1.0
    assert detector.score(np.array([[1e6, 1e6, 0.0, 0.0, 0.0, 0.0]]))[0] < 1.0


def test_a_mute_channel_says_nothing_also_after_a_restart() -> None:
    rows = windows(np.random.default_rng(1).normal(size=(500, 2)))
    detector = Bounds(group=3, lone=Lone(np.array([False, False]), np.array([True, False]))).fit(rows)
    asked = np.array([[0.0, 1e6, 1e6, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 9.0, 9.0]])
    found = detector.score(asked)
    assert found[0] < 0.1
    assert found[1] > 2
    assert np.isfinite(detector.contributions(asked)).all()
    assert Bounds(group=3).restore(detector.arrays()).score(asked).tolist() == found.tolist()


def test_quick_channels_are_kept_and_must_fit() -> None:
    rows = windows(np.random.default_rng(1).normal(size=(100, 2)))
    detector = Bounds(group=3, lone=Lone(np.array([True, False]), np.array([False, False]))).fit(rows)
    asked = np.array([[0.0, 0.0, 20.0, 0.0, 0.0, 30.0]])
    assert Bounds(group=3).restore(detector.arrays()).score(asked) == detector.score(asked)
    with pytest.raises(ValueError, match="another shape"):
        Bounds(group=3).restore({**detector.arrays(), "quick": np.array([True])})
    with pytest.raises(ValueError, match="1 channels are quick or not, got 2"):
        Bounds(group=3, lone=Lone(np.array([True]), np.array([False]))).fit(rows)


def test_columns_that_cannot_be_grouped_are_refused() -> None:
    with pytest.raises(ValueError, match="columns in groups of 3 expected, got 4"):
        Bounds(group=3).fit(np.zeros((5, 4)))
