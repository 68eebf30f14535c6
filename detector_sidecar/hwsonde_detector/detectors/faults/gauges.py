"""Gauges that stand still: one value, to the last bit, while their like move. Pure."""

from __future__ import annotations

import numpy as np

from hwsonde_detector.detectors.faults.columns import ColumnKey, Now, column_keys
from hwsonde_detector.detectors.faults.ledger import Ledger, keep_own, where_of
from hwsonde_detector.detectors.faults.view import Target, TargetView
from hwsonde_detector.signals.paces import NEVER
from hwsonde_detector.signals.targets import TargetState
from hwsonde_detector.types import FaultEvidence, Mask

# A gauge that stands still must have changed so often before, in half of its readings at least, and stand so long: in milliseconds, in
# readings, and as a multiple of its longest rest so far.
_MOVES, _MOVING_PART = 120, 0.5
_STUCK_MS, _STUCK_SCRAPES, _STUCK_RESTS = 60_000.0, 20, 10.0
# From half of this time on it is told.
_TOLD = 0.5
# Whoever moves has not rested for more than this multiple of its longest rest.
_MOVING_RESTS = 3.0
# Steps of whole units, seldom more than one: such a gauge rests when its part is steady.
_COARSE_STEP, _COARSE_RESTS, _JUMP_STEP = 1.5, 3.0, 1 / 64
_FIELDS = {
    "value": np.nan, "read_ms": np.nan, "since_ms": np.nan, "longest_ms": 0.0, "moves": 0.0, "reads": 0.0, "waiting": 0.0, "jump": 0.0,
}  # fmt: skip


def new_gauges() -> Ledger[ColumnKey]:
    """Nothing is known of any gauge.

    Kept are its newest value, when that was read, since when it has been the same, its longest rest that is over, how often it changed, of how
    many readings, how many have come since, and the usual size of a change.
    """
    return Ledger(_FIELDS)


class GaugePlaces:
    """Where a view's gauges lie in the ledger."""

    def __init__(self, ledger: Ledger[ColumnKey], view: TargetView, target: Target) -> None:
        keys = column_keys(view, view.gauges, target)
        ledger.add(keys)
        self.target = target
        self.at = ledger.numbers(keys)
        self.own = where_of(self.at, len(ledger.keys))
        self.made_for = (view, ledger.version)

    def fit(self, ledger: Ledger[ColumnKey], view: TargetView) -> bool:
        """Whether nothing changed since."""
        return self.made_for[0] is view and self.made_for[1] == ledger.version


def forget(ledger: Ledger[ColumnKey], places: GaugePlaces) -> None:
    """Drop what a target's present layout has no more."""
    keep_own(ledger, places.target, places.at)


def watch_gauges(ledger: Ledger[ColumnKey], places: GaugePlaces, view: TargetView, state: TargetState) -> None:
    """Take the newest readings of plain values."""
    own = places.own
    times = state.last_times[view.gauges]
    read, before = times.astype(np.float64), ledger["read_ms"][own]
    new = (times != NEVER) & ~(read <= before)
    if not new.any():
        return
    value, old, since = state.last_values[view.gauges], ledger["value"][own], ledger["since_ms"][own]
    unknown = np.isnan(old)
    first, moved = new & unknown, new & ~unknown & (value != old)
    waiting = ledger["waiting"][own] + (new & ~first)
    if moved.any():
        rest, step, jump = np.where(moved, before - since, 0.0), np.abs(value - old), ledger["jump"][own]
        ledger["longest_ms"][own] = np.maximum(ledger["longest_ms"][own], rest)
        ledger["moves"][own] += moved
        ledger["reads"][own] += np.where(moved, waiting, 0.0)
        usual = np.where(jump == 0.0, step, jump + (step - jump) * _JUMP_STEP)
        ledger["jump"][own] = np.where(moved, usual, jump)
    ledger["waiting"][own] = np.where(moved, 0.0, waiting)
    # Places may be views: what was read from them above is not used below.
    ledger["since_ms"][own] = np.where(first | moved, read, since)
    ledger["value"][own] = np.where(new, value, old)
    ledger["read_ms"][own] = np.where(new, read, before)


def stuck(ledger: Ledger[ColumnKey], places: GaugePlaces, view: TargetView, now: Now) -> list[FaultEvidence]:
    """Evidence of gauges that repeat one value to the last bit while their like move."""
    own = places.own
    least = max(_STUCK_MS, float(_STUCK_SCRAPES * now.interval_ms))
    rest = np.nan_to_num(ledger["read_ms"][own] - ledger["since_ms"][own])
    moves = ledger["moves"][own]
    lively = (moves >= _MOVES) & (moves >= _MOVING_PART * ledger["reads"][own])
    if not (lively & (rest >= _TOLD * least)).any():
        return []
    longest, value = ledger["longest_ms"][own] + now.interval_ms, ledger["value"][own]
    coarse = (value == np.floor(value)) & (ledger["jump"][own] <= _COARSE_STEP)
    limit = np.maximum(least, _STUCK_RESTS * longest)
    limit = np.where(coarse, _COARSE_RESTS * limit, limit)
    moving = lively & (rest <= np.maximum(_MOVING_RESTS * longest, now.interval_ms))
    result = []
    for index in np.flatnonzero(lively & (rest >= _TOLD * limit) & (value != 0.0)).tolist():
        peers, movers = _peers(view, index, lively, moving, coarse=bool(coarse[index]))
        if peers == 0 or 2 * movers < peers:
            continue
        device, name = view.owners[int(view.gauge_owner[index])], view.series_name(int(view.gauges[index]))
        place = int(places.at[index])
        since, repeats = int(ledger["since_ms"][place]), int(ledger["waiting"][place])
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
