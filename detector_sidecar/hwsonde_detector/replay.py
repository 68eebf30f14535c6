"""An archive, scored again: JSON lines that are the same, byte for byte, each time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from hwsonde_detector.engines.local import LocalEngine
from hwsonde_detector.plan import Plan
from hwsonde_detector.sources.archive import Start, Tick
from hwsonde_detector.types import (
    Contribution,
    DataFaultEvent,
    DataQuality,
    Device,
    Entity,
    Episode,
    EpisodeEvent,
    FaultEvidence,
    Outputs,
    Score,
    SettingFinding,
)

_OPTIONS = orjson.OPT_APPEND_NEWLINE | orjson.OPT_SERIALIZE_NUMPY


def replay(records: Iterable[Start | Tick], plan: Plan) -> Iterator[bytes]:
    """Score recorded answers as the service did when they were recorded.

    Parameters
    ----------
    records
        `ArchiveSource.records`; a `Start` sets the engine to the state that the service began with.
    plan
        Settings and profiles.

    Yields
    ------
    bytes
        JSON lines with the key ``kind``: ``score``, ``event``, ``normal``, ``data_fault``, ``data_fault_event``, ``gone``.

    Raises
    ------
    StateError
        A recorded start does not fit this version or these settings.
    """
    engine = LocalEngine(plan)
    for record in records:
        if isinstance(record, Start):
            engine = LocalEngine(plan)
            if record.document is not None:
                engine.restore(record.document, record.arrays)
        else:
            yield from lines(engine.step(record.read.batch, record.now_ms, record.guidance), record.now_ms)


def lines(outputs: Outputs, now_ms: int) -> Iterator[bytes]:
    """Give the JSON lines of one step."""
    for report in outputs.reports:
        for score in report.scores:
            yield _line("score", now_ms, _score(score))
        for fault in _faults(report.quality) if report.quality is not None else ():
            yield _line("data_fault", now_ms, {"entity": _entity(report.entity), **fault})
    for event in outputs.events:
        yield _line("event", now_ms, _event(event))
    for hushed in outputs.hushed:
        yield _line("normal", now_ms, {**_event(hushed.event), "reason": hushed.reason})
    for told in outputs.fault_events:
        yield _line("data_fault_event", now_ms, _fault_event(told))
    for entity in outputs.gone:
        yield _line("gone", now_ms, {"entity": _entity(entity)})


def _line(kind: str, now_ms: int, fields: dict[str, Any]) -> bytes:
    return orjson.dumps({"kind": kind, "now_ms": now_ms, **fields}, option=_OPTIONS)


def _entity(entity: Entity) -> dict[str, str]:
    return dict(entity.labels)


def _score(score: Score) -> dict[str, Any]:
    return {
        "entity": _entity(score.entity),
        "end_ms": score.end_ms,
        "fused": score.fused,
        "members": {name: score.members[name] for name in sorted(score.members)},
        "subsystems": {str(name): score.subsystems[name] for name in sorted(score.subsystems)},
        "calibrated": score.calibrated,
        "threshold": score.threshold,
        "coverage": score.coverage,
        "anomalous_channels": score.anomalous_channels,
        "top": [_contribution(one) for one in score.top],
    }


def _device(device: Device | None) -> str | None:
    return f"{device.kind} {device.name}" if device is not None else None


def _contribution(one: Contribution) -> dict[str, Any]:
    channel = one.channel
    return {
        "channel": channel.name,
        "subsystem": str(channel.subsystem),
        "device": _device(channel.device),
        "share": one.share,
        "deviation": one.deviation,
        "direction": str(one.direction),
        "value": one.value,
        "lower": one.lower,
        "upper": one.upper,
    }


def _event(event: EpisodeEvent) -> dict[str, Any]:
    return {"phase": str(event.phase), "at_ms": event.at_ms, "episode": _episode(event.episode)}


def _episode(episode: Episode) -> dict[str, Any]:
    return {
        "identity": episode.identity,
        "entity": _entity(episode.entity),
        "start_ms": episode.start_ms,
        "onset_ms": episode.onset_ms,
        "end_ms": episode.end_ms,
        "subsystem": str(episode.subsystem),
        "peak": episode.peak,
        "title": episode.title,
        "top": [_contribution(one) for one in episode.top],
        "first_channels": [list(one) for one in episode.first_channels],
        "device": _device(episode.device),
        "uncertainty_ms": episode.uncertainty_ms,
        "scope": str(episode.scope),
        "settings": [_finding(one) for one in episode.settings],
    }


def _finding(one: SettingFinding) -> dict[str, Any]:
    return {
        "entity": _entity(one.entity),
        "setting": one.setting,
        "device": one.device,
        "value": one.value,
        "usual": one.usual,
        "agree": one.agree,
        "peers": one.peers,
        "previous": one.previous,
        "changed_at_ms": one.changed_at_ms,
    }


def _faults(quality: DataQuality) -> Iterator[dict[str, Any]]:
    """Every kind of data fault that has any score."""
    for fault in quality.faults:
        if fault.score > 0.0:
            yield {
                "fault": str(fault.kind),
                "score": fault.score,
                "affected": fault.affected,
                "evidence": [_fault_evidence(one) for one in fault.evidence],
            }


def _fault_evidence(one: FaultEvidence) -> dict[str, Any]:
    return {
        "class": one.device.kind,
        "device": one.device.name,
        "score": one.score,
        "since_ms": one.since_ms,
        "count": one.count,
        "name": one.name,
        "value": one.value,
        "usual": one.usual,
    }


def _fault_event(event: DataFaultEvent) -> dict[str, Any]:
    episode = event.episode
    return {
        "phase": str(event.phase),
        "at_ms": event.at_ms,
        "episode": {
            "identity": episode.identity,
            "entity": _entity(episode.entity),
            "fault": str(episode.kind),
            "start_ms": episode.start_ms,
            "onset_ms": episode.onset_ms,
            "end_ms": episode.end_ms,
            "peak": episode.peak,
            "title": episode.title,
            "evidence": [_fault_evidence(one) for one in episode.evidence],
        },
    }
