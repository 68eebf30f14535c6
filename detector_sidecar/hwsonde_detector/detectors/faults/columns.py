"""Values that cannot be, counters that fall and gauges that stand still, column by column. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from hwsonde_detector.detectors.faults.ledger import Ledger, keep_own
from hwsonde_detector.detectors.faults.parts import PATIENT_SCRAPES
from hwsonde_detector.detectors.faults.view import Target, TargetView
from hwsonde_detector.settings import DataFaultSettings
from hwsonde_detector.signals.layout import Indices
from hwsonde_detector.signals.paces import NEVER
from hwsonde_detector.signals.targets import TargetState
from hwsonde_detector.types import FaultEvidence, Floats, Labels, Mask

# Single events are forgotten within so many milliseconds for each that makes a fault.
EVENT_MS = 200_000.0
# What is wrong is forgiven four times as slowly as it is held against a channel.
_FORGIVEN = 0.25
_HELD_MOST = 2.0
# A gauge that stands still must have changed so often before, in half of its readings at least, and stand so long: in milliseconds, in
# readings, and as a multiple of its longest rest so far.
_MOVES, _MOVING_PART = 120, 0.5
_STUCK_MS, _STUCK_SCRAPES, _STUCK_RESTS = 60_000.0, 20, 10.0
# Whoever moves has not rested for more than this multiple of its longest rest.
_MOVING_RESTS = 3.0
# Steps of whole units, seldom more than one: such a gauge rests when its part is steady.
_COARSE_STEP, _COARSE_RESTS, _JUMP_STEP = 1.5, 3.0, 1 / 64
_FIELDS = {
    "falls": np.nan, "wrongs": np.nan, "wrong_ms": 0.0, "wrong_hits": 0.0, "wrong_count": 0.0, "wrong_since": 0.0,
    "value": np.nan, "read_ms": np.nan, "since_ms": np.nan, "longest_ms": 0.0, "moves": 0.0, "reads": 0.0, "waiting": 0.0, "jump": 0.0,
}  # fmt: skip
_RESET_FIELDS = {"hits": 0.0, "count": 0.0, "since": 0.0}


class ColumnKey(NamedTuple):
    """A column of a target, over changes of its layout and restarts."""

    job: str
    instance: str
    metric: str
    labels: Labels
    rule: int
    place: int


class OwnerKey(NamedTuple):
    """A part, or a metric of the whole host, at a target."""

    job: str
    instance: str
    kind: str
    name: str


class Now(NamedTuple):
    """A target's newest scrape, its interval, and the milliseconds of scrapes since the last look."""

    ref_ms: int
    interval_ms: int
    elapsed_ms: float


@dataclass(slots=True)
class ColumnBook:
    """What is known of columns and of those that they belong to.

    ``falls`` and ``wrongs`` of a column are the target's counts when they were looked at last; they are not kept over a restart.
    """

    ledger: Ledger[ColumnKey] = field(default_factory=lambda: Ledger(_FIELDS))
    resets: Ledger[OwnerKey] = field(default_factory=lambda: Ledger(_RESET_FIELDS))


class ColumnPlaces:
    """Where a view's columns and owners lie in the ledgers."""

    def __init__(self, book: ColumnBook, view: TargetView, target: Target) -> None:
        found = [view.layout.columns[column] for column in view.columns.tolist()]
        keys = [ColumnKey(*target, one.name, one.labels, rule, place) for one, rule, place in found]
        owners = [OwnerKey(*target, device.kind, device.name) for device in view.owners]
        book.ledger.add(keys)
        book.resets.add(owners)
        self.target = target
        self.columns = book.ledger.numbers(keys)
        self.owners = book.resets.numbers(owners)
        where = dict(zip(view.columns.tolist(), self.columns.tolist(), strict=True))
        self.gauges = np.array([where[column] for column in view.gauges.tolist()], np.int64)
        self.made_for = (view, book.ledger.version, book.resets.version)

    def fit(self, book: ColumnBook, view: TargetView) -> bool:
        """Whether nothing changed since."""
        return self.made_for[0] is view and self.made_for[1:] == (book.ledger.version, book.resets.version)


def forget(book: ColumnBook, places: ColumnPlaces) -> None:
    """Drop what a target's present layout has no more."""
    keep_own(book.ledger, places.target, places.columns)
    keep_own(book.resets, places.target, places.owners)


