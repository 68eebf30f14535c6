"""What is usual of a duration or a number, learned on the logarithm, and how long it has been far from that. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hwsonde_detector.detectors.faults.ledger import Ledger
from hwsonde_detector.signals.health import HealthKey, HealthState
from hwsonde_detector.signals.layout import Indices
from hwsonde_detector.signals.profiles.rules import HealthRole
from hwsonde_detector.types import Floats, Mask

# So many samples are needed before anything is unusual; the newest ones count most, those of about ten minutes at one a second.
_SAMPLES, _MEMORY = 60, 600
# What is unusual is learned this many times as slowly: it becomes usual in the end.
_RELUCTANCE = 20.0
# Far above usual: by this factor, and by this many mean deviations.
_FACTOR, _DEVIATIONS = 5.0, 6.0
# Less than this is never slow, in seconds; of a scrape, less than this part of its interval.
_FLOOR_S, _FLOOR_PART = 0.25, 0.2
# Far below usual: less than this part.
_LEFT = 0.5
_HELD_MOST = 2.0
_HIGHEST_LOG = 700.0
_FIELDS = {"centre": 0.0, "spread": 0.0, "samples": 0.0, "time": -np.inf, "held_ms": 0.0, "since": 0.0, "value": 0.0}
_ROLES = (HealthRole.SCRAPE_SECONDS, HealthRole.SECONDS, HealthRole.SCRAPE_SAMPLES)


@dataclass(slots=True)
class UsualBook:
    """What is known of each key: centre and mean deviation of the logarithm, how many samples made them, and for how long it was unusual."""

    ledger: Ledger[HealthKey] = field(default_factory=lambda: Ledger(_FIELDS))


class UsualPlaces:
    """Where the keys of one target lie; found anew when any came or went."""

    def __init__(self, book: UsualBook, health: HealthState, target: tuple[str, str]) -> None:
        found = [(slot, key) for slot, key in enumerate(health.keys) if key.role in _ROLES and key.target == target]
        keys = [key for _, key in found]
        book.ledger.add(keys)
        self.slots: Indices = np.array([slot for slot, _ in found], np.int64)
        self.own = book.ledger.numbers(keys)
        self.of_scrape: Mask = np.array([key.role is HealthRole.SCRAPE_SECONDS for key in keys], np.bool_)
        self.counts: Mask = np.array([key.role is HealthRole.SCRAPE_SAMPLES for key in keys], np.bool_)
        self.names = tuple(key.name for key in keys)
        self.made_for = (health.keys, book.ledger.version)

    def fit(self, book: UsualBook, health: HealthState) -> bool:
        """Whether nothing changed since."""
        return self.made_for[0] is health.keys and self.made_for[1] == book.ledger.version


def learn(
    book: UsualBook, places: UsualPlaces, health: HealthState, ref_ms: int, interval_ms: int, elapsed_ms: float
) -> None:
    """Take the newest samples, and hold against each key that it is unusual."""
    ledger, own = book.ledger, places.own
    times, values = health.times[places.slots].astype(np.float64), health.values[places.slots]
    new = (times > ledger["time"][own]) & (times <= ref_ms) & np.isfinite(values) & (values > 0.0)
    if not new.any():
        return
    centre, spread, samples = ledger["centre"][own], ledger["spread"][own], ledger["samples"][own]
    position = np.log(np.where(new, values, 1.0))
    unusual = new & (samples >= _SAMPLES) & _far(places, values, centre, spread, interval_ms)
    weight = np.maximum(1.0 / (samples + 1.0), 1.0 / _MEMORY) / np.where(unusual, _RELUCTANCE, 1.0)
    weight = np.where(new, weight, 0.0)
    distance = np.where(samples > 0, position - centre, 0.0)
    ledger["centre"][own] = np.where(new & (samples == 0), position, centre + weight * distance)
    ledger["spread"][own] = spread + weight * (np.abs(distance) - spread)
    ledger["samples"][own] = np.where(new, np.minimum(samples + 1.0, _MEMORY), samples)
    ledger["time"][own] = np.where(new, times, ledger["time"][own])
    ledger["value"][own] = np.where(new, values, ledger["value"][own])
    held = ledger["held_ms"][own]
    now = np.where(new, np.maximum(held + np.where(unusual, elapsed_ms, -elapsed_ms), 0.0), held)
    since = ledger["since"][own]
    ledger["since"][own] = np.where(now == 0.0, 0.0, np.where(since == 0.0, ref_ms, since))
    ledger["held_ms"][own] = now


def _far(places: UsualPlaces, values: Floats, centre: Floats, spread: Floats, interval_ms: int) -> Mask:
    floor = np.where(places.of_scrape, _FLOOR_PART * interval_ms / 1000.0, _FLOOR_S)
    # Bounded, since nonsense that was sent must not overflow.
    above = np.exp(np.minimum(centre + np.maximum(np.log(_FACTOR), _DEVIATIONS * spread), _HIGHEST_LOG))
    return np.where(places.counts, values < _LEFT * np.exp(centre), values > np.maximum(above, floor))


def limit(book: UsualBook, places: UsualPlaces, patience_ms: float) -> None:
    """Bound what is held, so that what is as usual again is believed in finite time."""
    own = places.own
    book.ledger["held_ms"][own] = np.minimum(book.ledger["held_ms"][own], _HELD_MOST * patience_ms)


def start_anew(book: UsualBook, places: UsualPlaces) -> None:
    """Forget how many samples are usual: another version of the exporter gives others."""
    chosen = places.own[places.counts]
    for name, empty in _FIELDS.items():
        book.ledger[name][chosen] = empty
