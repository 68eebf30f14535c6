"""A host's state as a JSON document and arrays, and back."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwsonde_detector.decision.episodes import Persistence
from hwsonde_detector.decision.feedback import feedback_document, read_feedback
from hwsonde_detector.decision.heard import Heard
from hwsonde_detector.decision.learning import Memory, Progress
from hwsonde_detector.decision.model import model_arrays, restore_model
from hwsonde_detector.decision.regime import forget_windows
from hwsonde_detector.decision.regime_state import restore_regimes, snapshot_regimes
from hwsonde_detector.decision.thresholds import Threshold, Watch
from hwsonde_detector.decision.trend import Trend
from hwsonde_detector.host import HostState
from hwsonde_detector.quality import restore_quality, snapshot_quality
from hwsonde_detector.settings import Settings
from hwsonde_detector.signals.channels import ChannelState
from hwsonde_detector.types import (
    Channel,
    Contribution,
    Device,
    Entity,
    Episode,
    Role,
    Scope,
    SettingFinding,
    Subsystem,
)


def snapshot_host(host: HostState) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Document and arrays of one host; the last samples of its series are not kept, they are read again."""
    quality, arrays = snapshot_quality(host.quality)
    arrays |= {"memory.times": host.memory.times, "memory.values": host.memory.values}
    document: dict[str, Any] = {
        "entity": [list(pair) for pair in host.entity.labels],
        "interval_ms": host.interval_ms,
        "last_row_ms": host.last_row_ms,
        "silent_ms": host.silent_ms,
        "channels": [_channel(channel) for channel in host.memory.channels],
        "progress": asdict(host.progress),
        "persistence": persistence_document(host.persistence),
        "onset_ms": host.onset_ms,
        "told_peak": host.told_peak,
        "threshold": asdict(host.threshold),
        "watch": asdict(host.watch),
        "trend": asdict(host.trend),
        "feedback": feedback_document(host.feedback),
        "episode": episode_document(host.episode) if host.episode is not None else None,
        "model": None,
        "quality": quality,
    }  # fmt: skip
    if host.model is not None:
        model, own = model_arrays(host.model)
        document["model"] = {**model, "channels": [_channel(channel) for channel in host.model.channels]}
        arrays |= {f"model.{key}": value for key, value in own.items()}
    arrays |= {"heard.scores": host.heard.scores, "heard.learned": host.heard.learned}
    document["regimes"], own = snapshot_regimes(host.regimes, _channel)
    arrays |= {f"regimes.{key}": value for key, value in own.items()}
    return document, arrays


def restore_host(
    document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], settings: Settings, *, same_settings: bool
) -> HostState:
    """Rebuild one host; raises KeyError, ValueError or TypeError when something is missing or of another shape.

    With other settings than those that shaped the model only the memory comes back, and is learned again at the next row.
    """
    channels = tuple(read_channel(part) for part in document["channels"])
    memory = Memory(
        channels, np.asarray(arrays["memory.times"], np.int64), np.asarray(arrays["memory.values"], np.float32)
    )
    if memory.values.shape != (len(memory.times), len(channels)):
        raise ValueError("memory does not match its channels")
    model = None
    if (part := document["model"]) is not None and same_settings:
        own = {key.removeprefix("model."): value for key, value in arrays.items() if key.startswith("model.")}
        model = restore_model(part, own, tuple(read_channel(channel) for channel in part["channels"]), settings)
    own = {key.removeprefix("regimes."): value for key, value in arrays.items() if key.startswith("regimes.")}
    regimes = restore_regimes(document["regimes"], own, settings, read_channel, same_settings=same_settings)
    heard = Heard(arrays["heard.scores"], arrays["heard.learned"]) if model is not None else Heard()
    progress = Progress(**document["progress"])
    if model is None:
        # Without a model the memory is learned again at the next row.
        progress.fitted = 0
    episode = document["episode"]
    entity = read_entity(document["entity"])
    persistence = read_persistence(document["persistence"])
    if episode is None and persistence.open:
        # States of versions that kept this of a host that went away: nothing could ever be told of it again.
        forget_windows(persistence)
    return HostState(
        entity=entity,
        channels=ChannelState(entity),
        memory=memory,
        progress=progress,
        model=model,
        persistence=persistence,
        onset_ms=document["onset_ms"],
        told_peak=float(document["told_peak"]),
        episode=read_episode(episode) if episode is not None else None,
        interval_ms=document["interval_ms"],
        last_row_ms=document["last_row_ms"],
        regimes=regimes,
        threshold=Threshold(**document["threshold"]),
        heard=heard,
        watch=Watch(**document["watch"]),
        # States of versions that did not smooth lack it.
        trend=Trend(**document.get("trend", {})),
        # States of versions that heard nothing from people lack it.
        feedback=read_feedback(document.get("feedback")),
        quality=restore_quality(document["quality"], arrays),
    )