def count(book: ColumnBook, places: ColumnPlaces, view: TargetView, state: TargetState, now: Now) -> None:
    """Take what fell and what was wrong since the last look."""
    ledger, own = book.ledger, places.columns
    falls, wrongs = state.falls[view.columns].astype(np.float64), state.wrongs[view.columns].astype(np.float64)
    fell = falls > ledger["falls"][own]
    wrong = np.nan_to_num(np.maximum(wrongs - ledger["wrongs"][own], 0.0))
    ledger["falls"][own], ledger["wrongs"][own] = falls, wrongs
    _hold_wrong(ledger, own, wrong, view, state, now)
    hits, counts, since = book.resets["hits"], book.resets["count"], book.resets["since"]
    mine = places.owners
    hits[mine] = np.maximum(hits[mine] - now.elapsed_ms / EVENT_MS, 0.0)
    over = mine[hits[mine] == 0.0]
    counts[over] = since[over] = 0.0
    if fell.any():
        hurt = mine[np.unique(view.owner_of[fell])]
        hits[hurt] += 1.0
        counts[hurt] += 1.0
        since[hurt] = np.where(since[hurt] == 0.0, now.ref_ms, since[hurt])


def _hold_wrong(
    ledger: Ledger[ColumnKey], own: Indices, wrong: Floats, view: TargetView, state: TargetState, now: Now
) -> None:
    held = ledger["wrong_ms"][own]
    if not wrong.any() and not held.any():
        return
    pace = state.layout.paces.of_column[view.columns]
    interval = np.where(pace > 0, state.paces.interval_ms[pace], now.interval_ms)
    # What has never been right is no news, unless it is known to have been: it was held against it before.
    eligible = (state.last_times[view.columns] != NEVER) | (held > 0)
    bad = (wrong > 0) & eligible
    leaked = np.maximum(held - _FORGIVEN * now.elapsed_ms, 0.0)
    ledger["wrong_ms"][own] = np.where(bad, held + wrong * interval, leaked)
    hits = np.maximum(ledger["wrong_hits"][own] - now.elapsed_ms / EVENT_MS, 0.0)
    ledger["wrong_hits"][own] = hits + np.where(bad, wrong, 0.0)
    over = ledger["wrong_ms"][own] == 0.0
    ledger["wrong_count"][own] = np.where(over, 0.0, ledger["wrong_count"][own] + np.where(bad, wrong, 0.0))
    since = ledger["wrong_since"][own]
    ledger["wrong_since"][own] = np.where(over, 0.0, np.where(since == 0.0, now.ref_ms, since))


def limit(book: ColumnBook, places: ColumnPlaces, now: Now, settings: DataFaultSettings) -> None:
    """Bound what is held against channels and parts, so that one that is right again is believed in finite time."""
    patience = _patience(now, settings)
    ledger, own = book.ledger, places.columns
    ledger["wrong_ms"][own] = np.minimum(ledger["wrong_ms"][own], _HELD_MOST * patience)
    ledger["wrong_hits"][own] = np.minimum(ledger["wrong_hits"][own], _HELD_MOST * settings.events)
    book.resets["hits"][places.owners] = np.minimum(book.resets["hits"][places.owners], _HELD_MOST * settings.events)


def _patience(now: Now, settings: DataFaultSettings) -> float:
    return max(float(settings.missing_ms), float(PATIENT_SCRAPES * now.interval_ms))


def impossible(
    book: ColumnBook, places: ColumnPlaces, view: TargetView, now: Now, settings: DataFaultSettings
) -> list[FaultEvidence]:
    """Evidence of channels whose values cannot be."""
    ledger = book.ledger
    held = ledger["wrong_ms"][places.columns]
    result = []
    for index in np.flatnonzero(held > 0).tolist():
        place = int(places.columns[index])
        score = min(held[index] / _patience(now, settings), ledger["wrong_hits"][place] / settings.events)
        device = view.owners[int(view.owner_of[index])]
        since, times = int(ledger["wrong_since"][place]), int(ledger["wrong_count"][place])
        result.append(FaultEvidence(device, float(score), since, times, view.series_name(int(view.columns[index]))))
    return result


