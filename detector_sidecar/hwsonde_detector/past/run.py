"""History -> what the detector would have said. Pure: samples and times are passed in.

`worker.step` is given the samples of the past in order of time, exactly as the service gives it those of the present: what was judged at
some time knows nothing of later ones, and what lies before the range is learned from. Only the turns in which many hosts make their models
are not waited for: they follow from the ticks, which are fewer here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from hwsonde_detector.plan import Plan
from hwsonde_detector.types import Entity, Episode, Outputs, SampleBatch, Score
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
    """

    start_ms: int
    end_ms: int
    scores: Mapping[Entity, tuple[Score, ...]]
    episodes: tuple[Episode, ...]
    intervals_ms: Mapping[Entity, int]
    skipped: Mapping[Entity, Mapping[str, int]]


def _quiet(now_ms: int) -> None:
    """Report no progress."""


def score_records(
    records: Iterable[tuple[SampleBatch, int]],
    plan: Plan,
    start_ms: int,
    end_ms: int,
    progress: Callable[[int], None] = _quiet,
) -> PastRun:
    """Learn and score.

    Parameters
    ----------
    records
        Batches with the times of their ticks, ascending; those before ``start_ms`` are learned from and judged, but not told of.
    plan
        Settings and profiles.
    start_ms, end_ms
        The range: later than ``start_ms``, up to ``end_ms``.
    progress
        Told the time of each batch once it is scored.
    """
    state = WorkerState()
    scores: dict[Entity, list[Score]] = {}
    skipped: dict[Entity, Counter[str]] = {}
    intervals: dict[Entity, int] = {}
    episodes = EpisodeLog()
    for batch, now_ms in records:
        state, outputs = step(state, batch, now_ms, plan, unhurried=True)
        episodes.take(outputs)
        for report in outputs.reports:
            if report.interval_ms is not None:
                intervals[report.entity] = report.interval_ms
            own = scores.setdefault(report.entity, [])
            own += [score for score in report.scores if start_ms < score.end_ms <= end_ms]
            if now_ms > start_ms:
                reasons = skipped.setdefault(report.entity, Counter())
                reasons.update(windows_skipped(report.skipped))
        progress(now_ms)
    heard = {entity for entity, own in scores.items() if own or entity in skipped}
    return PastRun(
        start_ms,
        end_ms,
        scores={entity: tuple(scores[entity]) for entity in sorted(heard)},
        episodes=episodes.touching(start_ms, end_ms),
        intervals_ms={entity: intervals[entity] for entity in sorted(heard & intervals.keys())},
        skipped={entity: dict(sorted(skipped.get(entity, {}).items())) for entity in sorted(heard)},
    )


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
        return tuple(sorted(found, key=lambda one: (one.start_ms, one.entity, one.identity)))


def _ends_after(episode: Episode, start_ms: int) -> bool:
    return episode.end_ms is None or episode.end_ms > start_ms
