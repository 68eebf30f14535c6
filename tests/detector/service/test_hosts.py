"""What hosts keep of the windows that a step brings."""

from __future__ import annotations

import dataclasses
import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hwsonde_detector.service.hosts import Hosts
from hwsonde_detector.types import (
    DataFaultEpisode,
    DataFaultEvent,
    DataQuality,
    Entity,
    EntityReport,
    FaultKind,
    Learning,
    Outputs,
    Phase,
    Score,
)

from .fakes import HOST, START, event, window

LEARNING = Learning(300, 240, None, frozen=False, channels=1, channels_judged=1)


def report(*scores: Score) -> Outputs:
    return Outputs((EntityReport(HOST, scores, LEARNING, 1000),))


def scored(second: int, fused: float, member: float = 0.0, channels: float = 0.0) -> Score:
    return dataclasses.replace(
        window(START + 1000 * second, fused), members={"zscore": member}, anomalous_channels=channels
    )


def test_a_slow_tick_keeps_the_largest_of_all_its_windows() -> None:
    hosts = Hosts()
    scores = [scored(second, 0.5 - second * 1e-6) for second in range(300)]
    scores[3], scores[7] = scored(3, 2.9), scored(7, 0.4, member=5.0, channels=0.7)
    hosts.take(report(*scores), 100.0, 300_000)
    (host,) = hosts.published(300_000)
    held = host.held(399.0)
    assert max(score.fused for score in held) == 2.9
    assert max(score.members["zscore"] for score in held) == 5.0
    assert max(score.anomalous_channels for score in held) == 0.7
    assert held[-1] == scores[-1]


def test_rising_scores_leave_only_the_newest_window() -> None:
    hosts = Hosts()
    hosts.take(report(*(scored(second, second / 100) for second in range(300))), 100.0, 300_000)
    (host,) = hosts.published(300_000)
    assert [held.score.end_ms for held in host.recent] == [START + 299_000]


def test_an_open_episode_ends_when_its_host_is_learned_anew(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "hwsonde_detector")
    hosts = Hosts()
    opened = event(Phase.OPENED).episode
    outputs = report(scored(7, 2.9))
    told = dataclasses.replace(outputs.reports[0], open_episodes=(opened,))
    hosts.take(dataclasses.replace(outputs, reports=(told,)), 100.0, 1000)
    hosts.clear(START + 60_000, {Entity((("node", "another"),))})
    assert hosts.published(1000)
    assert hosts.past() == ()
    hosts.clear(START + 60_000, {HOST})
    assert hosts.published(1000) == ()
    assert hosts.past() == (dataclasses.replace(opened, end_ms=START + 7000),)
    assert [record.getMessage() for record in caplog.records][-1].startswith("episode closed: n1@")


def test_how_a_host_got_its_name_is_published() -> None:
    hosts = Hosts()
    for named in (True, False):
        (told,) = report(scored(1, 0.5)).reports
        hosts.take(Outputs((dataclasses.replace(told, named_by_instance=named),)), 100.0, 1000)
        assert hosts.published(1000)[0].named_by_instance == named


values = st.sampled_from([0.1, 0.5, 1.5, float("nan")])


@given(st.lists(st.lists(st.tuples(values, values, values), min_size=1, max_size=8), min_size=1, max_size=6))
def test_maxima_are_those_of_all_windows_within_the_hold(ticks: list[list[tuple[float, float, float]]]) -> None:
    hosts, everything, second = Hosts(), [], 0
    for number, tick in enumerate(ticks):
        scores = [scored(second + index, *numbers) for index, numbers in enumerate(tick)]
        second += len(tick)
        everything += [(5.0 * number, score) for score in scores]
        hosts.take(report(*scores), 5.0 * number, 5000)
        (host,) = hosts.published(5000)
        naive = [
            score
            for arrived, score in everything
            if score.end_ms >= scores[-1].end_ms - 6000 and 5.0 * number - arrived <= 6.0
        ]
        kept = [held.score for held in host.recent]
        assert _largest(kept) == _largest(naive)
        assert kept[-1] is scores[-1]


def _largest(scores: list[Score]) -> list[float]:
    columns = zip(*((one.fused, one.members["zscore"], one.anomalous_channels) for one in scores), strict=True)
    return [max((value for value in column if value == value), default=-1.0) for column in columns]  # noqa: PLR0124


def test_the_data_of_a_host_are_kept_with_their_arrival_and_faults_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    hosts, quality = Hosts(), DataQuality(START, coverage=0.5)
    told = EntityReport(HOST, (), LEARNING, 1000, quality=quality)
    one = DataFaultEpisode("data n1@x", HOST, FaultKind.MISSING, START, START, None, 1.5, "n1 gpu 3 has sent nothing")
    with caplog.at_level(logging.INFO):
        hosts.take(Outputs((told,), fault_events=(DataFaultEvent(Phase.OPENED, START, one),)), 50.0, 1000)
        hosts.take(Outputs((), fault_events=(DataFaultEvent(Phase.CLOSED, START, one),)), 51.0, 1000)
    assert [record.message for record in caplog.records] == [
        "data fault: n1 gpu 3 has sent nothing",
        "data fault is over: data n1@x peak 1.50",
    ]
    (host,) = hosts.published(1000)
    assert (host.quality, host.quality_arrived) == (quality, 50.0)
    assert host.data_quality(56.0) is quality
    assert host.data_quality(56.1) is None
    hosts.take(Outputs(gone=(HOST,)), 52.0, 1000)
    assert hosts.published(1000) == ()
