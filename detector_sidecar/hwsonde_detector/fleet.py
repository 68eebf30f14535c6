"""What only all hosts of a step together tell: who is whose peer, who differs from them, and how they are set up. Pure.

`worker.step` hands over what its hosts said; `see` gives it back with scopes, settings and a member ``peers``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from hwsonde_detector.decision.episodes import Persistence
from hwsonde_detector.decision.peering import Member, PeerGroup, Slot, advance, join, pace, take
from hwsonde_detector.detectors.settings import HostSettings, differing, findings
from hwsonde_detector.host import HostState
from hwsonde_detector.settings import Settings
from hwsonde_detector.signals.entities import Split, label_of
from hwsonde_detector.signals.profiles import Profile
from hwsonde_detector.signals.slow import SettingKey, SlowReading, SlowRules, read_slow, separate
from hwsonde_detector.standings import Circle, Telling, with_peers
from hwsonde_detector.telling import Teller, named
from hwsonde_detector.types import Entity, EntityReport, Episode, EpisodeEvent, SampleBatch, Series, SettingFinding

GroupKey: TypeAlias = tuple[tuple[str, str], ...]

# A job that is not seen any more counts for so long: a pod that is started anew must not take its host out of its group.
_FACT_LASTS_MS = 120_000


@dataclass(slots=True)
class FleetState:
    """Everything known of hosts together.

    Attributes
    ----------
    telling
        Episodes that are open, and what of them was told.
    groups, home
        Groups by what their hosts have in common, and the group of each host.
    labels, facts
        Values of the configured labels of each host's series, and what its info series say, by word, with when they last did, ms.
    settings, differ
        Settings of each host, and what `differing` found of them.
    rules, profiles
        What slow series mean.
    plain
        Series of the newest batch without anything slow in it, so that the next one need not be searched.
    stale
        Groups or differences must be found anew.
    """

    telling: Telling = field(default_factory=Telling)
    groups: dict[GroupKey, PeerGroup] = field(default_factory=dict)
    home: dict[Entity, GroupKey] = field(default_factory=dict)
    labels: dict[Entity, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    facts: dict[Entity, dict[str, dict[str, int]]] = field(default_factory=dict)
    settings: dict[Entity, HostSettings] = field(default_factory=dict)
    differ: dict[Entity, dict[SettingKey, SettingFinding]] = field(default_factory=dict)
    rules: SlowRules = field(default_factory=lambda: SlowRules.of(()))
    profiles: tuple[Profile, ...] = ()
    plain: tuple[Series, ...] | None = None
    stale: bool = True


def without_slow(
    fleet: FleetState, batch: SampleBatch, settings: Settings, profiles: tuple[Profile, ...]
) -> SampleBatch:
    """Take settings and facts out of a batch and remember them; give the rest."""
    if fleet.profiles is not profiles and fleet.profiles != profiles:
        fleet.profiles, fleet.rules, fleet.plain = profiles, SlowRules.of(profiles), None
    if not fleet.rules.slow or batch.series is fleet.plain or batch.series == fleet.plain:
        return batch
    rest, slow = separate(batch, fleet.rules)
    if slow is not None and settings.peers.enabled:
        for entity, reading in read_slow(slow, fleet.rules, settings.entity_labels).items():
            fleet.stale |= fleet.settings.setdefault(entity, HostSettings()).take(reading.settings)
            _note_facts(fleet, entity, reading)
    if fleet.plain is not None and rest.series == fleet.plain:
        # The very same tuple, so that whoever compares it need not look at each.
        return replace(rest, series=fleet.plain)
    fleet.plain = rest.series
    return rest


def _note_facts(fleet: FleetState, entity: Entity, reading: SlowReading) -> None:
    """Remember facts. What comes and goes with a job counts for a while on; other words stay as they were where nothing was said of them."""
    if not reading.facts:
        return
    shared, known, now_ms = fleet.rules.shared_words(), fleet.facts.get(entity, {}), reading.newest_ms
    new: dict[str, dict[str, int]] = {}
    for word in sorted(known.keys() | reading.facts.keys()):
        values = reading.facts.get(word, ())
        kept = {} if values and word not in shared else known.get(word, {})
        if word in shared:
            kept = {value: seen_ms for value, seen_ms in kept.items() if now_ms - seen_ms <= _FACT_LASTS_MS}
        new[word] = {**kept, **dict.fromkeys(values, now_ms)}
    fleet.stale |= any(new[word].keys() != known.get(word, {}).keys() for word in new)
    fleet.facts[entity] = new


def note_labels(fleet: FleetState, split: Split, settings: Settings) -> None:
    """Remember the configured labels of hosts, from the first of their series that has each."""
    for entity, _, series in split.parts:
        found = tuple(
            (word, next((value for one in series[:50] if (value := label_of(one, word))), ""))
            for word in settings.peers.by
        )
        if fleet.labels.get(entity) != found:
            fleet.labels[entity], fleet.stale = found, True


def see(
    fleet: FleetState,
    hosts: Mapping[Entity, HostState],
    reports: Iterable[EntityReport],
    events: Iterable[EpisodeEvent],
    now_ms: int,
    settings: Settings,
    normal: Callable[[Episode], bool],
) -> tuple[list[EntityReport], list[EpisodeEvent]]:
    """Compare hosts and decide what of their episodes is told.

    Parameters
    ----------
    fleet, hosts
        Changed: open episodes of hosts get their scope, and what follows another's is not counted as a page.
    reports, events
        What the hosts said in this step.
    now_ms
        Time of the tick.
    settings
        All of them.
    normal
        Whether nobody is paged for an episode because it counts as normal.

    Returns
    -------
    tuple
        Reports and events as they are to be told.
    """
    reports, events = list(reports), list(events)
    if not settings.peers.enabled:
        return _release(fleet, hosts, reports, events, settings, normal)
    telling = fleet.telling
    alive = {report.entity for report in reports if hosts[report.entity].last_row_ms is not None}
    _regroup(fleet, alive, hosts, settings)
    for report in reports:
        telling.hear(report)
    members = ((entity, member) for group in fleet.groups.values() for entity, member in group.members.items())
    differing = [entity for entity, member in members if member.persistence.open]
    judged = _judged(fleet, hosts, settings)
    words = fleet.rules.shared_words()
    circles = {entity: _circle(fleet.groups[key], key, words) for entity, key in fleet.home.items()}
    teller = Teller(
        telling,
        circles,
        settings.peers,
        lambda entity, at_ms: _findings(fleet, entity, at_ms, settings),
        normal,
        differing,
    )
    _replay(teller, judged, events)
    _keep_open(telling, hosts)
    silent = {entity: host.silent_ms for entity, host in hosts.items()}
    teller.finish(_newest(hosts), lambda one: _persistence(fleet, one), now_ms, silent)
    _keep_open(telling, hosts)
    _count_pages(hosts, teller.pages)
    told = [_told(fleet, report, max(now_ms, hosts[report.entity].last_row_ms or 0), settings) for report in reports]
    telling.forget_old()
    return told, teller.events


def _release(
    fleet: FleetState,
    hosts: Mapping[Entity, HostState],
    reports: list[EntityReport],
    events: list[EpisodeEvent],
    settings: Settings,
    normal: Callable[[Episode], bool],
) -> tuple[list[EntityReport], list[EpisodeEvent]]:
    """Hosts are compared no more: tell once of what that leaves, and forget it."""
    if fleet.telling == Telling():
        return reports, events
    teller = Teller(
        fleet.telling, {}, settings.peers, lambda entity, at_ms: _findings(fleet, entity, at_ms, settings), normal
    )
    for event in events:
        teller.own(event)
    _keep_open(fleet.telling, hosts)
    teller.release(_newest(hosts))
    _keep_open(fleet.telling, hosts)
    _count_pages(hosts, teller.pages)
    fleet.telling = Telling()
    for group in fleet.groups.values():
        for member in group.members.values():
            # Whoever still differs when hosts are compared again is told anew.
            member.persistence = Persistence()
    episodes = {entity: host.episode for entity, host in hosts.items()}
    told = [
        replace(report, open_episodes=(episode,) if (episode := episodes[report.entity]) is not None else ())
        for report in reports
    ]
    return told, teller.events


def _newest(hosts: Mapping[Entity, HostState]) -> dict[Entity, int | None]:
    return {entity: host.last_row_ms for entity, host in hosts.items()}


def _count_pages(hosts: Mapping[Entity, HostState], pages: Mapping[Entity, int]) -> None:
    """What follows another's episode is no page of a host, until it is told after all."""
    for entity, by in pages.items():
        if entity in hosts:
            hosts[entity].watch.pages += by


