"""All of the middle floors for a set of hosts: `step` turns new samples into scores and episode events, without clock, network or file.

`step` owns the state that it is given: the caller passes it in, takes the returned one and does not touch the old one again
(models are large, copying them each second would cost more than scoring). Equal state, batch and time give equal results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from numpy.typing import NDArray

from hwsonde_detector.decision.turns import Turns
from hwsonde_detector.decision.waiting import waiting
from hwsonde_detector.fleet import FleetState, note_labels, see, without_slow
from hwsonde_detector.fleetstate import restore_fleet, snapshot_fleet
from hwsonde_detector.host import HostState, observe
from hwsonde_detector.hoststate import restore_host, snapshot_host
from hwsonde_detector.hushing import Hushing, Told, counts_as_normal, hush
from hwsonde_detector.plan import Plan, fingerprints, left, same_channels, same_models, stale
from hwsonde_detector.quality import end_faults, judge_data
from hwsonde_detector.signals.channels import ChannelState
from hwsonde_detector.signals.entities import Split, entity_from_instance, plan_split
from hwsonde_detector.signals.health import speaks
from hwsonde_detector.types import (
    DataFaultEvent,
    Entity,
    EntityReport,
    Episode,
    EpisodeEvent,
    Outputs,
    Phase,
    SampleBatch,
)
from hwsonde_detector.types.guidance import UNGUIDED, Guidance

# A host that is silent for so long while somebody listens is forgotten, models and all. Most repairs are done by then; what comes back later has
# other parts or another task, and its past would soon be too old to count in any case.
FORGET_MS = 7 * 86_400_000
# Names come and go, too, of nodes that are made by the hour. Of hosts that are gone no more are kept than half of the most that were here at
# once lately, but so many in any case.
KEPT_LEAST = 16
# From one step to the next no more time than this was listened.
_LISTENED_MS = 3_600_000
# A host that was never seen waits for nothing.
_NEW = (True, 0)


@dataclass(slots=True)
class Crowd:
    """The most hosts that were here at once, and for how long there have been fewer, ms."""

    hosts: int = 0
    since_ms: int = 0

    def count(self, hosts: int, elapsed_ms: int) -> None:
        """So many are here now."""
        self.since_ms += elapsed_ms
        if hosts >= self.hosts or self.since_ms > FORGET_MS:
            self.hosts, self.since_ms = hosts, 0

    def room(self) -> int:
        """How many hosts are kept at most, gone ones among them."""
        return self.hosts + max(self.hosts // 2, KEPT_LEAST)


def idle() -> None:
    """Nobody asks whether a step goes on."""


@dataclass(slots=True)
class WorkerState:
    """Everything known of every host.

    ``split`` says how the last batch's series fell into hosts, ``unnamed`` which of them lack the host's label; ``plan`` is that of the last step,
    ``fleet`` what hosts tell together, ``hushing`` what is not told because it counts as normal. ``now_ms`` is the time of the last step since
    the start, ``crowd`` says how many hosts there were.
    """

    hosts: dict[Entity, HostState] = field(default_factory=dict)
    split: Split | None = None
    unnamed: frozenset[Entity] = frozenset()
    plan: Plan | None = None
    fleet: FleetState = field(default_factory=FleetState)
    hushing: Hushing = field(default_factory=Hushing)
    now_ms: int | None = None
    crowd: Crowd = field(default_factory=Crowd)


@dataclass(slots=True)
class _Said:
    """What the hosts of one step say, each for itself."""

    reports: list[EntityReport] = field(default_factory=list)
    events: list[EpisodeEvent] = field(default_factory=list)
    gone: list[Entity] = field(default_factory=list)
    faults: list[DataFaultEvent] = field(default_factory=list)

    def sort(self) -> None:
        """Bring everything in order of entity; what one says stays in its order."""
        self.reports.sort(key=lambda report: report.entity)
        self.events.sort(key=lambda event: event.episode.entity)
        self.gone.sort()
        self.faults.sort(key=lambda event: event.episode.entity)


def step(
    state: WorkerState,
    batch: SampleBatch,
    now_ms: int,
    plan: Plan,
    guidance: Guidance = UNGUIDED,
    alive: Callable[[], None] = idle,
    *,
    unhurried: bool = False,
) -> tuple[WorkerState, Outputs]:
    """Take the samples of one tick.

    A host that has been silent for long is told as gone once, its episode closed; its models stay, so that a host or a Prometheus
    that was away for a night is judged at once when it is back.

    Models are made of a few hosts in each step (`hwsonde_detector.decision.turns`), of those first that wait for them most urgently.

    Parameters
    ----------
    state
        What the last step returned, or ``WorkerState()``.
    batch
        Raw samples; those seen before are ignored.
    now_ms
        Time of the tick. Samples decide what is scored; the time only says whose silence has lasted too long.
    plan
        Settings and profiles.
    guidance
        What people told since the last step, and what counts as normal now.
    alive
        Called after each host, so that a long step can be told from one that hangs.
    unhurried
        Nobody waits for the step: models are made of every host that wants one.
    """
    for mark in guidance.marks:
        if (known := state.hosts.get(mark.entity)) is not None:
            known.feedback.mark(mark.identity, mark.kind, known.threshold, busy=known.persistence.open)
    labels = plan.settings.entity_labels
    batch = without_slow(state.fleet, batch, plan.settings, plan.profiles)
    compared = state.plan is None or state.plan.settings.peers == plan.settings.peers
    if state.split is None or not compared or not state.split.fits(batch, labels):
        state.split = plan_split(batch.series, labels)
        state.unnamed = frozenset(
            entity for entity, _, own in state.split.parts if entity_from_instance(own[0], labels)
        )
        note_labels(state.fleet, state.split, plan.settings)
    state.plan = plan
    parts = state.split.apply(batch)
    there = {entity: host.interval_ms for entity, host in state.hosts.items() if not host.absent}
    turns = Turns((there.get(entity) for entity in parts.keys() | there.keys()), unhurried=unhurried)
    said = _listen(state, parts, now_ms, plan, turns, alive)
    crowded_out = _make_room(state)
    hushing = state.hushing

    def normal(episode: Episode) -> bool:
        return counts_as_normal(hushing, guidance, episode, now_ms)

    reports, events = see(state.fleet, state.hosts, said.reports, said.events, now_ms, plan.settings, normal)
    told = hush(state.hushing, guidance, reports, events, now_ms)
    _uncount(state, told)
    return state, Outputs(
        tuple(told.reports), tuple(told.events), tuple(said.gone), tuple(said.faults), tuple(told.hushed), crowded_out
    )


def _listen(
    state: WorkerState,
    parts: Mapping[Entity, SampleBatch],
    now_ms: int,
    plan: Plan,
    turns: Turns,
    alive: Callable[[], None],
) -> _Said:
    """Take the samples of every host, of those first that wait for a model; what they say is in order of entity all the same."""
    elapsed_ms = min(max(now_ms - state.now_ms, 0), _LISTENED_MS) if state.now_ms is not None else 0
    state.now_ms, said, settings = now_ms, _Said(), plan.settings
    order = {entity: waiting(host, settings) for entity, host in state.hosts.items()}
    for entity in sorted(parts.keys() | order.keys(), key=lambda one: (order.get(one, _NEW), one)):
        own = parts.get(entity, SampleBatch.empty())
        heard = speaks(own.series)
        if entity not in order and not heard:
            # Nothing but vain scrapes of something that has never answered.
            continue
        host = state.hosts.setdefault(entity, HostState(entity, ChannelState(entity)))
        host.silent_ms = 0 if heard else host.silent_ms + elapsed_ms
        host.turn = turns.give()
        report, happened = observe(host, own, now_ms, settings, plan.profiles)
        turns.count(host.turn, sum(len(rows.times) for rows in host.taken))
        said.events += happened
        if report is not None:
            host.absent = False
            quality, told = judge_data(host.quality, host.channels, own, now_ms, settings)
            said.faults += told
            said.reports.append(replace(report, named_by_instance=entity in state.unnamed, quality=quality))
        else:
            said.faults += end_faults(host.quality, now_ms)
            _miss(state, host, said)
        alive()
    state.crowd.count(len(said.reports), elapsed_ms)
    said.sort()
    return said


def _miss(state: WorkerState, host: HostState, said: _Said) -> None:
    """A host is gone: say so once, and forget it when it has been so for long."""
    if not host.absent:
        host.absent = True
        said.gone.append(host.entity)
    if host.last_row_ms is None or host.silent_ms > FORGET_MS:
        _forget(state, host.entity)


def _forget(state: WorkerState, entity: Entity) -> None:
    del state.hosts[entity]
    # What is known of its labels and settings goes with it.
    state.fleet.stale = True


def _make_room(state: WorkerState) -> tuple[Entity, ...]:
    """Forget those that have been gone for longest, if there are too many of them; gives which."""
    over = len(state.hosts) - state.crowd.room()
    if over <= 0:
        return ()
    gone = sorted(((host.last_row_ms or 0, entity) for entity, host in state.hosts.items() if host.absent))
    for _, entity in gone[:over]:
        _forget(state, entity)
    return tuple(sorted(entity for _, entity in gone[:over]))


def _uncount(state: WorkerState, said: Told) -> None:
    """What counts as normal is no page of a host, and its end raises no level."""
    for one in said.hushed:
        episode = one.event.episode
        host = state.hosts.get(episode.entity)
        if one.event.phase is Phase.OPENED:
            _count_page(state, episode, -1)
        elif host is not None and (host.episode is None or host.episode.identity != episode.identity):
            # It is closed, or only its peers keep it open.
            host.feedback.uncount(episode.identity, host.threshold)
    for episode in said.late:
        _count_page(state, episode, 1)


def _count_page(state: WorkerState, episode: Episode, by: int) -> None:
    """Only what a host opened by its own past is counted as its page."""
    host = state.hosts.get(episode.entity)
    if host is not None and host.episode is not None and host.episode.identity == episode.identity:
        host.watch.pages += by


def last_row_ms(state: WorkerState) -> int | None:
    """Time of the newest row of any host; None before the first."""
    return max((host.last_row_ms for host in state.hosts.values() if host.last_row_ms is not None), default=None)


def snapshot(state: WorkerState) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Document and arrays for the state on disk."""
    document: dict[str, Any] = {"hosts": [], "made_by": fingerprints(state.plan) if state.plan is not None else {}}
    document["crowd"] = [state.crowd.hosts, state.crowd.since_ms]
    arrays: dict[str, NDArray[Any]] = {}
    for index, entity in enumerate(sorted(state.hosts)):
        part, own = snapshot_host(state.hosts[entity])
        document["hosts"].append(part)
        arrays |= {f"{index}/{key}": value for key, value in own.items()}
    if state.plan is not None:
        document["hushing"] = dict(state.hushing.waiting)
        document["fleet"], own = snapshot_fleet(state.fleet, state.plan.settings, state.hosts)
        arrays |= {f"fleet/{key}": value for key, value in own.items()}
    return document, arrays


