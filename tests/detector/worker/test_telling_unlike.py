"""Episodes of a host's own that end while it still differs from its peers: the page stays, and nobody is paged twice."""

from __future__ import annotations

from collections import deque

import pytest

from hwsonde_detector.explain.unlike import still_unlike
from hwsonde_detector.fleet import FleetState
from hwsonde_detector.fleetstate import restore_fleet, snapshot_fleet
from hwsonde_detector.settings import Settings
from hwsonde_detector.types import Episode, Phase, Scope
from tests.detector.worker.scenes import Scene, entity, event
from tests.detector.worker.test_telling_common import ALL, follow, leaders, spread

OPENED = (Phase.OPENED, 1, Scope.HOST)
GOES_ON = (Phase.CHANGED, 1, Scope.HOST)
CLOSED = (Phase.CLOSED, 1, Scope.HOST)


def ill() -> Scene:
    """A host that deviates from its own past, which was told, and from its peers."""
    scene = Scene(loud=(1,), odd=(1,))
    scene.teller.own(event(1, 10_000))
    scene.differ(1, 11)
    assert scene.finish(11) == [OPENED]
    return scene


def shown(scene: Scene, number: int = 1) -> Episode:
    told = scene.telling.told(entity(number))
    assert told is not None
    return told


def job() -> Scene:
    """A whole job deviates; the first host, that it is told of, comes to differ from the others."""
    scene = Scene(loud=ALL)
    for number in ALL:
        scene.teller.own(event(number, 10_000))
    assert scene.finish(13) == [(Phase.OPENED, 0, Scope.JOB)]
    scene.differ(0, 18)
    assert len(scene.finish(18)) == 1
    return scene


@pytest.mark.parametrize("because", ["", "new normal", "workload started"])
def test_the_page_stays_until_the_host_is_like_its_peers_again(because: str) -> None:
    scene = ill()
    scene.teller.own(event(1, 20_000, Phase.CLOSED, because=because))
    assert scene.finish(20) == [OPENED, GOES_ON]
    told = shown(scene)
    assert (told.identity, told.end_ms, told.because, told.start_ms) == ("n1@9000", None, "", 10_000)
    assert told.title == "t; still unlike its 3 peers"
    assert [part.value for part in told.top] == [50.0], "what differs now"
    assert scene.finish(50) == [OPENED, GOES_ON]
    scene.agree(1, 60)
    assert scene.finish(61) == [OPENED, GOES_ON, CLOSED]
    last = scene.events[-1]
    assert (last.at_ms, last.episode.identity, last.episode.end_ms) == (60_000, "n1@9000", 60_000)
    assert not scene.telling.peers
    assert scene.pages == {}, "one page, and it was counted when its own episode opened"


def test_what_happens_in_one_step_is_heard_in_its_order() -> None:
    scene = Scene(loud=(1,), odd=(1,))
    scene.teller.own(event(1, 10_000))
    scene.differ(1, 11)
    scene.teller.own(event(1, 20_000, Phase.CLOSED))
    assert scene.finish(20) == [OPENED, GOES_ON]


def test_without_a_slot_since_the_start_the_channels_stay_those_that_were_told() -> None:
    scene = ill()
    before = shown(scene).top
    scene.group.newest = None
    scene.teller.own(event(1, 20_000, Phase.CLOSED))
    assert scene.finish(20) == [OPENED, GOES_ON]
    assert shown(scene).top == before


@pytest.mark.parametrize(("peers", "others"), [(3, "its 3 peers"), (0, "its other parts")])
def test_a_host_without_peers_is_unlike_its_other_parts(peers: int, others: str) -> None:
    assert still_unlike(event(1, 10_000).episode, None, peers).title == f"t; still unlike {others}"


def test_one_that_differs_only_later_is_told_anew() -> None:
    scene = Scene(loud=(1,))
    scene.teller.own(event(1, 10_000))
    # All in one step, as after a pause: what was known when the episode ended counts.
    scene.teller.own(event(1, 12_000, Phase.CLOSED))
    scene.differ(1, 13)
    assert scene.finish(13) == [OPENED, CLOSED, OPENED]
    assert shown(scene).identity != "n1@9000"
    assert shown(scene).title.endswith("; its 3 peers do not show it")


def test_one_that_differs_no_more_when_its_own_episode_ends_is_closed() -> None:
    scene = ill()
    scene.agree(1, 19)
    scene.teller.own(event(1, 20_000, Phase.CLOSED))
    assert scene.finish(20) == [OPENED, CLOSED]


def test_episodes_of_its_own_that_come_again_meanwhile_are_not_told() -> None:
    scene = ill()
    scene.teller.own(event(1, 20_000, Phase.CLOSED))
    scene.finish(20)
    scene.teller.own(event(1, 30_000, onset_ms=29_000))
    assert leaders(scene) == {1: entity(1)}
    scene.finish(31)
    assert scene.pages == {1: -1}, "the host counts it, and nobody was paged for it"
    # The one keeps the incident open when the other is over.
    scene.agree(1, 35)
    assert scene.finish(36) == [OPENED, GOES_ON]
    scene.teller.own(event(1, 40_000, Phase.CLOSED, onset_ms=29_000))
    assert scene.finish(40) == [OPENED, GOES_ON, CLOSED]
    assert scene.events[-1].episode.identity == "n1@9000"


