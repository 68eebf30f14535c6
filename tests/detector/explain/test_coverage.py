"""What was judged, counted by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from hwsonde_detector.explain.coverage import coverage_of, gaps, shares
from hwsonde_detector.types import Subsystem
from tests.detector.explain.planted import SECOND, T0, channel, fault, host, quiet, score

N1 = host("n1")
SPAN = (T0, T0 + 100 * SECOND)


def of(scores, interval_ms=SECOND, span=SPAN, step=1):
    return coverage_of(N1, span, scores, interval_ms, step, {"not_full": 2})


def test_a_host_that_was_judged_throughout():
    found = of(quiet(N1, 100))
    assert (found.expected, found.judged, found.windows, found.channels) == (100, 100, 1.0, 1.0)
    assert (found.gaps, found.loud, found.worst, found.worst_ms) == ((), 0, 0.4, T0 + SECOND)
    assert found.enough
    assert found.calibrated
    assert found.skipped == {"not_full": 2}


def test_windows_that_are_stepped():
    found = of(quiet(N1, 20, step_ms=5 * SECOND), step=5)
    assert (found.expected, found.judged, found.gaps) == (20, 20, ())


def test_what_lies_outside_of_the_time_does_not_count():
    found = of([score(N1, T0, 9.0), *quiet(N1, 100), score(N1, T0 + 100_001, 9.0)])
    assert (found.judged, found.loud, found.worst) == (100, 0, 0.4)


def test_a_gap_in_the_middle():
    scores = [one for one in quiet(N1, 100) if not T0 + 40_000 < one.end_ms <= T0 + 50_000]
    found = of(scores)
    assert found.gaps == ((T0 + 40_000, T0 + 51_000),)
    assert found.windows == 0.9
    assert not found.enough


def test_what_is_not_judged_any_more():
    """The newest scrape may be late; beyond that a good share of windows says nothing of the end."""
    span = (T0, T0 + 10_000 * SECOND)
    for judged_s, lost in ((10_000, None), (9_880, None), (9_879, T0 + 9_879_000)):
        found = of(quiet(N1, judged_s), span=span)
        assert found.enough
        assert found.lost_ms == lost
    slow = of(quiet(N1, 162, step_ms=60 * SECOND), interval_ms=60 * SECOND, span=span)
    assert (slow.windows > 0.95, slow.lost_ms) == (True, T0 + 9720 * SECOND)
    assert of(quiet(N1, 163, step_ms=60 * SECOND), interval_ms=60 * SECOND, span=span).lost_ms is None
    assert of([], span=span).lost_ms is None
    assert of(quiet(N1, 100)[50:]).lost_ms is None


def test_what_was_learned_meanwhile_does_not_count():
    learning = [score(N1, one.end_ms, 5.0, calibrated=False) for one in quiet(N1, 60)]
    found = of([*learning, *quiet(N1, 100)[60:]])
    assert (found.judged, found.uncalibrated, found.loud) == (40, 60, 0)
    assert found.gaps == ((T0, T0 + 61_000),)
    only = of(learning)
    assert (only.calibrated, only.channels, only.worst) == (False, 0.0, None)


def test_a_host_that_nobody_heard():
    found = of([], interval_ms=None)
    assert (found.expected, found.windows, found.enough, found.gaps) == (0, 0.0, False, (SPAN,))


def test_channels_that_were_missing_are_not_enough():
    scores = [score(N1, one.end_ms, 0.4, coverage=0.8) for one in quiet(N1, 100)]
    assert of(scores).channels == pytest.approx(0.8)
    assert not of(scores).enough


def test_more_windows_above_one_than_chance_explains():
    scores = quiet(N1, 100)
    for count, expected in ((1, False), (2, True)):
        own = [score(N1, one.end_ms, 1.2) for one in scores[:count]] + scores[count:]
        assert of(own).restless is expected


def test_no_number_is_no_judgement():
    found = of([*quiet(N1, 50), score(N1, T0 + 51_000, math.nan), score(N1, T0 + 52_000, math.inf)])
    assert (found.judged, found.worst) == (50, 0.4)


def test_gaps_need_a_pace():
    assert gaps([], SPAN, 0) == (SPAN,)
    assert gaps([T0 + 1], SPAN, 0) == ()
    assert gaps([], (T0, T0), 1000) == ()


def test_every_host_counts_alike():
    whole, none = of(quiet(N1, 100)), of([], interval_ms=None)
    assert shares([whole, none]) == (1.0, 0.5)
    assert shares([]) == (0.0, 0.0)


def test_windows_of_an_episode_are_loud_with_a_reason():
    episode, sick = fault(N1, T0 + 20_000, 30, {channel("psi", Subsystem.MEMORY): 1.0})
    scores = [*quiet(N1, 19), *sick, *quiet(N1, 51, start_ms=T0 + 49_000)]
    assert coverage_of(N1, SPAN, scores, SECOND, 1, {}).loud == 30
    assert coverage_of(N1, SPAN, scores, SECOND, 1, {}, [episode]).loud == 0
    lasting = replace(episode, end_ms=None)
    assert coverage_of(N1, SPAN, [*scores[:-1], score(N1, SPAN[1], 2.0)], SECOND, 1, {}, [lasting]).loud == 0
