"""What people say of episodes moves the level as it should, in any order, and can be taken back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector.decision.feedback import Feedback, feedback_document, read_feedback
from hwsonde_detector.decision.thresholds import Threshold

STEP = 0.2


def host(value: float = 4.0) -> tuple[Feedback, Threshold]:
    return Feedback(), Threshold(4.0, value)


def test_noise_raises_one_step_more_and_useful_takes_the_rise_back() -> None:
    feedback, threshold = host()
    feedback.closed("a", threshold)
    assert threshold.value == pytest.approx(4.0 + STEP)
    feedback.mark("a", "noise", threshold, busy=False)
    assert threshold.value == pytest.approx(4.0 + 2 * STEP)
    feedback.mark("a", "noise", threshold, busy=False)
    assert threshold.value == pytest.approx(4.0 + 2 * STEP), "once is once"
    feedback.mark("a", "useful", threshold, busy=False)
    assert threshold.value == pytest.approx(4.0)
    feedback.mark("a", "noise", threshold, busy=False)
    assert threshold.value == pytest.approx(4.0 + 2 * STEP), "whoever changes his mind is heard"


def test_nothing_moves_while_an_episode_is_open() -> None:
    feedback, threshold = host()
    feedback.mark("a", "useful", threshold, busy=True)
    feedback.mark("old", "noise", threshold, busy=True)
    assert threshold.value == 4.0
    feedback.closed("a", threshold)
    assert threshold.value == pytest.approx(4.0 + STEP), "the useful one raised nothing, the old one was noise"


def test_an_episode_that_raised_nothing_has_nothing_to_take_back() -> None:
    feedback, threshold = host()
    feedback.mark("peers", "useful", threshold, busy=False)
    assert threshold.value == 4.0
    feedback.mark("peers", "noise", threshold, busy=False)
    assert threshold.value == pytest.approx(4.0 + STEP)


def test_what_counted_as_normal_raises_nothing() -> None:
    feedback, threshold = host()
    feedback.closed("a", threshold)
    feedback.uncount("a", threshold)
    feedback.uncount("unknown", threshold)
    assert threshold.value == pytest.approx(4.0)


def test_without_a_budget_nothing_moves() -> None:
    feedback, threshold = Feedback(), Threshold()
    feedback.closed("a", threshold)
    feedback.mark("a", "noise", threshold, busy=False)
    assert threshold.value is None


def test_at_the_ceiling_only_what_was_raised_is_taken_back() -> None:
    feedback, threshold = host(5.95)
    feedback.closed("a", threshold)
    assert threshold.value == pytest.approx(6.0), "two above the start is the ceiling"
    feedback.mark("a", "useful", threshold, busy=False)
    assert threshold.value == pytest.approx(5.95)


ACTS = st.lists(
    st.tuples(st.sampled_from(["close", "useful", "noise", "normal", "later"]), st.sampled_from("abc")), max_size=30
)


@given(ACTS)
def test_the_level_is_where_the_last_words_put_it(acts: list[tuple[str, str]]) -> None:
    feedback, threshold = Feedback(), Threshold(4.0, 4.0)
    kinds: dict[str, str] = {}
    bases: dict[str, int] = {}
    for act, name in acts:
        if act == "close":
            feedback.closed(name, threshold)
            bases[name] = 1
        elif act == "normal":
            feedback.uncount(name, threshold)
            if name in bases or name in kinds:
                bases[name] = 0
        elif act == "later":
            feedback.mark(name, "noise", threshold, busy=True)
            kinds[name] = "noise"
        else:
            feedback.mark(name, act, threshold, busy=False)
            kinds[name] = act
        feedback = read_feedback(json.loads(json.dumps(feedback_document(feedback))))
    feedback.settle(threshold)
    names = kinds.keys() | bases.keys()
    steps = sum(
        0 if kinds.get(name) == "useful" else bases.get(name, 0) + (kinds.get(name) == "noise") for name in names
    )
    assert threshold.value == pytest.approx(4.0 + STEP * steps)


def test_what_is_remembered_is_bounded() -> None:
    feedback, threshold = host()
    for place in range(500):
        feedback.mark(str(place), "useful", threshold, busy=False)
    assert len(feedback.known) == 64
    assert read_feedback(None) == Feedback()
