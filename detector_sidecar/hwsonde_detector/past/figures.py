"""How well a run over history went: pages, and against labelled faults what was found, when, and whether the right part was named. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hwsonde_detector.past.intervals import Share, poisson_bounds, share
from hwsonde_detector.past.labels import Label
from hwsonde_detector.past.tally import Tally, slack_ms
from hwsonde_detector.types import Entity, Episode

DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class PageRate:
    """Pages in a time in which there could have been some.

    Attributes
    ----------
    pages
        Episodes that opened.
    node_days
        Time of calibrated windows, summed over hosts.
    per_100
        Pages per 100 node-days; None without any time.
    low, high
        Exact 95 % interval of that; None without any time.
    """

    pages: int
    node_days: float
    per_100: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True)
class Spread:
    """Median and quartiles of some values, and their ends."""

    median: float
    lower: float
    upper: float
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of one fault on one host.

    Attributes
    ----------
    entity, label
        The host, and what happened to it.
    judged
        Whether any calibrated window fell into the fault: without one it could not be found.
    episode
        The first episode that found it, None where none did.
    seconds
        From the beginning of the fault to that of the episode; 0 where a slack start made the label later.
    right
        Whether the episode named one of the label's subsystems; None where the label has none or nothing was found.
    """

    entity: Entity
    label: Label
    judged: bool
    episode: Episode | None
    seconds: float | None
    right: bool | None


@dataclass(frozen=True, slots=True)
class KindFigures:
    """What became of the faults of one kind."""

    found: Share
    judged: int
    seconds: Spread | None
    right: Share


@dataclass(frozen=True, slots=True)
class FaultFigures:
    """What became of the labelled faults.

    Attributes
    ----------
    findings
        One for each fault and host that it applies to and that began in the range.
    overall, kinds
        Figures of all, and by kind in order of name.
    false
        Episodes that touch no labelled fault nor its neighbourhood, over the time away from them.
    false_episodes
        Their identities.
    elsewhere
        Labels that begin outside of the range.
    unknown
        Labels of hosts that were not heard in the range.
    """

    findings: tuple[Finding, ...]
    overall: KindFigures
    kinds: Mapping[str, KindFigures]
    false: PageRate
    false_episodes: frozenset[str]
    elsewhere: tuple[Label, ...]
    unknown: tuple[Label, ...]


def page_rate(pages: int, exposed_ms: int) -> PageRate:
    """Pages per 100 node-days with the exact Poisson interval."""
    days = exposed_ms / DAY_MS
    if exposed_ms <= 0:
        return PageRate(pages, 0.0, None, None, None)
    low, high = poisson_bounds(pages)
    return PageRate(pages, days, 100 * pages / days, 100 * low / days, 100 * high / days)


def opened(tally: Tally) -> tuple[Episode, ...]:
    """Episodes that opened in the range: each is a page."""
    touching = tally.episodes.touching(tally.start_ms, tally.end_ms)
    return tuple(one for one in touching if one.start_ms > tally.start_ms)


def pages(tally: Tally) -> PageRate:
    """The realised rate over all hosts."""
    return page_rate(len(opened(tally)), sum(host.exposed_ms for host in tally.hosts.values()))


def spread(values: Sequence[float]) -> Spread | None:
    """Median and quartiles (between neighbours in proportion); None of nothing."""
    if not values:
        return None
    least, lower, median, upper, most = np.percentile(np.array(values, np.float64), [0, 25, 50, 75, 100]).tolist()
    return Spread(median, lower, upper, least, most)


def faults(tally: Tally) -> FaultFigures | None:
    """Hold the episodes against the labels; None where there are no labels.

    A fault is found by an episode of its host that touches the time from its beginning to `hwsonde_detector.past.tally.SLACK_ROWS` scrapes after its
    end, and that did not begin earlier than so many scrapes before it: an episode that was open already had another reason.
    An episode is false that touches no fault of its host nor so many scrapes around one.
    """
    if not tally.labels:
        return None
    touching = tally.episodes.touching(tally.start_ms, tally.end_ms)
    by_host: dict[Entity, list[Episode]] = {}
    for episode in touching:
        by_host.setdefault(episode.entity, []).append(episode)
    findings = tuple(
        finding for entity in sorted(tally.hosts) for finding in _findings(tally, entity, by_host.get(entity, []))
    )
    by_kind: dict[str, list[Finding]] = {}
    for finding in findings:
        by_kind.setdefault(finding.label.kind, []).append(finding)
    false = [episode for episode in opened(tally) if _false(tally, episode)]
    heard = {label for host in tally.hosts.values() for label in host.labels}
    inside = [label for label in tally.labels if tally.start_ms < label.start_ms <= tally.end_ms]
    return FaultFigures(
        findings=findings,
        overall=_summed(findings),
        kinds={kind: _summed(by_kind[kind]) for kind in sorted(by_kind)},
        false=page_rate(len(false), sum(host.quiet_ms for host in tally.hosts.values())),
        false_episodes=frozenset(episode.identity for episode in false),
        elsewhere=tuple(label for label in tally.labels if not tally.start_ms < label.start_ms <= tally.end_ms),
        unknown=tuple(label for label in inside if label not in heard),
    )


def _findings(tally: Tally, entity: Entity, episodes: Sequence[Episode]) -> Iterable[Finding]:
    host = tally.hosts[entity]
    slack = slack_ms(host.interval_ms)
    for label, seen in zip(host.labels, host.seen, strict=True):
        if not tally.start_ms < label.start_ms <= tally.end_ms:
            continue
        first = next(
            (
                one
                for one in episodes
                if label.start_ms - slack <= one.start_ms <= label.end_ms + slack
                and (one.end_ms is None or one.end_ms >= label.start_ms)
            ),
            None,
        )
        yield Finding(
            entity,
            label,
            judged=seen > 0,
            episode=first,
            seconds=max(first.start_ms - label.start_ms, 0) / 1000 if first is not None else None,
            right=first.subsystem in label.subsystems if first is not None and label.subsystems else None,
        )


def _false(tally: Tally, episode: Episode) -> bool:
    host = tally.hosts.get(episode.entity)
    slack = slack_ms(host.interval_ms) if host is not None else 0
    end = episode.end_ms if episode.end_ms is not None else tally.end_ms
    return not any(
        episode.start_ms <= label.end_ms + slack and end >= label.start_ms - slack
        for label in (host.labels if host is not None else ())
    )


def _summed(findings: Sequence[Finding]) -> KindFigures:
    judged = [finding.right for finding in findings if finding.right is not None]
    return KindFigures(
        found=share(sum(finding.episode is not None for finding in findings), len(findings)),
        judged=sum(finding.judged for finding in findings),
        seconds=spread([finding.seconds for finding in findings if finding.seconds is not None]),
        right=share(sum(judged), len(judged)),
    )
