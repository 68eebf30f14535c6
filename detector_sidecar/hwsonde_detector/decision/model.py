"""What is learned of one entity, and how a window of it is judged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hwsonde_detector.decision.calibration import Tail, calibrated, cross_fit, fit_tail, surprise
from hwsonde_detector.decision.fusion import k_of_n
from hwsonde_detector.decision.scaling import Scale, fit_scale
from hwsonde_detector.detectors.base import Detector
from hwsonde_detector.detectors.table import make
from hwsonde_detector.detectors.tails import ColumnTails, fit_columns
from hwsonde_detector.settings import Settings
from hwsonde_detector.signals.pruning import prune
from hwsonde_detector.signals.windows import full_windows, window_features
from hwsonde_detector.types import Channel, Floats, Mask, Times

_FOLDS = 4


@dataclass(frozen=True, slots=True)
class EntityModel:
    """Everything learned of one entity from one fit.

    Attributes
    ----------
    channels
        c channels known at the time of the fit.
    scale
        Their scale.
    kept
        Indices of the k channels that the detectors see, after pruning.
    detectors, tails
        One of each a member, by name.
    shape
        Tails of a healthy window's mean and deviation, by channel: 2 c columns.
    fitted_ms
        Time of the last row that was learned.
    rows
        Rows that were learned.
    """

    channels: tuple[Channel, ...]
    scale: Scale
    kept: NDArray[np.int64]
    detectors: Mapping[str, Detector]
    tails: Mapping[str, Tail]
    shape: ColumnTails
    fitted_ms: int
    rows: int


@dataclass(frozen=True, slots=True)
class Judgement:
    """Judgement of n windows of one entity.

    Attributes
    ----------
    windows
        int64 (n): index of each window's last row among the rows given.
    fused
        float64 (n): agreement of the members, 1 is the configured risk; NaN where too little of the window is known.
    members
        float64 (n, members), the same of each.
    surprises
        float64 (n, c): -log10 p of every channel, pruned ones too; 0 where the channel was not judged.
    coverage
        float64 (n): share of the model's kept channels that were judged.
    deviations
        float64 (n, c): signed mean deviation over the window, in spreads; NaN where not judged.
    outside
        bool (n, c): whether the window's last row lies outside of the channel's band.
    """

    windows: NDArray[np.int64]
    fused: Floats
    members: Floats
    surprises: Floats
    coverage: Floats
    deviations: Floats
    outside: Mask


# A window is judged only if at least this share of what the model saw is known.
_MIN_COVERAGE = 0.5
# What a channel's evidence is made of: where it is, and how restless.
_SHAPE = ("mean", "deviation")
# Smallest usual distance of a window's mean and deviation, in spreads.
_SHAPE_FLOOR = 1.0


def fit_model(
    values: Floats, times: Times, interval_ms: int, channels: tuple[Channel, ...], settings: Settings
) -> EntityModel | None:
    """Learn from rows (rows, c) of healthy time, ascending in time; gaps are allowed, but rows without a full window give None.

    Tails come from blocked cross-fitting: every window's score is that of a model that had not seen it or a neighbour that
    shares rows with it.
    """
    scale = fit_scale(values, channels)
    moved = scale.standardise(values, channels)
    kept = _kept(moved, channels, settings)
    width = settings.window.rows
    full = full_windows(times, interval_ms, width)
    if not full.any() or not len(kept):
        return None
    features = window_features(moved[:, kept], width, settings.window.features)[full]
    features = np.nan_to_num(features, posinf=0.0, neginf=0.0)
    detectors: dict[str, Detector] = {}
    tails: dict[str, Tail] = {}
    for name in settings.detectors.members:

        def factory(name: str = name) -> Detector:
            return make(name, settings.detectors, len(settings.window.features))

        tails[name] = fit_tail(cross_fit(factory, features, folds=_FOLDS, gap=width))
        detectors[name] = factory().fit(features)
    shape = fit_columns(window_features(moved, width, _SHAPE)[full], _SHAPE_FLOOR)
    return EntityModel(channels, scale, kept, detectors, tails, shape, int(times[-1]), len(times))


def judge(model: EntityModel, values: Floats, times: Times, interval_ms: int, settings: Settings) -> Judgement:
    """Judge every full window that ends in rows (rows, c) of the model's channels."""
    width = settings.window.rows
    moved = model.scale.standardise(values, model.channels)
    full = full_windows(times, interval_ms, width)
    ends = np.flatnonzero(full) + width - 1
    features = window_features(moved[:, model.kept], width, settings.window.features)[full]
    known = np.isfinite(features)
    coverage = known.mean(axis=1) if features.size else np.zeros(len(ends))
    rows = np.where(known, features, 0.0)
    surprises = (
        np.column_stack([surprise(model.tails[name], model.detectors[name].score(rows)) for name in model.detectors])
        if len(ends)
        else (np.zeros((0, len(model.detectors))))
    )
    members = calibrated(surprises, settings.episodes.risk)
    fused = k_of_n(members, settings.detectors.agreement)
    fused = np.where(coverage >= _MIN_COVERAGE, fused, np.nan)
    shape = window_features(moved, width, _SHAPE)[full]
    means = shape[:, 0 :: len(_SHAPE)]
    channel_surprise = model.shape.surprise(shape).reshape(len(shape), len(model.channels), len(_SHAPE)).max(axis=2)
    outside = np.nan_to_num(np.abs(moved[ends])) > model.scale.band
    return Judgement(ends, fused, members, channel_surprise, coverage, means, outside)


