"""What the outputs of steps add up to: hosts with the windows of the trailing hold, and closed episodes. Pure but for the log."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from itertools import islice

from hwsonde_detector.published import Held, PublishedHost
from hwsonde_detector.types import (
    DataFaultEvent,
    DataQuality,
    Entity,
    EntityReport,
    Episode,
    EpisodeEvent,
    Outputs,
    Phase,
    Score,
)

log = logging.getLogger("hwsonde_detector.service")

PAST_EPISODES = 200


class Hosts:
    """Keeps the newest report of each entity."""

    def __init__(self, past: Iterable[Episode] = ()) -> None:
        self._reports: dict[Entity, EntityReport] = {}
        self._recent: dict[Entity, deque[Held]] = {}
        self._quality: dict[Entity, tuple[float, DataQuality]] = {}
        self._calibrated: set[Entity] = set()
        self._past: dict[str, Episode] = {episode.identity: episode for episode in islice(past, PAST_EPISODES)}

    def take(self, outputs: Outputs, monotonic: float, tick_ms: int) -> None:
        """Add what one step said; ``tick_ms`` is the distance of ticks, a part of the hold."""
        for entity in outputs.gone:
            self._forget(entity)
        for report in outputs.reports:
            self._reports[report.entity] = report
            if report.quality is not None:
                self._quality[report.entity] = (monotonic, report.quality)
            recent = self._recent.setdefault(report.entity, deque())
            hold_ms = _hold_ms(report, tick_ms)
            recent.extend(Held(monotonic, score) for score in _telling(report.scores, hold_ms))
            # A stretch of the past arrives at once; only what ended within the hold speaks of now.
            while len(recent) > 1 and (
                recent[0].score.end_ms < recent[-1].score.end_ms - hold_ms
                or (monotonic - recent[0].arrived) * 1000 > hold_ms
            ):
                recent.popleft()
            self._tell_calibrated(report)
        for fault in outputs.fault_events:
            _note_fault(fault)
        for event in outputs.events:
            self._note(event)

    def published(self, tick_ms: int) -> tuple[PublishedHost, ...]:
        """Every host, in order of entity."""
        return tuple(
            PublishedHost(
                entity,
                report.learning,
                report.interval_ms,
                report.open_episodes,
                tuple(self._recent[entity]),
                _hold_ms(report, tick_ms) / 1000,
                report.named_by_instance,
                *self._quality_of(entity),
                report.settings,
                report.follows,
                report.normal,
                report.window,
            )
            for entity, report in sorted(self._reports.items())
        )

    def past(self) -> tuple[Episode, ...]:
        """Closed episodes, newest first."""
        return tuple(self._past.values())

    def interval_ms(self) -> int | None:
        """The shortest scrape interval of any host."""
        return min((report.interval_ms for report in self._reports.values() if report.interval_ms), default=None)

    def longest_interval_ms(self) -> int | None:
        """The longest scrape interval of any host."""
        return max((report.interval_ms for report in self._reports.values() if report.interval_ms), default=None)

    def clear(self, now_ms: int, lost: Container[Entity] | None = None) -> None:
        """Forget all hosts, or those that are ``lost`` (they are learned anew); open episodes end with their newest window, or now, and are kept."""
        for entity, report in list(self._reports.items()):
            if lost is not None and entity not in lost:
                continue
            recent = self._recent[entity]
            end_ms = recent[-1].score.end_ms if recent else now_ms
            for episode in report.open_episodes:
                self._note(EpisodeEvent(Phase.CLOSED, end_ms, replace(episode, end_ms=end_ms)))
            self._forget(entity)

    def _forget(self, entity: Entity) -> None:
        self._reports.pop(entity, None)
        self._recent.pop(entity, None)
        self._quality.pop(entity, None)
        self._calibrated.discard(entity)

    def _quality_of(self, entity: Entity) -> tuple[DataQuality | None, float]:
        arrived, quality = self._quality.get(entity, (0.0, None))
        return quality, arrived

    def _tell_calibrated(self, report: EntityReport) -> None:
        if report.scores and report.scores[-1].calibrated and report.entity not in self._calibrated:
            self._calibrated.add(report.entity)
            log.info(
                "%s: calibrated from %d rows of %d channels",
                report.entity,
                report.learning.rows,
                report.learning.channels,
            )

    def _note(self, event: EpisodeEvent) -> None:
        episode = event.episode
        if event.phase is Phase.OPENED:
            log.warning("episode opened: %s", episode.title)
        elif event.phase is Phase.CLOSED:
            log.info("episode closed: %s peak %.2f", episode.identity, episode.peak)
            rest = [other for other in self._past.values() if other.identity != episode.identity]
            self._past = {other.identity: other for other in [episode, *rest][:PAST_EPISODES]}


def _note_fault(event: DataFaultEvent) -> None:
    episode = event.episode
    if event.phase is Phase.CLOSED:
        log.info("data fault is over: %s peak %.2f", episode.identity, episode.peak)
    else:
        log.warning("data fault: %s", episode.title)


def _hold_ms(report: EntityReport, tick_ms: int) -> int:
    return (report.interval_ms or tick_ms) + tick_ms


def _telling(scores: Sequence[Score], hold_ms: int) -> list[Score]:
    """Of windows that arrived together those that say all there is to say of the hold: the newest, and the maxima.

    A window stays if any of its values is larger than in all windows after it, so that the maximum over any later part of the hold comes
    out as it would from all of them. With a slow tick there are hundreds in a hold.
    """
    kept: list[Score] = []
    largest: dict[str, float] = {}
    for score in reversed(scores):
        if score.end_ms < scores[-1].end_ms - hold_ms:
            break
        values = {"": score.fused, " channels": score.anomalous_channels, **score.members}
        larger = {name: value for name, value in values.items() if value > largest.get(name, -math.inf)}
        if larger or not kept:
            kept.append(score)
            largest |= larger
    return kept[::-1]
