"""From the episodes of many hosts to a ranked list of causes: which subsystem, device and channel, on which host first. Pure.

A subsystem is judged by its three loudest channels, as in `attribution`; evidence is that of `findings`. What happened between two scrapes of
two hosts cannot be ordered, nor can two channels of one host that moved within one interval: every order here is one of times with plus
or minus one scrape interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from hwsonde_detector.explain.findings import Finding, Gathered, Role, Tally, devices, tallies
from hwsonde_detector.types import Device, Entity, Episode, Score, Subsystem

# A further subsystem of the same episode is a cause of its own from this part of the loudest one's evidence on.
SECOND_CAUSE = 0.5
# Hosts that show the same within this time of each other show one cause that spreads.
SPREAD_MS = 300_000
# The subsystem that was paged stays the first one unless another has clearly more evidence.
_PAGED_KEEPS = 0.8
_LOUDEST = 3
_MOST_FINDINGS = 12
_MOST_BESIDE = 3
# What has less than this part of the loudest channel's evidence is noise.
_LEAST_PART = 0.02


@dataclass(frozen=True, slots=True)
class Onset:
    """When a cause began on a host: ``at_ms``, plus or minus ``uncertainty_ms``; ``end_ms`` is None while it lasts."""

    entity: Entity
    at_ms: int
    uncertainty_ms: int
    end_ms: int | None
    peak: float
    episodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Together:
    """Channels that left their bands at one time, as far as can be told; ``at_ms`` plus or minus one interval."""

    at_ms: int
    channels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cause:
    """One thing that went wrong.

    Attributes
    ----------
    subsystem, device
        What it is in; the device of the first host, None where no single one stands out.
    devices
        All devices of the cause with their parts of what devices have, largest first.
    share
        Part of the evidence of everything that happened (0..1).
    evidence
        Score-seconds, discounted as `findings` says.
    onsets
        Hosts in order of onset.
    first
        The hosts that may have been the first: more than one where the order cannot be told.
    findings
        Channels of the first host, then the loudest few of each other one; those of the cause first, most evidence first.
    moved
        Order in which channels left their bands on the first host.
    paged
        The subsystems that the episodes were opened for.
    """

    subsystem: Subsystem
    device: Device | None
    devices: tuple[tuple[Device, float], ...]
    share: float
    evidence: float
    onsets: tuple[Onset, ...]
    first: tuple[Entity, ...]
    findings: tuple[Finding, ...]
    moved: tuple[Together, ...]
    paged: tuple[Subsystem, ...]

    @property
    def start_ms(self) -> int:
        """Earliest onset."""
        return self.onsets[0].at_ms

    @property
    def uncertainty_ms(self) -> int:
        """Of the earliest onset."""
        return self.onsets[0].uncertainty_ms

    def ends_ms(self, until_ms: int) -> int:
        """Latest end; ``until_ms`` where it lasts on a host."""
        return max(until_ms if onset.end_ms is None else onset.end_ms for onset in self.onsets)


@dataclass(frozen=True, slots=True)
class _Part:
    """What one episode says of one subsystem.

    ``own`` are the tallies of the subsystem, loudest first; ``others`` those that go with it; ``evidence`` is that of the former and
    ``whole`` that of both, in score-seconds.
    """

    episode: Episode
    subsystem: Subsystem
    own: tuple[Tally, ...]
    others: tuple[Tally, ...]
    onset_ms: int
    interval_ms: int
    device: Device | None
    devices: tuple[tuple[Device, float], ...]
    evidence: float
    whole: float


@dataclass(slots=True)
class _Group:
    parts: list[_Part] = field(default_factory=list)

    def takes(self, part: _Part) -> bool:
        """Whether a part is more of the same: on the same host the same device, on another one soon after and the same kind of device."""
        if part.subsystem is not self.parts[0].subsystem:
            return False
        here = [one for one in self.parts if one.episode.entity == part.episode.entity]
        if here:
            return all(part.device is None or one.device is None or one.device == part.device for one in here)
        kinds = {one.device.kind for one in self.parts if one.device is not None}
        near = part.onset_ms - max(one.onset_ms for one in self.parts) <= SPREAD_MS
        return near and (part.device is None or not kinds or part.device.kind in kinds)


def root_causes(
    episodes: Sequence[Episode],
    scores: Mapping[Entity, Sequence[Score]],
    intervals_ms: Mapping[Entity, int],
    gathered: Mapping[str, Gathered] | None = None,
) -> tuple[Cause, ...]:
    """Rank what went wrong.

    Parameters
    ----------
    episodes
        Of any hosts, in any order.
    scores
        Windows of these hosts, ascending; an episode whose windows are not there is judged by what it carries itself.
    intervals_ms
        Scrape interval of each host; 0 is taken where it is not known.
    gathered
        By identity of the episode, what its windows said where that was taken as they came.

    Returns
    -------
    tuple
        Most evidence first; of equal evidence the earlier one.
    """
    parts: list[_Part] = []
    total = 0.0
    for episode in sorted(episodes, key=lambda one: (one.onset_ms, one.identity)):
        interval = intervals_ms.get(episode.entity, 0)
        known = gathered.get(episode.identity) if gathered is not None else None
        found = tallies(episode, scores.get(episode.entity, ()), known)
        total += _seconds(interval) * sum(tally.total for tally in found)
        parts += _parts(episode, found, interval)
    groups: list[_Group] = []
    for part in sorted(parts, key=lambda one: (one.onset_ms, one.episode.entity, one.subsystem)):
        group = next((one for one in groups if one.takes(part)), None)
        if group is None:
            group = _Group()
            groups.append(group)
        group.parts.append(part)
    causes = [_cause(group.parts, total) for group in groups]
    return tuple(sorted(causes, key=lambda cause: (-cause.evidence, cause.start_ms, cause.subsystem)))


def together(first_channels: Sequence[tuple[str, int]], interval_ms: int) -> tuple[Together, ...]:
    """Channels in order of onset, those within one interval of the first of them as one."""
    groups: list[tuple[int, list[str]]] = []
    for name, at_ms in sorted(first_channels, key=lambda pair: (pair[1], pair[0])):
        if groups and at_ms - groups[-1][0] <= interval_ms:
            groups[-1][1].append(name)
        else:
            groups.append((at_ms, [name]))
    return tuple(Together(at_ms, tuple(names)) for at_ms, names in groups)


def maybe_first(onsets: Sequence[Onset]) -> tuple[Entity, ...]:
    """Hosts that may have been the first: within one scrape interval, the longer one of the two, of the earliest onset.

    Parameters
    ----------
    onsets
        In order of time.
    """
    return tuple(
        onset.entity
        for onset in onsets
        if onset.at_ms - onsets[0].at_ms <= max(onset.uncertainty_ms, onsets[0].uncertainty_ms)
    )


def _seconds(interval_ms: int) -> float:
    return max(interval_ms, 1) / 1000


def _full(tally: Tally) -> bool:
    return tally.best.channel.weight >= 1


def _parts(episode: Episode, found: Sequence[Tally], interval_ms: int) -> list[_Part]:
    """The subsystem that the episode is about, and each further one that is a cause of its own."""
    by_subsystem: dict[Subsystem, list[Tally]] = {}
    for tally in found:
        by_subsystem.setdefault(tally.best.channel.subsystem, []).append(tally)
    loud = {name: sum(tally.total for tally in own[:_LOUDEST]) for name, own in by_subsystem.items()}
    # What has only channels of less than full weight is a symptom of something.
    able = {name: value for name, value in loud.items() if any(_full(tally) for tally in by_subsystem[name])} or loud
    if not able:
        return [_part(episode, episode.subsystem, [], [], interval_ms)]
    most = max(able.values())
    main = max(sorted(able), key=lambda name: able[name])
    if able.get(episode.subsystem, -1.0) >= _PAGED_KEEPS * most:
        main = episode.subsystem
    further = [name for name, value in sorted(able.items()) if name is not main and value >= SECOND_CAUSE * most > 0]
    others = [tally for tally in found if tally.best.channel.subsystem not in (main, *further)]
    parts = [_part(episode, main, by_subsystem[main], others, interval_ms, at_most_ms=episode.onset_ms)]
    return parts + [_part(episode, name, by_subsystem[name], [], interval_ms) for name in further]


def _part(
    episode: Episode,
    subsystem: Subsystem,
    own: Sequence[Tally],
    others: Sequence[Tally],
    interval_ms: int,
    *,
    at_most_ms: int | None = None,
) -> _Part:
    """A part begins when its loudest channel left its band, ``at_most_ms`` at the latest."""
    evidence = sum(tally.total for tally in own)
    device, ranked = devices(own)
    began = dict(episode.first_channels).get(own[0].best.channel.name, own[0].heard_ms) if own else None
    onset = min((at_ms for at_ms in (began, at_most_ms) if at_ms is not None), default=episode.onset_ms)
    return _Part(
        episode=episode,
        subsystem=subsystem,
        own=tuple(own),
        others=tuple(others),
        onset_ms=onset,
        interval_ms=interval_ms,
        device=device,
        devices=ranked,
        evidence=evidence * _seconds(interval_ms),
        whole=(evidence + sum(tally.total for tally in others)) * _seconds(interval_ms),
    )


def _cause(parts: Sequence[_Part], total: float) -> Cause:
    by_host: dict[Entity, list[_Part]] = {}
    for part in parts:
        by_host.setdefault(part.episode.entity, []).append(part)
    onsets = tuple(
        sorted((_onset(entity, own) for entity, own in by_host.items()), key=lambda one: (one.at_ms, one.entity))
    )
    beginning = by_host[onsets[0].entity][0]
    evidence = sum(part.evidence for part in parts)
    return Cause(
        subsystem=beginning.subsystem,
        device=beginning.device,
        devices=beginning.devices,
        share=min(evidence / total, 1.0) if total > 0 else 0.0,
        evidence=evidence,
        onsets=onsets,
        first=maybe_first(onsets),
        findings=_findings(parts, onsets[0].entity),
        moved=together(beginning.episode.first_channels, beginning.interval_ms),
        paged=tuple(sorted({part.episode.subsystem for part in parts})),
    )


def _onset(entity: Entity, parts: Sequence[_Part]) -> Onset:
    ends = [part.episode.end_ms for part in parts]
    known = [end for end in ends if end is not None]
    return Onset(
        entity=entity,
        at_ms=min(part.onset_ms for part in parts),
        uncertainty_ms=max(part.interval_ms for part in parts),
        end_ms=max(known) if len(known) == len(ends) else None,
        peak=max(part.episode.peak for part in parts),
        episodes=tuple(part.episode.identity for part in parts),
    )


def _findings(parts: Sequence[_Part], first: Entity) -> tuple[Finding, ...]:
    """Channels of a cause and what goes with it; several episodes of one host give one finding a channel."""
    whole = sum(part.whole for part in parts)
    found: dict[tuple[Entity, str], tuple[Finding, float]] = {}
    for part in parts:
        for tally in (*part.own, *part.others):
            key = (part.episode.entity, tally.best.channel.name)
            finding, sofar = found.get(key, (None, 0.0))
            evidence = sofar + tally.total * _seconds(part.interval_ms)
            found[key] = (finding or _finding(part, tally), evidence)
    ranked = sorted(
        found.values(),
        key=lambda pair: (pair[0].role is not Role.CAUSE, -pair[1], pair[0].entity, pair[0].channel.name),
    )
    findings = [replace(finding, share=evidence / whole if whole > 0 else 0.0) for finding, evidence in ranked]
    return _selected(findings, first)


def _finding(part: _Part, tally: Tally) -> Finding:
    best = tally.best
    role = Role.CAUSE if _full(tally) else Role.SYMPTOM
    return Finding(
        entity=part.episode.entity,
        channel=best.channel,
        role=role if best.channel.subsystem is part.subsystem else Role.ELSEWHERE,
        share=0.0,
        direction=tally.direction(),
        deviation=best.deviation,
        value=best.value,
        lower=best.lower,
        upper=best.upper,
        first_ms=dict(part.episode.first_channels).get(best.channel.name, tally.heard_ms),
    )


def _selected(ranked: Sequence[Finding], first: Entity) -> tuple[Finding, ...]:
    """Those of the first host, then the loudest few of each other one."""
    least = _LEAST_PART * max((finding.share for finding in ranked), default=0.0)
    own = [finding for finding in ranked if finding.entity == first]
    own = [finding for finding in own if finding.share >= least][:_MOST_FINDINGS] or own[:1]
    beside: list[Finding] = []
    counts: dict[Entity, int] = {}
    for finding in ranked:
        counts[finding.entity] = counts.get(finding.entity, 0) + 1
        if finding.entity != first and counts[finding.entity] <= _MOST_BESIDE and finding.share >= least:
            beside.append(finding)
    return (*own, *beside[:_MOST_FINDINGS])
