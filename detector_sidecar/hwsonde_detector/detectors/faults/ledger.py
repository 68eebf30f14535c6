"""Arrays that belong to keys which come and go, and that are kept over a restart."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import Generic, Protocol, TypeAlias, TypeVar

import numpy as np

from hwsonde_detector.signals.layout import Indices
from hwsonde_detector.types import Floats


class OfTarget(Hashable, Protocol):
    """A key that belongs to a scrape target."""

    @property
    def job(self) -> str:
        """The target's job."""

    @property
    def instance(self) -> str:
        """Its instance."""


Where: TypeAlias = Indices | slice
K = TypeVar("K", bound=Hashable)
T = TypeVar("T", bound=OfTarget)


class Ledger(Generic[K]):
    """A few numbers for each of n keys.

    Parameters
    ----------
    fields
        Names of the numbers and what they are for a key of which nothing is known. Times in milliseconds fit: a float64 holds them exactly.
    """

    def __init__(self, fields: Mapping[str, float]) -> None:
        self.fields = dict(fields)
        self.keys: tuple[K, ...] = ()
        self.places: dict[K, int] = {}
        self.version = 0
        self._rows = {name: row for row, name in enumerate(self.fields)}
        self.values: Floats = np.zeros((len(self.fields), 0))

    def __getitem__(self, name: str) -> Floats:
        """Numbers of one name, float64 (n); a view, so that what is assigned to its elements stays."""
        return np.asarray(self.values[self._rows[name]])

    def add(self, keys: Iterable[K]) -> None:
        """Append the keys that are not there yet, with what is known of nothing."""
        new = [key for key in dict.fromkeys(keys) if key not in self.places]
        if new:
            fresh = np.tile(np.array(list(self.fields.values()))[:, None], (1, len(new)))
            self._set((*self.keys, *new), np.concatenate([self.values, fresh], axis=1))

    def numbers(self, keys: Sequence[K]) -> Indices:
        """Places of keys, which are added where they are new."""
        self.add(keys)
        return np.array([self.places[key] for key in keys], np.int64)

    def keep(self, kept: Indices) -> None:
        """Keep only the keys at these places, in this order."""
        if len(kept) < len(self.keys):
            self._set(tuple(self.keys[place] for place in kept.tolist()), self.values[:, kept])

    def load(self, keys: Sequence[K], values: Floats) -> None:
        """Take what was saved.

        Raises
        ------
        ValueError
            If keys repeat, or the numbers do not fit keys and fields.
        """
        if len(set(keys)) != len(keys) or values.shape != (len(self.fields), len(keys)):
            raise ValueError(f"{len(keys)} keys and numbers of shape {values.shape} do not fit {list(self.fields)}")
        self._set(tuple(keys), np.array(values, np.float64))

    def _set(self, keys: tuple[K, ...], values: Floats) -> None:
        self.keys, self.values = keys, np.ascontiguousarray(values)
        self.places = {key: place for place, key in enumerate(keys)}
        self.version += 1


def keep_targets(ledger: Ledger[T], known: Collection[tuple[str, str]]) -> None:
    """Drop the keys of targets that are not ``known``."""
    kept = [place for place, key in enumerate(ledger.keys) if (key.job, key.instance) in known]
    ledger.keep(np.array(kept, np.int64))


def keep_own(ledger: Ledger[T], target: tuple[str, str], own: Indices) -> None:
    """Drop the keys of a target that lie elsewhere than at ``own``."""
    kept = np.array([(key.job, key.instance) != target for key in ledger.keys], np.bool_)
    kept[own] = True
    ledger.keep(np.flatnonzero(kept))


def where_of(places: Indices, size: int) -> Where:
    """The same places, as a slice where they are all of a ledger of that size in its order: no copy is made then.

    What is read from a ledger by a slice changes with what is assigned to it later.
    """
    whole = len(places) == size and bool((places == np.arange(size)).all())
    return slice(0, size) if whole else places
