"""Which workloads are here, row by row."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector.decision.marks import Marks
from hwsonde_detector.types import Channel, Entity, Frame, Role, Subsystem

ENTITY = Entity((("node", "n1"),))
NAMES = "abc"
CHANNELS = tuple(
    sorted(
        [Channel(name, Subsystem.WORKLOAD, role=Role.MARK) for name in NAMES]
        + [Channel(name, Subsystem.CPU) for name in ("aa", "z")],
        key=lambda channel: channel.name,
    )
)
VALUES = st.sampled_from([float("nan"), 0.0, 1.0, 7.0, -1.0])


def block(values: np.ndarray) -> Frame:
    return Frame(ENTITY, CHANNELS, np.arange(len(values), dtype=np.int64), values)


def naive(column: list[float]) -> list[bool]:
    """One mark: a value says it; without one it is as it was, for one row."""
    said: list[bool] = []
    on, missed = False, 0
    for value in column:
        if np.isnan(value):
            missed += 1
            on = on and missed < 2
        else:
            on, missed = value > 0, 0
        said.append(on)
    return said


@given(st.lists(st.tuples(VALUES, VALUES, VALUES), min_size=1, max_size=30))
def test_marks_equal_their_naive_twin(rows: list[tuple[float, float, float]]) -> None:
    marks = Marks()
    values = np.full((len(rows), len(CHANNELS)), 5.0)
    places = [place for place, channel in enumerate(CHANNELS) if channel.role is Role.MARK]
    values[:, places] = rows
    rest, own = marks.split(block(values))
    assert [channel.name for channel in rest.channels] == ["aa", "z"]
    assert (rest.values == 5.0).all()
    got = []
    for row in own:
        marks.on = marks.turn(row)
        got.append([name in marks.on for name in NAMES])
    expected = list(zip(*(naive(list(column)) for column in zip(*rows, strict=True)), strict=True))
    assert got == [list(row) for row in expected]


def test_a_host_without_marks_is_left_as_it_is() -> None:
    marks = Marks()
    made = Frame(ENTITY, (Channel("z", Subsystem.CPU),), np.arange(3, dtype=np.int64), np.ones((3, 1)))
    rest, own = marks.split(made)
    assert rest is made
    assert own.shape == (3, 0)
    assert [marks.turn(row) for row in own] == [frozenset()] * 3


def test_a_mark_whose_series_is_gone_is_off_at_the_second_row() -> None:
    marks = Marks()
    _, own = marks.split(block(np.ones((1, len(CHANNELS)))))
    marks.on = marks.turn(own[0])
    assert marks.on == frozenset(NAMES)
    fewer = Frame(ENTITY, CHANNELS[:1], np.arange(2, dtype=np.int64), np.ones((2, 1)))
    _, own = marks.split(fewer)
    marks.on = marks.turn(own[0])
    assert marks.on == frozenset(NAMES)
    marks.on = marks.turn(own[1])
    assert marks.on == {CHANNELS[0].name}
