"""What /metrics says of data faults."""

from __future__ import annotations

import dataclasses

from prometheus_client.parser import text_string_to_metric_families

from hwsonde_detector.published import Published, PublishedHost
from hwsonde_detector.telemetry import Counters
from hwsonde_detector.types import DataFault, DataQuality, Device, Entity, FaultEvidence, FaultKind, Learning
from hwsonde_detector.writers.exposition import exposition

HOST = Entity((("cluster", "a"), ("node", "n1")))
LEARNING = Learning(300, 240, 50_000, frozen=False, channels=9, channels_judged=7)
GPU = FaultEvidence(Device("gpu", '3 "x"\n'), 1.5, 60_000, 50, value=7.0, usual=8.0)
DISK = FaultEvidence(Device("disk", "sda"), 1.2, 70_000, 5, value=0.0, usual=1.0)
CLOCK = FaultEvidence(Device("host", ""), 3.0, 90_000, 2, "clock", 4.0, 0.0)
QUALITY = DataQuality(
    100_000,
    (
        DataFault(
            FaultKind.MISSING, 1.5, (GPU, DISK, dataclasses.replace(DISK, device=Device("disk", "sdb"), score=0.4)), 2
        ),
        DataFault(FaultKind.STUCK, 0.9, (dataclasses.replace(GPU, score=0.9),), 0),
        DataFault(FaultKind.SKEW, 3.0, (CLOCK,), 1),
    ),
    0.75,
)


def said(
    quality: DataQuality | None, monotonic: float = 10.0, **changes: object
) -> dict[str, dict[tuple[str, ...], float]]:
    host = PublishedHost(HOST, LEARNING, 1000, hold_s=2.0, quality=quality, quality_arrived=9.0)
    made = Published(taken=10.0, now_ms=4_000, started_ms=1000, hosts=(host,), own=Counters().samples())
    text = exposition(dataclasses.replace(made, **changes), monotonic, 100_000).decode()  # type: ignore[arg-type]
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if "data_fault" in sample.name and not sample.name.startswith("hwsonde_detector"):
                labels = {name: value for name, value in sample.labels.items() if name not in {"cluster", "node"}}
                found.setdefault(sample.name, {})[tuple(labels[name] for name in sorted(labels))] = sample.value
    return found


def test_every_kind_has_its_score_and_what_is_at_fault_its_age() -> None:
    assert said(QUALITY) == {
        "hwsonde_data_fault_score": {("missing",): 1.5, ("stuck",): 0.9, ("skew",): 3.0, ("partial",): 0.0},
        "hwsonde_data_fault_age_seconds": {
            ("gpu", '3 "x"\n', "missing"): 40.0,
            ("disk", "sda", "missing"): 30.0,
            ("host", "skew"): 10.0,
        },
        "hwsonde_data_fault_parts": {
            ("gpu", "reporting"): 7.0,
            ("gpu", "usual"): 8.0,
            ("disk", "reporting"): 0.0,
            ("disk", "usual"): 1.0,
        },
        "hwsonde_data_fault_coverage_ratio": {(): 0.75},
    }


def test_in_shadow_mode_no_rule_sees_a_score() -> None:
    found = said(QUALITY, shadow=True)
    assert "hwsonde_data_fault_score" not in found
    assert found["hwsonde_shadow_data_fault_score"][("missing",)] == 1.5


def test_what_nothing_renews_and_what_is_read_belatedly_is_withdrawn() -> None:
    assert "hwsonde_data_fault_coverage_ratio" in said(QUALITY, monotonic=15.0)
    for found in (said(QUALITY, monotonic=15.1), said(QUALITY, catching_up=True), said(None)):
        assert found == {"hwsonde_data_fault_score": {("partial",): 0.0}}


def test_partial_answers_are_told_of_every_host() -> None:
    assert said(None, partial=2.5) == {"hwsonde_data_fault_score": {("partial",): 2.5}}


def test_at_most_ten_parts_are_named() -> None:
    many = tuple(dataclasses.replace(DISK, device=Device("disk", f"sd{number}")) for number in range(30))
    found = said(DataQuality(100_000, (DataFault(FaultKind.MISSING, 1.2, many, 30),)))
    assert len(found["hwsonde_data_fault_age_seconds"]) == 10