def test_one_that_is_told_after_all_when_hosts_are_compared_no_more_is_counted() -> None:
    scene = ill()
    scene.teller.own(event(1, 20_000, Phase.CLOSED))
    scene.teller.own(event(1, 30_000, onset_ms=29_000))
    scene.next()
    scene.circles.clear()
    scene.teller.release({entity(number): 31_000 for number in ALL})
    assert scene.said() == [OPENED, GOES_ON, CLOSED, OPENED]
    scene.next()
    assert scene.pages == {1: 0}


def test_a_page_that_only_peers_keep_hides_no_new_trouble_of_the_others() -> None:
    scene = ill()
    scene.teller.own(event(1, 20_000, Phase.CLOSED))
    scene.finish(20)
    scene.stand(1, *range(96, 104), odd=True)
    for number in (0, 2, 3):
        scene.hear(number, 2.0, *range(96, 104))
        scene.teller.own(event(number, 100_000, onset_ms=99_000))
    assert scene.finish(103)[2:] == [(Phase.OPENED, 0, Scope.JOB)]
    assert leaders(scene) == {2: entity(0), 3: entity(0)}


def test_a_restart_knows_which_page_only_peers_keep() -> None:
    scene = ill()
    scene.teller.own(event(1, 20_000, Phase.CLOSED))
    document, arrays = snapshot_fleet(FleetState(telling=scene.telling), Settings(), {})
    assert scene.telling.kept == {entity(1)}
    assert restore_fleet(document, arrays, {}, Settings()).telling == scene.telling
    # States of former versions know of none.
    del document["kept"]
    assert restore_fleet(document, arrays, {}, Settings()).telling.kept == set()


def test_what_turned_out_to_be_that_of_many_is_that_of_one_then() -> None:
    scene = spread()
    follow(scene)
    scene.differ(0, 20)
    scene.finish(20)
    assert shown(scene, 0).title == "4 of 4 hosts of its job at once: t"
    scene.teller.own(event(0, 30_000, Phase.CLOSED))
    scene.finish(30)
    assert shown(scene, 0).title == "t; still unlike its 3 peers"
    assert leaders(scene) == {1: entity(0), 2: entity(0), 3: entity(0)}


def test_the_page_of_a_job_ends_and_the_host_that_differs_gets_its_own() -> None:
    scene = job()
    # It has differed for longer than the job has deviated: two incidents of one host must not have one name.
    scene.group.members[entity(0)].trail = deque((1000 * second, 2.0, None) for second in range(6, 19))
    scene.teller.own(event(0, 20_000, Phase.CLOSED))
    assert scene.finish(20)[1:] == [(Phase.CLOSED, 0, Scope.JOB), (Phase.OPENED, 0, Scope.HOST)]
    told = shown(scene, 0)
    assert told.onset_ms == 10_000
    assert told.title.endswith("; its 3 peers do not show it")
    # The others wait for it as they did before.
    assert len(scene.finish(90)) == 3
    assert leaders(scene) == {1: entity(0), 2: entity(0), 3: entity(0)}


def test_a_host_that_recovers_before_the_others_is_not_the_odd_one() -> None:
    scene = job()
    for number in (1, 2, 3):
        scene.hear(number, 2.0, *range(14, 22))
    scene.teller.own(event(0, 20_000, Phase.CLOSED))
    scene.group.newest = scene.slot(0, 20)
    assert scene.finish(20)[1:] == [(Phase.CLOSED, 0, Scope.JOB)]
    # It still differs when they are as ever: then it is told.
    for number in (1, 2, 3):
        scene.hear(number, 0.1, *range(22, 32))
    scene.group.newest = scene.slot(0, 31)
    assert scene.finish(31)[2:] == [(Phase.OPENED, 0, Scope.HOST)]


def test_nor_is_one_whose_own_episode_was_not_the_jobs() -> None:
    scene = ill()
    for number in (0, 2, 3):
        scene.hear(number, 2.0, *range(14, 22))
    scene.teller.own(event(1, 20_000, Phase.CLOSED))
    scene.group.newest = scene.slot(1, 20)
    assert scene.finish(20) == [OPENED, CLOSED]


def test_one_of_whom_a_former_version_tells_no_more_is_told() -> None:
    scene = Scene()
    scene.group.members[entity(1)].persistence.open = True
    scene.next()
    assert scene.finish(10) == [], "of no slot anything can be told"
    scene.group.newest = scene.slot(1, 11)
    assert scene.finish(11) == [OPENED]
    scene.agree(1, 12)
    assert scene.finish(12) == [OPENED, CLOSED]


def test_nothing_is_told_in_a_slot_in_which_it_does_not_differ() -> None:
    scene = Scene()
    scene.group.members[entity(1)].persistence.open = True
    scene.group.newest = scene.slot(2, 11)
    scene.next()
    assert scene.finish(11) == []
