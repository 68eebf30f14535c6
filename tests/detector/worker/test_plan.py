"""What of a state on disk is kept by a version or profile that makes rows or models in another way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hwsonde_detector.plan import Plan
from hwsonde_detector.types import SampleBatch
from hwsonde_detector.worker import restore, snapshot
from tests.detector.worker.hosts import CHANNELS, ENTITY, PLAN, PROFILE, SETTINGS, batches, events, play, rates, scores


def other_rules(*changed: int, **changes: object) -> Plan:
    """The plan with some of its rules changed."""
    rules = tuple(replace(one, **changes) if index in changed else one for index, one in enumerate(PROFILE.rules))
    return Plan(SETTINGS, (replace(PROFILE, rules=rules),))


def kept() -> tuple[list[tuple[SampleBatch, int]], dict[str, Any], dict[str, np.ndarray]]:
    ticks = batches(rates(230))
    state, _ = play(ticks[:200])
    return ticks, *snapshot(state)


def test_other_words_for_people_change_nothing() -> None:
    ticks, document, arrays = kept()
    reworded = other_rules(0, 1, 2, title="what people call it now", unit="MB/s")
    state = restore(document, arrays, reworded)
    assert state.hosts[ENTITY].model is not None
    _, outputs = play(ticks[190:], reworded, state)
    assert len(scores(outputs)) >= 18


def test_another_weight_makes_models_anew_from_the_kept_rows() -> None:
    ticks, document, arrays = kept()
    weighed = other_rules(0, weight=0.3, floor=2.0)
    state = restore(document, arrays, weighed)
    assert state.hosts[ENTITY].model is None
    assert np.isfinite(state.hosts[ENTITY].memory.values[1:]).all(), (
        "all but the first row, in which no counter has a rate"
    )
    state, outputs = play(ticks[190:], weighed, state)
    assert len(scores(outputs)) >= 18
    assert all(score.calibrated for score in scores(outputs))
    model = state.hosts[ENTITY].model
    assert model is not None
    assert [channel.weight for channel in model.channels if channel.name == CHANNELS[0]] == [0.3]


def test_a_rule_that_reads_otherwise_loses_its_own_rows_only() -> None:
    ticks, document, arrays = kept()
    part = replace(PROFILE.rules[0].parts[0], rate_limit=1e6)
    changed = other_rules(0, parts=(part,))
    state = restore(document, arrays, changed)
    memory = state.hosts[ENTITY].memory
    lost = np.array([channel.name == CHANNELS[0] for channel in memory.channels])
    assert lost.sum() == 1
    assert np.isnan(memory.values[:, lost]).all()
    assert np.isfinite(memory.values[1:, ~lost]).all()
    state, outputs = play(ticks[190:], changed, state)
    assert len(scores(outputs)) >= 18
    assert all(score.calibrated for score in scores(outputs))
    assert CHANNELS[0] in {channel.name for channel in state.hosts[ENTITY].memory.channels}, "it is learned again"


def test_a_rule_that_reads_otherwise_is_not_judged_by_its_first_value() -> None:
    """A restart fits at the first row: of one value there are no bounds."""
    ticks, document, arrays = kept()
    changed = other_rules(0, parts=(replace(PROFILE.rules[0].parts[0], rate_limit=1e6),))
    state, outputs = play(ticks[190:], changed, restore(document, arrays, changed))
    model = state.hosts[ENTITY].model
    assert model is not None
    assert CHANNELS[0] not in {channel.name for channel in model.channels}
    assert not events(outputs)


@pytest.mark.parametrize(("gone", "cold"), [(10, False), (11, True), (20, True)])
def test_where_less_than_half_is_left_all_is_learned_anew(gone: int, *, cold: bool) -> None:
    _, document, arrays = kept()
    changed = Plan(SETTINGS, (replace(PROFILE, rules=PROFILE.rules[gone:]),))
    if cold:
        with pytest.raises(ValueError, match="other profiles"):
            restore(document, arrays, changed)
    else:
        assert restore(document, arrays, changed).hosts


def test_a_state_that_does_not_tell_its_rules_is_learned_anew() -> None:
    _, document, arrays = kept()
    document["made_by"] = {"profiles": "6b86b2", "settings": "d4735e"}
    with pytest.raises(ValueError, match="an earlier version"):
        restore(document, arrays, PLAN)
