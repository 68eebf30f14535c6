"""Who is whose peer, as info series and labels come and go."""

from __future__ import annotations

import numpy as np
import pytest

from hwsonde_detector.fleet import FleetState, without_slow
from hwsonde_detector.types import SampleBatch, Series
from tests.detector.worker.fleets import PLAN, Fleet, entity, play


def job(host: int, number: str, at_ms: int) -> tuple[Series, int]:
    return Series("m_job_info", Fleet().labels(host, number=number)), at_ms


def batch(*rows: tuple[Series, int]) -> SampleBatch:
    ordered = sorted(rows)
    return SampleBatch(
        tuple(one for one, _ in ordered),
        np.arange(len(ordered) + 1, dtype=np.int64),
        np.array([at_ms for _, at_ms in ordered], np.int64),
        np.ones(len(ordered)),
    )


def plain(host: int, at_ms: int) -> tuple[Series, int]:
    return Series("m_cpu_0", Fleet().labels(host)), at_ms


def told(fleet: FleetState, host: int = 1) -> list[str]:
    return sorted(fleet.facts.get(entity(host), {}).get("workload", ()))


@pytest.mark.parametrize(("later", "kept"), [(30_000, ["17", "18"]), (121_000, ["18"])])
def test_a_job_counts_for_two_minutes_after_it_was_seen_last(later: int, kept: list[str]) -> None:
    fleet = FleetState()
    without_slow(fleet, batch(job(1, "17", 1000)), PLAN.settings, PLAN.profiles)
    assert told(fleet) == ["17"]
    fleet.stale = False
    without_slow(fleet, batch(job(1, "18", 1000 + later)), PLAN.settings, PLAN.profiles)
    assert told(fleet) == kept
    assert fleet.stale
    fleet.stale = False
    without_slow(fleet, batch(job(1, "18", 2000 + later)), PLAN.settings, PLAN.profiles)
    assert not fleet.stale, "nothing new was said"
    without_slow(fleet, batch(plain(1, 9_000_000)), PLAN.settings, PLAN.profiles)
    assert told(fleet) == kept, "a read that is not slow says nothing of jobs"


def test_what_is_slow_goes_and_the_rest_keeps_its_identity() -> None:
    fleet = FleetState()
    first = without_slow(fleet, batch(plain(1, 1000), plain(2, 1000)), PLAN.settings, PLAN.profiles)
    second = without_slow(
        fleet, batch(plain(1, 2000), job(1, "17", 2000), plain(2, 2000)), PLAN.settings, PLAN.profiles
    )
    assert second.series is first.series
    assert second.times.tolist() == [2000, 2000]
    third = batch(plain(1, 3000))
    assert without_slow(fleet, third, PLAN.settings, PLAN.profiles) is third


def test_hosts_move_to_the_group_of_their_job_and_a_small_job_makes_none() -> None:
    jobs = {1: "17", 2: "17", 3: "17", 4: "17", 5: "18", 6: "18"}
    state, _ = play(Fleet(seconds=4, jobs=jobs).ticks())
    members = {
        dict(key)["workload"]: sorted(str(one) for one in group.members) for key, group in state.fleet.groups.items()
    }
    assert members == {
        "17": [str(entity(number)) for number in (1, 2, 3, 4)],
        "": [str(entity(number)) for number in (5, 6, 7, 8)],
    }


def test_a_host_that_is_gone_is_in_no_group_and_its_settings_are_forgotten_with_it() -> None:
    state, _ = play(Fleet(hosts=4, seconds=3, infos=lambda host, second: [("s", "", "x")]).ticks())
    assert set(state.fleet.settings) == {entity(number) for number in (1, 2, 3, 4)}
    later = [(SampleBatch.empty(), 1_800_000_000_000 + 301_000 + 3_000)]
    state, outputs = play(later, state)
    assert len(outputs[0].gone) == 4
    assert not state.fleet.groups
    assert not state.fleet.home
