"""Was it only this host? What the other hosts of its job did in the same time. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from hwsonde_detector.explain.rootcause import Cause
from hwsonde_detector.explain.verdict import called, listed, rounded_up
from hwsonde_detector.explain.windows import as_windows
from hwsonde_detector.types import Entity, Episode, Score


@dataclass(frozen=True, slots=True)
class JobSpan:
    """A job ran on a host: later than ``start_ms``, up to ``end_ms``, as far as its series tell."""

    job: str
    entity: Entity
    start_ms: int
    end_ms: int


class Behaviour(StrEnum):
    """What a host did while another one had a fault."""

    SAME = "same"
    OTHER = "other"
    QUIET = "quiet"
    UNJUDGED = "unjudged"


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A host beside the one of a cause; ``worst`` is its largest score in that time, None where nothing was judged."""

    entity: Entity
    behaviour: Behaviour
    worst: float | None


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Hosts beside the first one of a cause; ``job`` is what they share, None where they are all hosts that were read."""

    job: str | None
    hosts: tuple[Neighbour, ...]
    sentence: str


def neighbours(
    cause: Cause,
    scores: Mapping[Entity, Sequence[Score]],
    episodes: Sequence[Episode],
    jobs: Sequence[JobSpan],
    until_ms: int,
) -> Neighbours:
    """Compare the first host of a cause with those beside it.

    Parameters
    ----------
    cause
        What went wrong.
    scores
        Windows of every host that was read, ascending.
    episodes
        Those of every host.
    jobs
        Which job ran where, and when.
    until_ms
        End of the range: an episode that lasts ends there.
    """
    first = cause.onsets[0].entity
    start_ms, end_ms = cause.start_ms - cause.uncertainty_ms, cause.ends_ms(until_ms)
    job, beside = _beside(first, jobs, start_ms, end_ms)
    if not beside:
        job, beside = None, sorted(entity for entity in scores if entity != first)
    same = {onset.entity for onset in cause.onsets}
    hosts = []
    for entity in beside:
        worst = as_windows(entity, scores.get(entity, ())).worst(start_ms, end_ms)
        if entity in same:
            behaviour = Behaviour.SAME
        elif any(_overlaps(one, entity, start_ms, end_ms) for one in episodes):
            behaviour = Behaviour.OTHER
        else:
            behaviour = Behaviour.UNJUDGED if worst is None else Behaviour.QUIET
        hosts.append(Neighbour(entity, behaviour, worst))
    return Neighbours(job, tuple(hosts), _sentence(first, job, hosts))


def _beside(first: Entity, jobs: Sequence[JobSpan], start_ms: int, end_ms: int) -> tuple[str | None, list[Entity]]:
    """The job of the host at that time that runs on most other hosts, and these."""
    hosts: dict[str, set[Entity]] = {}
    for span in jobs:
        if span.start_ms <= end_ms and span.end_ms >= start_ms:
            hosts.setdefault(span.job, set()).add(span.entity)
    shared = {job: on - {first} for job, on in hosts.items() if first in on and len(on) > 1}
    if not shared:
        return None, []
    job = min(shared, key=lambda name: (-len(shared[name]), name))
    return job, sorted(shared[job])


def _overlaps(episode: Episode, entity: Entity, start_ms: int, end_ms: int) -> bool:
    lasts = episode.end_ms is None or episode.end_ms >= start_ms
    return episode.entity == entity and episode.onset_ms <= end_ms and lasts


def _sentence(first: Entity, job: str | None, hosts: Sequence[Neighbour]) -> str:
    if not hosts:
        return f"No other host was read in this time: whether it was only {called(first)} is not known."
    of = f"the {len(hosts) + 1} hosts of {job}" if job is not None else f"the {len(hosts) + 1} hosts that were read"
    by = {kind: [called(one.entity) for one in hosts if one.behaviour is kind] for kind in Behaviour}
    same, quiet = (
        by[Behaviour.SAME],
        [one.worst for one in hosts if one.behaviour is Behaviour.QUIET and one.worst is not None],
    )
    if len(same) == len(hosts):
        return f"All of {of} show it: look at the job or at what they share first."
    parts = [f"{len(same) + 1} of {of} show it" if same else f"Only {called(first)} of {of} shows it"]
    if quiet:
        parts.append(f"{len(quiet)} stayed at or below {rounded_up(max(quiet))}")
    if by[Behaviour.OTHER]:
        parts.append(f"{listed(by[Behaviour.OTHER])} had another episode in this time")
    if by[Behaviour.UNJUDGED]:
        parts.append(
            f"{listed(by[Behaviour.UNJUDGED])} {'was' if len(by[Behaviour.UNJUDGED]) == 1 else 'were'} not judged"
        )
    return "; ".join(parts) + "."
