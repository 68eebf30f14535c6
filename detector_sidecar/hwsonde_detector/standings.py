"""What is known of open episodes, and how hosts stand among their peers at a time. Pure."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hwsonde_detector.decision.peering import ODD_AT, TRAIL, Member, PeerGroup
from hwsonde_detector.decision.scope import Standing, Verdict, common, comparable_share, scope_of
from hwsonde_detector.detectors.peers import HOSTS
from hwsonde_detector.types import Device, Entity, EntityReport, Episode, EpisodeEvent, Scope, Score

# Of the newest slots so many must be odd, and of the newest windows so many loud.
_ODD, _ODD_OF = 3, 5
_LOUD, _LOUD_OF = 2, 6


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
class Ending:
    """An episode that was over before it was told: its end, which is told later, and the tick that showed it first."""

    event: EpisodeEvent
    shown_ms: int | None = None

    @property
    def shown(self) -> Episode:
        """The episode as an open one."""
        episode = self.event.episode
        title = episode.title.removesuffix(f"; closed: {episode.because}")
        return replace(episode, end_ms=None, because="", title=title)


@dataclass(slots=True)
class Telling:
    """What is open and what of it was told.

    Attributes
    ----------
    open
        Episodes that hosts opened by their own past, told or not.
    held, muted
        Those of them that wait, with the event and until when; and those that follow another.
    peers, kept
        Episodes that peers opened; and of which hosts they keep one open that the host opened itself, which calls it over.
    ending
        Episodes that were over as soon as they were told, and stay open for a scrape so that somebody sees them.
    loud
        End and score of the newest calibrated windows of each host, oldest first.
    """

    open: dict[Entity, Episode] = field(default_factory=dict)
    held: dict[Entity, tuple[EpisodeEvent, int]] = field(default_factory=dict)
    muted: dict[Entity, Muted] = field(default_factory=dict)
    peers: dict[Entity, Episode] = field(default_factory=dict)
    kept: set[Entity] = field(default_factory=set)
    ending: dict[Entity, Ending] = field(default_factory=dict)
    loud: dict[Entity, deque[tuple[int, float]]] = field(default_factory=dict)

    def told(self, entity: Entity) -> Episode | None:
        """The episode of a host that is open and told, None where there is none."""
        if entity in self.peers:
            return self.peers[entity]
        if entity in self.ending:
            return self.ending[entity].shown
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


class Standings:
    """How hosts stand, asked for in one step.

    Parameters
    ----------
    telling
        What is open.
    circles
        Where each host stands.
    minimum
        Fewer hosts than this say nothing of each other.
    """

    def __init__(self, telling: Telling, circles: Mapping[Entity, Circle], minimum: int) -> None:
        self.telling = telling
        self.circles = circles
        self.minimum = minimum
        self._known: dict[tuple[int, int, int], dict[Entity, Standing]] = {}

    def group(self, entity: Entity) -> PeerGroup | None:
        """The group of a host, None where it has none."""
        circle = self.circles.get(entity)
        return circle.group if circle is not None else None

    def interval_ms(self, entity: Entity) -> int:
        """Length of a slot of a host's group, 0 where it has none."""
        group = self.group(entity)
        return group.interval_ms if group is not None else 0

    def verdict(self, entity: Entity, at_ms: int) -> Verdict:
        """How far the open episode of a host reaches."""
        circle, episode = self.circles.get(entity), self.telling.open[entity]
        if circle is None:
            return Verdict(Scope.HOST)
        group = circle.group
        compared = frozenset(name for _, name, kind in group.cells.of(entity) if kind == HOSTS)
        return scope_of(
            entity,
            self.of(group, at_ms),
            comparable_share(episode.top, compared),
            minimum=self.minimum,
            job=circle.job,
            elsewhere=self._elsewhere(group, at_ms),
            subsystem=episode.subsystem,
        )

    def spared(self, entity: Entity, at_ms: int) -> bool:
        """Whether a host differs only because most of the others deviate from their past, and it does not."""
        group = self.group(entity)
        standings = self.of(group, at_ms) if group is not None else {}
        return common(standings, self.minimum) and not standings[entity].loud

    def _elsewhere(self, group: PeerGroup, at_ms: int) -> bool:
        others = {id(circle.group): circle.group for circle in self.circles.values() if circle.group is not group}
        return any(common(self.of(other, at_ms), self.minimum) for other in others.values())

    def of(self, group: PeerGroup, at_ms: int) -> dict[Entity, Standing]:
        """How all hosts of a group stand."""
        # When a whole job deviates, the same is asked for each of its hosts.
        key = id(group), at_ms, len(self.telling.peers)
        if key not in self._known:
            self._known[key] = {entity: self._one(group, entity, at_ms) for entity in group.members}
        return self._known[key]

    def _one(self, group: PeerGroup, entity: Entity, at_ms: int) -> Standing:
        interval = group.interval_ms
        newest = [one for one in group.members[entity].trail if one[0] <= at_ms + interval][-_ODD_OF:]
        odd = [one for one in newest if one[1] >= ODD_AT and one[0] > at_ms - 2 * _ODD_OF * interval]
        begin = at_ms - _LOUD_OF * interval
        loud = sum(begin < end <= at_ms and fused >= 1.0 for end, fused in self.telling.loud.get(entity, ()))
        return Standing(
            # One whose own past says nothing any more hides no new trouble of the others.
            loud=loud >= _LOUD or (entity in self.telling.peers and entity not in self.telling.kept),
            odd=len(odd) >= _ODD,
            score=max((value for _, value, _ in newest), default=0.0),
            device=odd[-1][2] if odd else None,
        )

    def device(self, entity: Entity, at_ms: int) -> Device | None:
        """The part of a host that differs from its like."""
        group = self.group(entity)
        return self._one(group, entity, at_ms).device if group is not None else None

    def onset(self, entity: Entity, at_ms: int) -> int:
        """End of the first slot of the run that a host has been odd in."""
        group, onset = self.group(entity), at_ms
        for end_ms, value, _ in reversed(group.members[entity].trail if group is not None else ()):
            if end_ms > at_ms:
                continue
            if value < ODD_AT:
                break
            onset = end_ms
        return onset


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
