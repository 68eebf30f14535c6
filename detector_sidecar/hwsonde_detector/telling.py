"""Which episodes are told, and how far they reach, once all hosts of a step are known. Pure.

A host opens episodes by its own past alone. Where it has peers, these decide whether it is told at once (it differs from them, or they
are all quiet), or held back for a few slots until it is known whether it is the culprit, waits for one, or all of a job do the same. Who
waits for another is muted: its episode stays open and freezes what is learned, but is told only if it outlasts the other's. One job that
deviates as a whole is told once. And who differs from its peers, while nothing in its own past says so, gets an episode from them, or keeps the one
that its own past has ended.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from hwsonde_detector.decision.episodes import Persistence
from hwsonde_detector.decision.peering import Slot
from hwsonde_detector.decision.scope import Verdict
from hwsonde_detector.explain.unlike import peer_episode, still_unlike, unlike
from hwsonde_detector.settings import PeerSettings
from hwsonde_detector.standings import Circle, Ending, Muted, Standings, Telling
from hwsonde_detector.types import Entity, Episode, EpisodeEvent, Phase, Scope, SettingFinding

# An episode is held back until its peers were judged for so many slots after it began, or for twice as many at the most.
_HELD_SLOTS = 3
# A muted episode is told when the one that it follows has been over for so many slots. What began further apart is another trouble.
_OUTLASTS = 20
# What begins within so many slots on two hosts begins at once: each is scraped at a moment of its own.
_AT_ONCE = 2
# Settings that are told with an episode.
_MOST_SETTINGS = 10
_WIDE = frozenset({Scope.JOB, Scope.FABRIC})
# So begins the title of an episode that was told alone and then turned out to be that of many.
_OF_MANY = re.compile(r"\d+ of \d+ hosts (?:of its job|alike) at once: ")


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
    normal
        Whether nobody is paged for an episode because it counts as normal.
    differing
        Who differed from its peers when the step began.

    Attributes
    ----------
    events
        What is to be told.
    pages
        By how many each host's own count of pages is wrong: it counts what it opens, told or not.
    """

    def __init__(
        self,
        telling: Telling,
        circles: Mapping[Entity, Circle],
        settings: PeerSettings,
        findings: Callable[[Entity, int], tuple[SettingFinding, ...]],
        normal: Callable[[Episode], bool],
        differing: Iterable[Entity] = (),
    ) -> None:
        self.telling = telling
        self.circles = circles
        self.findings = findings
        self.normal = normal
        self.events: list[EpisodeEvent] = []
        self.pages: Counter[Entity] = Counter()
        self._standings = Standings(telling, circles, settings.minimum)
        # Who differs at the time that was heard of last; who is being decided on, and who was held and is told since this step.
        self._differing = set(differing)
        self._deciding: set[Entity] = set()
        self._fresh: set[Entity] = set()

    def own(self, event: EpisodeEvent) -> None:
        """Something happened to an episode that a host opened by its own past."""
        telling, entity = self.telling, event.episode.entity
        self.settle(event.at_ms, entity)
        if event.phase is Phase.OPENED:
            self._end(entity)
            telling.open[entity] = event.episode
            self._opened(entity, event)
        elif event.phase is Phase.CHANGED:
            known = telling.open.get(entity)
            episode = named(event.episode, known)
            if known is not None:
                telling.open[entity] = episode
            if entity not in telling.held and entity not in telling.muted:
                self.events.append(replace(event, episode=episode))
        else:
            self._closed(entity, event)

    def _closed(self, entity: Entity, event: EpisodeEvent) -> None:
        telling = self.telling
        if entity in telling.held:
            self._decide(entity, event.at_ms, over=True)
        told, group = telling.open.pop(entity, None), self._standings.group(entity)
        if telling.muted.pop(entity, None) is not None:
            return
        event = replace(event, episode=named(event.episode, told))
        if told is not None and group is not None and self._outlasts(entity, told, event.at_ms):
            # The incident stays open: nothing new is paged, and nothing is said to be over while the host is still ill.
            told = replace(told, title=_OF_MANY.sub("", told.title), peak=event.episode.peak)
            telling.peers[entity] = told = still_unlike(told, group.newest, len(group.members) - 1)
            telling.kept.add(entity)
            self.events.append(EpisodeEvent(Phase.CHANGED, event.at_ms, told))
        elif entity in self._fresh and entity in self.circles:
            # Opened and closed in one step nobody would ever see it: it stays for a scrape.
            telling.ending[entity] = Ending(event)
        else:
            self.events.append(event)

    def _end(self, entity: Entity) -> None:
        """Tell that an episode is over which was so before."""
        ending = self.telling.ending.pop(entity, None)
        if ending is not None:
            self.events.append(ending.event)

    def rise(self, entity: Entity, slot: Slot) -> None:
        """A host has come to differ from its peers."""
        telling = self.telling
        self._differing.add(entity)
        self.settle(slot.end_ms, entity)
        self._end(entity)
        if entity in telling.held:
            self._decide(entity, slot.end_ms)
        if telling.told(entity) is not None:
            return
        if entity in telling.muted:
            self._tell(entity, slot.end_ms, self._standings.verdict(entity, slot.end_ms))
        else:
            self._open_peers(entity, slot, slot.end_ms)

    def fall(self, entity: Entity, at_ms: int) -> None:
        """A host does not differ from its peers any more; an episode of its own that goes on keeps the incident open."""
        self._differing.discard(entity)
        if entity in self.telling.peers and entity not in self.telling.open:
            self._close_peers(entity, at_ms)

    def _outlasts(self, entity: Entity, told: Episode, at_ms: int) -> bool:
        """Whether an incident goes on though the host's own episode is over. One of a whole job does not: that one host differs is another."""
        return entity in self._differing and told.scope not in _WIDE and not self._standings.spared(entity, at_ms)

    def _late(self, entity: Entity, row_ms: int) -> None:
        """Tell of a host that differs and of which nothing is told any more, as what was told was of its whole job, or most others were ill."""
        telling, group = self.telling, self._standings.group(entity)
        slot = group.newest if group is not None else None
        waits = telling.told(entity) is not None or entity in telling.held or entity in telling.muted
        if waits or slot is None or entity not in slot.values or self._standings.spared(entity, slot.end_ms):
            return
        if unlike(entity, slot):
            self._open_peers(entity, slot, max(slot.end_ms, row_ms))

    def _open_peers(self, entity: Entity, slot: Slot, at_ms: int) -> None:
        standings = self._standings
        # One that ends in this step keeps its name for itself.
        before = [one.episode.onset_ms + 1000 for one in self.events if one.episode.entity == entity]
        onset_ms = max([standings.onset(entity, slot.end_ms), *before])
        episode = peer_episode(entity, slot, standings.device(entity, slot.end_ms), onset_ms)
        settings = self.findings(entity, at_ms)[:_MOST_SETTINGS]
        self.telling.peers[entity] = episode = replace(episode, start_ms=at_ms, settings=settings)
        self.events.append(EpisodeEvent(Phase.OPENED, at_ms, episode))

    def _close_peers(self, entity: Entity, at_ms: int) -> None:
        telling, episode = self.telling, self.telling.peers.pop(entity)
        if entity in telling.kept and entity in telling.muted:
            self.pages[entity] += 1
        telling.kept.discard(entity)
        self.events.append(EpisodeEvent(Phase.CLOSED, at_ms, replace(episode, end_ms=at_ms)))

    def settle(self, at_ms: int, entity: Entity) -> None:
        """Decide on what was held back until a time in the group of a host."""
        group = self._standings.group(entity)
        due = [
            (event.episode.onset_ms, other)
            for other, (event, until_ms) in self.telling.held.items()
            if self._standings.group(other) is group
            and until_ms <= min(at_ms, group.judged_ms if group is not None else at_ms)
        ]
        for _, other in sorted(due):
            if other in self.telling.held:
                self._decide(other, at_ms)

    def finish(
        self,
        newest: Mapping[Entity, int | None],
        standing: Callable[[Entity], Persistence | None],
        now_ms: int,
        silent: Mapping[Entity, int],
    ) -> None:
        """End of a step: decide what is due, end what is over, and tell of what outlasted whom it followed.

        Parameters
        ----------
        newest
            Time of each host's newest row.
        standing
            Gives the persistence of a host among its peers, None where it has none.
        now_ms
            Time of the tick.
        silent
            For how long nothing was heard of a host, ms: rows stand still then, and time does not.
        """
        telling = self.telling
        for entity in sorted(telling.held, key=lambda one: (telling.held[one][0].episode.onset_ms, one)):
            if entity in telling.held and self._due(entity, newest.get(entity) or 0, silent.get(entity, 0)):
                self._decide(entity, newest.get(entity) or 0)
        for entity in sorted(telling.peers):
            known = standing(entity)
            if known is None or not known.open:
                self.fall(entity, newest.get(entity) or telling.peers[entity].start_ms)
        for entity in sorted(telling.muted):
            self._review(entity, newest.get(entity) or 0)
        for entity in sorted(telling.ending):
            self._show(entity, now_ms)
        for entity in sorted(self._differing):
            known = standing(entity)
            if known is not None and known.open:
                self._late(entity, newest.get(entity) or 0)
        self._fresh.clear()

    def _due(self, entity: Entity, row_ms: int, silent_ms: int) -> bool:
        """Whether no more is to be known of a held episode, or none is to be waited for."""
        until_ms, circle = self.telling.held[entity][1], self.circles.get(entity)
        if circle is None or circle.group.judged_ms >= until_ms:
            return True
        # Of a host that says nothing itself soon nothing can be shown any more.
        slots = _HELD_SLOTS if row_ms >= until_ms else 1
        return row_ms + silent_ms - until_ms >= slots * circle.group.interval_ms

    def _show(self, entity: Entity, now_ms: int) -> None:
        """Let an episode that is over stay for a scrape; a tick may be much shorter."""
        ending, interval = self.telling.ending[entity], self._standings.interval_ms(entity)
        if ending.shown_ms is None or now_ms < ending.shown_ms:
            ending.shown_ms = now_ms
        elif now_ms - ending.shown_ms >= interval:
            self._end(entity)

    def release(self, newest: Mapping[Entity, int | None]) -> None:
        """Hosts are compared no more: what peers opened is over, and what waited is told."""
        telling = self.telling
        for entity in sorted(telling.ending):
            self._end(entity)
        for entity in sorted(telling.peers):
            self._close_peers(entity, newest.get(entity) or telling.peers[entity].start_ms)
        for entity in sorted(telling.held.keys() | telling.muted.keys()):
            self._tell(entity, newest.get(entity) or telling.open[entity].start_ms, Verdict(Scope.HOST))

    def _review(self, entity: Entity, now_ms: int) -> None:
        telling = self.telling
        muted, circle = telling.muted[entity], self.circles.get(entity)
        if self._speaks(muted.leader):
            muted.since_ms = now_ms
        elif circle is None or now_ms - muted.since_ms >= _OUTLASTS * circle.group.interval_ms:
            verdict = self._led(entity, now_ms)
            if verdict.leader is not None and self._speaks(verdict.leader):
                telling.muted[entity] = Muted(verdict.leader, now_ms)
                self._widen(verdict, verdict.leader, now_ms)
            else:
                self._tell(entity, now_ms, replace(verdict, leader=None))

    def _opened(self, entity: Entity, event: EpisodeEvent) -> None:
        telling, circle = self.telling, self.circles.get(entity)
        if entity in telling.peers:
            telling.muted[entity] = Muted(entity, event.at_ms)
            # The page of one that the host opened itself was counted then.
            if entity in telling.kept:
                self.pages[entity] -= 1
            return
        if circle is None or not circle.group.cells.names:
            self._tell(entity, event.at_ms, Verdict(Scope.HOST))
            return
        standings = self._standings.of(circle.group, event.at_ms)
        others = [standing for other, standing in standings.items() if other != entity]
        mine = standings.get(entity)
        if (mine is not None and mine.odd) or not any(one.loud or one.odd for one in others):
            self._tell(entity, event.at_ms, self._standings.verdict(entity, event.at_ms))
            return
        telling.held[entity] = event, event.episode.start_ms + _HELD_SLOTS * circle.group.interval_ms

    def _speaks(self, leader: Entity, *, over: bool = False) -> bool:
        """Whether an episode of a host is told and open, so that another may wait for it; one that is over itself may follow what is over."""
        return self.telling.told(leader) is not None and (over or leader not in self.telling.ending)

    def _decide(self, entity: Entity, at_ms: int, *, over: bool = False) -> None:
        """Say of a held episode what it is; ``over`` where it has ended."""
        telling = self.telling
        event, until_ms = telling.held[entity]
        verdict = self._led(entity, max(until_ms, event.at_ms), over=over)
        leader = verdict.leader
        if leader in telling.held and leader not in self._deciding:
            # Whether there is anybody to wait for is known once that one is decided on.
            self._deciding.add(entity)
            self._decide(leader, at_ms)
            self._deciding.discard(entity)
        del telling.held[entity]
        told_ms = max(event.at_ms, min(at_ms, until_ms))
        if leader is not None and self._speaks(leader, over=over):
            telling.muted[entity] = Muted(leader, at_ms)
            self.pages[entity] -= 1
            self._widen(verdict, leader, told_ms)
        else:
            # Nobody waits for one of whom nothing is told.
            self._tell(entity, told_ms, replace(verdict, leader=None))
            self._fresh.add(entity)

    def _widen(self, verdict: Verdict, leader: Entity, at_ms: int) -> None:
        """Say of an episode that was told as one host's that many have it, once another one is muted behind it for that."""
        known, circle = self.telling.open.get(leader), self.circles.get(leader)
        if verdict.scope not in _WIDE or known is None or circle is None or known.scope in _WIDE:
            return
        if _OF_MANY.match(known.title) is None:
            loud, all_of_them = self._loud(circle, at_ms)
            alike = "of its job" if circle.job else "alike"
            title = f"{loud} of {all_of_them} hosts {alike} at once: {known.title}"
            # The scope stays what it was: it is a label of the alert, and another one would page again.
            self.telling.open[leader] = known = replace(known, title=title)
            self.events.append(EpisodeEvent(Phase.CHANGED, max(at_ms, known.start_ms), known))

    def _led(self, entity: Entity, at_ms: int, *, over: bool = False) -> Verdict:
        """The verdict, with whoever was told of already for all as the leader."""
        verdict = self._standings.verdict(entity, at_ms)
        if verdict.scope not in _WIDE:
            return verdict
        speaker = self._speaker(entity, verdict.scope, over=over) or self._first(entity, at_ms)
        return replace(verdict, leader=speaker) if speaker is not None else verdict

    def _speaker(self, entity: Entity, scope: Scope, *, over: bool) -> Entity | None:
        """Who was told of already for the whole job, or for the fabric, in what may be the same trouble."""
        telling, mine, group = self.telling, self.telling.open[entity], self._standings.group(entity)
        near_ms = _OUTLASTS * self._standings.interval_ms(entity)
        for other in sorted(telling.open.keys() | telling.ending.keys()):
            told = telling.told(other)
            if other == entity or told is None or told.scope not in _WIDE:
                continue
            if self.normal(told) or not self._speaks(other, over=over):
                continue
            same = told.subsystem is mine.subsystem or abs(told.onset_ms - mine.onset_ms) <= near_ms
            if same and (scope is Scope.FABRIC or self._standings.group(other) is group):
                return other
        return None

    def _first(self, entity: Entity, at_ms: int) -> Entity | None:
        """Who was told of alone, being scraped a moment earlier than all the others that do the same."""
        telling, mine, group = self.telling, self.telling.open[entity], self._standings.group(entity)
        near_ms = _AT_ONCE * self._standings.interval_ms(entity)
        for other in sorted(telling.open, key=lambda one: (telling.open[one].onset_ms, one)):
            told = telling.told(other)
            if other == entity or told is None or other in telling.peers or self._standings.group(other) is not group:
                continue
            same = told.subsystem is mine.subsystem and abs(told.onset_ms - mine.onset_ms) <= near_ms
            if same and not self.normal(told) and self._standings.verdict(other, at_ms).scope in _WIDE:
                return other
        return None

    def _loud(self, circle: Circle, at_ms: int) -> tuple[int, int]:
        standings = self._standings.of(circle.group, at_ms)
        return sum(standing.loud for standing in standings.values()), len(standings)

    def _tell(self, entity: Entity, at_ms: int, verdict: Verdict) -> None:
        telling, circle = self.telling, self.circles.get(entity)
        telling.held.pop(entity, None)
        muted = telling.muted.pop(entity, None)
        if muted is not None and muted.leader != entity:
            self.pages[entity] += 1
        episode = telling.open[entity]
        title = episode.title
        if verdict.scope in _WIDE and circle is not None:
            loud, all_of_them = self._loud(circle, at_ms)
            title = f"{circle.name or 'hosts alike'}: {loud} of {all_of_them} hosts at once; {title}"
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


def named(episode: Episode, known: Episode | None) -> Episode:
    """An episode with what was said of it when it was told."""
    if known is None or known.identity != episode.identity:
        return episode
    kept = known.scope in _WIDE or known.title.endswith(f": {episode.title}")
    title = known.title if kept else episode.title
    return replace(episode, scope=known.scope, device=known.device, settings=known.settings, title=title)
