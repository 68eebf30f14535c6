"""The two profiles of timing that the rules and the paging configuration are made for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """Durations of one profile, in seconds.

    Attributes
    ----------
    name
        Also the name of the files that are made from it.
    evaluation
        Interval of evaluation; that of scraping is the same.
    hardware
        Interval at which states and counters of hardware are looked at: nothing there is worth asking every second.
    state
        How long a bad state or rate of hardware must last. What a person does by hand (a cable, a remount) is over by then.
    lasting
        How long something that a busy host also does now and then (congestion, pressure) must last.
    lag
        A detector whose newest sample is older than this is late.
    fresh
        An incident's sample older than this says nothing any more. After a restart, Prometheus repeats the last sample for five minutes.
    keep_firing
        How long an anomaly keeps firing when its series is gone: longer than a restart of the detector takes.
    down
        How long a target must be away before it counts as down: longer than a restart and an upgrade by hand.
    vanished
        How long a target that is no longer scraped at all is still missed.
    scores_age
        A host's newest score older than this is late.
    stalled
        How long scores must be late before it counts.
    unscored
        How long a scraped host may stay without any score; covers the first learning.
    collector
        How long a collector must fail before it is a ticket.
    reads_over
        Range over which the share of failed reads is taken.
    reads
        How long that share must be too large. Longer than ``reads_over`` and a restart of Prometheus together, so that a restart is no ticket.
    xid
        How long an error that a GPU's driver reported is shown, since nothing tells when it was put right.
    group_wait, group_interval, repeat
        Alertmanager's times.
    """

    name: str
    evaluation: int
    hardware: int
    state: int
    lasting: int
    lag: int
    fresh: int
    keep_firing: int
    down: int
    vanished: int
    scores_age: int
    stalled: int
    unscored: int
    collector: int
    reads_over: int
    reads: int
    xid: int
    group_wait: int
    group_interval: int
    repeat: int


FAST = Timing(
    name="fast",
    evaluation=1,
    hardware=15,
    state=60,
    lasting=300,
    lag=10,
    fresh=10,
    keep_firing=30,
    down=45,
    vanished=1800,
    scores_age=15,
    stalled=45,
    unscored=900,
    collector=120,
    reads_over=60,
    reads=120,
    xid=1800,
    group_wait=1,
    group_interval=5,
    repeat=14400,
)

FLEET = Timing(
    name="fleet",
    evaluation=15,
    hardware=30,
    state=300,
    lasting=900,
    lag=90,
    fresh=60,
    keep_firing=180,
    down=180,
    vanished=3600,
    scores_age=180,
    stalled=300,
    unscored=7200,
    collector=900,
    reads_over=600,
    reads=900,
    xid=3600,
    group_wait=30,
    group_interval=300,
    repeat=14400,
)

PROFILES = {timing.name: timing for timing in (FAST, FLEET)}


def duration(seconds: int) -> str:
    """Give seconds as Prometheus writes them, in the largest unit that leaves no rest: ``45s``, ``2m``, ``4h``."""
    for unit, size in (("h", 3600), ("m", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
