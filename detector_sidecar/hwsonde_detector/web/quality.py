"""What the JSON interface says of the data of a host. Pure."""

from __future__ import annotations

from typing import Any

from hwsonde_detector.types import DataFault, DataFaultEpisode, DataQuality, FaultEvidence


def quality(one: DataQuality | None) -> dict[str, Any] | None:
    """Scores of data faults with their evidence, coverage and the open episode; None where nothing is known now."""
    if one is None:
        return None
    return {
        "at_ms": one.at_ms,
        "coverage": one.coverage,
        "faults": [_fault(fault) for fault in one.faults],
        "episode": _episode(one.episode) if one.episode is not None else None,
    }


def _fault(fault: DataFault) -> dict[str, Any]:
    evidence = [_evidence(one) for one in fault.evidence]
    return {"kind": str(fault.kind), "score": fault.score, "affected": fault.affected, "evidence": evidence}


def _evidence(one: FaultEvidence) -> dict[str, Any]:
    return {
        "device": {"class": one.device.kind, "name": one.device.name},
        "score": one.score,
        "since_ms": one.since_ms,
        "count": one.count,
        "name": one.name,
        "value": one.value,
        "usual": one.usual,
    }


def _episode(episode: DataFaultEpisode) -> dict[str, Any]:
    return {
        "identity": episode.identity,
        "kind": str(episode.kind),
        "title": episode.title,
        "start_ms": episode.start_ms,
        "onset_ms": episode.onset_ms,
        "peak": episode.peak,
        "evidence": [_evidence(one) for one in episode.evidence],
    }
