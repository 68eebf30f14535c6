"""Episodes that are over, or whose hosts are silent, before it is known what they are: nobody must miss them."""

from __future__ import annotations

import pytest

from hwsonde_detector.fleet import FleetState
from hwsonde_detector.fleetstate import restore_fleet, snapshot_fleet
from hwsonde_detector.settings import Settings
from hwsonde_detector.types import Phase, Scope
from tests.detector.worker.scenes import Scene, entity, event

TOLD = (Phase.OPENED, 1, Scope.JOB)
OVER = (Phase.CLOSED, 1, Scope.JOB)


def brief(because: str = "") -> Scene:
    """An episode of one host of a job that ends while it is held back."""
    scene = Scene(loud=(0, 1, 2))
    scene.teller.own(event(1, 10_000))
    assert scene.said() == []
    scene.next()
    scene.teller.own(event(1, 11_000, Phase.CLOSED, because=because))
    return scene


def test_what_ends_while_it_is_held_back_is_told_and_stays_for_a_scrape() -> None:
    scene = brief()
    assert scene.finish(11) == [TOLD]
    shown = scene.telling.told(entity(1))
    assert shown is not None
    assert (shown.end_ms, shown.scope) == (None, Scope.JOB)
    # A tick that looks again for a late scrape is no scrape.
    assert scene.finish(11.1, rows=11) == [TOLD]
    assert scene.telling.told(entity(1)) is not None
    assert scene.finish(12) == [TOLD, OVER]
    assert scene.telling.told(entity(1)) is None
    assert (scene.events[-1].at_ms, scene.events[-1].episode.end_ms) == (11_000, 11_000)
    assert scene.finish(13) == [TOLD, OVER]


def test_why_it_ended_is_said_at_the_end_only() -> None:
    scene = brief(because="a job began")
    scene.finish(11)
    shown = scene.telling.told(entity(1))
    assert shown is not None
    assert "closed" not in shown.title
    assert shown.because == ""
    scene.finish(12)
    assert scene.events[-1].episode.because == "a job began"


def test_what_was_decided_in_the_very_step_of_its_end_stays_too() -> None:
    scene = Scene(loud=(0, 1, 2))
    scene.teller.own(event(1, 10_000))
    scene.finish(12)
    scene.group.judged = 12
    scene.teller.own(event(1, 13_000, Phase.CLOSED))
    assert scene.finish(13) == [TOLD]
    assert scene.finish(14) == [TOLD, OVER]


def test_what_all_of_a_job_had_for_a_moment_is_told_once() -> None:
    scene = Scene(loud=(0, 1, 2, 3))
    for number in range(4):
        scene.teller.own(event(number, 10_000))
    scene.next()
    for number in (1, 0, 2):
        scene.teller.own(event(number, 11_000, Phase.CLOSED))
    assert scene.finish(11) == [TOLD]
    scene.teller.own(event(3, 12_000, Phase.CLOSED))
    assert scene.finish(12) == [TOLD, OVER]
    assert not scene.telling.open


def test_who_goes_on_does_not_wait_for_what_is_over() -> None:
    scene = Scene(loud=(0, 1, 2, 3))
    for number in (1, 2, 3):
        scene.teller.own(event(number, 10_000))
    scene.teller.own(event(1, 11_000, Phase.CLOSED))
    assert scene.finish(11) == [TOLD]
    scene.hear(1, 0.1, 11, 12, 13)
    for number in (0, 2, 3):
        scene.hear(number, 2.0, 11, 12, 13)
    scene.telling.ending[entity(1)].shown_ms = 13_000
    assert scene.finish(13) == [TOLD, (Phase.OPENED, 2, Scope.JOB)]
    assert [muted.leader for muted in scene.telling.muted.values()] == [entity(2)]


def test_another_episode_of_the_host_ends_the_wait_and_is_one_of_its_own() -> None:
    scene = brief()
    scene.finish(11)
    for number in (0, 2):
        scene.hear(number, 0.1, *range(11, 40))
    scene.teller.own(event(1, 30_000, onset_ms=29_000))
    assert scene.said() == [TOLD, OVER, (Phase.OPENED, 1, Scope.HOST)]
    assert scene.finish(31) == scene.said()
    told = scene.telling.told(entity(1))
    assert told is not None
    assert told.onset_ms == 29_000


def test_one_whose_host_is_gone_is_told_and_closed_at_once() -> None:
    scene = brief()
    scene.teller.own(event(2, 10_000))
    del scene.circles[entity(2)]
    scene.teller.own(event(2, 11_000, Phase.CLOSED))
    assert [one for one in scene.said() if one[1] == 2] == [
        (Phase.OPENED, 2, Scope.HOST),
        (Phase.CLOSED, 2, Scope.HOST),
    ]


def test_what_waits_for_its_end_outlasts_a_restart() -> None:
    scene = brief()
    scene.finish(11)
    document, arrays = snapshot_fleet(FleetState(telling=scene.telling), Settings(), {})
    scene.telling = restore_fleet(document, arrays, {}, Settings()).telling
    scene.next()
    assert scene.telling.told(entity(1)) is not None
    assert scene.finish(12) == [TOLD, OVER]
    assert scene.events[-1].episode.end_ms == 11_000
    # States of former versions know of none.
    del document["ending"]
    assert not restore_fleet(document, arrays, {}, Settings()).telling.ending


@pytest.mark.parametrize(("second", "told"), [(13.9, False), (14.0, True)])
def test_a_held_episode_is_told_though_all_its_group_is_silent(second: float, told: bool) -> None:
    scene = Scene(loud=(0, 1))
    scene.teller.own(event(1, 10_000))
    assert scene.finish(10.9, rows=10, silent={entity(1): 900}) == []
    silent_ms = round(1000 * second) - 10_000
    assert scene.finish(second, rows=10, silent={entity(1): silent_ms}) == [(Phase.OPENED, 1, Scope.HOST)] * told


def test_a_clock_ahead_of_the_samples_is_no_silence() -> None:
    scene = Scene(loud=(0, 1))
    scene.teller.own(event(1, 10_000))
    assert scene.finish(5000, rows=11, silent={entity(1): 0}) == []
