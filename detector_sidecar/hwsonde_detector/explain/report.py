"""A root-cause report as a plain document: the answer, how much it rests on, and what explains it. Pure.

`analysis` says what happened and which channels are worth a picture; `document` puts everything into JSON values. Numbers that JSON
cannot hold become null, times are milliseconds UTC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from hwsonde_detector.explain.analysis import MOST_CAUSES, Analysis
from hwsonde_detector.explain.coverage import Coverage, shares
from hwsonde_detector.explain.findings import Finding
from hwsonde_detector.explain.known import known_document
from hwsonde_detector.explain.neighbours import Neighbours, neighbours
from hwsonde_detector.explain.nextsteps import RUNBOOK, STEPS
from hwsonde_detector.explain.rootcause import Cause
from hwsonde_detector.explain.series import Points, peaks
from hwsonde_detector.explain.titles import channel_label
from hwsonde_detector.explain.verdict import (
    Moments,
    against,
    called,
    cause_sentence,
    listed,
    name_of,
    order_sentence,
    seconds,
)
from hwsonde_detector.explain.windows import as_windows
from hwsonde_detector.types import Entity, Episode

FORMAT = "hwsonde report 1"
MOST_TIMELINES = 24
_TIMELINE_POINTS = 240
_MOST_BEFORE = 5


@dataclass(frozen=True, slots=True)
class Learned:
    """What scores rest on: the first sample of each host that was read, which learning began with."""

    first_ms: Mapping[Entity, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Before:
    """Earlier episodes that are known from elsewhere; ``where`` says so for people (``kept by the detector``)."""

    episodes: tuple[Episode, ...] = ()
    where: str = ""


def document(
    analysis: Analysis,
    version: str,
    *,
    rows: Mapping[tuple[int, Entity, str], Points],
    learned: Learned,
    before: Before,
    settings: Sequence[Mapping[str, Any]] = (),
    runbooks: str = "docs/runbooks",
) -> dict[str, Any]:
    """Everything as JSON values; the same inputs give the same document.

    Parameters
    ----------
    analysis
        What happened.
    version
        Of the program.
    rows
        Values over time by rank of the cause, host and channel; a chart without them is null.
    learned, before
        What was learned from, and which episodes came earlier.
    settings
        Settings that differ from those of other hosts or changed before an onset, one JSON object each.
    runbooks
        Folder or address of the runbook pages.
    """
    run, question = analysis.run, analysis.question
    channels, windows = shares(analysis.hosts)
    return {
        "format": FORMAT,
        "version": version,
        "asked": {
            "topic": str(question.topic),
            "name": question.name,
            "start_ms": run.start_ms,
            "end_ms": run.end_ms,
        },
        "verdict": {
            "kind": str(analysis.verdict.kind),
            "sentence": analysis.verdict.sentence,
            "limits": list(analysis.verdict.limits),
        },
        "coverage": {
            "hosts": len(analysis.hosts),
            "hosts_judged_enough": sum(host.enough for host in analysis.hosts),
            "hosts_without_calibration": [name_of(host.entity) for host in analysis.hosts if not host.calibrated],
            "channels": channels,
            "windows": windows,
            "by_host": [_coverage(host) for host in analysis.hosts],
        },
        "learning": _learning(analysis, learned),
        "known": known_document(analysis.known, runbooks),
        "causes_found": len(analysis.causes),
        "causes": [
            _cause(analysis, rank, rows, before, runbooks) for rank in range(min(len(analysis.causes), MOST_CAUSES))
        ],
        "episodes": [_episode(one) for one in analysis.episodes],
        "timelines": [_timeline(analysis, host) for host in _shown(analysis)],
        "jobs": [
            {"job": span.job, "host": name_of(span.entity), "start_ms": span.start_ms, "end_ms": span.end_ms}
            for span in analysis.jobs
            if any(host.entity == span.entity for host in analysis.hosts)
        ],
        "settings": [dict(one) for one in settings],
    }


def number(value: float | None) -> float | None:
    """The value, None where it is not finite."""
    return float(value) if value is not None and isfinite(value) else None


def _coverage(host: Coverage) -> dict[str, Any]:
    return {
        "host": name_of(host.entity),
        "start_ms": host.start_ms,
        "end_ms": host.end_ms,
        "interval_ms": host.interval_ms,
        "windows_expected": host.expected,
        "windows_judged": host.judged,
        "windows_uncalibrated": host.uncalibrated,
        "windows": host.windows,
        "channels": host.channels,
        "enough": host.enough,
        "gaps": [list(gap) for gap in host.gaps[:100]],
        "gaps_found": len(host.gaps),
        "windows_above_1": host.loud,
        "worst": number(host.worst),
        "worst_ms": host.worst_ms,
        "skipped": dict(host.skipped),
    }


def _learning(analysis: Analysis, learned: Learned) -> dict[str, Any]:
    known = {host.entity: learned.first_ms[host.entity] for host in analysis.hosts if host.entity in learned.first_ms}
    if not known:
        return {"from_ms": None, "latest_from_ms": None, "sentence": "From when on was learned is not known."}
    first, last = min(known.values()), max(known.values())
    moments = Moments(first, analysis.run.end_ms)
    spread = f" (the last host from {moments.text(last)} on)" if last - first > 60_000 else ""
    return {
        "from_ms": first,
        "latest_from_ms": last,
        "sentence": f"Learned from {moments.text(first)} on{spread}. What went on in that time counts as normal, and so does what was "
        "learned since: a job that runs every day and is called a fault later is missed by whatever learns from it.",
    }


def _cause(
    analysis: Analysis, rank: int, rows: Mapping[tuple[int, Entity, str], Points], before: Before, runbooks: str
) -> dict[str, Any]:
    cause, run = analysis.causes[rank], analysis.run
    device = cause.device
    beside = neighbours(cause, run.scores, run.episodes, analysis.jobs, run.end_ms)
    return {
        "rank": rank + 1,
        "sentence": cause_sentence(cause, analysis.moments),
        "subsystem": str(cause.subsystem),
        "device": None if device is None else {"class": device.kind, "name": device.name},
        "devices": [{"class": one.kind, "name": one.name, "share": share} for one, share in cause.devices],
        "share": number(cause.share),
        "evidence": number(cause.evidence),
        "paged_as": [str(subsystem) for subsystem in cause.paged],
        "remarks": _remarks(analysis, rank),
        "hosts": [
            {
                "host": name_of(onset.entity),
                "onset_ms": onset.at_ms,
                "uncertainty_ms": onset.uncertainty_ms,
                "end_ms": onset.end_ms,
                "peak": number(onset.peak),
                "maybe_first": onset.entity in cause.first,
                "episodes": list(onset.episodes),
            }
            for onset in cause.onsets
        ],
        "first_known": len(cause.first) == 1,
        "order": order_sentence(cause),
        "channels": [_finding(one, rows.get((rank, one.entity, one.channel.name))) for one in cause.findings],
        "moved": [
            {"at_ms": one.at_ms, "uncertainty_ms": cause.uncertainty_ms, "channels": list(one.channels)}
            for one in cause.moved
        ],
        "others": _others(beside),
        "before": _before(analysis, cause, before),
        "next": list(STEPS[cause.subsystem]),
        "runbook": f"{runbooks.rstrip('/')}/{RUNBOOK}.md",
    }


def _finding(one: Finding, points: Points | None) -> dict[str, Any]:
    device = one.channel.device
    return {
        "host": name_of(one.entity),
        "channel": one.channel.name,
        "label": channel_label(one.channel),
        "subsystem": str(one.channel.subsystem),
        "device": None if device is None else {"class": device.kind, "name": device.name},
        "role": str(one.role),
        "weight": one.channel.weight,
        "unit": one.channel.unit,
        "share": number(one.share),
        "direction": str(one.direction),
        "deviation": number(one.deviation),
        "value": number(one.value),
        "lower": number(one.lower),
        "upper": number(one.upper),
        "sentence": against(one),
        "first_ms": one.first_ms,
        "chart": None
        if points is None
        else {
            "times": list(points.times),
            "values": [number(value) for value in points.values],
            "step_ms": points.step_ms,
        },
    }


def _remarks(analysis: Analysis, rank: int) -> list[str]:
    """What a reader must know of a cause beside its sentence."""
    cause, found = analysis.causes[rank], []
    if cause.subsystem not in cause.paged:
        found.append(
            f"The page named {listed([str(one) for one in cause.paged])}; over the whole episode most evidence is in {cause.subsystem}."
        )
    if rank:
        leading = analysis.causes[0]
        apart = cause.start_ms - leading.start_ms
        within = max(cause.uncertainty_ms, leading.uncertainty_ms)
        if abs(apart) <= within:
            found.append(
                f"It began with the first cause: which of the two came first cannot be told within {seconds(within)}."
            )
        elif apart > 0:
            found.append(f"It began {seconds(apart)} after the first cause, and may follow from it.")
        else:
            found.append(f"It began {seconds(-apart)} before the first cause.")
    if len(cause.devices) > 1 and cause.device is None:
        found.append(f"No single device stands out: {listed([one.name for one, _ in cause.devices])}.")
    return found


def _others(beside: Neighbours) -> dict[str, Any]:
    return {
        "job": beside.job,
        "sentence": beside.sentence,
        "hosts": [
            {"host": name_of(one.entity), "behaviour": str(one.behaviour), "worst": number(one.worst)}
            for one in beside.hosts
        ],
    }


def _before(analysis: Analysis, cause: Cause, before: Before) -> dict[str, Any]:
    """How often such a page came earlier on the first host."""
    first = cause.onsets[0]
    known = {one.identity: one for one in (*before.episodes, *analysis.run.episodes) if one.entity == first.entity}
    begun = min((known[name].start_ms for name in first.episodes if name in known), default=first.at_ms)
    earlier = sorted(
        (one for name, one in known.items() if name not in first.episodes and one.start_ms < begun),
        key=lambda one: -one.start_ms,
    )
    same = [one for one in earlier if one.subsystem is cause.subsystem]
    since = min([analysis.run.start_ms, *(one.start_ms for one in before.episodes)])
    where = f", with those {before.where}" if before.where else ""
    moments = Moments(since, analysis.run.end_ms)
    text = f"since {moments.text(since)}{where}"
    host, repeated = called(first.entity), ""
    if len(first.episodes) > 1:
        repeated = f" In this range it came {len(first.episodes)} times."
    if not same:
        sentence = f"No earlier page of this kind on {host} {text}.{repeated}"
    else:
        times = "once" if len(same) == 1 else f"{len(same)} times"
        sentence = (
            f"Such a page came {times} before on {host} {text}, last at {moments.text(same[0].start_ms)}.{repeated}"
        )
    return {
        "same": len(same),
        "any": len(earlier),
        "since_ms": since,
        "sentence": sentence,
        "last": [_episode(one) for one in same[:_MOST_BEFORE]],
    }


def _episode(one: Episode) -> dict[str, Any]:
    return {
        "identity": one.identity,
        "host": name_of(one.entity),
        "subsystem": str(one.subsystem),
        "start_ms": one.start_ms,
        "onset_ms": one.onset_ms,
        "end_ms": one.end_ms,
        "peak": number(one.peak),
        "title": one.title,
    }


def _shown(analysis: Analysis) -> list[Coverage]:
    """Hosts with a cause in order of rank, those of which something else is known, then the loudest ones."""
    order: dict[Entity, int] = {}
    for cause in analysis.causes:
        for onset in cause.onsets:
            order.setdefault(onset.entity, len(order))
    for one in analysis.known:
        for entity in one.entities:
            order.setdefault(entity, len(order))
    ranked = sorted(
        analysis.hosts,
        key=lambda host: (order.get(host.entity, len(order)), -(host.worst or 0.0), host.entity),
    )
    return ranked[:MOST_TIMELINES]


def _timeline(analysis: Analysis, host: Coverage) -> dict[str, Any]:
    own = as_windows(host.entity, analysis.run.scores.get(host.entity, ()))
    inside = own.within(host.start_ms + 1, host.end_ms).finite()
    kept = peaks(inside.fused, _TIMELINE_POINTS)
    judged = inside.ends_ms[inside.calibrated]
    return {
        "host": name_of(host.entity),
        "start_ms": host.start_ms,
        "end_ms": host.end_ms,
        "times": [int(inside.ends_ms[index]) for index in kept],
        "scores": [float(f"{inside.fused[index]:.4g}") for index in kept],
        "calibrated_from_ms": int(judged[0]) if len(judged) else None,
        "gaps": [list(gap) for gap in host.gaps[:100]],
        "episodes": [
            {"start_ms": one.onset_ms, "end_ms": one.end_ms, "subsystem": str(one.subsystem)}
            for one in analysis.episodes
            if one.entity == host.entity
        ],
    }