def _kept(moved: Floats, channels: tuple[Channel, ...], settings: Settings) -> NDArray[np.int64]:
    """Indices of the channels that the detectors see: the pruned ones, and the constant ones, whose first change is news."""
    kept = set(map(int, prune(moved, channels, settings.detectors.correlation)))
    if settings.detectors.keep_constant and len(moved):
        spread = np.nan_to_num(np.nanmax(moved, axis=0, initial=-np.inf), neginf=0.0) - np.nan_to_num(
            np.nanmin(moved, axis=0, initial=np.inf), posinf=0.0
        )
        known = np.isfinite(moved).any(axis=0)
        kept |= set(np.flatnonzero(known & (spread <= 0.0)).tolist())
    return np.array(sorted(kept), np.int64)


def model_arrays(model: EntityModel) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Document and arrays that `restore_model` takes back."""
    arrays: dict[str, NDArray[Any]] = {
        "centre": model.scale.centre, "spread": model.scale.spread, "band": model.scale.band,
        "kept": model.kept, "shape": model.shape.array(),
    }  # fmt: skip
    for name, detector in model.detectors.items():
        arrays |= {f"detector.{name}.{key}": value for key, value in detector.arrays().items()}
        arrays |= {f"tail.{name}.{key}": value for key, value in model.tails[name].arrays().items()}
    return {"members": list(model.detectors), "fitted_ms": model.fitted_ms, "rows": model.rows}, arrays


def restore_model(
    document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], channels: tuple[Channel, ...], settings: Settings
) -> EntityModel:
    """Rebuild a model from `model_arrays`; raises KeyError or ValueError when something is missing."""
    detectors: dict[str, Detector] = {}
    tails: dict[str, Tail] = {}
    group = len(settings.window.features)
    for name in document["members"]:
        detectors[name] = make(name, settings.detectors, group).restore(_part(arrays, f"detector.{name}."))
        tails[name] = Tail.restore(_part(arrays, f"tail.{name}."))
    scale = Scale(arrays["centre"], arrays["spread"], arrays["band"])
    shape = ColumnTails.of(arrays["shape"])
    fitted, rows = int(document["fitted_ms"]), int(document["rows"])
    return EntityModel(channels, scale, arrays["kept"], detectors, tails, shape, fitted, rows)


def _part(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {key[len(prefix) :]: value for key, value in arrays.items() if key.startswith(prefix)}
