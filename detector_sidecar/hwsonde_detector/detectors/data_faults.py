"""Data faults of one host: a score for each kind, with the evidence that it stands on. Pure.

A GPU, a disk or a sensor that fails quietly shows first in what it sends: nothing, the same, or what cannot be. Nothing here touches
channels, rows or the anomaly score; it looks at the same samples beside them. Every score is built so that it passes 1 only after its
fault has lasted: how long is in `hwsonde_detector.settings.DataFaultSettings`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import numpy as np

from hwsonde_detector.detectors.faults import columns, flow, gauges, parts, usual
from hwsonde_detector.detectors.faults.columns import ColumnBook, ColumnKey, ColumnPlaces, Now
from hwsonde_detector.detectors.faults.flow import FlowBook
from hwsonde_detector.detectors.faults.gauges import GaugePlaces, new_gauges
from hwsonde_detector.detectors.faults.ledger import Ledger, keep_targets
from hwsonde_detector.detectors.faults.parts import PartBook, Places
from hwsonde_detector.detectors.faults.usual import UsualBook, UsualPlaces
from hwsonde_detector.detectors.faults.view import COLLECTOR, HOST, METRIC, Target, TargetView, view_of
from hwsonde_detector.settings import Settings
from hwsonde_detector.signals.channels import ChannelState
from hwsonde_detector.signals.health import HealthKey, HealthState, Heard
from hwsonde_detector.signals.layout import Layout
from hwsonde_detector.signals.profiles.rules import HealthRole
from hwsonde_detector.signals.targets import TargetState
from hwsonde_detector.types import DataFault, Device, FaultEvidence, FaultKind, SampleBatch

HOST_KINDS = tuple(kind for kind in FaultKind if kind is not FaultKind.PARTIAL)
"""What one host's samples can tell; that answers of the server are partial is known where they are read."""

TOP_EVIDENCE = 10
_HIGHEST = 10.0
_NUMBER_ALONE = 0.9
# A start time may wobble by rounding and by a clock that is being adjusted.
_MARK_TOLERANCE_S = 0.5


class _Places(Protocol):
    """Index arrays into a book, made for one view and one version of the book."""

    @property
    def made_for(self) -> tuple[Any, ...]:
        """The view, and versions."""

    def fit(self, book: Any, view: TargetView) -> bool:  # noqa: ANN401 - each kind has a book of its own
        """Whether nothing changed since."""


_B = TypeVar("_B")
_P = TypeVar("_P", bound=_Places)


@dataclass(slots=True)
class TargetBook:
    """What is kept of one target between two steps.

    ``ref_ms`` is the newest scrape that was looked at, ``grace_ms`` how long nothing is missed any more after a start of the exporter,
    ``mark`` its start time, ``version`` its version, ``scrapes`` and ``restarted_ms`` the target's own counts at the last look.
    """

    ref_ms: int = 0
    grace_ms: float = 0.0
    mark: float | None = None
    version: str = ""
    flow: FlowBook = field(default_factory=FlowBook)
    scrapes: int = 0
    restarted_ms: int | None = None


@dataclass(slots=True, eq=False)
class _Cache:
    """Index arrays that are made anew when a layout or the health series change."""

    views: dict[Target, TargetView] = field(default_factory=dict)
    parts: dict[Target, Places] = field(default_factory=dict)
    columns: dict[Target, ColumnPlaces] = field(default_factory=dict)
    gauges: dict[Target, GaugePlaces] = field(default_factory=dict)
    usual: dict[Target, UsualPlaces] = field(default_factory=dict)
    slots: dict[tuple[Target, HealthRole], list[int]] = field(default_factory=dict)
    slots_of: tuple[HealthKey, ...] | None = None

    def forget(self, known: Collection[Target]) -> None:
        """Drop what belongs to other targets."""
        self.views = {key: one for key, one in self.views.items() if key in known}
        self.parts = {key: one for key, one in self.parts.items() if key in known}
        self.columns = {key: one for key, one in self.columns.items() if key in known}
        self.gauges = {key: one for key, one in self.gauges.items() if key in known}
        self.usual = {key: one for key, one in self.usual.items() if key in known}


