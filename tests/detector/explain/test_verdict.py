"""The one sentence: a fault, a clean answer with what it rests on, or that nobody can know."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hwsonde_detector.explain.coverage import Coverage, coverage_of
from hwsonde_detector.explain.known import Known, Matter, ranked
from hwsonde_detector.explain.rootcause import root_causes
from hwsonde_detector.explain.verdict import (
    Kind,
    Moments,
    against,
    listed,
    order_sentence,
    percent,
    rounded_up,
    seconds,
    verdict,
)
from hwsonde_detector.types import Subsystem
from tests.detector.explain.planted import SECOND, T0, channel, fault, host, quiet, score

SPAN = (T0, T0 + 100 * SECOND)
MOMENTS = Moments(*SPAN)
PSI = channel("pressure{resource=memory}", Subsystem.MEMORY)
N1, N2 = host("n1"), host("n2")
SILENT = Known(Matter.SILENT, (N1,), T0, None, "Lab/n1 sent nothing.")


def judged(node: str, scores=None, interval_ms: int | None = SECOND) -> Coverage:
    entity = host(node)
    return coverage_of(entity, SPAN, quiet(entity, 100) if scores is None else scores, interval_ms, 1, {})


def test_a_fault_is_one_sentence():
    episode, scores = fault(N1, T0 + 20 * SECOND, 50, {PSI: 1.0})
    causes = root_causes([episode], {N1: scores}, {N1: SECOND})
    found = verdict(causes, [judged("n1")], MOMENTS)
    assert found.kind is Kind.FAULT
    assert (
        found.sentence
        == f"lab/n1: memory: pressure{{resource=memory}} 90 %, expected at most 20 %, since {MOMENTS.text(T0 + 20_000)}"
    )


def test_more_causes_are_announced():
    planted = [fault(N1, T0, 50, {PSI: 1.0}), fault(N2, T0, 50, {channel("x", Subsystem.POWER): 1.0})]
    causes = root_causes(
        [one for one, _ in planted], {one.entity: own for one, own in planted}, {N1: SECOND, N2: SECOND}
    )
    assert verdict(causes, [], MOMENTS).sentence.endswith("(1 further cause in the report)")


def test_clean_says_what_it_rests_on():
    hosts = [judged(f"n{number}") for number in range(8)]
    found = verdict((), hosts, MOMENTS)
    assert found.kind is Kind.CLEAN
    assert found.sentence == "Not the hardware: 8 hosts, 100 % of channels and 100 % of windows judged, none above 0.4."


def test_clean_tells_of_single_windows_above_one():
    scores = [*quiet(N1, 99), score(N1, SPAN[1], 1.42)]
    found = verdict((), [judged("n1", scores)], MOMENTS)
    assert found.kind is Kind.CLEAN
    assert "1 single window above 1 (at most 1.5, on lab/n1), none of them lasted." in found.sentence


@pytest.mark.parametrize(
    ("scores", "interval_ms", "says"),
    [
        ([], None, "had no window that could be judged (lab/n1)"),
        ([score(N1, T0 + 1000 * n, 0.4, calibrated=False) for n in range(1, 101)], SECOND, "had not learned enough for scores to count"),
        (quiet(N1, 80), SECOND, "judged too little: 80 % of windows and 100 % of channels on lab/n1"),
        ([score(N1, one.end_ms, 0.4, coverage=0.5) for one in quiet(N1, 100)], SECOND, "50 % of channels on lab/n1"),
        ([score(N1, one.end_ms, 1.5) for one in quiet(N1, 100)], SECOND, "above 1 more often than chance explains: 100 % of windows"),
    ],
)  # fmt: skip
def test_clean_is_refused_without_coverage(scores, interval_ms, says):
    found = verdict((), [judged("n1", scores, interval_ms), judged("n2")], MOMENTS)
    assert found.kind is Kind.UNKNOWN
    assert found.sentence.startswith("Not known: 1 of 2 hosts ")
    assert says in found.sentence
    assert "The others: 1 host, 100 % of channels" in found.sentence
    assert found.limits


def test_what_is_not_judged_to_the_end_is_not_clean():
    span = (T0, T0 + 10_000 * SECOND)
    hosts = [
        coverage_of(host(node), span, quiet(host(node), judged_s), SECOND, 1, {})
        for node, judged_s in (("n1", 9_800), ("n2", 10_000))
    ]
    found = verdict((), hosts, Moments(*span))
    assert found.kind is Kind.UNKNOWN
    since = Moments(*span).text(T0 + 9_800 * SECOND)
    assert found.sentence.startswith(
        f"Not known: 1 of 2 hosts could not be judged any more from {since} on (lab/n1). The others: 1 host, "
    )
    # Of a host of which more is known that is enough.
    assert verdict((), hosts, Moments(*span), [SILENT]).limits == (SILENT.sentence,)


def test_what_is_known_without_a_score_is_never_clean():
    hosts = [judged("n1"), judged("n2")]
    found = verdict((), hosts, MOMENTS, [SILENT])
    assert found.kind is Kind.UNKNOWN
    assert found.sentence == (
        "Not known: Lab/n1 sent nothing. The others: 1 host, 100 % of channels and 100 % of windows judged, none above 0.4."
    )
    told = replace(SILENT, matter=Matter.INCIDENT, sentence="The detector told of it.", entities=(N1, N2))
    assert verdict((), hosts, MOMENTS, [told]).sentence == "Not known: the detector told of it."
    assert verdict((), [], MOMENTS, [told]).kind is Kind.UNKNOWN


def test_a_known_cause_is_told_before_what_scores_say():
    episode, scores = fault(N1, T0 + 20 * SECOND, 50, {PSI: 1.0})
    causes = root_causes([episode], {N1: scores}, {N1: SECOND})
    lost = Known(Matter.DATA_FAULT, (N2,), T0, None, "lab/n2 disk sda has sent nothing.", cause=True)
    known = ranked([SILENT, lost, replace(SILENT, cause=True, start_ms=T0 + 9)])
    assert [one.cause for one in known] == [True, True, False]
    found = verdict(causes, [judged("n1"), judged("n2")], MOMENTS, known)
    assert (found.kind, found.sentence) == (Kind.FAULT, "Lab/n1 sent nothing (2 further causes in the report)")
    assert found.limits == (SILENT.sentence,)
    assert verdict((), [], MOMENTS, [lost]).sentence == "lab/n2 disk sda has sent nothing"


def test_of_very_many_limits_some_are_told():
    known = [replace(SILENT, sentence=f"n{number} sent nothing.") for number in range(30)]
    found = verdict((), [judged("n1")], MOMENTS, known)
    assert len(found.limits) == 21
    assert found.limits[-1] == "10 more such things are known."


def test_one_host_is_not_counted():
    assert verdict((), [judged("n1", quiet(N1, 80))], MOMENTS).sentence == (
        "Not known: the host was judged too little: 80 % of windows and 100 % of channels on lab/n1."
    )


def test_nobody_was_heard():
    assert verdict((), [], MOMENTS).sentence == "Not known: no host was heard in this time."


def test_limits_stay_beside_a_fault():
    episode, scores = fault(N1, T0, 50, {PSI: 1.0})
    causes = root_causes([episode], {N1: scores}, {N1: SECOND})
    found = verdict(causes, [judged("n1"), judged("n2", [], None)], MOMENTS)
    assert found.kind is Kind.FAULT
    assert found.limits == ("1 of 2 hosts had no window that could be judged (lab/n2).",)


def test_the_order_is_told_with_its_uncertainty():
    def order(*seconds_later: int) -> str:
        planted = [
            fault(host(f"n{place}"), T0 + later * SECOND, 50, {PSI: 1.0})
            for place, later in enumerate(seconds_later, 1)
        ]
        (cause,) = root_causes(
            [one for one, _ in planted],
            {one.entity: own for one, own in planted},
            {one.entity: SECOND for one, _ in planted},
        )
        return order_sentence(cause)

    assert order(0) == ""
    assert order(0, 30) == "lab/n1 was first; lab/n2 30 s later (plus or minus 1 s)."
    assert (
        order(0, 1)
        == "Which of lab/n1 and lab/n2 was first cannot be told: they began within one scrape interval (1 s)."
    )
    assert order(0, 1, 30).endswith("(1 s); lab/n3 30 s later.")


def test_numbers_for_people():
    assert [percent(share) for share in (0.0, 1e-9, 0.29, 0.992, 0.99999, 1.0)] == [
        "0 %",
        "0.1 %",
        "29 %",
        "99.2 %",
        "99.9 %",
        "100 %",
    ]
    assert [seconds(ms) for ms in (0, 200, 15_000, 130_000, 9_000_000, 200_000_000)] == [
        "0 s",
        "0.2 s",
        "15 s",
        "2.2 min",
        "2.5 h",
        "2.3 d",
    ]
    assert [rounded_up(value) for value in (0.0, 0.4, 0.41, 0.59999, 1.0)] == ["0.0", "0.4", "0.5", "0.6", "1.0"]
    assert [listed(names) for names in ([], ["a"], ["a", "b"], ["a", "b", "c"], ["a", "b", "c", "d"])] == [
        "", "a", "a and b", "a, b and c", "a, b, c and 1 more",
    ]  # fmt: skip


def test_times_have_a_date_where_the_range_has_two():
    day = 86_400_000
    assert Moments(0, day).text(3_600_000) == "01:00:00Z"
    assert Moments(0, day + 1).text(3_600_000) == "1970-01-01 01:00:00Z"


def test_a_value_that_is_not_known():
    episode, scores = fault(N1, T0, 5, {PSI: 1.0})
    (cause,) = root_causes([episode], {N1: scores}, {N1: SECOND})
    finding = cause.findings[0]
    assert (
        against(type(finding)(finding.entity, PSI, finding.role, 1.0, finding.direction, 1.0, float("nan"), 0, 1, None))
        == "no value"
    )
