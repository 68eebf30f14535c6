"""From one target's raw samples to channel values at its own scrape times."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from hwsonde_detector.signals.layout import Column, Layout, aggregate, build_layout, evaluate
from hwsonde_detector.signals.paces import (
    FORGET_MS,
    INTERVALS,
    NEVER,
    PaceState,
    Told,
    below,
    follow,
    hold,
    new_paces,
    passed,
    picked,
    relayout_paces,
    tell,
)
from hwsonde_detector.types import Floats, Mask, Series, Times

# One missed scrape still gives an honest average; what spans more is a gap.
GAP_INTERVALS = 2.5
# An exporter's start time may wobble by rounding and by a clock that is being adjusted.
_MARK_TOLERANCE_S = 0.5
# A restart shows as at least this many counters, and this part of all that were above zero, falling at once.
_RESTART_FALLS = 3
_RESTART_PART = 0.5
# Rows that are worked on at once, so that an hour of history needs no gigabyte.
_BLOCK_ROWS = 256


@dataclass(frozen=True, slots=True, eq=False)
class TargetState:
    """What is kept of one target between two batches.

    Attributes
    ----------
    layout
        Its series and channels.
    last_times, last_values, last_clocks
        int64 and float64 (n): each column's newest valid sample that is no repeat, with what its clock said (NaN: nothing); `NEVER`
        where there is none.
    seen
        int64 (n): time of each column's newest sample, valid or not.
    recent
        int64 (at most 10): its newest scrape times.
    interval_ms
        Median of their differences; 0 while there is only one.
    paces
        What is kept of values that are read at a pace of their own.
    scrapes
        How many scrapes were taken.
    restarted_ms
        Newest scrape of the newest batch in which the process had restarted; `NEVER` before.
    falls, wrongs
        int64 (n): how often each column began anew without a restart of its exporter, and how many of its samples were not
        finite, outside of the valid range or too far from the one before.
    """

    layout: Layout
    last_times: Times
    last_values: Floats
    last_clocks: Floats
    seen: Times
    recent: Times
    interval_ms: int
    paces: PaceState
    scrapes: int
    restarted_ms: int
    falls: Times
    wrongs: Times

    @property
    def newest_ms(self) -> int:
        """Time of its newest scrape."""
        return int(self.recent[-1]) if len(self.recent) else NEVER


@dataclass(frozen=True, slots=True, eq=False)
class TargetRows:
    """Channel values (rows, c) at a target's scrape times, the interval in force at each, and what happened on the way."""

    times: Times
    intervals: Times
    values: Floats
    resets: int = 0
    rejected: int = 0
    restarted: bool = False


def new_target(layout: Layout) -> TargetState:
    """A target of which nothing has been seen."""
    size = len(layout.columns)
    return TargetState(
        layout,
        last_times=np.full(size, NEVER),
        last_values=np.full(size, np.nan),
        last_clocks=np.full(size, np.nan),
        seen=np.full(size, NEVER),
        recent=np.zeros(0, np.int64),
        interval_ms=0,
        paces=new_paces(layout),
        scrapes=0,
        restarted_ms=NEVER,
        falls=np.zeros(size, np.int64),
        wrongs=np.zeros(size, np.int64),
    )


def relayout(state: TargetState, series: tuple[Series, ...]) -> TargetState:
    """The same target with another set of series; columns that stay keep their last samples."""
    layout = build_layout(series, state.layout.book)
    places: dict[Column, int] = {column: index for index, column in enumerate(state.layout.columns)}
    pairs = [(index, places[column]) for index, column in enumerate(layout.columns) if column in places]
    fresh = new_target(layout)
    if pairs:
        new, old = np.array(pairs, np.int64).T
        fresh.last_times[new] = state.last_times[old]
        fresh.last_values[new] = state.last_values[old]
        fresh.last_clocks[new] = state.last_clocks[old]
        fresh.seen[new] = state.seen[old]
        fresh.falls[new] = state.falls[old]
        fresh.wrongs[new] = state.wrongs[old]
    paces = relayout_paces(state.paces, state.layout, layout)
    return replace(
        fresh,
        recent=state.recent,
        interval_ms=state.interval_ms,
        paces=paces,
        scrapes=state.scrapes,
        restarted_ms=state.restarted_ms,
    )


def silent_series(state: TargetState) -> tuple[Series, ...]:
    """Series that the target no longer gives."""
    if not len(state.recent):
        return ()
    limit = state.newest_ms - FORGET_MS
    silent = np.flatnonzero((state.seen < limit) & (state.seen != NEVER))
    return tuple(sorted({state.layout.columns[index][0] for index in silent}))


