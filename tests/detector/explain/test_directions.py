"""How channels deviate, on values made by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector.explain.directions import directions, rows_needed, told_values
from hwsonde_detector.types import Channel, Contribution, Direction, Subsystem
from tests.detector.explain.models import WIDTH, model_of

GAUGE = Channel("gauge", Subsystem.GPU, floor=0.1)
FLOW = Channel("rate", Subsystem.GPU, floor=0.1, flow=True)
STEADY = Channel("steady", Subsystem.GPU, floor=0.1)
CHANNELS = (GAUGE, FLOW, STEADY)


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(5)
    return model_of(CHANNELS, np.column_stack([rng.normal(100, 5, (300, 2)), np.full(300, 7.0)]))


def direction(model, values, index=0):
    rows = np.tile([100.0, 100.0, 7.0], (len(values), 1))
    rows[:, index] = values
    (found,) = directions(model, rows, [index], WIDTH)
    return found


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([160, 161, 159, 160, 162, 158, 160, 161], Direction.HIGH),
        ([40, 41, 39, 40, 42, 38, 40, 41], Direction.LOW),
        ([100, 101, 99, 100, 102, 98, 160, 161], Direction.HIGH),
        ([100, 101, 99, 100, 102, 98, 101, 30], Direction.LOW),
        ([100, 160, 101, 161, 99, 159, 100, 160], Direction.NOISY),
        ([160, 40, 160, 40, 160, 40, 160, 40], Direction.NOISY),
        # Inside of its band of some 20 to each side, but never so restless before.
        ([85, 115, 84, 116, 85, 115, 84, 116], Direction.NOISY),
        ([112, 111, 113, 112, 113, 111, 112, 113], Direction.HIGH),
        ([88, 89, 87, 88, 87, 89, 88, 87], Direction.LOW),
        ([101.5] * 8, Direction.STUCK),
        # Stuck, but at a value that it never had: that matters more.
        ([160] * 8, Direction.HIGH),
        # Too few rows for a window.
        ([160], Direction.HIGH),
        ([99], Direction.LOW),
    ],
)
def test_each_direction(model, values, expected):
    assert direction(model, values) is expected


def test_a_counter_that_rests_is_no_frozen_sensor(model):
    assert direction(model, [97.0] * 8, index=1) is Direction.LOW
    assert direction(model, [103.0] * 8, index=1) is Direction.HIGH


def test_a_burst_of_a_counter_is_high_and_no_unsteadiness(model):
    assert direction(model, [100, 101, 99, 100, 102, 98, 400, 100], index=1) is Direction.HIGH
    assert direction(model, [100, 101, 99, 100, 102, 400, 98, 100], index=1) is Direction.HIGH
    # A gauge that did the same is unsteady, and so is a counter that does it again and again.
    assert direction(model, [100, 101, 99, 100, 102, 98, 400, 100]) is Direction.NOISY
    assert direction(model, [100, 101, 400, 100, 102, 400, 98, 100], index=1) is Direction.NOISY


def told(model, values, found, span=WIDTH, index=0):
    rows = np.tile([100.0, 100.0, 7.0], (len(values), 1))
    rows[:, index] = values
    ((value, deviation),) = told_values(model, rows, [index], [found], span)
    assert np.isfinite(deviation)
    return value


@pytest.mark.parametrize(
    ("values", "found", "expected"),
    [
        ([100, 400, 100], Direction.HIGH, 400),
        ([100, 5, 100], Direction.LOW, 5),
        # The newest row tells as long as it is outside itself, and where nothing is.
        ([100, 400, 300], Direction.HIGH, 300),
        ([100, 102, 101], Direction.HIGH, 101),
        # On the side that is named; what is unsteady or stands still has no side.
        ([5, 400, 100], Direction.HIGH, 400),
        ([5, 400, 100], Direction.LOW, 5),
        ([5, 400, 100], Direction.NOISY, 100),
        ([100, 100, 100], Direction.STUCK, 100),
        # What is not known cannot be named.
        ([100, 400, np.nan], Direction.HIGH, 400),
        ([100, 101, np.nan], Direction.HIGH, 101),
        ([100, 101, np.nan], Direction.NOISY, 101),
    ],
)
def test_the_value_that_is_told_shows_the_deviation(model, values, found, expected):
    assert told(model, values, found) == expected


def test_no_value_from_before_the_evidence_is_told(model):
    values = [100, 400, 100, 101, 99]
    assert told(model, values, Direction.HIGH, span=3) == 99
    assert told(model, values, Direction.HIGH, span=4) == 400


def test_nothing_known_is_told_as_such(model):
    assert np.isnan(told(model, [np.nan] * 3, Direction.HIGH))


def test_what_never_moves_is_not_stuck(model):
    assert direction(model, [7.0] * 8, index=2) is Direction.HIGH
    assert direction(model, [9.0] * 8, index=2) is Direction.HIGH


@given(
    st.lists(
        st.lists(st.floats(width=64) | st.just(100.0), min_size=3, max_size=3),
        min_size=1,
        max_size=rows_needed(WIDTH) + 4,
    )
)
def test_any_rows_give_one_direction_each_that_older_rows_and_other_channels_do_not_change(model, values):
    rows = np.array(values)
    found = directions(model, rows, [0, 1, 2], WIDTH)
    assert len(found) == 3
    assert found == tuple(directions(model, rows, [index], WIDTH)[0] for index in (0, 1, 2))
    assert found[::-1] == directions(model, rows, [2, 1, 0], WIDTH)
    assert found == directions(model, rows[-rows_needed(WIDTH) :], [0, 1, 2], WIDTH)
    assert directions(model, rows, [], WIDTH) == ()


@pytest.mark.parametrize(
    ("value", "deviation", "expected"),
    [
        (2.0, -1.0, "high"),
        (-1.0, 3.0, "low"),
        (0.5, -1.0, "low"),
        (0.5, 1.0, "high"),
        (float("nan"), float("nan"), "high"),
    ],
)
def test_a_contribution_tells_its_direction_by_its_value(value, deviation, expected):
    made = Contribution(GAUGE, 0.5, deviation, value, 0.0, 1.0)
    assert made.direction is Direction(expected)
    # As it comes out of a kept state.
    assert Contribution(GAUGE, 0.5, deviation, value, 0.0, 1.0, "noisy").direction is Direction.NOISY  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="sideways"):
        Contribution(GAUGE, 0.5, deviation, value, 0.0, 1.0, "sideways")  # type: ignore[arg-type]
