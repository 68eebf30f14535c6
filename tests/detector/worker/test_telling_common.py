"""Who speaks for whom: nobody waits behind an episode that is not told, is another trouble, or pages nobody."""

from __future__ import annotations

import pytest

from hwsonde_detector.types import Entity, Phase, Scope, Subsystem
from tests.detector.worker.scenes import Scene, entity, event

ALL = (0, 1, 2, 3)


def leaders(scene: Scene) -> dict[int, Entity]:
    return {
        number: scene.telling.muted[entity(number)].leader for number in ALL if entity(number) in scene.telling.muted
    }


def opened(scene: Scene) -> list[tuple[int, Scope]]:
    return [(number, scope) for phase, number, scope in scene.said() if phase is Phase.OPENED]


def spread(first: int = 0, *, subsystem: Subsystem = Subsystem.CPU, onset_ms: int = 9_000, **scene: object) -> Scene:
    """All hosts have the same; one is scraped a moment earlier, so that the others are quiet when its episode opens."""
    made = Scene(loud=(first,), **scene)  # type: ignore[arg-type]
    made.teller.own(event(first, 10_000, subsystem=subsystem, onset_ms=onset_ms))
    assert opened(made) == [(first, Scope.HOST)]
    for number in ALL:
        made.hear(number, 2.0, *range(11, 16))
    made.finish(11)
    return made


def follow(scene: Scene, first: int = 0) -> None:
    """The others open theirs in the next scrape, and it is decided on them."""
    for number in ALL:
        if number != first:
            scene.teller.own(event(number, 11_500, onset_ms=9_500))
    assert len(scene.telling.held) == 3
    scene.finish(13)
    scene.finish(14)
    assert not scene.telling.held


def test_one_common_fault_seen_a_scrape_apart_pages_once() -> None:
    scene = spread()
    follow(scene)
    assert opened(scene) == [(0, Scope.HOST)]
    assert leaders(scene) == {1: entity(0), 2: entity(0), 3: entity(0)}
    assert scene.said() == [(Phase.OPENED, 0, Scope.HOST), (Phase.CHANGED, 0, Scope.HOST)]
    assert [one.at_ms for one in scene.events] == sorted(one.at_ms for one in scene.events)
    told = scene.telling.told(entity(0))
    assert told is not None
    assert told.title == "4 of 4 hosts of its job at once: t"
    # What the host itself says later keeps it.
    scene.teller.own(event(0, 14_000, Phase.CHANGED))
    scene.teller.own(event(0, 15_000, Phase.CLOSED))
    assert {one.episode.title for one in scene.teller.events} == {told.title}
    assert {one.episode.scope for one in scene.teller.events} == {Scope.HOST}


def test_those_that_outlast_the_first_are_told() -> None:
    scene = spread()
    follow(scene)
    scene.teller.own(event(0, 15_000, Phase.CLOSED))
    for second in range(15, 35):
        for number in (1, 2, 3):
            scene.hear(number, 2.0, second)
        scene.finish(second)
    assert opened(scene) == [(0, Scope.HOST), (1, Scope.JOB)]
    assert leaders(scene) == {2: entity(1), 3: entity(1)}


@pytest.mark.parametrize(
    "first",
    [
        {"subsystem": Subsystem.STORAGE},
        {"onset_ms": 7_499},
        {"normal": (0,)},
    ],
    ids=["another subsystem", "another time", "counts as normal"],
)
def test_another_trouble_of_one_host_hides_nobody(first: dict[str, object]) -> None:
    scene = spread(**first)  # type: ignore[arg-type]
    follow(scene)
    assert opened(scene) == [(0, Scope.HOST), (1, Scope.JOB)]
    assert leaders(scene) == {2: entity(1), 3: entity(1)}


def test_a_local_fault_hides_nobody() -> None:
    scene = spread()
    for number in (1, 2, 3):
        scene.teller.own(event(number, 11_500, onset_ms=9_500))
    assert len(scene.telling.held) == 3
    # It differs from its peers, and is not loud any more, so that nobody is said to wait for it.
    scene.stand(0, *range(11, 15), odd=True)
    scene.telling.loud[entity(0)].clear()
    scene.finish(14)
    assert opened(scene) == [(0, Scope.HOST), (1, Scope.JOB)]
    assert leaders(scene) == {2: entity(1), 3: entity(1)}


def test_an_episode_that_peers_opened_speaks_for_nobody() -> None:
    scene = spread()
    told = scene.telling.open[entity(0)]
    scene.telling.peers[entity(0)] = told
    scene.group.members[entity(0)].persistence.open = True
    follow(scene)
    assert opened(scene) == [(0, Scope.HOST), (1, Scope.JOB)]