def resets(
    book: ColumnBook, places: ColumnPlaces, view: TargetView, settings: DataFaultSettings
) -> list[FaultEvidence]:
    """Evidence of parts whose counters fell although nothing was restarted."""
    hits = book.resets["hits"][places.owners]
    result = []
    for index in np.flatnonzero(hits > 0).tolist():
        place = int(places.owners[index])
        since, times = int(book.resets["since"][place]), int(book.resets["count"][place])
        result.append(FaultEvidence(view.owners[index], float(hits[index]) / settings.events, since, times))
    return result


def watch_gauges(book: ColumnBook, places: ColumnPlaces, view: TargetView, state: TargetState) -> None:
    """Take the newest readings of plain values."""
    ledger, own = book.ledger, places.gauges
    times = state.last_times[view.gauges]
    read, before = times.astype(np.float64), ledger["read_ms"][own]
    known = times != NEVER
    new = known & ~(read <= before)
    if not new.any():
        return
    value, old, since = state.last_values[view.gauges], ledger["value"][own], ledger["since_ms"][own]
    first, moved = new & np.isnan(old), new & ~np.isnan(old) & (value != old)
    rest = np.where(moved, before - since, 0.0)
    ledger["longest_ms"][own] = np.maximum(ledger["longest_ms"][own], rest)
    waiting = ledger["waiting"][own] + (new & ~first)
    ledger["moves"][own] += moved
    ledger["reads"][own] += np.where(moved, waiting, 0.0)
    ledger["waiting"][own] = np.where(moved, 0.0, waiting)
    jump = ledger["jump"][own]
    step = np.abs(value - old)
    ledger["jump"][own] = np.where(moved, np.where(jump == 0.0, step, jump + (step - jump) * _JUMP_STEP), jump)
    ledger["since_ms"][own] = np.where(first | moved, read, since)
    ledger["value"][own] = np.where(new, value, old)
    ledger["read_ms"][own] = np.where(new, read, before)


def stuck(book: ColumnBook, places: ColumnPlaces, view: TargetView, now: Now) -> list[FaultEvidence]:
    """Evidence of gauges that repeat one value to the last bit while their like move."""
    ledger, own = book.ledger, places.gauges
    moves = ledger["moves"][own]
    rest = np.nan_to_num(ledger["read_ms"][own] - ledger["since_ms"][own])
    lively = (moves >= _MOVES) & (moves >= _MOVING_PART * ledger["reads"][own])
    if not lively.any():
        return []
    longest = ledger["longest_ms"][own] + now.interval_ms
    value = ledger["value"][own]
    coarse = (value == np.floor(value)) & (ledger["jump"][own] <= _COARSE_STEP)
    limit = np.maximum(max(_STUCK_MS, _STUCK_SCRAPES * now.interval_ms), _STUCK_RESTS * longest)
    limit = np.where(coarse, _COARSE_RESTS * limit, limit)
    quiet = np.flatnonzero(lively & (rest >= 0.5 * limit) & (value != 0.0))
    if not len(quiet):
        return []
    moving = lively & (rest <= np.maximum(_MOVING_RESTS * longest, now.interval_ms))
    result = []
    for index in quiet.tolist():
        peers, movers = _peers(view, index, lively, moving, coarse=bool(coarse[index]))
        if peers == 0 or 2 * movers < peers:
            continue
        device = view.owners[int(view.gauge_owner[index])]
        since = int(ledger["since_ms"][own[index]])
        repeats = int(ledger["waiting"][own[index]])
        name = view.series_name(int(view.gauges[index]))
        score = float(rest[index] / limit[index])
        result.append(FaultEvidence(device, score, since, repeats, name, float(value[index]), float(movers)))
    return result


def _peers(view: TargetView, index: int, lively: Mask, moving: Mask, *, coarse: bool) -> tuple[int, int]:
    """How many others are compared with a gauge, and how many of them move; 0 of the former where one group of them stands still.

    A gauge of small whole steps is compared only with others of its own part and unit: a part that is idle rests.
    """
    others = lively.copy()
    others[index] = False
    siblings = others & (view.gauge_owner == view.gauge_owner[index])
    if coarse:
        siblings &= view.gauge_unit == view.gauge_unit[index]
        return int(siblings.sum()), int((siblings & moving).sum())
    alike = others & (view.gauge_rule == view.gauge_rule[index])
    groups = [group for group in (siblings, alike) if group.any()] or [others]
    if any(2 * int((group & moving).sum()) < int(group.sum()) for group in groups):
        return 0, 0
    joined = np.logical_or.reduce(groups)
    return int(joined.sum()), int((joined & moving).sum())
