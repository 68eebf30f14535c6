import math
from itertools import combinations

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hwsonde_detector.signals.pruning import prune
from hwsonde_detector.types import Channel, Subsystem
from tests.detector.signals import naive

BOUND = 0.9


def names(values, channels, bound=BOUND):
    kept = prune(values, channels, bound)
    assert kept.tolist() == sorted(kept.tolist())
    return {channels[index].name for index in kept}


@st.composite
def tables(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows, count = draw(st.integers(0, 30)), draw(st.integers(0, 8))
    base = rng.normal(size=(rows, 3))
    values = np.empty((rows, count))
    for index in range(count):
        kind = draw(st.sampled_from(["own", "copy", "constant", "missing", "holes"]))
        noise = rng.normal(size=rows) * draw(st.sampled_from([0.0, 0.1, 1.0]))
        values[:, index] = base[:, draw(st.integers(0, 2))] * draw(st.sampled_from([1.0, -1e9])) + noise
        if kind == "own":
            values[:, index] = rng.normal(size=rows)
        elif kind == "constant":
            values[:, index] = 5.0
        elif kind == "missing":
            values[:, index] = np.nan
        elif kind == "holes":
            values[rng.random(rows) < 0.4, index] = draw(st.sampled_from([np.nan, np.inf]))
    channels = [
        Channel(f"c{index}", draw(st.sampled_from(list(Subsystem)[:3])), weight=draw(st.sampled_from([0.0, 0.3, 1.0])))
        for index in range(count)
    ]
    return values, channels


@settings(max_examples=100, deadline=None)
@given(tables(), st.randoms())
def test_equals_the_naive_twin_in_any_order(table, random):
    values, channels = table
    columns = values.T.tolist()
    moving = [column for column in columns if len({value for value in column if math.isfinite(value)}) > 1]
    # The product is rounded to 32 bits: what lies on the bound may fall to either side.
    assume(all(abs(abs(naive.correlation(one, two)) - BOUND) > 1e-4 for one, two in combinations(moving, 2)))
    kept = names(values, channels)
    assert kept == naive.prune(columns, channels, BOUND)
    order = list(range(len(channels)))
    random.shuffle(order)
    assert names(values[:, order], [channels[index] for index in order]) == kept


def table(**columns):
    rng = np.random.default_rng(1)
    base = rng.normal(size=50)
    made = {"base": base, "copy": base * 7 + 3, "opposite": -base, "own": rng.normal(size=50), "constant": np.ones(50)}
    return np.column_stack([made[kind] for kind in columns.values()])


def test_of_two_that_move_together_the_cause_stays():
    values = table(a="base", b="copy", c="opposite")
    channels = [
        Channel("a", Subsystem.CPU, weight=0.3),
        Channel("b", Subsystem.CPU, weight=1.0),
        Channel("c", Subsystem.CPU, weight=0.0),
    ]
    assert names(values, channels) == {"b"}


def test_then_the_one_with_fewer_gaps_then_the_name():
    values = table(a="base", b="copy")
    channels = [Channel("a", Subsystem.CPU), Channel("b", Subsystem.CPU)]
    assert names(values, channels) == {"a"}
    values[3, 0] = np.nan
    assert names(values, channels) == {"b"}


def test_each_subsystem_that_moves_keeps_one():
    values = table(a="base", b="copy", c="copy", d="constant")
    channels = [
        Channel("a", Subsystem.CPU),
        Channel("b", Subsystem.STORAGE, weight=0.3),
        Channel("c", Subsystem.STORAGE, weight=0.3),
        Channel("d", Subsystem.MEMORY),
    ]
    assert names(values, channels) == {"a", "b"}


def test_a_rounding_ripple_is_constant():
    values = 1e12 + np.array([[0.0], [1e-3], [0.0]])
    assert names(values, [Channel("a", Subsystem.CPU)]) == set()


def test_nothing_to_choose_from():
    channels = [Channel("a", Subsystem.CPU)]
    assert names(np.zeros((0, 1)), channels) == set()
    assert names(np.zeros((5, 0)), []) == set()
    assert names(np.array([[1.0]]), channels) == set()


def test_input_is_not_changed():
    values = table(a="base", b="own")
    values[2, 0] = np.inf
    before = values.copy()
    prune(values, [Channel("a", Subsystem.CPU), Channel("b", Subsystem.CPU)], BOUND)
    np.testing.assert_array_equal(values, before)