@dataclass(slots=True)
class FaultState:
    """Everything known of the data of one host; changed in place by `find_faults`.

    ``coverage`` is the share (0..1) of what is usually there that is there; 1 before anything is usual.
    """

    targets: dict[Target, TargetBook] = field(default_factory=dict)
    parts: PartBook = field(default_factory=PartBook)
    columns: ColumnBook = field(default_factory=ColumnBook)
    gauges: Ledger[ColumnKey] = field(default_factory=new_gauges)
    usual: UsualBook = field(default_factory=UsualBook)
    health: HealthState = field(default_factory=HealthState)
    cache: _Cache = field(default_factory=_Cache)
    coverage: float = 1.0


def find_faults(
    state: FaultState, channels: ChannelState, batch: SampleBatch, now_ms: int, settings: Settings
) -> tuple[DataFault, ...]:
    """Look at one step's samples of a host.

    Parameters
    ----------
    state
        Changed in place.
    channels
        What the same samples made of the host's channels, after this step.
    batch
        The samples.
    now_ms
        Time of the step; it counts only for silence.
    settings
        What counts as a fault.

    Returns
    -------
    tuple
        Every kind of `HOST_KINDS` once, in order.
    """
    heard = state.health.follow(batch, channels.profiles)
    evidence: dict[FaultKind, list[FaultEvidence]] = {kind: [] for kind in HOST_KINDS}
    newest = max((one.newest_ms for one in channels.targets.values() if len(one.recent)), default=0)
    for target, one in sorted(channels.targets.items()):
        if len(one.recent):
            if target not in state.targets:
                _forget(state, newest, frozenset(channels.targets), settings)
            book = state.targets.setdefault(target, TargetBook())
            _observe(state, book, target, one, [new for new in heard if new.target == target], settings)
            primary = target == channels.primary
            _judge(state, book, target, one, (newest, now_ms, primary), settings, evidence)
    living = frozenset(channels.targets)
    evidence[FaultKind.MISSING] += parts.missing(state.parts, living, settings.data_faults)
    state.coverage = parts.coverage(state.parts, living, settings.data_faults)
    return tuple(_fault(kind, evidence[kind]) for kind in HOST_KINDS)


def _fault(kind: FaultKind, evidence: Iterable[FaultEvidence]) -> DataFault:
    order = sorted(evidence, key=lambda one: (-one.score, one.device.kind == METRIC, one.device, one.name))
    score = min(order[0].score, _HIGHEST) if order else 0.0
    return DataFault(kind, score, tuple(order[:TOP_EVIDENCE]), sum(one.score >= 1.0 for one in order))


def _observe(
    state: FaultState, book: TargetBook, target: Target, one: TargetState, heard: list[Heard], settings: Settings
) -> None:
    """Take what is new of a target."""
    rules, ref_ms = settings.data_faults, one.newest_ms
    view = _view(state.cache, target, one.layout)
    counted = max(one.scrapes - book.scrapes, 0) * one.interval_ms
    elapsed = float(min(counted, max(ref_ms - book.ref_ms, 0))) if book.ref_ms else 0.0
    now = Now(ref_ms, one.interval_ms, elapsed)
    restarted = ref_ms >= book.ref_ms and _restarted(state, book, target, view, one, settings)
    for new in heard:
        flow.take_ups(book.flow, new.times.tolist(), new.values.tolist(), restarted=restarted, events=rules.events)
    if ref_ms < book.ref_ms or (ref_ms == book.ref_ms and book.scrapes == one.scrapes):
        # Nothing new, or scrapes of the past that are read again after a restart.
        return
    flow.take_scrapes(
        book.flow, one.recent.tolist(), book.ref_ms or ref_ms, now, restarted=restarted, events=rules.events
    )
    _clock(state, book, target, now, settings)
    _parts(state, book, target, view, one, now, settings)
    own = _columns(state, target, view)
    columns.count(state.columns, own, view, one, now, rules)
    gauges.watch_gauges(state.gauges, _gauges(state, target, view), view, one)
    places = _usual(state, target)
    usual.learn(state.usual, places, state.health, ref_ms, one.interval_ms, elapsed)
    usual.limit(state.usual, places, flow.sustained(now, rules))
    book.grace_ms = max(book.grace_ms - elapsed, 0.0)
    book.ref_ms, book.scrapes = max(book.ref_ms, ref_ms), one.scrapes