def restore(document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], plan: Plan) -> WorkerState:
    """Rebuild the state from `snapshot`.

    Hosts that were silent go on being so; the time since the snapshot counts for none of them, as nobody listened. What is kept of channels whose
    rules have changed is dropped, and so is a host of which too little is left; models that other settings or rules made are made anew from
    the kept rows.

    Raises
    ------
    KeyError, ValueError, TypeError
        If something is missing or of another shape, or nothing is left of any host; the caller starts cold.
    """
    state = WorkerState(plan=plan)
    theirs = document["made_by"]
    gone, same = stale(theirs, plan), same_models(theirs, plan)
    newest_ms = max((part["last_row_ms"] or 0 for part in document["hosts"]), default=0)
    for index, part in enumerate(document["hosts"]):
        prefix = f"{index}/"
        own = {key[len(prefix) :]: value for key, value in arrays.items() if key.startswith(prefix)}
        host = restore_host(part, own, plan.settings, same_settings=same)
        lost = left(host.memory.channels, gone)
        if lost is None:
            continue
        host.memory.forget(lost)
        host.regimes.ages.forget(lost)
        # States of versions in which every silence began anew with a start lack it; others have been heard since.
        host.silent_ms = int(part.get("silent_ms", newest_ms - (host.last_row_ms or newest_ms)))
        host.absent = host.episode is None and host.silent_ms > plan.settings.episodes.gone_after_ms
        state.hosts[host.entity] = host
    if document["hosts"] and not state.hosts:
        raise ValueError("its rows were made with other profiles, and are learned anew")
    # States of versions that kept all who were gone lack it: who was here, and when, is not known.
    state.crowd = Crowd(*map(int, document.get("crowd", (len(state.hosts), 0))))
    # States of versions in which nothing counted as normal lack it.
    state.hushing.waiting = {str(name): str(reason) for name, reason in document.get("hushing", {}).items()}
    if "fleet" in document:
        own = {key.removeprefix("fleet/"): value for key, value in arrays.items() if key.startswith("fleet/")}
        # What groups know is of their channels as these were made and scaled.
        fleet = document["fleet"] if same_channels(theirs, plan) else {**document["fleet"], "groups": [], "home": []}
        state.fleet = restore_fleet(fleet, own, state.hosts, plan.settings)
    return state