def _intervals(recent: Times, interval: int, times: Times) -> tuple[Times, Times]:
    """Interval in force at each of the new times (ascending), and the recent times after them.

    Each is the (lower) median of the differences up to it, so that it does not depend on what came later. After a silence
    in which a target is forgotten it begins anew, whether anyone looked meanwhile or not.
    """
    kept = recent.tolist()
    result = []
    for time in times.tolist():
        if not kept or time > kept[-1]:
            kept = [*kept[-INTERVALS:], time] if kept and time - kept[-1] <= FORGET_MS else [time]
            gaps = sorted(after - before for before, after in pairwise(kept))
            interval = gaps[(len(gaps) - 1) // 2] if gaps else 0
        result.append(interval)
    return np.array(result, np.int64), np.array(kept, np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class _Pairs:
    """Each sample beside the newest valid one before it: (rows, n) arrays.

    ``shown`` are all samples, ``here`` those that are no repeat of what an earlier scrape has shown. ``elapsed`` lies between the
    two scrapes, ``span`` between the two readings; milliseconds. ``clock`` is what the columns' clocks said, None without clocks.
    """

    shown: Mask
    here: Mask
    valid: Mask
    paired: Mask
    elapsed: Times
    span: Floats | Times
    before: Floats
    values: Floats
    clock: Floats | None


def _pairs(
    state: TargetState, times: Times, columns: Times, flat_times: Times, flat_values: Floats
) -> tuple[_Pairs, PaceState, Told | None]:
    layout, paces, told = state.layout, state.paces, None
    shape = (len(times), len(layout.columns))
    values, shown = np.full(shape, np.nan), np.zeros(shape, np.bool_)
    rows = np.searchsorted(times, flat_times)
    values[rows, columns], shown[rows, columns] = flat_values, True
    here, valid = shown, shown & np.isfinite(values) & (values >= layout.low) & (values <= layout.high)
    if layout.paces.clocks:
        paces, told = tell(paces, layout, times, values, valid)
        anew = ~told.repeat[:, layout.paces.of_column]
        here, valid = shown & anew, valid & anew
    # Row 0 stands for the state; every other row looks for the newest valid row above it.
    known = below(state.last_times != NEVER, valid)
    index = np.where(known, np.arange(len(known))[:, None], -1)
    newest = np.maximum.accumulate(index, axis=0)[:-1]
    paired = valid & (newest >= 0)
    newest = np.maximum(newest, 0)
    last = np.where(newest > 0, times[newest - 1], state.last_times)
    elapsed = times[:, None] - np.where(paired, last, times[:, None])
    # A sample may be older than what the state holds: a series that is new to us, read again further back.
    paired &= (elapsed > 0) & (elapsed <= FORGET_MS)
    before = picked(below(state.last_values, values), newest)
    span: Floats | Times = elapsed
    clock = None
    if told is not None:
        clock = told.clock[:, layout.paces.of_column]
        span = passed(elapsed, clock - picked(below(state.last_clocks, clock), newest))
    return _Pairs(shown, here, valid, paired, elapsed, span, before, values, clock), paces, told


def _restarted(pairs: _Pairs, fallen: Mask, layout: Layout) -> bool:
    marks = layout.marks
    if marks:
        moved = np.abs(pairs.values[:, -marks:] - pairs.before[:, -marks:]) > _MARK_TOLERANCE_S
        if (moved & pairs.paired[:, -marks:]).any():
            return True
    candidates = pairs.paired & layout.is_rate & (pairs.before > 0)
    for chosen in (candidates, candidates & layout.is_moment):
        falls = (fallen & chosen).sum(axis=1)
        if ((falls >= _RESTART_FALLS) & (falls >= _RESTART_PART * chosen.sum(axis=1))).any():
            return True
    return False


def _begun_anew(pairs: _Pairs, fallen: Mask) -> Times:
    """How often each column fell to less than half: a counter that the kernel corrects by a little was not reset."""
    return np.asarray((fallen & (pairs.values <= 0.5 * pairs.before)).sum(axis=0), np.int64)


def _block(
    state: TargetState, times: Times, columns: Times, flat_times: Times, flat_values: Floats
) -> tuple[TargetState, TargetRows]:
    layout = state.layout
    intervals, recent = _intervals(state.recent, state.interval_ms, times)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        pairs, paces, told = _pairs(state, times, columns, flat_times, flat_values)
        expected, readings = intervals[:, None], None
        if told is not None:
            paces, readings = follow(paces, layout, times, pairs.here, told, state.newest_ms)
            expected = np.where(layout.paces.of_column > 0, readings.intervals[:, layout.paces.of_column], expected)
        change = pairs.values - pairs.before
        rate = change / (pairs.span / 1000.0)
        compared = pairs.paired & ~layout.is_value
        fallen = compared & layout.is_rate & (change < 0)
        beyond = compared & ~fallen & (np.abs(rate) > layout.rate_limit)
        gap = compared & (expected > 0) & (pairs.elapsed > GAP_INTERVALS * expected)
        wrong = pairs.here & ~pairs.valid
        signals = np.where(layout.is_value, pairs.values, rate)
        signals[wrong | fallen | beyond | gap] = np.nan
        present = np.where(layout.is_value, pairs.here, wrong | compared)
        values = evaluate(aggregate(signals, present, layout), layout)
        if readings is not None:
            paces = hold(state.paces, paces, layout, times, values, readings)
    restarted = _restarted(pairs, fallen, layout)
    resets, rejected = int(fallen.sum()), int(wrong.sum() + beyond.sum())
    rows = TargetRows(times, intervals, values, resets, rejected, restarted)
    after = _after(state, times, pairs, recent, int(intervals[-1]), paces)
    return replace(
        after,
        scrapes=state.scrapes + int((times > state.newest_ms).sum()),
        restarted_ms=int(times[-1]) if restarted else state.restarted_ms,
        falls=state.falls + _begun_anew(pairs, fallen) if resets and not restarted else state.falls,
        wrongs=state.wrongs + wrong.sum(axis=0) + beyond.sum(axis=0) if rejected else state.wrongs,
    ), rows


def _after(
    state: TargetState, times: Times, pairs: _Pairs, recent: Times, interval: int, paces: PaceState
) -> TargetState:
    rows = np.arange(len(times))[:, None]
    last = np.where(pairs.valid, rows, -1).max(axis=0)
    last_times = np.maximum(state.last_times, np.where(last >= 0, times[last], NEVER))
    newer = (last >= 0) & (last_times != state.last_times)

    def newest(known: Floats, values: Floats) -> Floats:
        return np.where(newer, values[np.maximum(last, 0), np.arange(len(last))], known)

    last_here = np.where(pairs.shown, rows, -1).max(axis=0)
    return TargetState(
        state.layout,
        last_times=last_times,
        last_values=newest(state.last_values, pairs.values),
        last_clocks=newest(state.last_clocks, pairs.clock) if pairs.clock is not None else state.last_clocks,
        seen=np.maximum(state.seen, np.where(last_here >= 0, times[last_here], NEVER)),
        recent=recent,
        interval_ms=interval,
        paces=paces,
        scrapes=state.scrapes,
        restarted_ms=state.restarted_ms,
        falls=state.falls,
        wrongs=state.wrongs,
    )


def ingest(state: TargetState, columns: Times, times: Times, values: Floats) -> tuple[TargetState, TargetRows]:
    """Take a target's samples.

    Parameters
    ----------
    state
        What the last call returned, or `new_target`.
    columns
        int64 (m): column of each sample.
    times
        int64 (m): when it was scraped, milliseconds. Samples that were seen before are passed over.
    values
        float64 (m).

    Returns
    -------
    tuple
        The new state, and one row for each scrape time with a new sample, ascending.
    """
    fresh = times > state.seen[columns]
    if len(state.recent):
        # What lies further back than anything is remembered would only count old resets a second time.
        fresh &= times > state.newest_ms - FORGET_MS
    columns, times, values = columns[fresh], times[fresh], values[fresh]
    every = np.unique(times)
    blocks = []
    for start in range(0, len(every), _BLOCK_ROWS):
        chosen = every[start : start + _BLOCK_ROWS]
        inside = (times >= chosen[0]) & (times <= chosen[-1])
        state, rows = _block(state, chosen, columns[inside], times[inside], values[inside])
        blocks.append(rows)
    if not blocks:
        none = np.zeros(0, np.int64)
        return state, TargetRows(none, none, np.zeros((0, len(state.layout.channels))))
    if len(blocks) == 1:
        return state, blocks[0]
    return state, TargetRows(
        np.concatenate([block.times for block in blocks]),
        np.concatenate([block.intervals for block in blocks]),
        np.concatenate([block.values for block in blocks]),
        sum(block.resets for block in blocks),
        sum(block.rejected for block in blocks),
        any(block.restarted for block in blocks),
    )
