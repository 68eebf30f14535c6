"""Closed episodes to the state on disk and back."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector.hoststate import episode_document, read_episode
from hwsonde_detector.state import load_state, save_state
from hwsonde_detector.types import Channel, Contribution, Device, Entity, Episode, Subsystem

texts = st.text(max_size=12)
numbers = st.floats(allow_infinity=False, allow_nan=False)
times = st.integers(0, 2**50)
subsystems = st.sampled_from(Subsystem)
channels = st.builds(
    Channel,
    texts,
    subsystems,
    st.none() | st.builds(Device, texts, texts),
    numbers,
    st.booleans(),
    numbers,
    texts,
    st.booleans(),
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
    assert read_episode(json.loads(json.dumps(episode_document(episode)))) == episode


def test_values_that_are_not_known_come_back_from_the_disk(tmp_path: Path) -> None:
    part = Contribution(Channel("c", Subsystem.CPU, signed=True), 0.5, math.nan, 1.0, -math.inf, 2.0)
    episode = Episode("i", Entity(()), 1, 1, None, Subsystem.CPU, math.inf, "t", (part,))
    save_state(tmp_path, {"past": [episode_document(episode)]}, {})
    loaded = load_state(tmp_path)
    assert loaded is not None
    back = read_episode(loaded[0]["past"][0])
    assert back.peak == math.inf
    assert math.isnan(back.top[0].deviation)
    assert back.top[0].channel == part.channel


@pytest.mark.parametrize("broken", [{}, {"identity": 1}, {"entity": 3}])
def test_anything_else_is_an_error_that_the_caller_expects(broken: dict[str, object]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        read_episode(broken)
