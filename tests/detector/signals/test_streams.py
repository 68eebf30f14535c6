from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from hwsonde_detector.settings import FEATURES
from hwsonde_detector.signals.streams import PAST_ROWS, Stream, changes, columns, make_stream, past_rows

NUMBERS = st.one_of(st.floats(-50, 50), st.just(math.nan))


def naive_changes(rows):
    found = []
    for index, row in enumerate(rows):
        line = []
        for channel, value in enumerate(row):
            total = weight = 0.0
            for back in range(1, min(PAST_ROWS, index) + 1):
                past = rows[index - back][channel]
                if not math.isnan(past):
                    total += 0.2 * 0.8 ** (back - 1) * past
                    weight += 0.2 * 0.8 ** (back - 1)
            line.append(value - total / weight if weight else value * 0.0)
        found.append(line)
    return found


@given(arrays(np.float64, st.tuples(st.integers(1, 30), st.integers(1, 3)), elements=NUMBERS))
def test_changes_equal_the_naive_twin(rows):
    np.testing.assert_allclose(changes(rows), naive_changes(rows.tolist()), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("stream", list(Stream))
def test_a_row_has_the_same_stream_however_many_rows_came_with_it(stream):
    rows = np.random.default_rng(3).normal(size=(80, 4))
    rows[40, 2] = np.nan
    whole = make_stream(stream, rows, 5, FEATURES, past_rows(stream))
    for end in (60, 61, 80):
        begin = end - 7 - past_rows(stream)
        part = make_stream(stream, rows[begin:end], 5, FEATURES, past_rows(stream))
        last = end - past_rows(stream) - 5
        np.testing.assert_array_equal(part[-1], whole[last])


@pytest.mark.parametrize("stream", list(Stream))
@pytest.mark.parametrize("count", [0, 4, 5, 6])
def test_there_is_a_row_for_every_window_and_a_group_of_columns_for_every_channel(stream, count):
    rows = np.random.default_rng(4).normal(size=(count + 3, 2))
    made = make_stream(stream, rows, 5, ("mean", "slope"), 3)
    assert made.shape == (max(count - 4, 0), 2 * columns(stream, 5, ("mean", "slope")))


def test_what_the_streams_hold():
    rows = np.arange(1.0, 9.0)[:, None] * [1.0, 10.0]
    assert make_stream(Stream.LEVEL, rows, 3, ()).tolist() == rows[2:].tolist()
    assert make_stream(Stream.COURSE, rows, 3, ())[0].tolist() == [1, 2, 3, 10, 20, 20]  # cut at 20
    assert make_stream(Stream.UNREST, rows, 3, ())[0] == pytest.approx([math.sqrt(2 / 3), 10 * math.sqrt(2 / 3)])
    assert make_stream(Stream.CHANGE, rows, 3, ())[0] == pytest.approx(changes(rows)[2])
    jumps = changes(rows)
    assert make_stream(Stream.JUMPS, rows, 3, ())[0] == pytest.approx(np.clip(jumps[:3].T.ravel(), -20, 20))


def test_a_constant_channel_does_not_change_and_a_step_fades():
    rows = np.full((60, 1), 3.0)
    rows[30:] = 9.0
    moved = changes(rows)[:, 0]
    assert moved[:30] == pytest.approx(0.0, abs=1e-12)
    assert moved[30] == pytest.approx(6.0)
    assert (np.diff(moved[30:50]) < 0).all()
    assert moved[-1] == pytest.approx(0.0, abs=1e-12)


def test_a_value_after_a_missing_one_is_compared_with_what_is_known():
    rows = np.array([[2.0], [np.nan], [5.0]])
    assert changes(rows)[:, 0].tolist() == pytest.approx([0.0, np.nan, 3.0], nan_ok=True)
