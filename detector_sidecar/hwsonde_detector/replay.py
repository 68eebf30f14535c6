"""An archive, scored again: JSON lines that are the same, byte for byte, each time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from hwsonde_detector.engines.local import LocalEngine
from hwsonde_detector.sources.archive import Start, Tick
from hwsonde_detector.types import Contribution, Entity, Episode, EpisodeEvent, Outputs, Score, SettingFinding
from hwsonde_detector.worker import Plan

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
        JSON lines with the key ``kind``: ``score``, ``event``, ``gone``.

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
            yield from lines(engine.step(record.read.batch, record.now_ms), record.now_ms)


def lines(outputs: Outputs, now_ms: int) -> Iterator[bytes]:
    """Give the JSON lines of one step."""
    for report in outputs.reports:
        for score in report.scores:
            yield _line("score", now_ms, _score(score))
    for event in outputs.events:
        yield _line("event", now_ms, _event(event))
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


def _contribution(one: Contribution) -> dict[str, Any]:
    channel = one.channel
    return {
        "channel": channel.name,
        "subsystem": str(channel.subsystem),
        "device": f"{channel.device.kind} {channel.device.name}" if channel.device else None,
        "share": one.share,
        "deviation": one.deviation,
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
        "scope": str(episode.scope),
        "part": f"{episode.device.kind} {episode.device.name}" if episode.device else None,
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