def _keep_open(telling: Telling, hosts: Mapping[Entity, HostState]) -> None:
    """Write what was said of open episodes into the hosts' own; forget what is open no more."""
    known, telling.open = telling.open, {}
    for entity, host in hosts.items():
        if host.episode is not None:
            host.episode = telling.open[entity] = named(host.episode, known.get(entity))
    for waiting in (telling.held, telling.muted):
        for entity in waiting.keys() - telling.open.keys():
            del waiting[entity]


def _regroup(fleet: FleetState, alive: set[Entity], hosts: Mapping[Entity, HostState], settings: Settings) -> None:
    """Find groups and differing settings anew, if anything that they depend on has changed."""
    if not fleet.stale and alive == fleet.home.keys():
        return
    fleet.stale = False
    for entity in [
        one for one in {**fleet.labels, **fleet.facts, **fleet.settings, **fleet.telling.loud} if one not in hosts
    ]:
        fleet.labels.pop(entity, None)
        fleet.facts.pop(entity, None)
        fleet.settings.pop(entity, None)
        fleet.telling.loud.pop(entity, None)
    keys = _keys(fleet, alive, settings)
    members: dict[GroupKey, list[Entity]] = {}
    for entity in sorted(keys):
        members.setdefault(keys[entity], []).append(entity)
    fleet.home = keys
    fleet.groups = {key: fleet.groups.get(key) or PeerGroup() for key in members}
    fleet.differ = {}
    for key, group in fleet.groups.items():
        join(group, tuple(members[key]))
        own = {entity: fleet.settings[entity] for entity in members[key] if entity in fleet.settings}
        fleet.differ |= differing(own, settings.peers.minimum)


