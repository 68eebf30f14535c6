"""Which incidents a program may be told to act on: bounded, whatever happens. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from hwsonde_detector.incidents.entry import Entry

_HOUR_MS = 3_600_000
_OLD_MS = 600_000


class Why(StrEnum):
    """What is done with an incident: acted on, only said, or why not."""

    ACT = "act"
    DRY_RUN = "dry run"
    NOT_PAGED = "not paged"
    SCOPE = "scope"
    SUBSYSTEM = "subsystem"
    PEAK = "peak"
    OLD = "it is long past"
    AGAIN = "acted on already"
    RATE = "rate limit"
    HOSTS = "too many hosts"


@dataclass(frozen=True, slots=True)
class Policy:
    """What is allowed.

    Attributes
    ----------
    dry_run
        Nothing is done, it is only said what would be.
    per_hour
        At most so many actions in an hour.
    hosts, hosts_ms
        At most so many different hosts in such a time.
    scopes, subsystems
        Incidents that count; no subsystem: all of them.
    least_peak
        Score that an incident must have reached when it is told of.
    """

    dry_run: bool = True
    per_hour: int = 4
    hosts: int = 3
    hosts_ms: int = 24 * _HOUR_MS
    scopes: frozenset[str] = frozenset({"device", "host"})
    subsystems: frozenset[str] = frozenset()
    least_peak: float = 1.0


@dataclass(frozen=True, slots=True)
class Act:
    """Something was done, or would have been: when, for which host, for which incident."""

    at_ms: int
    host: str
    incident: str


@dataclass(slots=True)
class Budget:
    """What was done so far, oldest first; dry runs count as if they had been done, so that they show what would happen."""

    acts: deque[Act] = field(default_factory=deque)

    def decide(self, entry: Entry, policy: Policy, now_ms: int) -> Why:
        """What becomes of an incident that was told of now; an action is noted as done."""
        if why := _unfit(entry, policy):
            return why
        # After a start the past is read; what was paged then is not acted on now.
        if now_ms - entry.told_ms > _OLD_MS:
            return Why.OLD
        longest = max(policy.hosts_ms, _HOUR_MS)
        while self.acts and now_ms - self.acts[0].at_ms >= longest:
            self.acts.popleft()
        if any(act.incident == entry.id for act in self.acts):
            return Why.AGAIN
        if sum(now_ms - act.at_ms < _HOUR_MS for act in self.acts) >= policy.per_hour:
            return Why.RATE
        hosts = {act.host for act in self.acts if now_ms - act.at_ms < policy.hosts_ms}
        if entry.host not in hosts and len(hosts) >= policy.hosts:
            return Why.HOSTS
        self.acts.append(Act(now_ms, entry.host, entry.id))
        return Why.DRY_RUN if policy.dry_run else Why.ACT

    def take_back(self, incident: str) -> None:
        """Forget what was noted as done and was not."""
        self.acts = deque(act for act in self.acts if act.incident != incident)

    def remember(self, acts: Iterable[Act]) -> None:
        """Take what was done before this process began."""
        self.acts.extend(sorted(acts, key=lambda act: act.at_ms))


def _unfit(entry: Entry, policy: Policy) -> Why | None:
    if not entry.paged:
        return Why.NOT_PAGED
    if entry.scope not in policy.scopes:
        return Why.SCOPE
    if policy.subsystems and entry.subsystem not in policy.subsystems:
        return Why.SUBSYSTEM
    return Why.PEAK if entry.peak < policy.least_peak else None