def _judge(
    state: FaultState,
    book: TargetBook,
    target: Target,
    one: TargetState,
    times: tuple[int, int, bool],
    settings: Settings,
    evidence: dict[FaultKind, list[FaultEvidence]],
) -> None:
    """Add the evidence of one target; ``times`` are the host's newest scrape, the step's time, and whether this target gives the rows."""
    newest, now_ms, primary = times
    rules, now = settings.data_faults, Now(one.newest_ms, one.interval_ms, 0.0)
    view = _view(state.cache, target, one.layout)
    own, places = _columns(state, target, view), _usual(state, target)
    evidence[FaultKind.IMPOSSIBLE] += columns.impossible(state.columns, own, view, now, rules)
    evidence[FaultKind.RESET] += columns.resets(state.columns, own, view, rules)
    evidence[FaultKind.STUCK] += gauges.stuck(state.gauges, _gauges(state, target, view), view, now)
    evidence[FaultKind.SKEW] += flow.skew(book.flow, now, rules)
    if primary:
        evidence[FaultKind.GAP] += flow.gap(
            book.flow, one.newest_ms, now_ms, settings.episodes.gone_after_ms, now, rules
        )
    else:
        evidence[FaultKind.MISSING] += flow.target_away(book.flow, target, one.newest_ms, newest, now, rules)
    for kind, found in _unusual(state.usual, places, flow.sustained(now, rules)):
        evidence[kind].append(found)


def _unusual(book: UsualBook, places: UsualPlaces, patience_ms: float) -> Iterable[tuple[FaultKind, FaultEvidence]]:
    held = book.ledger["held_ms"][places.own]
    for index in np.flatnonzero(held > 0).tolist():
        place = int(places.own[index])
        device = Device(COLLECTOR, places.names[index]) if places.names[index] else Device(HOST, "")
        value, normal = float(book.ledger["value"][place]), float(np.exp(book.ledger["centre"][place]))
        score, since = float(held[index]) / patience_ms, int(book.ledger["since"][place])
        if places.counts[index]:
            # A program that ends takes its series with it: told, but nobody is paged for a number alone.
            score = min(score, _NUMBER_ALONE)
            yield FaultKind.MISSING, FaultEvidence(device, score, since, round(normal - value), "series", value, normal)
        else:
            yield FaultKind.SLOW, FaultEvidence(device, score, since, 0, "", value, normal)


def _restarted(
    state: FaultState, book: TargetBook, target: Target, view: TargetView, one: TargetState, settings: Settings
) -> bool:
    """Whether the exporter has started since the last look; then nothing is missed for a while, and what it calls differently not at all."""
    known = one.last_values[view.marks]
    known = known[np.isfinite(known)]
    mark = float(known.max()) if len(known) else None
    moved = mark is not None and book.mark is not None and abs(mark - book.mark) > _MARK_TOLERANCE_S
    restarted = moved or (book.restarted_ms is not None and one.restarted_ms > book.restarted_ms)
    book.mark = mark if mark is not None else book.mark
    book.restarted_ms = one.restarted_ms
    version = _version(state, target, one.newest_ms)
    renewed = bool(version and book.version and version != book.version)
    if restarted:
        book.grace_ms = float(max(settings.data_faults.grace_ms, parts.PATIENT_SCRAPES * one.interval_ms))
    if renewed or (restarted and not version):
        parts.suspend(state.parts, target)
        usual.start_anew(state.usual, _usual(state, target))
    book.version = version or book.version
    return restarted


def _version(state: FaultState, target: Target, newest_ms: int) -> str:
    for slot in _slots(state, target, HealthRole.VERSION):
        if int(state.health.times[slot]) == newest_ms:
            return state.health.label(slot, "version")
    return ""


