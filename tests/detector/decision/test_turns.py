"""How many hosts make models in a step, and who comes first."""

from __future__ import annotations

import numpy as np
import pytest

from hwsonde_detector.decision.ages import Ages
from hwsonde_detector.decision.bank import Former
from hwsonde_detector.decision.learning import Progress
from hwsonde_detector.decision.model import EntityModel, fit_model
from hwsonde_detector.decision.turns import Turns
from hwsonde_detector.decision.waiting import waiting
from hwsonde_detector.host import HostState
from hwsonde_detector.settings import DetectorSettings, Settings
from hwsonde_detector.signals.channels import ChannelState
from hwsonde_detector.types import Channel, Entity, Phase, Subsystem
from tests.detector.service.fakes import event

SETTINGS = Settings()
# So many ask at most.
MOST = 1000


def given(turns: Turns, rows: int) -> int:
    """How many hosts with so many new rows have their turn."""
    for count in range(MOST):
        turn = turns.give()
        if not turn.given:
            return count
        turn.taken = True
        turns.count(turn, rows)
    return MOST


@pytest.mark.parametrize(
    ("intervals", "hosts"),
    [
        ([], MOST),
        ([1000] * 4, MOST),
        ([None] * 5, 1),
        ([500] * 9, 1),
        ([1000, *[60_000] * 4], 1),
        ([5000] * 9, 2),
        ([15_000, *[None] * 9], 7),
        ([60_000] * 99, 8),
    ],
)
def test_a_step_makes_models_of_as_many_hosts_as_an_interval_leaves_time_for(
    intervals: list[int | None], hosts: int
) -> None:
    assert given(Turns(intervals), 1) == hosts


@pytest.mark.parametrize(("rows", "hosts"), [(0, 1), (1, 1), (7, 1), (8, 2), (40, 10), (600, 150)])
def test_a_step_of_many_rows_stands_for_many_steps(rows: int, hosts: int) -> None:
    assert given(Turns([1000] * 9), rows) == hosts


def test_where_nobody_waits_for_the_step_all_have_their_turn() -> None:
    assert given(Turns([1000] * 9, unhurried=True), 1) == MOST


def test_who_makes_no_model_takes_no_turn() -> None:
    turns = Turns([1000] * 9)
    for _ in range(5):
        turn = turns.give()
        assert turn.given
        turns.count(turn, 1)


def host(name: str, accepted: int, fitted: int, interval_ms: int = 1000) -> HostState:
    one = Entity((("node", name),))
    return HostState(one, ChannelState(one), progress=Progress(accepted, fitted), interval_ms=interval_ms)


def some_model() -> EntityModel:
    values = np.random.default_rng(0).normal(0, 1, (100, 2))
    channels = Channel("a", Subsystem.CPU), Channel("b", Subsystem.CPU)
    settings = Settings(detectors=DetectorSettings(members=("zscore",), agreement=1))
    made = fit_model(values, 1000 * np.arange(100, dtype=np.int64), 1000, channels, settings)
    assert made is not None
    return made


def test_what_waits_longest_comes_first_and_another_regime_before_everything() -> None:
    fresh, next_due, first = host("a", 300, 240), host("b", 360, 240), host("c", 75, 0)
    slow, long_ago = host("d", 362, 240, 15_000), host("e", 380, 240)
    back = host("f", 300, 240)
    back.regimes.former = [Former(Ages(), some_model(), None, 0, 0, quiet=SETTINGS.regimes.confirm_rows)]
    blind = host("g", 300, 240)
    blind.model, blind.misfit = some_model(), SETTINGS.learning.first_rows
    hosts = [fresh, next_due, first, slow, long_ago, back, blind]
    order = sorted(hosts, key=lambda one: (waiting(one, SETTINGS), one.entity))
    assert [dict(one.entity.labels)["node"] for one in order] == ["f", "g", "d", "e", "c", "b", "a"]


def test_an_open_episode_that_nobody_judges_comes_first() -> None:
    cold, ill = host("a", 5000, 0), host("b", 60, 0)
    ill.episode = event(Phase.OPENED).episode
    assert waiting(ill, SETTINGS) < waiting(cold, SETTINGS)
