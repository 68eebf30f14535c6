"""How far an episode reaches, told from who else deviates: device, host, job or fabric. Pure.

In a synchronous job everybody waits for the slowest. When one network card loses packets all hosts deviate from their own past, and the
worst of them need not be the culprit. What tells is the difference to the others: *loud* is a host that deviates from its own past,
*odd* one that deviates from its peers at the same time.

- odd: it is this device, or this host;
- not odd, and another one is: it waits for that one, and follows it;
- nobody odd, most of them loud: it is the job; if that is so in several jobs, or without any job, the fabric;
- else: this host, in something that its peers do not have.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from hwsonde_detector.types import Contribution, Device, Entity, Scope, Subsystem

# Of the evidence against a host so much must lie in channels that its peers have too before their silence means anything.
_LEAST_COMPARABLE = 0.5
# A device is named when so much of what is odd of its host belongs to it.
_DEVICE_SHARE = 0.6


@dataclass(frozen=True, slots=True)
class Standing:
    """How one host stands at the time of an episode.

    Attributes
    ----------
    loud
        It deviates from its own past.
    odd
        It deviates from its peers.
    score
        By how much, 1 is the configured risk.
    device
        The part that most of the difference belongs to, None where it is none.
    """

    loud: bool
    odd: bool
    score: float = 0.0
    device: Device | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The scope; ``device`` where it is a device, ``leader`` where another host explains this one."""

    scope: Scope
    device: Device | None = None
    leader: Entity | None = None


def scope_of(
    entity: Entity,
    standings: Mapping[Entity, Standing],
    comparable: float,
    *,
    minimum: int,
    job: bool,
    elsewhere: bool,
    subsystem: Subsystem,
) -> Verdict:
    """Scope of an episode of one host.

    Parameters
    ----------
    entity
        The host.
    standings
        Of all hosts of its group, itself among them.
    comparable
        Share (0..1) of its evidence in channels that were compared.
    minimum
        Fewer hosts than this say nothing of each other.
    job
        Whether the group is one job's.
    elsewhere
        Whether most hosts of another group are loud as well.
    subsystem
        What the episode was attributed to.
    """
    own = standings.get(entity)
    if own is not None and own.odd:
        return Verdict(Scope.DEVICE, own.device) if own.device is not None else Verdict(Scope.HOST)
    if own is None or len(standings) < minimum or comparable < _LEAST_COMPARABLE:
        return Verdict(Scope.HOST)
    odd = [other for other, standing in standings.items() if standing.odd and standing.loud and other != entity]
    if odd:
        return Verdict(Scope.HOST, leader=min(odd, key=lambda other: (-standings[other].score, other)))
    if not common(standings, minimum):
        return Verdict(Scope.HOST)
    wide = elsewhere or (not job and subsystem is Subsystem.NETWORK)
    return Verdict(Scope.FABRIC if wide else Scope.JOB)


def common(standings: Mapping[Entity, Standing], minimum: int) -> bool:
    """Whether most hosts of a group deviate from their own past at once."""
    loud = sum(standing.loud for standing in standings.values())
    return len(standings) >= minimum and 2 * loud > len(standings)


def comparable_share(top: Sequence[Contribution], compared: Collection[str]) -> float:
    """Share of contributions in channels with these names; 0 without any contribution."""
    total = sum(part.share for part in top)
    return sum(part.share for part in top if part.channel.name in compared) / total if total > 0 else 0.0


def leading_device(strengths: Mapping[Device | None, float]) -> Device | None:
    """The device that most of the strength belongs to; None where it is the whole host's, or spread over several."""
    total = sum(strengths.values())
    named = [(value, device) for device, value in strengths.items() if device is not None]
    if not named or total <= 0:
        return None
    value, device = min(named, key=lambda pair: (-pair[0], pair[1]))
    return device if value >= _DEVICE_SHARE * total else None