def _clock(state: FaultState, book: TargetBook, target: Target, now: Now, settings: Settings) -> None:
    clocks = _slots(state, target, HealthRole.CLOCK)
    fresh = state.health.times[clocks] == now.ref_ms
    told = state.health.values[clocks][fresh]
    told = told[np.isfinite(told) & (told > 0)]
    if not len(told):
        return
    took = [state.health.values[slot] for slot in _slots(state, target, HealthRole.SCRAPE_SECONDS)]
    scrape_s = float(np.nan_to_num(max(took))) if took else 0.0
    flow.take_clock(book.flow, float(told.max()) - now.ref_ms / 1000.0, scrape_s, now, settings.data_faults)


def _parts(
    state: FaultState,
    book: TargetBook,
    target: Target,
    view: TargetView,
    one: TargetState,
    now: Now,
    settings: Settings,
) -> None:
    places = state.cache.parts.get(target)
    if places is None or not places.fit(state.parts, view, state.health):
        places = Places(state.parts, view, target, state.health)
        parts.prune(state.parts, places, target, now.ref_ms, settings.data_faults)
        if not places.fit(state.parts, view, state.health):
            places = Places(state.parts, view, target, state.health)
        state.cache.parts[target] = places
    found = parts.look(state.parts, places, view, one, state.health, now.elapsed_ms)
    parts.account(state.parts, target, found, now, settings.data_faults, grace=book.grace_ms > 0.0)
    if book.grace_ms > 0.0 and not book.version:
        parts.resume_classes(state.parts, target)


def _forget(state: FaultState, newest_ms: int, living: frozenset[Target], settings: Settings) -> None:
    """Drop what is known of targets that have been gone for long, as when an address has changed."""
    limit = newest_ms - settings.data_faults.accept_ms
    state.targets = {key: book for key, book in state.targets.items() if key in living or book.ref_ms > limit}
    known = state.targets.keys() | living
    parts.forget(state.parts, known)
    state.cache.forget(known)
    keep_targets(state.columns.ledger, known)
    keep_targets(state.columns.resets, known)
    keep_targets(state.gauges, known)
    keep_targets(state.usual.ledger, known)


def _view(cache: _Cache, target: Target, layout: Layout) -> TargetView:
    view = cache.views.get(target)
    if view is None or view.layout is not layout:
        view = cache.views[target] = view_of(layout, target)
    return view


def _columns(state: FaultState, target: Target, view: TargetView) -> ColumnPlaces:
    return _fitting(state.cache.columns, target, view, state.columns, (ColumnPlaces, columns.forget))


def _gauges(state: FaultState, target: Target, view: TargetView) -> GaugePlaces:
    return _fitting(state.cache.gauges, target, view, state.gauges, (GaugePlaces, gauges.forget))


def _fitting(
    cache: dict[Target, _P],
    target: Target,
    view: TargetView,
    book: _B,
    ways: tuple[Callable[[_B, TargetView, Target], _P], Callable[[_B, _P], None]],
) -> _P:
    """Places of a target that fit its view and its book; ``ways`` make them, and drop from the book what a new view has no more."""
    make, forget = ways
    places = cache.get(target)
    if places is None or not places.fit(book, view):
        changed = places is None or places.made_for[0] is not view
        places = make(book, view, target)
        if changed:
            forget(book, places)
            if not places.fit(book, view):
                places = make(book, view, target)
        cache[target] = places
    return places


def _usual(state: FaultState, target: Target) -> UsualPlaces:
    places = state.cache.usual.get(target)
    if places is None or not places.fit(state.usual, state.health):
        places = state.cache.usual[target] = UsualPlaces(state.usual, state.health, target)
    return places


def _slots(state: FaultState, target: Target, role: HealthRole) -> list[int]:
    """Places of a target's health values of one role."""
    if state.cache.slots_of is not state.health.keys:
        state.cache.slots.clear()
        state.cache.slots_of = state.health.keys
        for slot, key in enumerate(state.health.keys):
            state.cache.slots.setdefault((key.target, key.role), []).append(slot)
    return state.cache.slots.get((target, role), [])
