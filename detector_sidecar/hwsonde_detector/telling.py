"""Which episodes are told, and how far they reach, once all hosts of a step are known. Pure.

A host opens episodes by its own past alone. Where it has peers, these decide whether it is told at once (it differs from them, or they
are all quiet), or held back for a few slots until it is known whether it is the culprit, waits for one, or all of a job do the same. Who
waits for another is muted: its episode stays open and freezes what is learned, but is told only if it outlasts the other's. One job that
deviates as a whole is told once. And who differs from its peers, while nothing in its own past says so, gets an episode from them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from hwsonde_detector.decision.episodes import Persistence
from hwsonde_detector.decision.peering import ODD_AT, TRAIL, Member, PeerGroup, Slot
from hwsonde_detector.decision.scope import Standing, Verdict, common, comparable_share, scope_of
from hwsonde_detector.detectors.peers import HOSTS
from hwsonde_detector.explain.unlike import peer_episode
from hwsonde_detector.settings import PeerSettings
from hwsonde_detector.types import (
    Device,
    Entity,
    EntityReport,
    Episode,
    EpisodeEvent,
    Phase,
    Scope,
    Score,
    SettingFinding,
)

# An episode is held back until its peers were judged for so many slots after it began, or for twice as many at the most.
_HELD_SLOTS = 3
# Of the newest slots so many must be odd, and of the newest windows so many loud.
_ODD, _ODD_OF = 3, 5
_LOUD, _LOUD_OF = 2, 6
# A muted episode is told when the one that it follows has been over for so many slots.
_OUTLASTS = 20
# Settings that are told with an episode.
_MOST_SETTINGS = 10
_WIDE = frozenset({Scope.JOB, Scope.FABRIC})


@dataclass(frozen=True, slots=True)
class Circle:
    """Where a host stands: its group, whether that is one job's, and what to call it."""

    group: PeerGroup
    job: bool = False
    name: str = ""


@dataclass(slots=True)
class Muted:
    """An open episode that is not told: whom it follows (the host itself: its peers told of it already), and when that was last true."""

    leader: Entity
    since_ms: int


@dataclass(slots=True)
class Telling:
    """What is open and what of it was told.

    Attributes
    ----------
    open
        Episodes that hosts opened by their own past, told or not.
    held, muted
        Those of them that wait, with the event and until when; and those that follow another.
    peers
        Episodes that peers opened.
    loud
        End and score of the newest calibrated windows of each host, oldest first.
    """

    open: dict[Entity, Episode] = field(default_factory=dict)
    held: dict[Entity, tuple[EpisodeEvent, int]] = field(default_factory=dict)
    muted: dict[Entity, Muted] = field(default_factory=dict)
    peers: dict[Entity, Episode] = field(default_factory=dict)
    loud: dict[Entity, deque[tuple[int, float]]] = field(default_factory=dict)

    def told(self, entity: Entity) -> Episode | None:
        """The episode of a host that is open and told, None where there is none."""
        if entity in self.peers:
            return self.peers[entity]
        return None if entity in self.held or entity in self.muted else self.open.get(entity)

    def hear(self, report: EntityReport) -> None:
        """Take the windows of a step."""
        trail = self.loud.setdefault(report.entity, deque())
        trail.extend((score.end_ms, score.fused) for score in report.scores if score.calibrated)

    def forget_old(self) -> None:
        """Keep what decisions about the newest windows need."""
        for trail in self.loud.values():
            while len(trail) > TRAIL:
                trail.popleft()


