"""Values that cannot be, and counters that fall, column by column. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from hwsonde_detector.detectors.faults.ledger import Ledger, keep_own, where_of
from hwsonde_detector.detectors.faults.parts import PATIENT_SCRAPES
from hwsonde_detector.detectors.faults.view import Target, TargetView
from hwsonde_detector.settings import DataFaultSettings
from hwsonde_detector.signals.layout import Indices
from hwsonde_detector.signals.paces import NEVER
from hwsonde_detector.signals.targets import TargetState
from hwsonde_detector.types import FaultEvidence, Floats, Labels, Times

# Single events are forgotten within so many milliseconds for each that makes a fault.
EVENT_MS = 200_000.0
# What is wrong is forgiven four times as slowly as it is held against a channel.
_FORGIVEN = 0.25
_HELD_MOST = 2.0
_FIELDS = {
    "falls": np.nan, "wrongs": np.nan, "wrong_ms": 0.0, "wrong_hits": 0.0, "wrong_count": 0.0, "wrong_since": 0.0,
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

    ``falls`` and ``wrongs`` of a column are the target's counts when they were looked at last; they are not kept over a restart. The rest is what
    is held against it: for how long, how often lately, how often since when.
    """

    ledger: Ledger[ColumnKey] = field(default_factory=lambda: Ledger(_FIELDS))
    resets: Ledger[OwnerKey] = field(default_factory=lambda: Ledger(_RESET_FIELDS))


def column_keys(view: TargetView, columns: Indices, target: Target) -> list[ColumnKey]:
    """Keys of columns of a view's layout."""
    found = [view.layout.columns[column] for column in columns.tolist()]
    return [ColumnKey(*target, one.name, one.labels, rule, place) for one, rule, place in found]


class ColumnPlaces:
    """Where a view's columns and owners lie in the ledgers; ``holding`` says that something is held against any of the columns."""

    def __init__(self, book: ColumnBook, view: TargetView, target: Target) -> None:
        keys = column_keys(view, view.columns, target)
        owners = [OwnerKey(*target, device.kind, device.name) for device in view.owners]
        book.ledger.add(keys)
        book.resets.add(owners)
        self.target = target
        self.at = book.ledger.numbers(keys)
        self.own = where_of(self.at, len(book.ledger.keys))
        self.owners_at = book.resets.numbers(owners)
        self.owners = where_of(self.owners_at, len(book.resets.keys))
        self.holding = bool((book.ledger["wrong_ms"][self.own] > 0).any())
        self.falls: Times | None = None
        self.wrongs: Times | None = None
        self.made_for = (view, book.ledger.version, book.resets.version)

    def fit(self, book: ColumnBook, view: TargetView) -> bool:
        """Whether nothing changed since."""
        return self.made_for[0] is view and self.made_for[1:] == (book.ledger.version, book.resets.version)


def forget(book: ColumnBook, places: ColumnPlaces) -> None:
    """Drop what a target's present layout has no more."""
    keep_own(book.ledger, places.target, places.at)
    keep_own(book.resets, places.target, places.owners_at)


def count(
    book: ColumnBook, places: ColumnPlaces, view: TargetView, state: TargetState, now: Now, settings: DataFaultSettings
) -> None:
    """Take what fell and what was wrong since the last look; quick while neither happens.

    What is held is bounded, so that what is right again is believed in finite time.
    """
    ledger, own = book.ledger, places.own
    _forgive_resets(book, places, now)
    if places.falls is not state.falls:
        # The target hands over the same array as long as nothing fell.
        places.falls = state.falls
        falls = state.falls[view.columns].astype(np.float64)
        fell = falls > ledger["falls"][own]
        ledger["falls"][own] = falls
        if fell.any():
            _hold_resets(book, places.owners_at[np.unique(view.owner_of[fell])], now, settings)
    wrong: Floats | None = None
    if places.wrongs is not state.wrongs:
        places.wrongs = state.wrongs
        wrongs = state.wrongs[view.columns].astype(np.float64)
        wrong = np.nan_to_num(np.maximum(wrongs - ledger["wrongs"][own], 0.0))
        ledger["wrongs"][own] = wrongs
    if places.holding or (wrong is not None and wrong.any()):
        _hold_wrong(book, places, wrong if wrong is not None else np.zeros(len(places.at)), view, state, now, settings)


