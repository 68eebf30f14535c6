"""Episodes to JSON and back."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector.service.recall import read_episode, write_episode
from hwsonde_detector.types import Channel, Contribution, Device, Entity, Episode, Subsystem

texts = st.text(max_size=12)
numbers = st.floats(allow_infinity=False, allow_nan=False)
times = st.integers(0, 2**50)
subsystems = st.sampled_from(Subsystem)
channels = st.builds(
    Channel, texts, subsystems, st.none() | st.builds(Device, texts, texts), numbers, st.booleans(), numbers, texts
)
contributions = st.builds(Contribution, channels, numbers, numbers, numbers, numbers, numbers)
pairs = st.lists(st.tuples(texts, texts), max_size=3).map(tuple)
episodes = st.builds(
    Episode,
    texts,
    st.builds(Entity, pairs),
    times,
    times,
    st.none() | times,
    subsystems,
    numbers,
    texts,
    st.lists(contributions, max_size=3).map(tuple),
    st.lists(st.tuples(texts, times), max_size=3).map(tuple),
)


@given(episodes)
def test_an_episode_comes_back_equal(episode: Episode) -> None:
    assert read_episode(json.loads(json.dumps(write_episode(episode), allow_nan=False))) == episode


def test_what_json_cannot_hold_becomes_nan() -> None:
    channel = Channel("c", Subsystem.CPU)
    part = Contribution(channel, math.inf, math.nan, 1.0, -math.inf, 2.0)
    written = write_episode(Episode("i", Entity(()), 1, 1, None, Subsystem.CPU, math.inf, "t", (part,)))
    back = read_episode(json.loads(json.dumps(written, allow_nan=False)))
    assert math.isnan(back.peak)
    assert math.isnan(back.top[0].share)
    assert back.top[0].value == 1.0


@pytest.mark.parametrize("broken", [{}, {"identity": 1}, {"entity": 3}])
def test_anything_else_is_an_error_that_the_caller_expects(broken: dict[str, object]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        read_episode(broken)