@pytest.mark.parametrize("number", [0, 3], ids=["before", "after"])
def test_nobody_waits_for_one_of_whom_nothing_was_told(number: int) -> None:
    # The culprit's own episode is held as well, being odd only since; whether it is due before or after the other.
    other = 1
    scene = Scene(loud=ALL)
    scene.teller.own(event(other, 10_000, onset_ms=9_000))
    scene.teller.own(event(number, 10_500, onset_ms=8_000 if number == 0 else 9_500))
    assert set(scene.telling.held) == {entity(other), entity(number)}
    scene.stand(number, 11, 12, 13, 14, odd=True)
    for one in ALL:
        scene.hear(one, 2.0, 11, 12, 13)
    scene.finish(13)
    assert opened(scene) == [(number, Scope.HOST)]
    assert leaders(scene) == {other: entity(number)}


def test_who_would_wait_for_one_without_any_episode_is_told() -> None:
    scene = Scene(loud=ALL)
    scene.teller.own(event(1, 10_000))
    scene.stand(0, 11, 12, 13, 14, odd=True)
    for one in ALL:
        scene.hear(one, 2.0, 11, 12, 13)
    assert scene.finish(13) == [(Phase.OPENED, 1, Scope.HOST)]
    assert not scene.telling.muted


def test_of_two_that_are_held_and_point_at_each_other_one_is_told() -> None:
    scene = Scene(loud=ALL)
    scene.teller.own(event(1, 10_000))
    scene.teller.own(event(2, 12_000, onset_ms=11_000))
    assert len(scene.telling.held) == 2
    # Each is odd at the time for which it is decided on the other, and not at its own.
    scene.group.members[entity(2)].trail.pop()
    scene.stand(2, 10, 11, 12, odd=True)
    scene.stand(2, 13, 14, 15)
    scene.stand(1, 11, 12)
    scene.stand(1, 13, 14, 15, odd=True)
    for one in ALL:
        scene.hear(one, 2.0, 11, 12, 13, 14, 15)
    scene.finish(15)
    assert opened(scene) == [(2, Scope.HOST)]
    assert leaders(scene) == {1: entity(2)}


def common_fault(scene: Scene, second: int, subsystem: Subsystem) -> None:
    for number in (1, 2, 3):
        scene.hear(number, 2.0, *range(second - 5, second + 5))
    for number in (1, 2, 3):
        scene.teller.own(event(number, 1000 * second, subsystem=subsystem, onset_ms=1000 * second - 1000))
    scene.finish(second + 3)


@pytest.mark.parametrize(
    ("second", "subsystem", "told"),
    [
        (200, Subsystem.STORAGE, [(0, Scope.JOB), (1, Scope.JOB)]),
        (200, Subsystem.CPU, [(0, Scope.JOB)]),
        (29, Subsystem.STORAGE, [(0, Scope.JOB)]),
        (31, Subsystem.STORAGE, [(0, Scope.JOB), (1, Scope.JOB)]),
    ],
)
def test_an_old_trouble_of_all_hides_no_other(second: int, subsystem: Subsystem, told: list[tuple[int, Scope]]) -> None:
    scene = Scene(loud=ALL)
    scene.teller.own(event(0, 10_000))
    scene.finish(13)
    assert opened(scene) == [(0, Scope.JOB)]
    common_fault(scene, second, subsystem)
    assert opened(scene) == told


def test_one_that_counts_as_normal_speaks_for_nobody() -> None:
    scene = Scene(loud=ALL, normal=(0,))
    for number in ALL:
        scene.teller.own(event(number, 10_000))
    scene.finish(13)
    assert opened(scene) == [(0, Scope.JOB), (1, Scope.JOB)]
    assert leaders(scene) == {2: entity(1), 3: entity(1)}


def test_what_follows_another_is_counted_as_no_page_until_it_is_told() -> None:
    scene = spread()
    follow(scene)
    assert scene.pages == {1: -1, 2: -1, 3: -1}
    scene.teller.own(event(0, 15_000, Phase.CLOSED))
    for second in range(15, 35):
        for number in (1, 2, 3):
            scene.hear(number, 2.0, second)
        scene.finish(second)
    assert scene.pages == {1: 0, 2: -1, 3: -1}


def test_one_that_its_peers_told_of_already_is_counted() -> None:
    scene = Scene(loud=(0,))
    scene.telling.peers[entity(0)] = event(0, 9_000).episode
    scene.teller.own(event(0, 10_000))
    assert leaders(scene) == {0: entity(0)}
    scene.teller.release({entity(0): 11_000})
    assert opened(scene) == [(0, Scope.HOST)]
    scene.next()
    assert scene.pages == {}


def test_when_hosts_are_compared_no_more_what_waits_is_told_and_what_peers_opened_is_over() -> None:
    scene = spread()
    follow(scene)
    scene.teller.own(event(0, 14_000, Phase.CLOSED))
    scene.telling.peers[entity(0)] = event(0, 14_000, onset_ms=13_000).episode
    scene.next()
    scene.circles.clear()
    scene.teller.release({entity(number): 15_000 for number in ALL})
    assert [(one.phase, one.at_ms) for one in scene.teller.events[:1]] == [(Phase.CLOSED, 15_000)]
    assert opened(scene) == [(0, Scope.HOST), (1, Scope.HOST), (2, Scope.HOST), (3, Scope.HOST)]
    assert not scene.telling.peers
    assert not scene.telling.muted
