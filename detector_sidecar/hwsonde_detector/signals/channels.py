"""From an entity's raw samples to rows of channel values.

A row stands at a scrape time of the entity's *primary* target (the job and instance with most channels). Channels of the
other targets join it with their newest value, if that is not older than 1.5 of their own intervals. Rates come from the
difference of two samples over the time that really passed between them; nothing is filled in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from hwsonde_detector.signals.entities import gather, target_of
from hwsonde_detector.signals.layout import Layout, RuleBook, build_layout
from hwsonde_detector.signals.paces import FORGET_MS, JOIN_INTERVALS
from hwsonde_detector.signals.profiles.rules import Profile
from hwsonde_detector.signals.targets import (
    TargetRows,
    TargetState,
    ingest,
    new_target,
    relayout,
    silent_series,
)
from hwsonde_detector.types import Channel, Entity, Floats, Frame, SampleBatch, Series, Times

# A primary that is silent for longer than this (or five intervals) while others are not gives way.
_PRIMARY_SILENCE_MS = 10_000
_PRIMARY_SILENCE_INTERVALS = 5
# Rows of a target that wait for the primary's next scrape; more than this only while the primary is silent.
_WAITING_ROWS = 64

Target = tuple[str, str]


@dataclass(frozen=True, slots=True, eq=False)
class _Route:
    """Where the samples of a batch with these series go: for each target the series' numbers in the batch, repeated for each column."""

    series: tuple[Series, ...]
    parts: tuple[tuple[Target, NDArray[np.int64], NDArray[np.int64]], ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """The entity's channels and, for each target, which of its channels go to which place."""

    layouts: tuple[tuple[Target, Layout], ...]
    primary: Target | None
    channels: tuple[Channel, ...]
    places: Mapping[Target, tuple[NDArray[np.int64], NDArray[np.int64]]]


_NO_TABLE = _Table((), None, (), {})


@dataclass(frozen=True, slots=True, eq=False)
class ChannelState:
    """What `advance` remembers of one entity; opaque, never changed in place.

    It is not saved to disk: after a restart a few scrapes of overlap bring it back. Start with ``ChannelState(entity)``.
    """

    entity: Entity = field(default_factory=lambda: Entity(()))
    profiles: tuple[Profile, ...] = ()
    book: RuleBook = field(default_factory=lambda: RuleBook.of(()))
    targets: Mapping[Target, TargetState] = field(default_factory=dict)
    waiting: Mapping[Target, tuple[tuple[Channel, ...], TargetRows]] = field(default_factory=dict)
    primary: Target | None = None
    last_row_ms: int | None = None
    route: _Route | None = None
    table: _Table = _NO_TABLE


@dataclass(frozen=True, slots=True)
class Advance:
    """What `advance` found.

    Attributes
    ----------
    frame
        The new rows, ascending in time; none where the primary target was not scraped anew.
    interval_ms
        The primary's scrape interval; None before its second scrape.
    resets
        Counters that fell from one sample to the next.
    rejected
        Samples that were not finite or outside of their valid range, and rates above what is physically possible.
    restarted
        The primary target's process restarted within this batch.
    """

    frame: Frame
    interval_ms: int | None
    resets: int
    rejected: int
    restarted: bool


def advance(state: ChannelState, batch: SampleBatch, profiles: tuple[Profile, ...]) -> tuple[ChannelState, Advance]:
    """Turn an entity's new samples into rows.

    The same samples give the same rows however they are split into batches in order of time; samples seen before are
    ignored, and no row is given twice. A channel that appears later is missing from earlier frames.

    Parameters
    ----------
    state
        What the last call returned, or ``ChannelState(entity)``.
    batch
        Samples of this entity only.
    profiles
        What the series mean; another tuple than before starts anew, after the last row.

    Returns
    -------
    tuple
        The next state, and the rows with what was met on the way.
    """
    if state.profiles != profiles:
        state = ChannelState(state.entity, profiles, RuleBook.of(profiles), last_row_ms=state.last_row_ms)
    state = _routed(_forgotten(state), batch.series)
    targets = dict(state.targets)
    fresh: dict[Target, TargetRows] = {}
    for target, numbers, columns in state.route.parts if state.route is not None else ():
        places, lengths = gather(batch, numbers)
        targets[target], fresh[target] = ingest(
            targets[target], np.repeat(columns, lengths), batch.times[places], batch.values[places]
        )
    primary = _elected(targets, state.primary)
    table = _tabled(state.table, targets, primary)
    rows = {target: _with_waiting(state.waiting.get(target), fresh.get(target), targets[target]) for target in targets}
    times, values = _assembled(rows, table, targets, state.last_row_ms)
    last = int(times[-1]) if len(times) else state.last_row_ms
    waiting = {
        target: (targets[target].layout.channels, _still_waiting(one, last))
        for target, one in rows.items()
        if target != primary
    }
    state = replace(state, targets=targets, waiting=waiting, primary=primary, last_row_ms=last, table=table)
    return state, Advance(
        frame=Frame(state.entity, table.channels, times, values),
        interval_ms=(targets[primary].interval_ms or None) if primary is not None else None,
        resets=sum(one.resets for one in fresh.values()),
        rejected=sum(one.rejected for one in fresh.values()),
        restarted=primary in fresh and fresh[primary].restarted,
    )


def _newest(targets: Mapping[Target, TargetState]) -> int:
    return max(one.newest_ms for one in targets.values())


def _forgotten(state: ChannelState) -> ChannelState:
    """Leave out targets and series that have been silent for long."""
    if not state.targets:
        return state
    newest = _newest(state.targets)
    kept: dict[Target, TargetState] = {}
    for target, one in state.targets.items():
        if newest - one.newest_ms > FORGET_MS:
            continue
        silent = set(silent_series(one))
        kept[target] = relayout(one, tuple(x for x in one.layout.series if x not in silent)) if silent else one
    if all(kept.get(target) is one for target, one in state.targets.items()):
        return state
    return replace(state, targets=kept, route=None)


def _routed(state: ChannelState, series: tuple[Series, ...]) -> ChannelState:
    """Find the columns of a batch's series; cheap while they stay the same."""
    route = state.route
    if route is not None and (route.series is series or route.series == series):
        return state
    wanted: dict[Target, list[tuple[int, Series]]] = {}
    for number, one in enumerate(series):
        if state.book.wants(one):
            wanted.setdefault(target_of(one), []).append((number, one))
    targets = dict(state.targets)
    parts = []
    for target, found in sorted(wanted.items()):
        known = targets.get(target)
        old = frozenset(known.layout.series) if known is not None else frozenset()
        new = tuple(one for _, one in found if one not in old)
        if known is None:
            targets[target] = new_target(build_layout(new, state.book))
        elif new:
            targets[target] = relayout(known, known.layout.series + new)
        columns_of = targets[target].layout.columns_of
        pairs = [(number, column) for number, one in found for column in columns_of.get(one, ())]
        table = np.array(pairs, np.int64).reshape(-1, 2)
        parts.append((target, table[:, 0].copy(), table[:, 1].copy()))
    return replace(state, targets=targets, route=_Route(series, tuple(parts)))


def _elected(targets: Mapping[Target, TargetState], primary: Target | None) -> Target | None:
    """Target that gives the rows their times: the old one while it is heard, else the living one with most channels."""
    living = {target: one for target, one in targets.items() if len(one.recent)}
    if not living:
        return primary if primary in targets else None
    newest = _newest(living)

    def heard(one: TargetState) -> bool:
        # Scraped only once so far, its next scrape may be far off.
        patience = _PRIMARY_SILENCE_INTERVALS * one.interval_ms if one.interval_ms else FORGET_MS
        return newest - one.newest_ms <= max(_PRIMARY_SILENCE_MS, patience)

    if primary in living and heard(living[primary]):
        return primary
    return max(
        (target for target, one in living.items() if heard(one)),
        key=lambda target: (len(living[target].layout.channels), living[target].newest_ms, target),
    )


def _tabled(old: _Table, targets: Mapping[Target, TargetState], primary: Target | None) -> _Table:
    """Channels of all targets in order of name; of two with one name the primary's, else the first target's."""
    layouts = tuple((target, targets[target].layout) for target in sorted(targets))
    if old.primary == primary and len(layouts) == len(old.layouts):
        same = zip(layouts, old.layouts, strict=True)
        if all(target == before and layout is known for (target, layout), (before, known) in same):
            return old
    owners: dict[str, tuple[Channel, Target, int]] = {}
    for target, layout in sorted(layouts, key=lambda pair: (pair[0] != primary, pair[0])):
        for index, channel in enumerate(layout.channels):
            owners.setdefault(channel.name, (channel, target, index))
    names = sorted(owners)
    places: dict[Target, list[tuple[int, int]]] = {target: [] for target, _ in layouts}
    for place, name in enumerate(names):
        places[owners[name][1]].append((owners[name][2], place))
    channels = tuple(owners[name][0] for name in names)
    arrays = {}
    for target, pairs in places.items():
        table = np.array(pairs, np.int64).reshape(-1, 2)
        arrays[target] = (table[:, 0].copy(), table[:, 1].copy())
    # The same tuple while nothing changed, so that whoever compares channels need not look at each.
    return _Table(layouts, primary, old.channels if channels == old.channels else channels, arrays)


def _with_waiting(
    waiting: tuple[tuple[Channel, ...], TargetRows] | None, fresh: TargetRows | None, target: TargetState
) -> TargetRows:
    """Rows that waited, on the present layout, and the new ones after them."""
    channels = target.layout.channels
    none = np.zeros(0, np.int64)
    fresh = fresh if fresh is not None else TargetRows(none, none, np.zeros((0, len(channels))))
    if waiting is None or not len(waiting[1].times):
        return fresh
    old, rows = waiting
    values = rows.values
    if old is not channels:
        places = {channel.name: index for index, channel in enumerate(old)}
        values = np.full((len(rows.times), len(channels)), np.nan)
        for index, channel in enumerate(channels):
            if channel.name in places:
                values[:, index] = rows.values[:, places[channel.name]]
    if not len(fresh.times):
        return TargetRows(rows.times, rows.intervals, values)
    times = np.concatenate([rows.times, fresh.times])
    order = np.argsort(times, kind="stable")
    intervals = np.concatenate([rows.intervals, fresh.intervals])
    return TargetRows(times[order], intervals[order], np.concatenate([values, fresh.values])[order])


def _assembled(
    rows: Mapping[Target, TargetRows], table: _Table, targets: Mapping[Target, TargetState], last: int | None
) -> tuple[Times, Floats]:
    """Rows at the primary's new times, with what the other targets last said."""
    if table.primary is None:
        return np.zeros(0, np.int64), np.zeros((0, len(table.channels)))
    times = np.unique(rows[table.primary].times)
    if last is not None:
        times = times[times > last]
    values = np.full((len(times), len(table.channels)), np.nan)
    if not len(times):
        return times, values
    for target in targets:
        one = rows[target]
        own, places = table.places[target]
        if not len(one.times) or not len(own):
            continue
        at = np.searchsorted(one.times, times, side="right") - 1
        age = times - one.times[np.maximum(at, 0)]
        joined = np.flatnonzero((at >= 0) & (age <= JOIN_INTERVALS * one.intervals[np.maximum(at, 0)]))
        values[np.ix_(joined, places)] = one.values[np.ix_(at[joined], own)]
    return times, values


def _still_waiting(rows: TargetRows, last: int | None) -> TargetRows:
    """The newest row not after the last one given, and all after it."""
    start = max(len(rows.times) - _WAITING_ROWS, 0)
    if last is not None:
        start = max(start, int(np.searchsorted(rows.times, last, side="right")) - 1)
    return TargetRows(rows.times[start:], rows.intervals[start:], rows.values[start:])
