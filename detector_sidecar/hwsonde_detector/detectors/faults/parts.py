"""Which parts, collectors and metrics are usual, and which of them are missed. Pure.

Only what stays while programs come and go is looked at (`view`), and only against scrapes that its own target answered: a silent host
loses no parts, it is silent. What an upgrade renames is not missed either, it lowers the coverage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from hwsonde_detector.detectors.faults.ledger import Ledger
from hwsonde_detector.detectors.faults.view import COLLECTOR, METRIC, PartKey, Target, TargetView
from hwsonde_detector.settings import DataFaultSettings
from hwsonde_detector.signals.health import HealthState
from hwsonde_detector.signals.layout import Indices
from hwsonde_detector.signals.profiles.rules import HealthRole
from hwsonde_detector.signals.targets import TargetState
from hwsonde_detector.types import Device, FaultEvidence, Floats, Mask

# How many times longer than a device something must be away.
_PATIENCE = {COLLECTOR: 2.0, METRIC: 4.0}
PATIENT_SCRAPES = 5
# Of a part that is there at least so many of its usual series are there; one that is lost may still have the series that says so.
_SERIES_LEFT = 0.5
# The usual number of series falls by this part of the difference with each scrape, and rises at once.
_LEVEL_STEP = 1 / 1800
_USUAL_PART = 0.9
_MEMORY_MS = 30 * 86_400_000.0
# Where collectors tell of themselves, a metric alone pages nobody: a program may have taken its source for a while.
_METRIC_ALONE = 0.9
_THERE, _AWAY, _UNKNOWN = 1.0, 0.0, -1.0
_FIELDS = {
    "present_ms": 0.0, "total_ms": 0.0, "absent_ms": 0.0, "last_ms": 0.0, "level": 0.0, "orphan": 0.0, "there": 0.0, "patience_ms": 1.0,
}  # fmt: skip


@dataclass(slots=True)
class PartBook:
    """What is known of every part.

    Attributes
    ----------
    ledger
        By part: milliseconds of scrapes in which it was there and of all before its present absence, those of this absence, the last scrape
        that had it, its usual number of series, whether an upgrade may have renamed it, whether it is there, and how long it may be away.
    names
        What people call them, where that is not the identity.
    reasons
        Why collectors do not work, as the exporter says.
    """

    ledger: Ledger[PartKey] = field(default_factory=lambda: Ledger(_FIELDS))
    names: dict[PartKey, str] = field(default_factory=dict)
    reasons: dict[PartKey, str] = field(default_factory=dict)
    _rows: dict[Target, tuple[int, Indices]] = field(default_factory=dict)

    def rows_of(self, target: Target) -> Indices:
        """Places in the ledger of everything at a target."""
        known = self._rows.get(target)
        if known is None or known[0] != self.ledger.version:
            places = [place for place, key in enumerate(self.ledger.keys) if key.target == target]
            known = self._rows[target] = (self.ledger.version, np.array(places, np.int64))
        return known[1]


def suspend(book: PartBook, target: Target) -> None:
    """Miss nothing of a target that is not seen again, but collectors that say so: it may have other names from now on."""
    rows = book.rows_of(target)
    devices = [place for place in rows.tolist() if book.ledger.keys[place].kind != COLLECTOR]
    book.ledger["orphan"][devices] = 1.0


def resume_classes(book: PartBook, target: Target) -> None:
    """Miss again what belongs to a class of which something has been seen since: it kept its name."""
    rows = book.rows_of(target).tolist()
    orphan = book.ledger["orphan"]
    seen = {book.ledger.keys[place].kind for place in rows if orphan[place] == 0.0}
    orphan[[place for place in rows if book.ledger.keys[place].kind in seen - {METRIC}]] = 0.0


class Places:
    """Where the things of one target lie in the ledger and in the health values; found anew when any of them changed."""

    def __init__(self, book: PartBook, view: TargetView, target: Target, health: HealthState) -> None:
        slots = [(slot, key) for slot, key in enumerate(health.keys) if key.target == target]
        by_name: dict[HealthRole, dict[str, int]] = {HealthRole.AVAILABLE: {}, HealthRole.SUCCESS: {}}
        for slot, key in slots:
            if key.role in by_name:
                by_name[key.role][key.name] = slot
        collectors = sorted(by_name[HealthRole.AVAILABLE].keys() | by_name[HealthRole.SUCCESS].keys())
        others = [(slot, PartKey(*target, key.kind, key.name)) for slot, key in slots if key.role is HealthRole.PART]
        self.collectors = tuple(PartKey(*target, COLLECTOR, name) for name in collectors)
        self.available = np.array([by_name[HealthRole.AVAILABLE].get(name, -1) for name in collectors], np.int64)
        self.success = np.array([by_name[HealthRole.SUCCESS].get(name, -1) for name in collectors], np.int64)
        self.other_slots = np.array([slot for slot, _ in others], np.int64)
        book.ledger.add((*view.parts, *view.metrics, *self.collectors, *(key for _, key in others)))
        self.parts = book.ledger.numbers(view.parts)
        self.metrics = book.ledger.numbers(view.metrics)
        self.collector_places = book.ledger.numbers(self.collectors)
        self.others = book.ledger.numbers([key for _, key in others])
        for part, name in zip(view.parts, view.names, strict=True):
            if name != part.identity:
                book.names[part] = name
        self.made_for = (view, health.keys, book.ledger.version)

    def fit(self, book: PartBook, view: TargetView, health: HealthState) -> bool:
        """Whether nothing changed since."""
        known_view, known_keys, version = self.made_for
        return known_view is view and known_keys is health.keys and version == book.ledger.version


def look(
    book: PartBook, places: Places, view: TargetView, state: TargetState, health: HealthState, elapsed_ms: float
) -> Floats:
    """Find what of a target is there at its newest scrape.

    Returns
    -------
    Floats
        float64 (n) over the whole ledger: 1 there, 0 away, -1 not known; 0 for what is not of this target.
    """
    ledger = book.ledger
    found = np.full(len(ledger.keys), _AWAY)
    shown = (state.seen[view.first] == state.newest_ms).astype(np.float64)
    counts = np.bincount(view.part_of, weights=shown, minlength=len(view.parts) + 1)[: len(view.parts)]
    level = ledger["level"]
    usual = level[places.parts]
    there = (counts > 0) & (counts >= _SERIES_LEFT * usual)
    found[places.parts] = there
    if elapsed_ms > 0:
        fallen = np.where(there, usual + (counts - usual) * _LEVEL_STEP, usual)
        level[places.parts] = np.maximum(counts, fallen)
    found[places.metrics] = np.bincount(view.metric_of, weights=shown, minlength=len(view.metrics)) > 0
    found[places.others] = health.times[places.other_slots] == state.newest_ms
    found[places.collector_places] = _collectors(book, places, health, state.newest_ms)
    return found


def _collectors(book: PartBook, places: Places, health: HealthState, newest_ms: int) -> Floats:
    """Collectors that work (1), that do not (0), and of which nothing is told (-1)."""
    if not len(places.collectors):
        return np.zeros(0)
    values = np.append(health.values, np.nan)
    fresh = np.append(health.times == newest_ms, False)
    available = np.where(fresh[places.available], values[places.available], np.nan)
    success = np.where(fresh[places.success], values[places.success], np.nan)
    states = np.full(len(places.collectors), _UNKNOWN)
    states[success == 1.0] = _THERE
    states[success == 0.0] = _AWAY
    states[available == 0.0] = _AWAY
    for place in np.flatnonzero(states == _AWAY).tolist():
        slot = int(places.available[place])
        reason = health.label(slot, "reason") if slot >= 0 and available[place] == 0.0 else ""
        book.reasons[places.collectors[place]] = reason or "its runs fail"
    return states


def account(
    book: PartBook,
    target: Target,
    found: Floats,
    now: tuple[int, int, float],
    settings: DataFaultSettings,
    *,
    grace: bool,
) -> None:
    """Add a scrape's findings to what is known.

    Parameters
    ----------
    found
        What `look` found.
    now
        The target's newest scrape, its interval, and the milliseconds of scrapes since the last call.
    grace
        Whether the exporter has just started, so that nothing is missed yet.
    """
    ref_ms, interval_ms, elapsed_ms = now
    ledger, rows = book.ledger, book.rows_of(target)
    state = found[rows]
    there = state == _THERE
    away = (state == _AWAY) & (ledger["orphan"][rows] == 0.0) & (not grace)
    back, here, gone = rows[there & (ledger["absent_ms"][rows] > 0)], rows[there], rows[away]
    ledger["total_ms"][back] += ledger["absent_ms"][back]
    ledger["absent_ms"][back] = 0.0
    ledger["present_ms"][here] += elapsed_ms
    ledger["total_ms"][here] += elapsed_ms
    ledger["last_ms"][here] = ref_ms
    ledger["orphan"][here] = 0.0
    ledger["absent_ms"][gone] += elapsed_ms
    ledger["there"][rows] = np.where(state == _UNKNOWN, ledger["there"][rows], there)
    long = rows[ledger["total_ms"][rows] > _MEMORY_MS]
    ledger["present_ms"][long] /= 2.0
    ledger["total_ms"][long] /= 2.0
    given_up = rows[ledger["absent_ms"][rows] >= settings.accept_ms]
    for name in ("present_ms", "total_ms", "absent_ms", "level"):
        ledger[name][given_up] = 0.0
    patience = max(float(settings.missing_ms), float(PATIENT_SCRAPES * interval_ms))
    ledger["patience_ms"][rows] = patience


def coverage(book: PartBook, living: Collection[Target], settings: DataFaultSettings) -> float:
    """Share of what is usual of the ``living`` targets that is there; 1 before anything is usual."""
    usual = _usual(book, settings) & _of(book, living)
    return float(book.ledger["there"][usual].mean()) if usual.any() else 1.0


def missing(book: PartBook, living: Collection[Target], settings: DataFaultSettings) -> list[FaultEvidence]:
    """Evidence of everything usual of the ``living`` targets that is away and that nothing else explains, in no order."""
    ledger = book.ledger
    usual = _usual(book, settings) & _of(book, living)
    away = usual & (ledger["absent_ms"] > 0)
    if not away.any():
        return []
    result = []
    gone = [ledger.keys[place] for place in np.flatnonzero(away)]
    silent = {key.target for key in gone if key.kind == COLLECTOR}
    hurt = {key.target for key in gone if key.kind not in {COLLECTOR, METRIC}}
    telling = {key.target for key in ledger.keys if key.kind == COLLECTOR}
    totals = Counter((ledger.keys[place].target, ledger.keys[place].kind) for place in np.flatnonzero(usual).tolist())
    lost = Counter((key.target, key.kind) for key in gone)
    for place, key in zip(np.flatnonzero(away).tolist(), gone, strict=True):
        total = totals[key.target, key.kind]
        left = total - lost[key.target, key.kind]
        score = float(ledger["absent_ms"][place] / (_PATIENCE.get(key.kind, 1.0) * ledger["patience_ms"][place]))
        if key.kind == METRIC:
            if key.target in silent or key.target in hurt:
                continue
            if key.target in telling:
                score = min(score, _METRIC_ALONE)
        elif key.kind != COLLECTOR and left == 0 and key.target in silent:
            continue
        result.append(
            FaultEvidence(
                Device(key.kind, book.names.get(key, key.identity)),
                score,
                int(ledger["last_ms"][place]),
                round(float(ledger["level"][place])),
                book.reasons.get(key, "") if key.kind == COLLECTOR else "",
                float(left),
                float(total),
            )
        )
    return result


def forget(book: PartBook, known: Collection[Target]) -> None:
    """Drop everything of targets that are not ``known`` any more."""
    _keep(book, _of(book, known))


def prune(book: PartBook, places: Places, target: Target, ref_ms: int, settings: DataFaultSettings) -> None:
    """Drop what a target does not have any more, if it is not usual and long gone, so that names which never return are not kept for ever."""
    old = np.zeros(len(book.ledger.keys), np.bool_)
    old[book.rows_of(target)] = True
    for own in (places.parts, places.metrics, places.collector_places, places.others):
        old[own] = False
    old &= book.ledger["last_ms"] < ref_ms - settings.accept_ms
    _keep(book, ~old | _usual(book, settings))


def _keep(book: PartBook, kept: Mask) -> None:
    if kept.all():
        return
    dropped = [book.ledger.keys[place] for place in np.flatnonzero(~kept).tolist()]
    book.ledger.keep(np.flatnonzero(kept))
    for key in dropped:
        book.names.pop(key, None)
        book.reasons.pop(key, None)


def _of(book: PartBook, targets: Collection[Target]) -> Mask:
    result = np.zeros(len(book.ledger.keys), np.bool_)
    for target in targets:
        result[book.rows_of(target)] = True
    return result


def _usual(book: PartBook, settings: DataFaultSettings) -> Mask:
    present, total = book.ledger["present_ms"], book.ledger["total_ms"]
    return (present >= settings.usual_ms) & (present >= _USUAL_PART * total)
