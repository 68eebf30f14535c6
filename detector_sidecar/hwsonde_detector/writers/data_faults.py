"""The series about data faults, made from what the loop published last. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from hwsonde_detector.published import Published, PublishedHost
from hwsonde_detector.telemetry import Family, Kind, Sample
from hwsonde_detector.types import DataFault, Device, FaultKind

TOP_PARTS = 10

SCORE = Family(
    "hwsonde_data_fault_score",
    Kind.GAUGE,
    "How far the data of a host are at fault, by kind of fault; 1 is the threshold.",
    ("kind",),
)
SHADOW_SCORE = Family(
    "hwsonde_shadow_data_fault_score",
    Kind.GAUGE,
    "How far the data of a host are at fault, where nobody is to be paged; 1 is the threshold.",
    ("kind",),
)
AGE = Family(
    "hwsonde_data_fault_age_seconds",
    Kind.GAUGE,
    "How long a part has been at fault, of the parts with the strongest evidence of a kind whose score is at least 1.",
    ("kind", "class", "device"),
)
PARTS = Family(
    "hwsonde_data_fault_parts",
    Kind.GAUGE,
    "Parts of a class of which some are missing: those that are usual and those that still report.",
    ("class", "state"),
)
COVERAGE = Family(
    "hwsonde_data_fault_coverage_ratio",
    Kind.GAUGE,
    "Share of the parts, collectors and metrics that are usual on a host which are there.",
)

FAMILIES = (SCORE, SHADOW_SCORE, AGE, PARTS, COVERAGE)


def fault_samples(published: Published, host: PublishedHost, monotonic: float) -> Iterator[Sample]:
    """Every sample of one host; of a past that is read belatedly, and of what nothing renews, there are none."""
    entity, score = host.entity.labels, SHADOW_SCORE if published.shadow else SCORE
    yield Sample(score, (*entity, ("kind", str(FaultKind.PARTIAL))), published.partial)
    quality = host.data_quality(monotonic)
    if quality is None or published.catching_up:
        return
    yield Sample(COVERAGE, entity, quality.coverage)
    for fault in quality.faults:
        yield Sample(score, (*entity, ("kind", str(fault.kind))), fault.score)
        if fault.score >= 1.0:
            yield from _evidence(host, fault, quality.at_ms)


def _evidence(host: PublishedHost, fault: DataFault, at_ms: int) -> Iterator[Sample]:
    entity = host.entity.labels
    told: set[Device] = set()
    classes: set[str] = set()
    for one in fault.evidence:
        device = one.device
        if one.score < 1.0 or device in told or len(told) == TOP_PARTS:
            continue
        told.add(device)
        labels = (("kind", str(fault.kind)), ("class", device.kind), ("device", device.name))
        yield Sample(AGE, (*entity, *labels), max(at_ms - one.since_ms, 0) / 1000)
        if fault.kind is FaultKind.MISSING and one.usual and device.kind not in classes:
            classes.add(device.kind)
            for state, value in (("reporting", one.value), ("usual", one.usual)):
                yield Sample(PARTS, (*entity, ("class", device.kind), ("state", state)), value or 0.0)
