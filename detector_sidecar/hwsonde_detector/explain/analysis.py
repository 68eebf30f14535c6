"""What happened in a scored stretch of the past, as far as a question is about it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from hwsonde_detector.explain.coverage import Coverage, coverage_of
from hwsonde_detector.explain.findings import Gathered
from hwsonde_detector.explain.known import Known, ranked
from hwsonde_detector.explain.neighbours import JobSpan
from hwsonde_detector.explain.rootcause import Cause, root_causes
from hwsonde_detector.explain.verdict import Moments, Verdict, verdict
from hwsonde_detector.types import Entity, Episode, Score

MOST_CAUSES = 10
# Charts of a cause: so many channels of its first host, and the loudest one of so many hosts.
MOST_CHARTS = 8
# Around a cause a chart shows half of its length, and at least so many scrapes.
_MARGIN_ROWS = 60


class Run(Protocol):
    """A stretch of the past that was scored."""

    @property
    def start_ms(self) -> int:
        """Beginning of the range, UTC ms."""

    @property
    def end_ms(self) -> int:
        """End of the range, UTC ms."""

    @property
    def scores(self) -> Mapping[Entity, Sequence[Score]]:
        """Windows that ended in the range, ascending."""

    @property
    def episodes(self) -> tuple[Episode, ...]:
        """Episodes that touch the range, by start."""

    @property
    def intervals_ms(self) -> Mapping[Entity, int]:
        """Scrape intervals."""

    @property
    def skipped(self) -> Mapping[Entity, Mapping[str, int]]:
        """Windows that were not judged, by reason."""


class Topic(StrEnum):
    """What a report can be about."""

    RANGE = "range"
    HOST = "host"
    JOB = "job"
    EPISODE = "episode"


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked.

    Attributes
    ----------
    topic, name
        About what; the name of the host, job or episode.
    spans
        The hosts that count, and of each the time that counts, ``(from, to)`` in ms; None: every host that was heard, the whole range.
    """

    topic: Topic
    name: str = ""
    spans: Mapping[Entity, tuple[int, int]] | None = None


@dataclass(frozen=True, slots=True)
class Analysis:
    """What happened in a run, as far as a question is about it."""

    question: Question
    run: Run
    jobs: tuple[JobSpan, ...]
    hosts: tuple[Coverage, ...]
    episodes: tuple[Episode, ...]
    causes: tuple[Cause, ...]
    moments: Moments
    known: tuple[Known, ...]
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Charted:
    """Channels of one host that are worth a picture: for the cause of rank ``rank`` (0 is the first), in the given time."""

    rank: int
    entity: Entity
    channels: frozenset[str]
    start_ms: int
    end_ms: int


def analyse(
    run: Run,
    question: Question,
    jobs: Sequence[JobSpan],
    step: int,
    *,
    known: Sequence[Known] = (),
    gathered: Mapping[str, Gathered] | None = None,
) -> Analysis:
    """Say what happened.

    Parameters
    ----------
    run
        The scored past, of all hosts that were read: those that the question is not about are what it is compared with.
    question
        What is asked.
    jobs
        Which job ran where, and when.
    step
        Rows from one window to the next.
    known
        What is known without any score of the hosts that the question is about.
    gathered
        By identity of the episode, what its windows said where that was taken as they came.
    """
    spans = spans_of(question, run)
    hosts = tuple(
        coverage_of(
            entity,
            span,
            run.scores.get(entity, ()),
            run.intervals_ms.get(entity),
            step,
            run.skipped.get(entity, {}),
            [one for one in run.episodes if one.entity == entity],
        )
        for entity, span in sorted(spans.items())
    )
    episodes = tuple(one for one in run.episodes if one.entity in spans and _touches(one, spans[one.entity]))
    if question.topic is Topic.EPISODE:
        episodes = tuple(one for one in episodes if one.identity == question.name)
    causes = root_causes(episodes, run.scores, run.intervals_ms, gathered)
    moments = Moments(run.start_ms, run.end_ms)
    facts = ranked(known)
    answer = verdict(causes, hosts, moments, facts)
    return Analysis(question, run, tuple(jobs), hosts, episodes, causes, moments, facts, answer)


def spans_of(question: Question, run: Run) -> Mapping[Entity, tuple[int, int]]:
    """The hosts that count, and of each the time that counts."""
    return question.spans if question.spans is not None else dict.fromkeys(run.scores, (run.start_ms, run.end_ms))


def charted(analysis: Analysis) -> tuple[Charted, ...]:
    """Channels that the report shows over time, a bounded number of them."""
    run = analysis.run
    wanted: list[Charted] = []
    for rank, cause in enumerate(analysis.causes[:MOST_CAUSES]):
        by_host: dict[Entity, set[str]] = {}
        for finding in cause.findings:
            own = finding.entity == cause.onsets[0].entity
            names = by_host.setdefault(finding.entity, set())
            if len(names) < (MOST_CHARTS if own else 1):
                names.add(finding.channel.name)
        for onset in cause.onsets[:MOST_CHARTS]:
            if onset.entity not in by_host:
                continue
            end_ms = run.end_ms if onset.end_ms is None else onset.end_ms
            margin = max(_MARGIN_ROWS * run.intervals_ms.get(onset.entity, 1000), (end_ms - onset.at_ms) // 2)
            start, end = max(onset.at_ms - margin, run.start_ms), min(end_ms + margin, run.end_ms)
            wanted.append(Charted(rank, onset.entity, frozenset(by_host[onset.entity]), start, end))
    return tuple(wanted)


def _touches(episode: Episode, span: tuple[int, int]) -> bool:
    start_ms, end_ms = span
    lasts = episode.end_ms is None or episode.end_ms > start_ms
    return lasts and episode.onset_ms <= end_ms
