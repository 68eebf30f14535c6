"""Was it only this host?"""

from __future__ import annotations

import numpy as np

from hwsonde_detector.explain.neighbours import Behaviour, JobSpan, neighbours
from hwsonde_detector.explain.rootcause import root_causes
from hwsonde_detector.explain.windows import Windows, as_windows
from hwsonde_detector.types import Subsystem
from tests.detector.explain.planted import SECOND, T0, channel, fault, host, quiet, score

PSI, LOSS = channel("psi", Subsystem.MEMORY), channel("loss", Subsystem.NETWORK)
HOSTS = [host(f"n{number}") for number in range(1, 5)]
END = T0 + 200 * SECOND


def of(sick, jobs=(), scores=None, more=()):
    planted = [fault(HOSTS[place], T0 + 50 * SECOND, 60, {PSI: 1.0}) for place in sick]
    own = {entity: quiet(entity, 200) for entity in HOSTS} if scores is None else scores
    for episode, windows in planted:
        own[episode.entity] = windows
    (cause,) = root_causes([episode for episode, _ in planted], own, dict.fromkeys(HOSTS, SECOND))
    return neighbours(cause, own, [episode for episode, _ in [*planted, *more]], jobs, END)


def job(place: int, name: str = "slurm:7", start_ms: int = T0, end_ms: int = END) -> JobSpan:
    return JobSpan(name, HOSTS[place], start_ms, end_ms)


def test_only_this_one_of_its_job():
    found = of([0], [job(0), job(1), job(2)])
    assert found.sentence == "Only lab/n1 of the 3 hosts of slurm:7 shows it; 2 stayed at or below 0.4."
    assert [(one.entity, one.behaviour, one.worst) for one in found.hosts] == [
        (HOSTS[1], Behaviour.QUIET, 0.4),
        (HOSTS[2], Behaviour.QUIET, 0.4),
    ]


def test_all_of_the_job():
    found = of([0, 1, 2], [job(0), job(1), job(2)])
    assert found.sentence == "All of the 3 hosts of slurm:7 show it: look at the job or at what they share first."


def test_without_a_job_it_is_compared_with_all():
    found = of([0, 1])
    assert found.job is None
    assert found.sentence == "2 of the 4 hosts that were read show it; 2 stayed at or below 0.4."


def test_a_job_of_another_time_or_of_this_host_alone_is_passed_over():
    elsewhere = [
        job(0),
        job(1, start_ms=T0 - 9000, end_ms=T0 - 5000),
        job(0, "slurm:8"),
        job(2, "slurm:9"),
        job(3, "slurm:9"),
    ]
    assert of([0], elsewhere).job is None


def test_the_job_with_most_hosts_is_taken():
    assert of([0], [job(0), job(1), job(0, "a"), job(1, "a"), job(2, "a")]).job == "a"


def test_other_troubles_and_what_was_not_judged():
    scores = {
        HOSTS[0]: [],
        HOSTS[1]: quiet(HOSTS[1], 200),
        HOSTS[2]: [score(HOSTS[2], T0 + 60_000, 9.0, calibrated=False)],
    }
    found = of([0], [job(0), job(1), job(2)], scores, [fault(HOSTS[1], T0 + 90 * SECOND, 60, {LOSS: 1.0})])
    assert [one.behaviour for one in found.hosts] == [Behaviour.OTHER, Behaviour.UNJUDGED]
    assert found.sentence == (
        "Only lab/n1 of the 3 hosts of slurm:7 shows it; lab/n2 had another episode in this time; lab/n3 was not judged."
    )


def test_hosts_of_which_only_peaks_are_kept():
    own = as_windows(HOSTS[1], quiet(HOSTS[1], 200))
    # The episode lasts from second 50 to 109; its minutes hold a peak before it and one after it.
    begin = T0 // 60_000 * 60_000
    ends = np.array([begin + 60_000 * minute + 59_000 for minute in range(4)])
    peaks = Windows(HOSTS[1], ends, np.array([0.2, 0.6, 0.3, 0.9]), own.calibrated[:4], own.coverage[:4], 60_000)
    inside = [place for place, end in enumerate(ends) if end >= T0 + 50_000 and end - 59_999 <= T0 + 109_000]
    found = of([0], [job(0), job(1)], {HOSTS[1]: peaks})
    assert [one.worst for one in found.hosts] == [max(peaks.fused[inside])]


def test_nobody_beside_it():
    assert "whether it was only lab/n1 is not known" in of([0], scores={}).sentence
