"""Which data faults of the past forbid to say that nothing failed, and which are what failed."""

from __future__ import annotations

import pytest

from hwsonde_detector.explain.known import Matter
from hwsonde_detector.explain.vanished import UNSEEN, SeenFault, seen_in, vanished
from hwsonde_detector.explain.verdict import Moments
from hwsonde_detector.types import DataFault, DataQuality, Device, FaultEvidence, FaultKind
from tests.detector.explain.planted import SECOND, T0, host

N1, N2 = host("n1"), host("n2")
SPAN = (T0, T0 + 600 * SECOND)
MOMENTS = Moments(*SPAN)


def seen(kind=FaultKind.MISSING, device=Device("gpu", "3 (GPU-5f1c)"), since_s=100, last_s=220, **more) -> SeenFault:  # noqa: B008
    since_ms = T0 + since_s * SECOND
    return SeenFault(N1, kind, FaultEvidence(device, 4.0, since_ms, **more), since_ms, T0 + last_s * SECOND)


def told(*faults: SeenFault, spans=None):
    return vanished({N1: SPAN} if spans is None else spans, faults, MOMENTS)


def test_a_device_that_vanished_is_a_cause():
    (one,) = told(seen(value=7.0, usual=8.0))
    assert one.sentence == (
        f"lab/n1 gpu 3 (GPU-5f1c) has sent nothing for 2 min; 7 of 8 GPUs still report (since {MOMENTS.text(T0 + 100_000)})."
    )
    assert (one.matter, one.cause, one.device) == (Matter.DATA_FAULT, True, Device("gpu", "3 (GPU-5f1c)"))
    assert (one.start_ms, one.end_ms, one.runbook) == (T0 + 100_000, T0 + 220_000, "HwsondeDataFault")


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        (seen(device=Device("collector", "nvme"), name="its runs fail"), "collector nvme has given nothing for 2 min"),
        (seen(device=Device("metric", "x_y")), "metric x_y was not sent for 2 min"),
        (seen(device=Device("target", "dcgm/n1:9400")), "target dcgm/n1:9400 cannot be scraped for 2 min"),
        (seen(FaultKind.GAP, Device("host", ""), count=9), "9 scrapes lost since"),
        (seen(FaultKind.IMPOSSIBLE, name="x_celsius", count=5), "x_celsius had 5 values that cannot be since"),
        (seen(FaultKind.STUCK, name="x_celsius", count=90, value=54.0, usual=6.0), "x_celsius has repeated 54 for 2 min"),
        (seen(FaultKind.RESET, count=4), "counters began anew 4 times"),
    ],
)  # fmt: skip
def test_what_else_was_not_seen_is_a_limit(fault, says):
    (one,) = told(fault)
    assert says in one.sentence
    assert not one.cause
    assert one.sentence.count(" since ") + one.sentence.count("(since ") == 1


def test_what_was_seen_and_only_late_or_by_a_wrong_clock_is_none():
    assert FaultKind.SLOW not in UNSEEN
    assert FaultKind.SKEW not in UNSEEN
    faults = tuple(
        DataFault(kind, score, (FaultEvidence(Device("gpu", "3"), score, T0), FaultEvidence(Device("gpu", "4"), 0.9, T0)), 1)
        for kind, score in ((FaultKind.MISSING, 2.0), (FaultKind.STUCK, 0.9), (FaultKind.SLOW, 3.0), (FaultKind.SKEW, 3.0))
    )  # fmt: skip
    (one,) = seen_in(N1, DataQuality(T0 + 5, faults))
    assert (one.kind, one.evidence.device, one.last_ms) == (FaultKind.MISSING, Device("gpu", "3"), T0 + 5)


def test_parts_of_one_class_are_told_of_together():
    gpus = [seen(device=Device("gpu", str(number)), since_s=100 + number, value=5.0, usual=8.0) for number in range(3)]
    found = told(*gpus, seen(device=Device("nic", "eth0")))
    assert [one.sentence.partition(" has ")[0] for one in found] == ["lab/n1 gpu 0", "lab/n1 nic eth0"]
    assert "; also 2 more (since " in found[0].sentence


@pytest.mark.parametrize(
    ("since_s", "last_s", "counts"),
    [(-500, -10, False), (-500, 10, True), (590, 700, True), (600, 700, True), (601, 700, False)],
    ids=["before", "into", "out of", "with its end", "after"],
)
def test_only_what_touches_the_time_that_counts(since_s, last_s, counts):
    assert bool(told(seen(since_s=since_s, last_s=last_s))) is counts
    assert told(seen(since_s=since_s, last_s=last_s), spans={N2: SPAN}) == ()
