"""Who moved first, and when that cannot be told."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector.explain.onsets import Onset, onset_order, together
from hwsonde_detector.types import Channel, Subsystem
from tests.detector.explain.models import model_of

CHANNELS = tuple(Channel(name, Subsystem.CPU, floor=0.1) for name in "abc")
QUIET, LOUD = 100.0, 900.0


@pytest.fixture(scope="module")
def model():
    return model_of(CHANNELS, np.random.default_rng(1).normal(QUIET, 5, (200, 3)))


def rows_of(*starts, count=20, seed=2):
    """Rows a second apart in which each channel is loud from its start on; None: never."""
    rows = np.random.default_rng(seed).normal(QUIET, 2, (count, 3))
    for index, start in enumerate(starts):
        if start is not None:
            rows[start:, index] = LOUD
    return rows, [1000 * second for second in range(count)]


def test_channels_come_in_the_order_in_which_they_left_their_bands(model):
    rows, times = rows_of(15, 12, None)
    rows[3, 0] = LOUD  # over before it began: an earlier run does not count
    found = onset_order(rows, times, model, {"a", "b", "c"}, 1000)
    assert found == (Onset(12_000, "b", 11_000), Onset(15_000, "a", 14_000))
    assert onset_order(rows, times, model, {"a"}, 1000) == (Onset(15_000, "a", 14_000),)
    assert onset_order(rows, times, model, set(), 1000) == ()
    assert onset_order(rows[:0], [], model, {"a"}, 1000) == ()


def test_what_is_outside_from_the_first_row_on_began_before_it(model):
    rows, times = rows_of(0, None, None)
    assert onset_order(rows, times, model, {"a"}, 1000) == (Onset(0, "a", -1000),)


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=12))
def test_onsets_equal_their_naive_twin(model, outside):
    rows = np.where(np.array(outside), LOUD, QUIET)
    times = [1000 * (index + 5) for index in range(len(rows))]
    expected = []
    for index, channel in enumerate(CHANNELS):
        state = [bool(row[index]) for row in outside]
        if True not in state:
            continue
        place = len(state) - 1
        while not state[place]:
            place -= 1
        while place > 0 and state[place - 1]:
            place -= 1
        expected.append(Onset(times[place], channel.name, times[place - 1] if place else times[0] - 1000))
    assert onset_order(rows, times, model, {"a", "b", "c"}, 1000) == tuple(sorted(expected))


def first(model, *starts, interval_ms=1000):
    rows, times = rows_of(*starts)
    return together(onset_order(rows, times, model, {"a", "b", "c"}, interval_ms), interval_ms)


def test_onsets_within_one_interval_are_told_as_one(model):
    assert first(model, 12, 13, 15) == ("a", "b")
    assert first(model, 12, 14, 15) == ("a",)
    assert first(model, None, None, None) == ()
    assert first(model, 12, None, None) == ("a",)


def test_a_missed_scrape_makes_an_onset_uncertain(model):
    rows, times = rows_of(12, 14, None)
    # The scrape at 13 s is missing: b may have moved at any time after 12 s.
    kept = [row for row in range(20) if row != 13]
    found = onset_order(rows[kept], [times[row] for row in kept], model, {"a", "b"}, 1000)
    assert together(found, 1000) == ("a", "b")


def test_what_is_read_every_five_seconds_is_not_late_for_that(model):
    rows, times = rows_of(12, 16, None)
    # b was read at 11 s and is read again at 16 s; in between its value is only shown again.
    rows[11:16, 1] = rows[11, 1]
    paced = replace(model, channels=(CHANNELS[0], replace(CHANNELS[1], paced=True), CHANNELS[2]))
    names = {"a", "b"}
    assert together(onset_order(rows, times, paced, names, 1000), 1000) == ("a", "b")
    assert together(onset_order(rows, times, model, names, 1000), 1000) == ("a",)
    # It was read at 14 s and was well then.
    rows[14:16, 1] = QUIET + 1.5
    assert together(onset_order(rows, times, paced, names, 1000), 1000) == ("a",)
