"""History -> what the detector would have said. Pure: samples and times are passed in.

`worker.step` is given the samples of the past in order of time, exactly as the service gives it those of the present: what was judged at
some time knows nothing of later ones, and what lies before the range is learned from. Only the turns in which many hosts make their models
are not waited for: they follow from the ticks, which are fewer here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from hwsonde_detector.explain.findings import Gathered
from hwsonde_detector.explain.vanished import SeenFault
from hwsonde_detector.past.kept import PEAK_MS, Evidence, FaultLog, Track
from hwsonde_detector.plan import Plan
from hwsonde_detector.types import Entity, EntityReport, Episode, Outputs, SampleBatch, Score
from hwsonde_detector.worker import WorkerState, step

# Reasons in `EntityReport.skipped` that count values and not windows.
VALUE_REASONS = frozenset({"reset", "impossible", "future"})


@dataclass(frozen=True, slots=True)
class PastRun:
    """What a stretch of the past looked like to the detector.

    Attributes
    ----------
    start_ms, end_ms
        What was asked for, UTC ms: later than ``start_ms``, up to ``end_ms``.
    scores
        Windows that ended in the range, ascending, of each host that was heard in it.
    episodes
        Those that touch the range, in order of their start; ``end_ms`` is None where one was still open at the end.
    intervals_ms
        Each host's scrape interval, as last observed.
    skipped
        Windows in the range that were not judged, by reason.
    gathered
        By identity of the episode, what its windows said of channels.
    faults
        Data faults that say that something was not seen, also of a little later where that was read.
    """

    start_ms: int
    end_ms: int
    scores: Mapping[Entity, Sequence[Score]]
    episodes: tuple[Episode, ...]
    intervals_ms: Mapping[Entity, int]
    skipped: Mapping[Entity, Mapping[str, int]]
    gathered: Mapping[str, Gathered] = field(default_factory=dict)
    faults: tuple[SeenFault, ...] = ()


def _quiet(now_ms: int) -> None:
    """Report no progress."""


def _everybody(_entity: Entity) -> bool:
    """Keep all windows of any host."""
    return True


def score_records(
    records: Iterable[tuple[SampleBatch, int]],
    plan: Plan,
    start_ms: int,
    end_ms: int,
    progress: Callable[[int], None] = _quiet,
    wanted: Callable[[Entity], bool] = _everybody,
) -> PastRun:
    """Learn and score.

    Parameters
    ----------
    records
        Batches with the times of their ticks, ascending; those before ``start_ms`` are learned from and judged, but not told of. Those behind
        ``end_ms`` say what began before it and is told only then.
    plan
        Settings and profiles.
    start_ms, end_ms
        The range: later than ``start_ms``, up to ``end_ms``.
    progress
        Told the time of each batch once it is scored.
    wanted
        Of which hosts all windows are kept; of others the loudest ones are enough to compare with.
    """
    state = WorkerState()
    kept = _Kept(start_ms, end_ms, wanted)
    for batch, now_ms in records:
        state, outputs = step(state, batch, now_ms, plan, unhurried=True)
        kept.take(outputs, now_ms)
        progress(now_ms)
    return kept.run()


def windows_skipped(reasons: Mapping[str, int]) -> dict[str, int]:
    """Those reasons that count windows which were not judged."""
    return {reason: count for reason, count in reasons.items() if reason not in VALUE_REASONS}


@dataclass(slots=True)
class EpisodeLog:
    """Episodes as they were last told of, by identity."""

    known: dict[str, Episode] = field(default_factory=dict)

    def take(self, outputs: Outputs) -> None:
        """Learn from one step."""
        for event in outputs.events:
            self.known[event.episode.identity] = event.episode
        for report in outputs.reports:
            # An open one may have a new peak that was not worth an event.
            for episode in report.open_episodes:
                self.known[episode.identity] = episode

    def forget_before(self, start_ms: int) -> None:
        """Leave out those that ended before the range, so that learning from a long time costs no memory."""
        self.known = {name: one for name, one in self.known.items() if _ends_after(one, start_ms)}

    def touching(self, start_ms: int, end_ms: int) -> tuple[Episode, ...]:
        """Those that touch the range, in order of start, host and identity."""
        found = [one for one in self.known.values() if _ends_after(one, start_ms) and one.start_ms <= end_ms]
        return tuple(sorted(found, key=_order))


def _order(one: Episode) -> tuple[int, Entity, str]:
    return one.start_ms, one.entity, one.identity


def _ends_after(episode: Episode, start_ms: int) -> bool:
    return episode.end_ms is None or episode.end_ms > start_ms


@dataclass(slots=True)
class _Kept:
    """What the steps of a run add up to; ``late`` is what was told of behind the end."""

    start_ms: int
    end_ms: int
    wanted: Callable[[Entity], bool]
    tracks: dict[Entity, Track] = field(default_factory=dict)
    evidence: dict[Entity, Evidence] = field(default_factory=dict)
    skipped: dict[Entity, Counter[str]] = field(default_factory=dict)
    intervals: dict[Entity, int] = field(default_factory=dict)
    episodes: EpisodeLog = field(default_factory=EpisodeLog)
    late: EpisodeLog = field(default_factory=EpisodeLog)
    faults: FaultLog = field(default_factory=FaultLog)

    def take(self, outputs: Outputs, now_ms: int) -> None:
        """Add what one step said at ``now_ms``."""
        if now_ms <= self.end_ms:
            self.episodes.take(outputs)
            if outputs.events:
                self.episodes.forget_before(self.start_ms)
        else:
            self.late.take(outputs)
        told: dict[Entity, dict[str, Episode]] = {}
        for event in outputs.events:
            told.setdefault(event.episode.entity, {})[event.episode.identity] = event.episode
        for report in outputs.reports:
            own = told.setdefault(report.entity, {})
            own |= {episode.identity: episode for episode in report.open_episodes}
            self._report(report, own.values(), now_ms)

    def _report(self, report: EntityReport, episodes: Iterable[Episode], now_ms: int) -> None:
        entity = report.entity
        if report.interval_ms is not None:
            self.intervals[entity] = report.interval_ms
        if now_ms <= self.start_ms:
            return
        if now_ms <= self.end_ms:
            self.skipped.setdefault(entity, Counter()).update(windows_skipped(report.skipped))
        if report.quality is not None:
            self.faults.take(entity, report.quality)
        scores = [score for score in report.scores if self.start_ms < score.end_ms <= self.end_ms]
        wanted = self.wanted(entity)
        if scores:
            if entity not in self.tracks:
                self.tracks[entity] = Track(entity, 0 if wanted else PEAK_MS)
            self.tracks[entity].take(scores)
        if wanted:
            self.evidence.setdefault(entity, Evidence()).take(scores, episodes)

    def run(self) -> PastRun:
        """All of it."""
        windows = {entity: self.tracks.get(entity, Track(entity)).windows() for entity in sorted(self.skipped)}
        return PastRun(
            self.start_ms,
            self.end_ms,
            scores=windows,
            episodes=self._touching(),
            intervals_ms={entity: self.intervals[entity] for entity in windows if entity in self.intervals},
            skipped={entity: dict(sorted(self.skipped[entity].items())) for entity in windows},
            gathered={name: one for own in self.evidence.values() for name, one in own.found.items()},
            faults=self.faults.faults(),
        )

    def _touching(self) -> tuple[Episode, ...]:
        """Episodes as they were at the end, and those that had begun by then and were told of behind it."""
        found = self.episodes.touching(self.start_ms, self.end_ms)
        names = self.episodes.known.keys()
        late = [
            one
            for name, one in self.late.known.items()
            if name not in names and one.onset_ms <= self.end_ms and _ends_after(one, self.start_ms)
        ]
        return tuple(sorted([*found, *late], key=_order))