class Teller:
    """One step's telling.

    Parameters
    ----------
    telling
        What is known so far; changed.
    circles
        Where each host stands.
    settings
        Of peers.
    findings
        Gives what is known of a host's settings at a time.
    """

    def __init__(
        self,
        telling: Telling,
        circles: Mapping[Entity, Circle],
        settings: PeerSettings,
        findings: Callable[[Entity, int], tuple[SettingFinding, ...]],
    ) -> None:
        self.telling = telling
        self.circles = circles
        self.settings = settings
        self.findings = findings
        self.events: list[EpisodeEvent] = []
        self._known: dict[tuple[int, int, int], dict[Entity, Standing]] = {}

    def own(self, event: EpisodeEvent) -> None:
        """Something happened to an episode that a host opened by its own past."""
        telling, entity = self.telling, event.episode.entity
        self.settle(event.at_ms, entity)
        if event.phase is Phase.OPENED:
            telling.open[entity] = event.episode
            self._opened(entity, event)
            return
        known = telling.open.get(entity)
        episode = named(event.episode, known)
        if event.phase is Phase.CHANGED:
            if known is not None:
                telling.open[entity] = episode
            if entity not in telling.held and entity not in telling.muted:
                self.events.append(replace(event, episode=episode))
            return
        if entity in telling.held:
            self._decide(entity, event.at_ms)
            episode = named(event.episode, telling.open.get(entity))
        if telling.muted.pop(entity, None) is None:
            self.events.append(replace(event, episode=episode))
        telling.open.pop(entity, None)

    def rise(self, entity: Entity, slot: Slot) -> None:
        """A host has come to differ from its peers."""
        telling = self.telling
        self.settle(slot.end_ms, entity)
        if entity in telling.held:
            self._decide(entity, slot.end_ms)
        if telling.told(entity) is not None:
            return
        if entity in telling.muted:
            self._tell(entity, slot.end_ms, self._verdict(entity, slot.end_ms))
            return
        episode = peer_episode(entity, slot, self._device(entity, slot.end_ms), self._onset(entity, slot.end_ms))
        episode = replace(episode, settings=self.findings(entity, slot.end_ms)[:_MOST_SETTINGS])
        telling.peers[entity] = episode
        self.events.append(EpisodeEvent(Phase.OPENED, slot.end_ms, episode))

    def fall(self, entity: Entity, at_ms: int) -> None:
        """A host does not differ from its peers any more; an episode of its own that goes on keeps the incident open."""
        if entity in self.telling.peers and entity not in self.telling.open:
            episode = self.telling.peers.pop(entity)
            self.events.append(EpisodeEvent(Phase.CLOSED, at_ms, replace(episode, end_ms=at_ms)))

    def settle(self, at_ms: int, entity: Entity) -> None:
        """Decide on what was held back until a time in the group of a host."""
        group = self._group(entity)
        due = [
            (event.episode.onset_ms, other)
            for other, (event, until_ms) in self.telling.held.items()
            if self._group(other) is group and until_ms <= min(at_ms, group.judged_ms if group is not None else at_ms)
        ]
        for _, other in sorted(due):
            self._decide(other, at_ms)

    def finish(self, newest: Mapping[Entity, int | None], standing: Callable[[Entity], Persistence | None]) -> None:
        """End of a step: decide what is due, end what is over, and tell of what outlasted whom it followed.

        Parameters
        ----------
        newest
            Time of each host's newest row.
        standing
            Gives the persistence of a host among its peers, None where it has none.
        """
        telling = self.telling
        for entity in sorted(telling.held, key=lambda one: (telling.held[one][0].episode.onset_ms, one)):
            circle = self.circles.get(entity)
            until_ms, now_ms = telling.held[entity][1], newest.get(entity) or 0
            late = now_ms - until_ms >= _HELD_SLOTS * (circle.group.interval_ms if circle else 0)
            if late or circle is None or circle.group.judged_ms >= until_ms:
                self._decide(entity, now_ms)
        for entity in sorted(telling.peers):
            known = standing(entity)
            if known is None or not known.open:
                self.fall(entity, newest.get(entity) or telling.peers[entity].start_ms)
        for entity in sorted(telling.muted):
            self._review(entity, newest.get(entity) or 0)

    def _review(self, entity: Entity, now_ms: int) -> None:
        telling = self.telling
        muted, circle = telling.muted[entity], self.circles.get(entity)
        if telling.told(muted.leader) is not None:
            muted.since_ms = now_ms
        elif circle is None or now_ms - muted.since_ms >= _OUTLASTS * circle.group.interval_ms:
            verdict = self._led(entity, now_ms)
            if verdict.leader is not None and telling.told(verdict.leader) is not None:
                telling.muted[entity] = Muted(verdict.leader, now_ms)
            else:
                self._tell(entity, now_ms, replace(verdict, leader=None))

    def _group(self, entity: Entity) -> PeerGroup | None:
        circle = self.circles.get(entity)
        return circle.group if circle is not None else None

    def _opened(self, entity: Entity, event: EpisodeEvent) -> None:
        telling, circle = self.telling, self.circles.get(entity)
        if entity in telling.peers:
            telling.muted[entity] = Muted(entity, event.at_ms)
            return
        if circle is None or not circle.group.cells.names:
            self._tell(entity, event.at_ms, Verdict(Scope.HOST))
            return
        standings = self._standings(circle.group, event.at_ms)
        others = [standing for other, standing in standings.items() if other != entity]
        mine = standings.get(entity)
        if (mine is not None and mine.odd) or not any(one.loud or one.odd for one in others):
            self._tell(entity, event.at_ms, self._verdict(entity, event.at_ms))
            return
        telling.held[entity] = event, event.episode.start_ms + _HELD_SLOTS * circle.group.interval_ms

    def _decide(self, entity: Entity, at_ms: int) -> None:
        """Say of a held episode what it is."""
        telling = self.telling
        event, until_ms = telling.held.pop(entity)
        verdict = self._led(entity, max(until_ms, event.at_ms))
        if verdict.leader is not None:
            telling.muted[entity] = Muted(verdict.leader, at_ms)
        else:
            self._tell(entity, max(event.at_ms, min(at_ms, until_ms)), verdict)

    def _led(self, entity: Entity, at_ms: int) -> Verdict:
        """The verdict, with whoever was told of already for all as the leader."""
        verdict = self._verdict(entity, at_ms)
        speaker = self._speaker(entity, verdict.scope) if verdict.scope in _WIDE else None
        return replace(verdict, leader=speaker) if speaker is not None else verdict

    def _speaker(self, entity: Entity, scope: Scope) -> Entity | None:
        """Who was told of already for the whole job, or for the fabric."""
        group = self._group(entity)
        for other in sorted(self.telling.open):
            told = self.telling.told(other)
            if other == entity or told is None or told.scope not in _WIDE:
                continue
            if scope is Scope.FABRIC or self._group(other) is group:
                return other
        return None

    def _tell(self, entity: Entity, at_ms: int, verdict: Verdict) -> None:
        telling, circle = self.telling, self.circles.get(entity)
        telling.held.pop(entity, None)
        telling.muted.pop(entity, None)
        episode = telling.open[entity]
        title = episode.title
        if verdict.scope in _WIDE and circle is not None:
            standings = self._standings(circle.group, at_ms)
            loud = sum(standing.loud for standing in standings.values())
            title = f"{circle.name or 'hosts alike'}: {loud} of {len(standings)} hosts at once; {title}"
        episode = replace(
            episode,
            scope=verdict.scope,
            # Its own channels name a part too, where no other part is alike enough to compare with.
            device=verdict.device or episode.device,
            settings=self.findings(entity, at_ms)[:_MOST_SETTINGS],
            title=title,
        )
        telling.open[entity] = episode
        self.events.append(EpisodeEvent(Phase.OPENED, at_ms, episode))

    def _verdict(self, entity: Entity, at_ms: int) -> Verdict:
        circle, episode = self.circles.get(entity), self.telling.open[entity]
        if circle is None:
            return Verdict(Scope.HOST)
        group = circle.group
        compared = frozenset(name for _, name, kind in group.cells.of(entity) if kind == HOSTS)
        return scope_of(
            entity,
            self._standings(group, at_ms),
            comparable_share(episode.top, compared),
            minimum=self.settings.minimum,
            job=circle.job,
            elsewhere=self._elsewhere(group, at_ms),
            subsystem=episode.subsystem,
        )

    def _elsewhere(self, group: PeerGroup, at_ms: int) -> bool:
        others = {id(circle.group): circle.group for circle in self.circles.values() if circle.group is not group}
        return any(common(self._standings(other, at_ms), self.settings.minimum) for other in others.values())

    def _standings(self, group: PeerGroup, at_ms: int) -> dict[Entity, Standing]:
        # When a whole job deviates, the same is asked for each of its hosts.
        key = id(group), at_ms, len(self.telling.peers)
        if key not in self._known:
            self._known[key] = {entity: self._standing(group, entity, at_ms) for entity in group.members}
        return self._known[key]

    def _standing(self, group: PeerGroup, entity: Entity, at_ms: int) -> Standing:
        interval = group.interval_ms
        newest = [one for one in group.members[entity].trail if one[0] <= at_ms + interval][-_ODD_OF:]
        odd = [one for one in newest if one[1] >= ODD_AT and one[0] > at_ms - 2 * _ODD_OF * interval]
        begin = at_ms - _LOUD_OF * interval
        loud = sum(begin < end <= at_ms and fused >= 1.0 for end, fused in self.telling.loud.get(entity, ()))
        return Standing(
            loud=loud >= _LOUD or entity in self.telling.peers,
            odd=len(odd) >= _ODD,
            score=max((value for _, value, _ in newest), default=0.0),
            device=odd[-1][2] if odd else None,
        )

    def _device(self, entity: Entity, at_ms: int) -> Device | None:
        group = self._group(entity)
        return self._standing(group, entity, at_ms).device if group is not None else None

    def _onset(self, entity: Entity, at_ms: int) -> int:
        """End of the first slot of the run that a host has been odd in."""
        group, onset = self._group(entity), at_ms
        for end_ms, value, _ in reversed(group.members[entity].trail if group is not None else ()):
            if end_ms > at_ms:
                continue
            if value < ODD_AT:
                break
            onset = end_ms
        return onset


def named(episode: Episode, known: Episode | None) -> Episode:
    """An episode with what was said of it when it was told."""
    if known is None or known.identity != episode.identity:
        return episode
    title = known.title if known.scope in _WIDE else episode.title
    return replace(episode, scope=known.scope, device=known.device, settings=known.settings, title=title)


def with_peers(scores: tuple[Score, ...], member: Member, interval_ms: int) -> tuple[Score, ...]:
    """Scores with a member ``peers``: the host's value in the slot that each window ended in, or in the newest one judged before."""
    trail = member.trail
    if not scores or not trail:
        return scores
    told, place, ends = [], -1, list(trail)
    for score in scores:
        while place + 1 < len(ends) and ends[place + 1][0] <= score.end_ms + interval_ms:
            place += 1
        known = {"peers": ends[place][1]} if place >= 0 else {}
        told.append(replace(score, members={**score.members, **known}))
    return tuple(told)
