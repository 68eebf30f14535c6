"""The made-up host with jobs that come and go, and with errors that no job causes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from hwsonde_detector.plan import Plan
from hwsonde_detector.settings import RegimeSettings, Settings
from hwsonde_detector.signals.profiles.rules import Formula, Part, Reading, Rule
from hwsonde_detector.types import Outputs, Role, SampleBatch, Series, Subsystem
from tests.detector.worker.hosts import (
    CHANNELS,
    PROFILE,
    SETTINGS,
    Fault,
    batches,
    healthy,
    rates,
    rule,
    second_of,
)

ERRORS = "memory_errors"
REGIMES = RegimeSettings(learn_rows=120, confirm_rows=3, kept=3, rebase_rows=200, long_rows=240)
JOB_SETTINGS = replace(SETTINGS, learning=replace(SETTINGS.learning, refit_rows=120), regimes=REGIMES)
MARK = Rule(
    "jobs",
    Formula.PLAIN,
    (Part("jobs", Reading.VALUE),),
    ("workload",),
    Subsystem.WORKLOAD,
    1.0,
    weight=0.0,
    role=Role.MARK,
)
FAULT = replace(rule(ERRORS, subsystem=Subsystem.MEMORY), role=Role.FAULT, unit="errors/s")
# What a job uses of a host.
USED = tuple(name for name in CHANNELS if name.split("_")[0] in {"cpu", "network"})

Span = tuple[int, int]


def plan_for(settings: Settings = JOB_SETTINGS) -> Plan:
    return Plan(settings, (replace(PROFILE, rules=(*PROFILE.rules, FAULT, MARK)),))


def within(second: int, spans: Iterable[Span]) -> bool:
    return any(begin <= second < end for begin, end in spans)


def used_by(spans: Sequence[Span], factor: float = 4.0, also: Fault = healthy) -> Fault:
    """A job's use of the host within ``spans``, and whatever else there is."""

    def changed(name: str, second: int, value: float) -> float:
        return also(name, second, value * factor if name in USED and within(second, spans) else value)

    return changed


def ticks(
    seconds: int, fault: Fault, marks: Mapping[str, Sequence[Span]], errors: Sequence[Span] = (), *, size: int = 1
) -> list[tuple[SampleBatch, int]]:
    """Scrapes of the host. ``marks`` says when the mark of each job is shown; within ``errors`` 30 errors a second are counted."""
    made = rates(seconds, fault=fault)
    made[ERRORS] = np.array([30.0 * within(second, errors) for second in range(seconds)])
    if size > 1:
        assert not marks, "series that come and go are made one scrape at a time"
    result = []
    for second, (batch, now) in enumerate(batches(made, size=size)):
        found = dict(zip(batch.series, np.split(batch.values, batch.offsets[1:-1]), strict=True))
        times = batch.times[: int(batch.offsets[1])]
        for job, spans in marks.items():
            if within(second, spans):
                found[Series("jobs", (*batch.series[0].labels, ("workload", job)))] = np.ones(len(times))
        series = tuple(sorted(found))
        offsets = len(times) * np.arange(len(series) + 1, dtype=np.int64)
        values = np.concatenate([found[one] for one in series])
        result.append((SampleBatch(series, offsets, np.tile(times, len(series)), values), now))
    return result


def changes(outputs: Iterable[Outputs]) -> list[tuple[str, int]]:
    """Which models came into force at which second."""
    return [
        (change, second_of(report.scores[-1].end_ms))
        for output in outputs
        for report in output.reports
        for change in report.changes
    ]


def settling(outputs: Iterable[Outputs]) -> dict[int, str]:
    """Why a change was being learned, by second."""
    return {
        second_of(report.scores[-1].end_ms): report.learning.settling
        for output in outputs
        for report in output.reports
        if report.scores
    }
