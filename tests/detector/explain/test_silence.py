"""Who fell silent, and when that is the host's own business: rules by the smallest pictures."""

from __future__ import annotations

import pytest

from hwsonde_detector.explain.neighbours import JobSpan
from hwsonde_detector.explain.silence import AFTER_MS, Gap, Heard, Hearing, patience_ms, silences
from hwsonde_detector.explain.verdict import Moments
from tests.detector.explain.planted import SECOND, T0, host

N1, N2, N3 = (host(f"n{number}") for number in (1, 2, 3))
END = T0 + 3600 * SECOND
UNTIL = END + AFTER_MS
MOMENTS = Moments(T0, END)


def at(second: int) -> int:
    return T0 + second * SECOND


def heard(last_s: int, *gaps: tuple[int, int, bool], asked_s: int | None = None, vain_s: int | None = None) -> Heard:
    ups = [None if second is None else at(second) for second in (asked_s, vain_s)]
    return Heard(at(last_s), tuple(Gap(at(begin), at(end), vain) for begin, end, vain in gaps), *ups)


def told(first: Heard, others: Heard = heard(3900), *, jobs=(), end_s=3600, interval_s=15, of_job=False, until_s=3900):  # noqa: B008
    hearing = Hearing({N1: first, N2: others}, at(max(until_s, 0)), at(until_s))
    if others.last_ms is not None and others.last_ms < at(until_s):
        newest = max(one for one in (first.last_ms, others.last_ms, first.asked_ms) if one is not None)
        hearing = Hearing(hearing.hosts, newest, at(until_s))
    span = {N1: (T0, at(end_s))}
    found = silences(span, hearing, {N1: interval_s * SECOND}, jobs, MOMENTS, of_job=of_job)
    return [(one.sentence.removeprefix("lab/n1 sent nothing ").removesuffix("."), one.cause) for one in found]


def job(entity, first_s: int, last_s: int, name: str = "slurm:7") -> JobSpan:
    return JobSpan(name, entity, at(first_s) - 1, at(last_s))


def text(second: int) -> str:
    return MOMENTS.text(at(second))


def test_a_host_that_is_heard_is_not_silent():
    assert told(heard(3900)) == []
    assert told(heard(3880)) == [], "late by a scrape"
    assert told(heard(3600), heard(3610), until_s=3615) == [], "the newest scrape of the present"


@pytest.mark.parametrize(
    ("interval_s", "patience_s"), [(1, 60), (15, 60), (30, 120), (60, 240), (120, 240), (300, 600)]
)
def test_how_long_nothing_must_come(interval_s, patience_s):
    assert patience_ms(interval_s * SECOND) == patience_s * SECOND
    if patience_s < 300:
        last = 3900 - patience_s
        assert len(told(heard(last), interval_s=interval_s)) == 1
        assert told(heard(last + 1), interval_s=interval_s) == []


def test_down_at_the_end_and_down_for_a_while():
    assert told(heard(3000)) == [(f"after {text(3000)}", False)]
    assert told(heard(3900, (3590, 3700, False))) == [(f"from {text(3590)} to {text(3700)}", False)]
    # In the middle of a range coverage tells of little, as in the running detector.
    assert told(heard(3900, (1000, 1200, False))) == []
    assert told(heard(3900, (1000, 1300, False))) == [(f"from {text(1000)} to {text(1300)}", False)]
    assert len(told(heard(3900, (1000, 1200, False)), of_job=True)) == 1


def test_what_lies_outside_is_nobody_s_business():
    assert told(heard(3900, (-900, -10, False))) == []
    # Started for the job: its first scrape shows it already.
    assert told(heard(3900, (-900, 1, False)), of_job=True) == []
    assert told(heard(3900, (-900, 100, True)), of_job=True) == [
        (f"from {text(-900)} to {text(100)}, although it was asked", False)
    ]
    assert told(heard(3900, (3700, 3800, False)), end_s=3000) == []
    assert told(heard(3700), end_s=3300) == []
    assert told(heard(3700), end_s=3500) == [(f"after {text(3700)}", False)]


