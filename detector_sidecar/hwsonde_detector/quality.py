"""One host's data faults over time: scores, and an episode of their own that says in one sentence what to do about. Pure.

Beside `host`, and apart from it: no score, row or episode of an anomaly depends on anything here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from numpy.typing import NDArray

from hwsonde_detector.detectors.data_faults import FaultState, find_faults
from hwsonde_detector.detectors.faults.saved import restore_faults, snapshot_faults
from hwsonde_detector.explain.fault_titles import fault_title
from hwsonde_detector.explain.titles import identity
from hwsonde_detector.settings import Settings
from hwsonde_detector.signals.channels import ChannelState
from hwsonde_detector.types import (
    DataFault,
    DataFaultEpisode,
    DataFaultEvent,
    DataQuality,
    Device,
    Entity,
    FaultEvidence,
    FaultKind,
    Phase,
    SampleBatch,
)

THRESHOLD = 1.0
# An episode keeps the name of its kind until another one is worse by this factor.
_WORSE = 1.25


@dataclass(slots=True)
class QualityState:
    """What is kept of one host: its faults, the open episode, and since when every score has been low."""

    faults: FaultState = field(default_factory=FaultState)
    episode: DataFaultEpisode | None = None
    quiet_ms: int | None = None


def judge_data(
    state: QualityState, channels: ChannelState, batch: SampleBatch, now_ms: int, settings: Settings
) -> tuple[DataQuality, list[DataFaultEvent]]:
    """Look at one step's samples of a host; changes ``state``.

    Parameters
    ----------
    channels
        The host's channels after this step.
    batch
        The samples of this step.
    now_ms
        Time of the step.
    """
    faults = find_faults(state.faults, channels, batch, now_ms, settings)
    worst = _worst(faults, state.episode)
    events: list[DataFaultEvent] = []
    if worst.score >= THRESHOLD:
        state.quiet_ms = None
        events = _raise(state, channels.entity, worst, now_ms)
    elif state.episode is not None:
        if worst.score >= settings.data_faults.clear_at:
            state.quiet_ms = None
        elif state.quiet_ms is None:
            state.quiet_ms = now_ms
        elif now_ms - state.quiet_ms >= settings.data_faults.clear_ms:
            events = end_faults(state, now_ms)
    return DataQuality(now_ms, faults, state.faults.coverage, state.episode), events


def end_faults(state: QualityState, now_ms: int) -> list[DataFaultEvent]:
    """Close the open episode, as when the host is gone."""
    episode, state.episode, state.quiet_ms = state.episode, None, None
    return [] if episode is None else [DataFaultEvent(Phase.CLOSED, now_ms, replace(episode, end_ms=now_ms))]


def _worst(faults: tuple[DataFault, ...], episode: DataFaultEpisode | None) -> DataFault:
    worst = max(faults, key=lambda fault: fault.score)
    if episode is not None:
        own = next((fault for fault in faults if fault.kind is episode.kind), worst)
        if own.score >= THRESHOLD and worst.score < _WORSE * own.score:
            return own
    return worst


def _raise(state: QualityState, entity: Entity, worst: DataFault, now_ms: int) -> list[DataFaultEvent]:
    title, old = fault_title(entity, worst, now_ms), state.episode
    if old is None:
        onset = worst.evidence[0].since_ms
        name = f"data {identity(entity, onset)}"
        state.episode = DataFaultEpisode(
            name, entity, worst.kind, now_ms, onset, None, worst.score, title, worst.evidence
        )
        return [DataFaultEvent(Phase.OPENED, now_ms, state.episode)]
    same = old.kind is worst.kind and old.evidence[:1] and old.evidence[0].device == worst.evidence[0].device
    state.episode = replace(old, kind=worst.kind, peak=max(old.peak, worst.score), title=title, evidence=worst.evidence)
    return [] if same else [DataFaultEvent(Phase.CHANGED, now_ms, state.episode)]


def snapshot_quality(state: QualityState) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Document and arrays that `restore_quality` takes back."""
    document, arrays = snapshot_faults(state.faults)
    episode = _episode_document(state.episode) if state.episode is not None else None
    return {"faults": document, "episode": episode, "quiet_ms": state.quiet_ms}, arrays


def restore_quality(document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> QualityState:
    """Rebuild from `snapshot_quality`; raises KeyError, ValueError or TypeError when something is missing or of another shape."""
    episode, quiet = document["episode"], document["quiet_ms"]
    return QualityState(
        restore_faults(document["faults"], arrays),
        read_data_fault(episode) if episode is not None else None,
        int(quiet) if quiet is not None else None,
    )


def _episode_document(episode: DataFaultEpisode) -> dict[str, Any]:
    return {**asdict(episode), "entity": [list(pair) for pair in episode.entity.labels]}


def read_data_fault(part: Mapping[str, Any]) -> DataFaultEpisode:
    """Take back an episode as it stands in the document; raises KeyError, ValueError or TypeError when something is missing."""
    evidence = tuple(FaultEvidence(**{**one, "device": Device(**one["device"])}) for one in part["evidence"])
    entity = Entity(tuple((str(name), str(value)) for name, value in part["entity"]))
    return DataFaultEpisode(**{**part, "entity": entity, "kind": FaultKind(part["kind"]), "evidence": evidence})