def persistence_document(persistence: Persistence) -> dict[str, Any]:
    """Give a persistence as a JSON document."""
    return {
        "recent": list(persistence.recent),
        "alone": persistence.alone,
        "quiet": persistence.quiet,
        "open": persistence.open,
        "settled_ms": persistence.settled_ms,
        "drifts": persistence.drifts,
    }


def read_persistence(part: Mapping[str, Any]) -> Persistence:
    """Take back what `persistence_document` gave."""
    # States of versions in which every member had to agree lack `alone`, those that knew no drift `drifts`.
    recent, alone = deque(map(bool, part["recent"])), int(part.get("alone", 0))
    return Persistence(
        recent, alone, float(part["quiet"]), bool(part["open"]), int(part["settled_ms"]), part.get("drifts")
    )


def read_entity(pairs: Iterable[Iterable[Any]]) -> Entity:
    """Take back the pairs of an entity's labels."""
    return Entity(tuple((str(name), str(value)) for name, value in pairs))


def _channel(channel: Channel) -> dict[str, Any]:
    return asdict(channel)


def read_channel(part: Mapping[str, Any]) -> Channel:
    """Take back the document of a channel."""
    known = {
        **part,
        "subsystem": Subsystem(part["subsystem"]),
        "device": _read_device(part["device"]),
        "role": Role(part["role"]),
    }
    return Channel(**known)


def _read_device(part: Mapping[str, Any] | None) -> Device | None:
    return Device(**part) if part is not None else None


def episode_document(episode: Episode) -> dict[str, Any]:
    """Give an episode as a JSON document."""
    return {
        **asdict(episode),
        "entity": [list(pair) for pair in episode.entity.labels],
        "first_channels": [list(pair) for pair in episode.first_channels],
        "settings": [finding_document(finding) for finding in episode.settings],
    }


def finding_document(finding: SettingFinding) -> dict[str, Any]:
    """Give a finding as a JSON document."""
    return {**asdict(finding), "entity": [list(pair) for pair in finding.entity.labels]}


def read_episode(part: Mapping[str, Any]) -> Episode:
    """Take back what `episode_document` gave; raises KeyError, ValueError or TypeError when something is missing."""
    return Episode(
        **{
            **part,
            "entity": read_entity(part["entity"]),
            "subsystem": Subsystem(part["subsystem"]),
            "top": tuple(Contribution(**{**entry, "channel": read_channel(entry["channel"])}) for entry in part["top"]),
            "first_channels": tuple((str(name), int(at)) for name, at in part["first_channels"]),
            # States of versions that named no device lack it.
            "device": _read_device(part.get("device")),
            "scope": Scope(part.get("scope", Scope.HOST)),
            "settings": tuple(
                SettingFinding(**{**entry, "entity": read_entity(entry["entity"])})
                for entry in part.get("settings", ())
            ),
        }
    )
