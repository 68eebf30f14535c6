"""Sentences about data faults."""

from __future__ import annotations

import pytest

from hwsonde_detector.explain.fault_titles import fault_title, lasted, plural
from hwsonde_detector.types import DataFault, Device, Entity, FaultEvidence, FaultKind

HOST = Entity((("cluster", ""), ("node", "n17")))
START = 1_800_000_000_000


def said(kind: FaultKind, device: Device, affected: int = 1, **evidence: object) -> str:
    one = FaultEvidence(device, 1.0, START, **evidence)  # type: ignore[arg-type]
    return fault_title(HOST, DataFault(kind, 1.0, (one,), affected), START + 40_000)


@pytest.mark.parametrize(
    ("kind", "device", "evidence", "text"),
    [
        ("missing", ("gpu", "3 (GPU-5)"), {"value": 7.0, "usual": 8.0}, "n17 gpu 3 (GPU-5) has sent nothing for 40 s; 7 of 8 GPUs still report"),
        ("missing", ("disk", "sda"), {"value": 0.0, "usual": 1.0}, "n17 disk sda has sent nothing for 40 s"),
        ("missing", ("metric", "x"), {"value": 9.0, "usual": 10.0}, "n17 metric x was not sent for 40 s; 9 of 10 metrics still are sent"),
        ("missing", ("collector", "nvme"), {"name": "no_device", "value": 3.0, "usual": 4.0},
         "n17 collector nvme has given nothing for 40 s (no_device); 3 of 4 collectors still work"),
        ("missing", ("target", "j/n17:1"), {}, "n17 target j/n17:1 cannot be scraped for 40 s, other targets of the host can"),
        ("missing", ("host", ""), {"name": "series", "value": 400.0, "usual": 900.0}, "n17: sends 400 series, usually 900, since 08:00:00Z"),
        ("gap", ("host", ""), {"count": 12, "value": 0.0}, "n17: 12 scrapes lost since 08:00:00Z"),
        ("gap", ("host", ""), {"count": 12, "value": 0.5}, "n17: 12 scrapes lost since 08:00:00Z, 50 % of the last came at uneven times"),
        ("gap", ("host", ""), {"name": "silent"}, "n17 has been silent for 40 s"),
        ("impossible", ("gpu", "3"), {"count": 5, "name": "t{gpu=3}"}, "n17 gpu 3: t{gpu=3} had 5 values that cannot be since 08:00:00Z (40 s)"),
        ("reset", ("nic", "eth0"), {"count": 3}, "n17 nic eth0: counters began anew 3 times in 40 s without a restart"),
        ("stuck", ("chip", "k10"), {"count": 40, "name": "t", "value": 54.125, "usual": 6.0},
         "n17 chip k10: t has repeated 54.125 for 40 s (40 readings) while 6 others move"),
        ("slow", ("collector", "gpu"), {"value": 3.2, "usual": 0.05}, "n17 collector gpu takes 3.2 s, usually 0.05 s, since 08:00:00Z"),
        ("slow", ("host", ""), {"value": 14.2, "usual": 0.05}, "n17: a scrape takes 14 s, usually 0.05 s, since 08:00:00Z"),
        ("skew", ("host", ""), {"value": 4.2, "usual": 0.0}, "n17: the clock is 4.2 s ahead of the server's, since 08:00:00Z"),
        ("skew", ("host", ""), {"value": -70.0, "usual": 0.0, "count": 3},
         "n17: the clock is 70 s behind the server's, set 3 times, since 08:00:00Z"),
        ("skew", ("host", ""), {"value": 0.2, "usual": 0.0, "count": 3}, "n17: the clock was set 3 times since 08:00:00Z"),
    ],
)  # fmt: skip
def test_a_sentence_names_host_part_and_what_is_wrong(
    kind: str, device: tuple[str, str], evidence: dict, text: str
) -> None:
    assert said(FaultKind(kind), Device(*device), **evidence) == text


def test_what_else_is_at_fault_is_counted() -> None:
    assert said(FaultKind.RESET, Device("nic", "eth0"), 4, count=3).endswith("without a restart; also 3 more")


def test_a_fault_without_evidence_has_a_sentence_too() -> None:
    assert fault_title(Entity(()), DataFault(FaultKind.SLOW), START) == "unnamed: data at fault (slow)"


@pytest.mark.parametrize(
    ("ms", "text"),
    [(-5, "0 s"), (900, "1 s"), (119_000, "119 s"), (120_000, "2 min"), (7_200_000, "2 h"), (2e8, "56 h")],
)
def test_lengths_of_time(ms: float, text: str) -> None:
    assert lasted(ms) == text


def test_plurals() -> None:
    assert [plural(kind) for kind in ("gpu", "nic", "disk", "numa_node")] == ["GPUs", "NICs", "disks", "NUMA nodes"]
