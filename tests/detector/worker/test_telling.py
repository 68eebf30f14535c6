"""Which episodes are told, step by step, without hosts."""

from __future__ import annotations

from collections import deque

import numpy as np

from hwsonde_detector.decision.peering import Member, PeerGroup
from hwsonde_detector.detectors.peers import lay_out
from hwsonde_detector.settings import PeerSettings
from hwsonde_detector.telling import Circle, Teller, Telling, with_peers
from hwsonde_detector.types import (
    Channel,
    Contribution,
    Entity,
    EntityReport,
    Episode,
    EpisodeEvent,
    Learning,
    Phase,
    Scope,
    Score,
    Subsystem,
)

CHANNEL = Channel("c", Subsystem.CPU)
LEARNING = Learning(300, 240, None, frozen=False, channels=1, channels_judged=1)


def entity(number: int) -> Entity:
    return Entity((("node", f"n{number}"),))


def event(number: int, at_ms: int, phase: Phase = Phase.OPENED) -> EpisodeEvent:
    top = (Contribution(CHANNEL, 1.0, 9.0, 9.0, 0.0, 1.0),)
    end = at_ms if phase is Phase.CLOSED else None
    return EpisodeEvent(
        phase, at_ms, Episode(f"n{number}@x", entity(number), 10_000, 9_000, end, Subsystem.CPU, 2.0, "t", top)
    )


def score(number: int, end_ms: int, fused: float, *, calibrated: bool = True) -> Score:
    return Score(entity(number), end_ms, fused, {}, {}, (), calibrated, 1.0, 1.0, 0.0)


class Scene:
    """Four hosts; who is loud and who is odd up to 10 s."""

    def __init__(self, loud=(), odd=()) -> None:
        self.telling = Telling()
        self.group = PeerGroup(
            {entity(number): Member() for number in range(4)},
            interval_ms=1000,
            judged=9,
            cells=lay_out([(entity(number), (CHANNEL,)) for number in range(4)], 4),
        )
        for number in range(4):
            self.hear(number, 2.0 if number in loud else 0.1, *range(6, 11))
            member = self.group.members[entity(number)]
            member.trail = deque((1000 * end, 2.0 if number in odd else 0.1, None) for end in range(6, 11))
        circle = Circle(self.group, job=True, name="17")
        self.teller = Teller(
            self.telling, {entity(number): circle for number in range(4)}, PeerSettings(), lambda one, at_ms: ()
        )

    def hear(self, number: int, fused: float, *seconds: int) -> None:
        scores = tuple(score(number, 1000 * second, fused) for second in seconds)
        self.telling.hear(EntityReport(entity(number), scores, LEARNING, 1000))

    def finish(self, second: int) -> list[tuple[Phase, int, Scope]]:
        self.group.judged = second - 1
        self.teller.finish(
            {entity(number): 1000 * second for number in range(4)}, lambda one: self.group.members[one].persistence
        )
        return self.said()

    def said(self) -> list[tuple[Phase, int, Scope]]:
        return [
            (one.phase, int(dict(one.episode.entity.labels)["node"][1:]), one.episode.scope)
            for one in self.teller.events
        ]


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
    assert scene.teller.events[1].episode.title.startswith("17: 4 of 4 hosts at once; ")
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
    assert scene.teller.events[-1].at_ms == 33_000
    assert len(scene.finish(34)) == 3
    assert {muted.leader for muted in scene.telling.muted.values()} == {entity(0)}


def test_what_ends_while_it_is_held_back_is_decided_then() -> None:
    scene = Scene(loud=(0, 1, 2))
    scene.teller.own(event(1, 10_000))
    assert scene.said() == []
    scene.teller.own(event(1, 11_000, Phase.CLOSED))
    assert scene.said() == [(Phase.OPENED, 1, Scope.JOB), (Phase.CLOSED, 1, Scope.JOB)]


def test_a_held_episode_is_told_though_its_peers_stand_still() -> None:
    scene = Scene(loud=(0, 1))
    scene.teller.own(event(1, 10_000))
    assert scene.said() == []
    scene.teller.finish({entity(1): 15_900}, lambda one: None)
    assert scene.said() == []
    scene.teller.finish({entity(1): 16_000}, lambda one: None)
    assert scene.said() == [(Phase.OPENED, 1, Scope.HOST)]


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
