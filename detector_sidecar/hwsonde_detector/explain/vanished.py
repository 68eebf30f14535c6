"""What the data themselves told while a stretch of the past was scored: a part that vanished has no channel left that could be above 1. Pure.

Not every data fault says that something is not there. What is missed, lost scrapes, values that cannot be, a value that repeats and counters that
begin anew do: a part, or the whole host, was not seen as it was in that time, and whoever says "not the hardware" would speak of what nobody saw. A
scrape that takes long and a clock that is off do not: everything came, and was judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hwsonde_detector.detectors.faults.view import COLLECTOR, HOST, METRIC, TARGET
from hwsonde_detector.explain.fault_titles import fault_title
from hwsonde_detector.explain.known import Known, Matter
from hwsonde_detector.explain.verdict import Moments, brief
from hwsonde_detector.types import DataFault, DataQuality, Device, Entity, FaultEvidence, FaultKind

UNSEEN = frozenset({FaultKind.MISSING, FaultKind.GAP, FaultKind.IMPOSSIBLE, FaultKind.STUCK, FaultKind.RESET})
"""Kinds that say that a part, or the host, was not seen as it was."""

# What is missing and is no device: why it is not there cannot be told, and so it is no cause.
_NO_DEVICE = frozenset({COLLECTOR, METRIC, TARGET, HOST})
_LONGEST = 300


def runbook_of(kind: FaultKind) -> str:
    """Name of the runbook's page."""
    return "HwsondeDataFault" if kind is FaultKind.MISSING else "HwsondeDataFaultWarning"


def is_lost(kind: FaultKind, device: Device) -> bool:
    """Whether a data fault says that a device is not there: that is a cause and no longer a doubt."""
    return kind is FaultKind.MISSING and device.kind not in _NO_DEVICE


@dataclass(frozen=True, slots=True)
class SeenFault:
    """A data fault of one part of a host: what it was seen on last, since when, and until when it was seen."""

    entity: Entity
    kind: FaultKind
    evidence: FaultEvidence
    since_ms: int
    last_ms: int


def seen_in(entity: Entity, quality: DataQuality) -> list[SeenFault]:
    """The data faults that one step tells of, of the kinds that matter."""
    return [
        SeenFault(entity, fault.kind, evidence, evidence.since_ms, quality.at_ms)
        for fault in quality.faults
        if fault.kind in UNSEEN and fault.score >= 1.0
        for evidence in fault.evidence
        if evidence.score >= 1.0
    ]


def vanished(
    spans: Mapping[Entity, tuple[int, int]], faults: Sequence[SeenFault], moments: Moments
) -> tuple[Known, ...]:
    """What of it belongs to the hosts and the time that count.

    Parameters
    ----------
    spans
        The hosts, and of each the time that counts.
    faults
        Everything that was seen, also a little later: what began within the time that counts may be told only then.
    moments
        How times are written.

    Returns
    -------
    tuple
        Devices that vanished are causes, anything else is a limit; those of one kind and class on one host are told of together.
    """
    groups: dict[tuple[Entity, FaultKind, str], list[SeenFault]] = {}
    for one in sorted(faults, key=lambda fault: (fault.since_ms, fault.evidence.device, fault.evidence.name)):
        span = spans.get(one.entity)
        if span is not None and one.since_ms <= span[1] and one.last_ms > span[0]:
            groups.setdefault((one.entity, one.kind, one.evidence.device.kind), []).append(one)
    return tuple(_known(entity, kind, group, moments) for (entity, kind, _), group in sorted(groups.items()))


def _known(entity: Entity, kind: FaultKind, group: Sequence[SeenFault], moments: Moments) -> Known:
    first, last_ms = group[0], max(one.last_ms for one in group)
    parts = {one.evidence.device for one in group}
    fault = DataFault(kind, first.evidence.score, (first.evidence,), len(parts))
    title = fault_title(entity, fault, first.last_ms)
    since = "" if " since " in title else f" (since {moments.text(first.since_ms)})"
    return Known(
        Matter.DATA_FAULT,
        (entity,),
        first.since_ms,
        last_ms,
        f"{brief(title, _LONGEST)}{since}.",
        cause=is_lost(kind, first.evidence.device),
        device=first.evidence.device,
        runbook=runbook_of(kind),
    )