def _forgive_resets(book: ColumnBook, places: ColumnPlaces, now: Now) -> None:
    hits = book.resets["hits"][places.owners]
    if not hits.any():
        return
    left = np.maximum(hits - now.elapsed_ms / EVENT_MS, 0.0)
    book.resets["hits"][places.owners] = left
    for name in ("count", "since"):
        book.resets[name][places.owners] = np.where(left == 0.0, 0.0, book.resets[name][places.owners])


def _hold_resets(book: ColumnBook, hurt: Indices, now: Now, settings: DataFaultSettings) -> None:
    hits, since = book.resets["hits"], book.resets["since"]
    hits[hurt] = np.minimum(hits[hurt] + 1.0, _HELD_MOST * settings.events)
    book.resets["count"][hurt] += 1.0
    since[hurt] = np.where(since[hurt] == 0.0, now.ref_ms, since[hurt])


def _hold_wrong(
    book: ColumnBook,
    places: ColumnPlaces,
    wrong: Floats,
    view: TargetView,
    state: TargetState,
    now: Now,
    settings: DataFaultSettings,
) -> None:
    ledger, own = book.ledger, places.own
    held = ledger["wrong_ms"][own].copy()
    pace = state.layout.paces.of_column[view.columns]
    interval = np.where(pace > 0, state.paces.interval_ms[pace], now.interval_ms)
    # What has never been right is no news, unless it is known to have been: it was held against it before.
    eligible = (state.last_times[view.columns] != NEVER) | (held > 0)
    bad = np.where(eligible, wrong, 0.0)
    leaked = np.maximum(held - _FORGIVEN * now.elapsed_ms, 0.0)
    held = np.minimum(np.where(bad > 0, held + bad * interval, leaked), _HELD_MOST * _patience(now, settings))
    hits = np.maximum(ledger["wrong_hits"][own] - now.elapsed_ms / EVENT_MS, 0.0) + bad
    over = held == 0.0
    since = ledger["wrong_since"][own]
    ledger["wrong_ms"][own] = held
    ledger["wrong_hits"][own] = np.where(over, 0.0, np.minimum(hits, _HELD_MOST * settings.events))
    ledger["wrong_count"][own] = np.where(over, 0.0, ledger["wrong_count"][own] + bad)
    ledger["wrong_since"][own] = np.where(over, 0.0, np.where(since == 0.0, now.ref_ms, since))
    places.holding = not bool(over.all())


def _patience(now: Now, settings: DataFaultSettings) -> float:
    return max(float(settings.missing_ms), float(PATIENT_SCRAPES * now.interval_ms))


def impossible(
    book: ColumnBook, places: ColumnPlaces, view: TargetView, now: Now, settings: DataFaultSettings
) -> list[FaultEvidence]:
    """Evidence of channels whose values cannot be."""
    if not places.holding:
        return []
    ledger, result = book.ledger, []
    held = ledger["wrong_ms"][places.own]
    for index in np.flatnonzero(held > 0).tolist():
        place = int(places.at[index])
        score = min(float(held[index]) / _patience(now, settings), float(ledger["wrong_hits"][place]) / settings.events)
        device = view.owners[int(view.owner_of[index])]
        since, times = int(ledger["wrong_since"][place]), int(ledger["wrong_count"][place])
        result.append(FaultEvidence(device, score, since, times, view.series_name(int(view.columns[index]))))
    return result


def resets(
    book: ColumnBook, places: ColumnPlaces, view: TargetView, settings: DataFaultSettings
) -> list[FaultEvidence]:
    """Evidence of parts whose counters fell although nothing was restarted."""
    hits = book.resets["hits"][places.owners]
    result = []
    for index in np.flatnonzero(hits > 0).tolist():
        place = int(places.owners_at[index])
        since, times = int(book.resets["since"][place]), int(book.resets["count"][place])
        result.append(FaultEvidence(view.owners[index], float(hits[index]) / settings.events, since, times))
    return result