def _keys(fleet: FleetState, alive: set[Entity], settings: Settings) -> dict[Entity, GroupKey]:
    """What each host has in common with its peers. A job counts if enough hosts have it."""
    shared = fleet.rules.shared_words()
    hosts_with = Counter(
        (word, value)
        for entity in alive
        for word, values in fleet.facts.get(entity, {}).items()
        if word in shared
        for value in values
    )
    told = {rule.word for rules in fleet.rules.groups.values() for rule in rules}

    def value(entity: Entity, word: str, label: str) -> str:
        if word not in told:
            return label
        values = sorted(fleet.facts.get(entity, {}).get(word, ()))
        return ",".join(one for one in values if word not in shared or hosts_with[word, one] >= settings.peers.minimum)

    return {
        entity: tuple((word, value(entity, word, label)) for word, label in fleet.labels.get(entity, ()))
        for entity in alive
    }


def _circle(group: PeerGroup, key: GroupKey, shared: frozenset[str]) -> Circle:
    jobs = ", ".join(value for word, value in key if word in shared and value)
    others = "/".join(value for word, value in key if word not in shared and value)
    return Circle(group, bool(jobs), jobs or others)


def _judged(
    fleet: FleetState, hosts: Mapping[Entity, HostState], settings: Settings
) -> list[tuple[int, Entity, bool, Slot]]:
    """Judge new slots of every group; give who rose or fell (False) among its peers, and when."""
    found = []
    for _, group in sorted(fleet.groups.items()):
        intervals = [hosts[entity].interval_ms or 0 for entity in group.members]
        if not max(intervals, default=0):
            continue
        pace(group, max(intervals))
        for entity in group.members:
            for frame in hosts[entity].taken:
                take(group, entity, frame)
        loud = {
            (entity, end_ms // group.interval_ms)
            for entity in group.members
            for end_ms, fused in fleet.telling.loud.get(entity, ())
            if fused >= settings.episodes.raise_at
        }

        def unhealthy(
            entity: Entity, end_ms: int, loud: set[tuple[Entity, int]] = loud, interval: int = group.interval_ms
        ) -> bool:
            slot = end_ms // interval - 1
            return (entity, slot) in loud or (entity, slot - 1) in loud

        settled = {entity: hosts[entity].persistence.settled_ms for entity in group.members}
        for slot in advance(group, settings, unhealthy, settled):
            found += [(slot.end_ms, entity, True, slot) for entity in slot.opened]
            found += [(slot.end_ms, entity, False, slot) for entity in slot.closed]
    return found


def _replay(teller: Teller, judged: list[tuple[int, Entity, bool, Slot]], events: list[EpisodeEvent]) -> None:
    """Let the teller hear in order of time what happened, as if it had come one by one."""
    happened: list[tuple[int, int, int]] = [(at_ms, 0, place) for place, (at_ms, _, _, _) in enumerate(judged)]
    happened += [(event.at_ms, 1, place) for place, event in enumerate(events)]
    for at_ms, kind, place in sorted(happened):
        if kind:
            teller.own(events[place])
            continue
        _, entity, rose, slot = judged[place]
        if rose:
            teller.rise(entity, slot)
        else:
            teller.fall(entity, at_ms)


def _persistence(fleet: FleetState, entity: Entity) -> Persistence | None:
    member = _member(fleet, entity)
    return member.persistence if member is not None else None


def _member(fleet: FleetState, entity: Entity) -> Member | None:
    key = fleet.home.get(entity)
    return fleet.groups[key].members.get(entity) if key is not None else None


def _findings(fleet: FleetState, entity: Entity, at_ms: int, settings: Settings) -> tuple[SettingFinding, ...]:
    own = fleet.settings.get(entity)
    if own is None:
        return ()
    return findings(entity, own, fleet.differ.get(entity, {}), at_ms, settings.peers.settings_before_ms)


def _told(fleet: FleetState, report: EntityReport, now_ms: int, settings: Settings) -> EntityReport:
    """A host's report with what is told of it."""
    telling, entity = fleet.telling, report.entity
    episode, muted, member = telling.told(entity), telling.muted.get(entity), _member(fleet, entity)
    scores = report.scores
    if member is not None:
        scores = with_peers(scores, member, fleet.groups[fleet.home[entity]].interval_ms)
    return replace(
        report,
        scores=scores,
        open_episodes=(episode,) if episode is not None else (),
        settings=_findings(fleet, entity, now_ms, settings),
        circle=fleet.home.get(entity, ()),
        follows=muted.leader if muted is not None and muted.leader != entity else None,
    )
