from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from hwsonde_exporter.collectors._counters import Held, SteadySum


def test_a_slip_is_held_and_a_restart_is_let_through() -> None:
    held = Held(300)
    assert [held.value("idle", value) for value in (1000, 999, 1001, 702, 701, 700)] == [
        1000,
        1000,
        1001,
        1001,
        1001,
        700,
    ]
    assert held.value("other", 5) == 5


@given(st.lists(st.integers(0, 2000)))
def test_held_falls_only_by_more_than_the_limit(values: list[int]) -> None:
    held = Held(300)
    given_values = [held.value("x", value) for value in values]
    assert all(after >= before or before - after > 300 for before, after in pairwise(given_values))
    assert all(value <= shown <= value + 300 for value, shown in zip(values, given_values, strict=True))


def test_sum_starts_with_everything_and_grows_by_what_each_part_grows() -> None:
    total = SteadySum()
    assert total.update({0: 100, 1: 50}) == 150
    assert total.update({0: 110, 1: 50}) == 160
    assert total.update({0: 111}) == 161  # CPU 1 is away
    assert total.update({0: 111, 1: 52}) == 163  # and back
    assert total.update({0: 111, 1: 3}) == 166  # started again
    assert total.update({0: 111, 1: 3, 2: 1000}) == 166  # new: what it counted before was not counted here
    assert total.update({0: 111, 1: 3, 2: 1001}) == 167


@given(st.lists(st.dictionaries(st.integers(0, 3), st.integers(0, 1000))))
def test_sum_never_falls(readings: list[dict[int, int]]) -> None:
    total = SteadySum()
    sums = [total.update(reading) for reading in readings]
    assert sums == sorted(sums)


@given(st.lists(st.lists(st.integers(0, 100), min_size=3, max_size=3), min_size=1))
def test_sum_of_parts_that_stay_is_the_plain_sum(steps: list[list[int]]) -> None:
    total = SteadySum()
    parts = [0, 0, 0]
    for step in steps:
        parts = [part + grown for part, grown in zip(parts, step, strict=True)]
        assert total.update(dict(enumerate(parts))) == sum(parts)
