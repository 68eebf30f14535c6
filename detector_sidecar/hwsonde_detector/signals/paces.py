"""Values that are published at every scrape, but read at a pace of their own.

An exporter that reads something every 5 s shows one reading at five scrapes of 1 s. Taken at the times of the scrapes, a steady
counter would have the rates 0, 0, 0, 0 and five times the true one. A clock's series says when the values were read: a scrape that
shows a reading for the first time gives a value, the time between two readings is the clocks' difference, and the scrapes in
between hold the last value. Only differences of a clock count, so that a host whose clock is wrong by an hour loses nothing.

Arrays "of paces" have one place for each clock of a layout and a first one for the scrape itself, which stays unused.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from hwsonde_detector.signals.layout import Indices, Layout
from hwsonde_detector.types import Floats, Mask, Times

_T = TypeVar("_T", bound=np.generic)

NEVER = np.iinfo(np.int64).min
# What has been silent for so long is forgotten; if it comes back it begins anew. Fixed, so that rows never depend on when that was
# noticed; long enough for two missed scrapes at the slowest sensible interval, four minutes.
FORGET_MS = 600_000
# A value is believed for so many of the intervals at which it comes.
JOIN_INTERVALS = 1.5
# An interval is the median of so many differences: five after a change it has followed.
INTERVALS = 9
# At least a third of the time between the scrapes that showed two readings first lies between the readings; more than that time may
# lie there too, if the first was old when it was seen. Whatever is less or far more is a clock that was set.
_LEAST_PART = 3.0


@dataclass(frozen=True, slots=True, eq=False)
class PaceState:
    """What is kept of one target's paces between two batches.

    Attributes
    ----------
    told, told_ms
        float64 and int64 of paces: what the clock last said, in seconds, and at which scrape; NaN and `NEVER` before.
    read_ms, read_clock
        int64 and float64 of paces: the scrape that showed the newest reading first, and what the clock said then (NaN: nothing).
    interval_ms
        int64 of paces: (lower) median of the times between readings; 0 before the second.
    steps
        The at most nine newest of these times, for each pace.
    held
        float64 (c): values of the channels at the newest reading.
    """

    told: Floats
    told_ms: Times
    read_ms: Times
    read_clock: Floats
    interval_ms: Times
    steps: tuple[tuple[int, ...], ...]
    held: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Told:
    """What the clocks said: (rows, paces) arrays; ``clock`` in seconds, NaN where unknown, and where it said so before."""

    clock: Floats
    repeat: Mask


@dataclass(frozen=True, slots=True, eq=False)
class Readings:
    """Which rows show a reading for the first time, and the interval in force: (rows, paces) arrays."""

    first: Mask
    intervals: Times


def new_paces(layout: Layout) -> PaceState:
    """Paces of which nothing has been seen."""
    size = len(layout.paces.clocks) + 1
    return PaceState(
        told=np.full(size, np.nan),
        told_ms=np.full(size, NEVER),
        read_ms=np.full(size, NEVER),
        read_clock=np.full(size, np.nan),
        interval_ms=np.zeros(size, np.int64),
        steps=((),) * size,
        held=np.full(len(layout.channels), np.nan),
    )


def relayout_paces(state: PaceState, old: Layout, new: Layout) -> PaceState:
    """The same paces with another set of clocks and channels; what stays keeps what is known of it."""
    result = new_paces(new)
    steps = list(result.steps)
    places = {clock: place for place, clock in enumerate(old.paces.clocks, 1)}
    for place, clock in enumerate(new.paces.clocks, 1):
        before = places.get(clock)
        if before is not None:
            for name in ("told", "told_ms", "read_ms", "read_clock", "interval_ms"):
                getattr(result, name)[place] = getattr(state, name)[before]
            steps[place] = state.steps[before]
    held = {channel.name: value for channel, value in zip(old.channels, state.held.tolist(), strict=True)}
    result.held[:] = [held.get(channel.name, np.nan) for channel in new.channels]
    return replace(result, steps=tuple(steps))


def below(first: NDArray[_T], rows: NDArray[_T]) -> NDArray[_T]:
    """Put a row (n) on top of others (rows, n)."""
    return np.concatenate((first[None], rows))


def picked(stack: NDArray[_T], rows: Indices) -> NDArray[_T]:
    """From each column of (r, n) the elements at the given rows (k, n)."""
    return stack[rows, np.arange(stack.shape[1])]


def _newest(known: Mask) -> Indices:
    """For each row of (rows + 1, paces), whose row 0 stands for what came before, the last row up to it where something is known."""
    return np.maximum.accumulate(np.where(known, np.arange(len(known))[:, None], 0), axis=0)


def _scraped(before: Times, times: Times, newest: Indices) -> Times:
    """Scrape times of rows that `_newest` found."""
    return np.where(newest > 0, times[newest - 1], before)


def tell(state: PaceState, layout: Layout, times: Times, values: Floats, valid: Mask) -> tuple[PaceState, Told]:
    """Read the clocks' columns.

    Parameters
    ----------
    state
        What is known of the paces.
    layout
        Whose columns these are.
    times
        int64 (rows): ascending scrape times.
    values, valid
        (rows, n): samples, and where there is a sound one.
    """
    clock = np.full((len(times), len(layout.paces.clocks) + 1), np.nan)
    said = np.where(valid[:, layout.paces.clock_columns], values[:, layout.paces.clock_columns], np.nan)
    # Several series of one clock are one after the other, when a label has changed.
    np.fmax.at(clock.T, layout.paces.of_clock_column, said.T)
    newest = _newest(below(state.told_ms != NEVER, np.isfinite(clock)))
    at = _scraped(state.told_ms, times, newest)
    said = picked(below(state.told, clock), newest)
    age = times[:, None] - np.maximum(at[:-1], times[0] - 2 * FORGET_MS)
    repeat = (clock == said[:-1]) & (age > 0) & (age <= FORGET_MS)
    told = np.where(at[-1] >= state.told_ms, said[-1], state.told)
    return replace(state, told=told, told_ms=np.maximum(at[-1], state.told_ms)), Told(clock, repeat)


def passed(elapsed: Times, clocked: Floats) -> Floats:
    """Milliseconds between two readings.

    Parameters
    ----------
    elapsed
        Milliseconds between the scrapes that showed them first.
    clocked
        Seconds between them by the clock, NaN where unknown; believed unless the clock must have been set in between.
    """
    clocked = clocked * 1000.0
    believed = (clocked >= elapsed / _LEAST_PART) & (clocked <= elapsed + FORGET_MS)
    return np.where(believed, clocked, elapsed)


def _believed(elapsed: int, clocked: float) -> bool:
    """The same question as in `passed`, of one pair of milliseconds."""
    return elapsed / _LEAST_PART <= clocked <= elapsed + FORGET_MS


def follow(
    state: PaceState, layout: Layout, times: Times, here: Mask, told: Told, newest_ms: int
) -> tuple[PaceState, Readings]:
    """Find the first scrape of each reading, and how often readings come.

    Parameters
    ----------
    state, layout, times
        As in `tell`.
    here
        bool (rows, n): samples, without repeats.
    told
        What the clocks said.
    newest_ms
        Time of the target's newest scrape before these; what is read again from further back tells of no new reading.
    """
    first = np.zeros(told.repeat.shape, np.bool_)
    rows, columns = np.nonzero(here)
    first[rows, layout.paces.of_column[columns]] = True
    first[:, 0] = False
    first[times <= newest_ms] = False
    intervals = np.zeros(first.shape, np.int64) + state.interval_ms
    if not first.any():
        return state, Readings(first, intervals)
    read_ms, read_clock, steps = state.read_ms.tolist(), state.read_clock.tolist(), list(state.steps)
    for row, pace in np.argwhere(first).tolist():
        time, clock = int(times[row]), float(told.clock[row, pace])
        elapsed = time - read_ms[pace]
        if read_ms[pace] != NEVER and elapsed <= FORGET_MS:
            # A reading that was seen late stands for a whole interval all the same.
            span = (clock - read_clock[pace]) * 1000.0
            longest = max(elapsed, round(span)) if _believed(elapsed, span) else elapsed
            steps[pace] = (*steps[pace][1 - INTERVALS :], longest)
        else:
            steps[pace] = ()
        ordered = sorted(steps[pace])
        intervals[row:, pace] = ordered[(len(ordered) - 1) // 2] if ordered else 0
        read_ms[pace], read_clock[pace] = time, clock
    state = replace(
        state,
        read_ms=np.array(read_ms, np.int64),
        read_clock=np.array(read_clock, np.float64),
        interval_ms=intervals[-1].copy(),
        steps=tuple(steps),
    )
    return state, Readings(first, intervals)


def hold(
    before: PaceState, after: PaceState, layout: Layout, times: Times, values: Floats, readings: Readings
) -> PaceState:
    """Repeat the values of a reading at the scrapes up to the next, if that comes in time.

    Parameters
    ----------
    before, after
        The paces before and behind these rows.
    layout, times
        As in `tell`.
    values
        float64 (rows, c): values of the channels; what has a pace counts only where a reading was seen first. Changed in place.
    readings
        Where that was.

    Returns
    -------
    PaceState
        The paces with the values that they now hold.
    """
    channels = layout.paces.paced
    paces = layout.paces.of_channel[channels]
    newest = _newest(below(np.zeros(len(before.read_ms), np.bool_), readings.first))
    age = times[:, None] - np.maximum(_scraped(before.read_ms, times, newest)[1:], times[0] - 2 * FORGET_MS)
    believed = (age >= 0) & (age <= np.minimum(JOIN_INTERVALS * readings.intervals, FORGET_MS))
    kept = picked(below(before.held[channels], values[:, channels]), newest[:, paces])
    values[:, channels] = np.where(believed[:, paces], kept[1:], np.nan)
    held = before.held.copy()
    held[channels] = kept[-1]
    return replace(after, held=held)
