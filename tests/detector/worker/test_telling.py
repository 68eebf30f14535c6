"""Which episodes are told, step by step, without hosts."""

from __future__ import annotations

from collections import deque

import numpy as np

from hwsonde_detector.decision.peering import Member
from hwsonde_detector.standings import Telling, with_peers
from hwsonde_detector.types import EntityReport, Phase, Scope
from tests.detector.worker.scenes import LEARNING, Scene, entity, event, score


def test_who_deviates_alone_is_told_at_once() -> None:
    scene = Scene(loud=(1,))
    scene.teller.own(event(1, 10_000))
    assert scene.said() == [(Phase.OPENED, 1, Scope.HOST)]


def test_who_is_odd_is_told_at_once_and_the_others_follow() -> None:
    scene = Scene(loud=(0, 1, 2, 3), odd=(2,))
    for number in range(4):
        scene.teller.own(event(number, 10_000))
    assert scene.said() == [(Phase.OPENED, 2, Scope.HOST)]
    assert set(scene.telling.held) == {entity(0), entity(1), entity(3)}
    assert scene.finish(13) == [(Phase.OPENED, 2, Scope.HOST)]
    assert {one: muted.leader for one, muted in scene.telling.muted.items()} == {
        entity(number): entity(2) for number in (0, 1, 3)
    }
    assert scene.telling.told(entity(0)) is None
    assert scene.telling.told(entity(2)) is not None


def test_all_of_a_job_are_told_once_and_closed_once() -> None:
    scene = Scene(loud=(0, 1, 2, 3))
    for number in range(4):
        scene.teller.own(event(number, 10_000))
    assert scene.said() == []
    assert scene.finish(13) == [(Phase.OPENED, 0, Scope.JOB)]
    for number in range(4):
        scene.teller.own(event(number, 20_000, Phase.CLOSED))
    assert scene.said() == [(Phase.OPENED, 0, Scope.JOB), (Phase.CLOSED, 0, Scope.JOB)]
    assert [*scene.events, *scene.teller.events][1].episode.title.startswith("17: 4 of 4 hosts at once; ")
    assert not scene.telling.open
    assert not scene.telling.muted


def test_followers_that_outlast_their_leader_are_told_once() -> None:
    scene = Scene(loud=(0, 1, 2, 3), odd=(2,))
    for number in range(4):
        scene.teller.own(event(number, 10_000))
    scene.finish(13)
    scene.teller.own(event(2, 20_000, Phase.CLOSED))
    for second in range(11, 60):
        for number in (0, 1, 3):
            scene.hear(number, 2.0, second)
    assert scene.finish(20)[-1] == (Phase.CLOSED, 2, Scope.HOST)
    assert len(scene.finish(32)) == 2
    assert scene.finish(33)[2:] == [(Phase.OPENED, 0, Scope.JOB)]
    assert scene.events[-1].at_ms == 33_000
    assert len(scene.finish(34)) == 3
    assert {muted.leader for muted in scene.telling.muted.values()} == {entity(0)}


def test_a_held_episode_is_told_though_its_peers_stand_still() -> None:
    scene = Scene(loud=(0, 1))
    scene.teller.own(event(1, 10_000))
    assert scene.said() == []
    assert scene.finish(15.9, rows=15.9) == []
    assert scene.finish(16, rows=16) == [(Phase.OPENED, 1, Scope.HOST)]


def test_changes_of_what_is_not_told_are_not_told() -> None:
    scene = Scene(loud=(0, 1, 2, 3), odd=(2,))
    scene.teller.own(event(1, 10_000))
    scene.teller.own(event(1, 10_500, Phase.CHANGED))
    scene.teller.own(event(2, 10_000))
    scene.teller.own(event(2, 10_500, Phase.CHANGED))
    assert scene.said() == [(Phase.OPENED, 2, Scope.HOST), (Phase.CHANGED, 2, Scope.HOST)]


def test_uncalibrated_windows_make_nobody_loud() -> None:
    telling = Telling()
    scores = (score(1, 1000, 9.0, calibrated=False), score(1, 2000, 9.0))
    telling.hear(EntityReport(entity(1), scores, LEARNING, 1000))
    assert list(telling.loud[entity(1)]) == [(2000, 9.0)]


def test_the_past_is_forgotten() -> None:
    telling = Telling()
    for second in range(1000):
        telling.hear(EntityReport(entity(1), (score(1, 1000 * second, 0.1),), LEARNING, 1000))
        telling.forget_old()
    assert len(telling.loud[entity(1)]) <= 64


def test_scores_get_the_value_of_their_slot() -> None:
    member = Member(trail=deque((1000 * second, float(second), None) for second in range(5, 9)))
    told = with_peers(tuple(score(1, 1000 * second - 400, 0.5) for second in (3, 5, 6, 8, 12)), member, 1000)
    assert [one.members.get("peers") for one in told] == [None, 5.0, 6.0, 8.0, 8.0]
    assert with_peers((), member, 1000) == ()
    assert not np.isnan(told[-1].members["peers"])