def test_a_host_that_is_taken_away_afterwards_is_not_missed():
    assert told(heard(3700, asked_s=3890, vain_s=3890)) == [(f"after {text(3700)}, although it was asked", False)]
    assert told(heard(3700, asked_s=3730, vain_s=3730)) == []
    # What happens before the end counts all the same.
    assert len(told(heard(3590, asked_s=3620, vain_s=3620))) == 1
    assert told(heard(3900, (3700, 3800, True), asked_s=3900, vain_s=3790)) != []
    assert told(heard(3900, (3700, 3800, False), asked_s=3900)) == []


def test_where_all_are_silent_nobody_knows_whose_fault_it_is():
    both = told(heard(3600), heard(3605))
    assert both == [(f"after {text(3600)}, nor did any other host that was read", False)]
    assert told(heard(3600), heard(3605), until_s=3700) == [], "it may come yet"
    # A server that was away in the middle lowers the coverage of all.
    assert told(heard(3900, (1000, 2000, False)), heard(3900, (1005, 1990, False))) == []
    assert len(told(heard(3900, (1000, 2000, False)), heard(3900, (1400, 1900, False)))) == 1
    assert len(told(heard(3900, (1000, 2000, True)), heard(3900, (1005, 1990, False)))) == 1


def test_a_job_that_goes_on_elsewhere_makes_it_the_cause():
    here = job(N1, 0, 3000)
    assert told(heard(3000), jobs=[here, job(N2, 0, 3015)]) == [
        (f"after {text(3000)}, while 1 other host of slurm:7 went on", True)
    ]
    for others in (
        [job(N2, 0, 3014)],
        [job(N2, 3001, 3600)],
        [job(N2, 0, 3600, "slurm:8")],
        [],
    ):
        assert told(heard(3000), jobs=[here, *others]) == [(f"after {text(3000)}", False)]
    assert told(heard(3000), jobs=[job(N1, 0, 2960), job(N2, 0, 3600)]) == [(f"after {text(3000)}", False)], (
        "its own part had ended"
    )
    before = told(heard(-100), jobs=[job(N1, -900, -100), job(N2, -900, 3600)])
    assert before == [(f"after {text(-100)}", False)], "it fell silent before the range"


def test_hosts_that_fall_silent_together_are_told_of_together():
    ends = {N1: 3000, N2: 3020, N3: 3900}
    hearing = Hearing({entity: heard(end) for entity, end in ends.items()}, UNTIL, UNTIL)
    jobs = [job(entity, 0, end) for entity, end in ends.items()]
    spans = dict.fromkeys(ends, (T0, END))
    intervals = dict.fromkeys(ends, 15 * SECOND)
    (one,) = silences(spans, hearing, intervals, jobs, MOMENTS)
    assert one.sentence == f"lab/n1 and lab/n2 sent nothing after {text(3000)}, while 1 other host of slurm:7 went on."
    assert (one.entities, one.start_ms, one.end_ms, one.cause) == ((N1, N2), at(3000), None, True)
    hearing = Hearing({**hearing.hosts, N2: heard(3100)}, UNTIL, UNTIL)
    assert len(silences(spans, hearing, intervals, jobs, MOMENTS)) == 2


def test_a_host_that_only_was_asked():
    never = Heard(None, (), at(3900), at(3900))
    hearing = Hearing({N1: never, N2: heard(3900), N3: heard(-5, asked_s=100, vain_s=100)}, UNTIL, UNTIL)
    assert hearing.away(T0) == [N1, N3]
    (one,) = silences({N1: (T0, END)}, hearing, {}, [], MOMENTS)
    assert one.sentence == "lab/n1 sent nothing in all this time, although it was asked."
    assert silences({N1: (T0, END)}, Hearing(), {}, [], MOMENTS) == ()
