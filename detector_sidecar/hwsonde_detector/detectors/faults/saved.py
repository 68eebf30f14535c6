"""What is kept of data faults over a restart, as a JSON document and arrays, and back. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwsonde_detector.detectors.data_faults import FaultState, TargetBook
from hwsonde_detector.detectors.faults.columns import ColumnKey, OwnerKey
from hwsonde_detector.detectors.faults.flow import FlowBook
from hwsonde_detector.detectors.faults.ledger import K, Ledger
from hwsonde_detector.detectors.faults.view import PartKey
from hwsonde_detector.signals.health import HealthKey
from hwsonde_detector.signals.profiles.rules import HealthRole

# They only have a meaning beside the running counts that they were read from.
_OF_THIS_RUN = ("falls", "wrongs")
_PREFIX = "data_faults."


def snapshot_faults(state: FaultState) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Document and arrays that `restore_faults` takes back."""
    columns, resets = state.columns.ledger, state.columns.resets
    gauges = state.gauges
    document: dict[str, Any] = {
        "coverage": state.coverage,
        "targets": [[*target, _book(book)] for target, book in sorted(state.targets.items())],
        "names": [[list(key), name] for key, name in sorted(state.parts.names.items())],
        "reasons": [[list(key), reason] for key, reason in sorted(state.parts.reasons.items())],
    }
    arrays: dict[str, NDArray[Any]] = {}
    # Only columns and parts that something is held against.
    parts: tuple[tuple[str, Ledger[Any], NDArray[np.bool_]], ...] = (
        ("parts", state.parts.ledger, np.ones(len(state.parts.ledger.keys), np.bool_)),
        ("columns", columns, columns["wrong_ms"] > 0),
        ("gauges", gauges, np.isfinite(gauges["read_ms"])),
        ("resets", resets, resets["hits"] > 0),
        ("usual", state.usual.ledger, np.ones(len(state.usual.ledger.keys), np.bool_)),
    )
    for name, ledger, kept in parts:
        places = np.flatnonzero(kept)
        document[name] = [_listed(ledger.keys[place]) for place in places.tolist()]
        values = ledger.values[:, places].copy()
        for row, known in enumerate(ledger.fields):
            if known in _OF_THIS_RUN:
                values[row] = np.nan
        arrays[_PREFIX + name] = values
    return document, arrays


def restore_faults(document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> FaultState:
    """Rebuild from `snapshot_faults`; raises KeyError, ValueError or TypeError when something is missing or of another shape."""
    state = FaultState(coverage=float(document["coverage"]))
    for job, instance, book in document["targets"]:
        state.targets[str(job), str(instance)] = TargetBook(**{**book, "flow": FlowBook(**book["flow"])})
    state.parts.names |= {_part(key): str(name) for key, name in document["names"]}
    state.parts.reasons |= {_part(key): str(reason) for key, reason in document["reasons"]}
    _load(state.parts.ledger, "parts", _part, document, arrays)
    _load(state.columns.ledger, "columns", _column, document, arrays)
    _load(state.gauges, "gauges", _column, document, arrays)
    _load(state.columns.resets, "resets", _owner, document, arrays)
    _load(state.usual.ledger, "usual", _health, document, arrays)
    return state


def _book(book: TargetBook) -> dict[str, Any]:
    # The counts of a run begin anew with it.
    return {**asdict(book), "scrapes": 0, "restarted_ms": None}


def _load(
    ledger: Ledger[K],
    name: str,
    read: Callable[[Sequence[Any]], K],
    document: Mapping[str, Any],
    arrays: Mapping[str, NDArray[Any]],
) -> None:
    ledger.load([read(key) for key in document[name]], np.asarray(arrays[_PREFIX + name], np.float64))


def _listed(key: tuple[Any, ...]) -> list[Any]:
    return [
        list(map(list, part)) if isinstance(part, tuple) else str(part) if isinstance(part, str) else part
        for part in key
    ]


def _texts(key: Sequence[Any], count: int) -> list[str]:
    if len(key) != count:
        raise ValueError(f"a key of {len(key)} parts, expected {count}")
    return [str(part) for part in key]


def _part(key: Sequence[Any]) -> PartKey:
    return PartKey(*_texts(key, 4))


def _owner(key: Sequence[Any]) -> OwnerKey:
    return OwnerKey(*_texts(key, 4))


def _health(key: Sequence[Any]) -> HealthKey:
    job, instance, role, name, kind = _texts(key, 5)
    return HealthKey(job, instance, HealthRole(role), name, kind)


def _column(key: Sequence[Any]) -> ColumnKey:
    job, instance, metric, labels, rule, place = key
    pairs = tuple((str(name), str(value)) for name, value in labels)
    return ColumnKey(str(job), str(instance), str(metric), pairs, int(rule), int(place))
