"""Thinned lines keep their peaks."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hwsonde_detector.explain.series import Envelope, between, peaks
from tests.detector.explain.planted import host, score


@given(st.lists(st.floats(0, 100), max_size=400), st.integers(1, 50))
def test_the_largest_is_kept_in_order(values, most):
    kept = peaks(values, most)
    assert kept == sorted(set(kept))
    assert len(kept) <= most
    assert len(kept) == min(most, len(values))
    if values:
        assert max(values[place] for place in kept) == max(values)


@given(st.lists(st.integers(0, 50), unique=True).map(sorted), st.integers(-5, 55), st.integers(-5, 55))
def test_windows_between_two_times(ends, first, last):
    scores = [score(host("n1"), end, 1.0) for end in ends]
    assert list(between(scores, first, last)) == [one for one in scores if first <= one.end_ms <= last]


def naive(times, values, start, end, stretches):
    """Lowest and highest of each stretch, one value at a time."""
    count = max(min(stretches, end - start + 1), 1)
    kept = {}
    for place in range(count):
        own = [
            (value, at)
            for at, value in zip(times, values, strict=True)
            if start <= at <= end and (at - start) * count // (end - start + 1) == place and np.isfinite(value)
        ]
        if own:
            for value in (min(value for value, _ in own), max(value for value, _ in own)):
                first = next(moment for other, moment in own if other == value)
                kept[first] = value
    return sorted(kept.items())


@given(
    st.lists(st.integers(0, 2000), unique=True, max_size=60).map(sorted),
    st.data(),
    st.integers(0, 1000),
    st.integers(1, 1500),
    st.integers(1, 20),
)
def test_an_envelope_equals_its_twin_however_rows_arrive(times, data, start, length, stretches):
    values = data.draw(
        arrays(np.float64, len(times), elements=st.sampled_from([np.nan, np.inf, -5.0, 0.0, 1.0, 2.5, 1e6]))
    )
    cut = data.draw(st.integers(0, len(times)))
    end = start + length
    envelope = Envelope(start, end, 2, stretches)
    for part in (slice(0, cut), slice(cut, None)):
        rows = np.column_stack([values[part], np.full(len(values[part]), np.nan)])
        envelope.add(np.array(times[part], np.int64), rows)
    points = envelope.points(0, 10)
    assert list(zip(points.times, points.values, strict=True)) == naive(times, values, start, end, stretches)
    assert envelope.points(1, 10).times == ()
    assert points.step_ms >= 10


def test_a_spike_of_one_row_stays():
    envelope = Envelope(0, 10_000_000, 1)
    times = np.arange(0, 10_000_000, 1000, dtype=np.int64)
    values = np.ones((len(times), 1))
    values[4567] = 99.0
    envelope.add(times, values)
    points = envelope.points(0, 1000)
    assert max(points.values) == 99.0
    assert points.times[points.values.index(99.0)] == 4_567_000
    assert len(points.times) <= 300
