"""Episodes of hosts whose behaviour counts as normal: they are not told, until that ends. Pure.

An episode that opens meanwhile stays open inside, freezes what is learned and closes as any other, and nobody is paged. When the stretch ends and
it is still open it is told then; one that was told before the stretch began is closed when it begins, and told again if it outlasts it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from hwsonde_detector.types import Entity, EntityReport, Episode, EpisodeEvent, Hushed, Phase
from hwsonde_detector.types.guidance import Guidance, Normal

# So begins what is said of an episode that was told and is closed because of this.
NORMAL = "counts as normal"


@dataclass(slots=True)
class Hushing:
    """Why each open episode is not told, by identity."""

    waiting: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Told:
    """What one step says after all: reports, events, what counted as normal, and which episodes do so no more and are told late."""

    reports: list[EntityReport]
    events: list[EpisodeEvent]
    hushed: list[Hushed] = field(default_factory=list)
    late: list[Episode] = field(default_factory=list)


def counts_as_normal(hushing: Hushing, guidance: Guidance, episode: Episode, now_ms: int) -> bool:
    """Whether nobody is paged for an episode at present."""
    return episode.identity in hushing.waiting or any(one.holds(episode.entity, now_ms) for one in guidance.normal)


def hush(
    hushing: Hushing,
    guidance: Guidance,
    reports: Iterable[EntityReport],
    events: Iterable[EpisodeEvent],
    now_ms: int,
) -> Told:
    """Take out what counts as normal.

    Parameters
    ----------
    hushing
        What is not told so far; changed.
    guidance
        Stretches that are known at present, and whether others may be that are not known yet.
    reports, events
        What the step would say.
    now_ms
        Time of the tick.
    """
    told = Told(list(reports), list(events))
    normal = [one for one in guidance.normal if one.start_ms <= now_ms < one.end_ms]
    if not normal and not hushing.waiting:
        return told
    reasons = _reasons(normal, told, now_ms)
    before, told.events = told.events, []
    for event in before:
        _event(hushing, event, reasons, told)
    told.reports = [_report(hushing, report, reasons, told, now_ms, guidance.unsure) for report in told.reports]
    alive = {episode.identity for report in told.reports for episode in (*report.open_episodes, *_episodes(report))}
    heard = {str(report.entity) for report in told.reports}
    for identity in [one for one in hushing.waiting if one not in alive and one.rpartition("@")[0] in heard]:
        del hushing.waiting[identity]
    return told


def _reasons(normal: Iterable[Normal], told: Told, now_ms: int) -> dict[Entity, tuple[str, str]]:
    """Kind and reason for each host whose turn it is."""
    entities = {report.entity for report in told.reports} | {event.episode.entity for event in told.events}
    found: dict[Entity, tuple[str, str]] = {}
    for entity in entities:
        one = next((one for one in normal if one.holds(entity, now_ms)), None)
        if one is not None:
            found[entity] = one.kind, one.reason
    return found


def _event(hushing: Hushing, event: EpisodeEvent, reasons: Mapping[Entity, tuple[str, str]], told: Told) -> None:
    identity, entity = event.episode.identity, event.episode.entity
    if event.phase is Phase.OPENED and entity in reasons:
        kind, reason = reasons[entity]
        hushing.waiting[identity] = reason
        told.hushed.append(Hushed(event, kind, reason))
    elif identity in hushing.waiting:
        told.hushed.append(Hushed(event, "", hushing.waiting[identity]))
        if event.phase is Phase.CLOSED:
            del hushing.waiting[identity]
    else:
        told.events.append(event)


def _report(
    hushing: Hushing,
    report: EntityReport,
    reasons: Mapping[Entity, tuple[str, str]],
    told: Told,
    now_ms: int,
    unsure: bool,  # noqa: FBT001  of this file alone
) -> EntityReport:
    shown: list[Episode] = []
    hidden: list[tuple[Episode, str]] = []
    for episode in report.open_episodes:
        known = hushing.waiting.get(episode.identity)
        if known is None and report.entity not in reasons:
            shown.append(episode)
            continue
        if report.entity not in reasons and unsure and known is not None:
            # After a start nobody has said yet whether the stretch goes on.
            hidden.append((episode, known))
            continue
        if report.entity not in reasons:
            # The stretch is over and the trouble is not.
            del hushing.waiting[episode.identity]
            told.events.append(EpisodeEvent(Phase.OPENED, now_ms, episode))
            told.late.append(episode)
            shown.append(episode)
            continue
        kind, reason = reasons[report.entity]
        if known is None:
            ended = replace(episode, end_ms=now_ms, because=f"{NORMAL}: {reason}")
            told.events.append(EpisodeEvent(Phase.CLOSED, now_ms, ended))
            told.hushed.append(Hushed(EpisodeEvent(Phase.OPENED, now_ms, episode), kind, reason))
        hushing.waiting[episode.identity] = reason
        hidden.append((episode, reason))
    if not hidden:
        return report
    return replace(report, open_episodes=tuple(shown), normal=tuple(hidden))


def _episodes(report: EntityReport) -> list[Episode]:
    return [episode for episode, _ in report.normal]
