"""What is learned of one entity, and how a window of it is judged."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hwsonde_detector.decision.calibration import Tail, cross_fit, fit_tail, surprise
from hwsonde_detector.decision.episodes import ENOUGH_MS
from hwsonde_detector.decision.fusion import alone_decades, fuse, spoken_alone, voted
from hwsonde_detector.decision.heard import ENOUGH, Heard
from hwsonde_detector.decision.scaling import Scale, fit_scale
from hwsonde_detector.detectors.base import Detector
from hwsonde_detector.detectors.bounds import Lone
from hwsonde_detector.detectors.table import make, member
from hwsonde_detector.detectors.tails import ColumnTails, fit_columns
from hwsonde_detector.settings import Settings
from hwsonde_detector.signals.pruning import prune
from hwsonde_detector.signals.streams import Stream, columns, gaps, make_stream, past_rows
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
        One of each a member, by name; members that need nobody to agree with them have no tail.
    shape
        Tails of a healthy window's mean and deviation, by channel: 2 c columns.
    fitted_ms
        Time of the last row that was learned.
    rows
        Rows that were learned.
    missing
        Names of channels that were left out because they were there no more.
    """

    channels: tuple[Channel, ...]
    scale: Scale
    kept: NDArray[np.int64]
    detectors: Mapping[str, Detector]
    tails: Mapping[str, Tail]
    shape: ColumnTails
    fitted_ms: int
    rows: int
    missing: tuple[str, ...] = ()


class Gone(NamedTuple):
    """Names of channels of which the newest rows know nothing: those to leave out, and those to leave out if the rest is too little to judge."""

    out: frozenset[str] = frozenset()
    more: frozenset[str] = frozenset()


NOTHING_GONE = Gone()


class _Looked(NamedTuple):
    """What a model looks at: its channels, their scale, the rows on it (rows, c), and the indices of those that the detectors see."""

    channels: tuple[Channel, ...]
    scale: Scale
    moved: Floats
    kept: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Judgement:
    """Judgement of n windows of one entity.

    Attributes
    ----------
    windows
        int64 (n): index of each window's last row among the rows given.
    fused
        float64 (n): decades of surprise, fused of the members'; NaN where too little of the window is known.
    members
        float64 (n, members), the same of each.
    raw
        float64 (n, members): the members' scores before calibration.
    surprises
        float64 (n, c): -log10 p of every channel, pruned ones too; 0 where the channel was not judged.
    coverage
        float64 (n): share of the model's kept channels that were judged.
    deviations
        float64 (n, c): signed mean deviation over the window, in spreads; NaN where not judged.
    outside
        bool (n, c): whether the window's last row lies outside of the channel's band.
    alone
        float64 (n): the part of ``fused`` that a member says which needs nobody to agree with it; 0 where there is none.
    lone
        float64 (n, c): how that part falls on the channels.
    voted
        float64 (n): ``fused`` without it.
    """

    windows: NDArray[np.int64]
    fused: Floats
    members: Floats
    raw: Floats
    surprises: Floats
    coverage: Floats
    deviations: Floats
    outside: Mask
    alone: Floats
    lone: Floats
    voted: Floats


# A window is judged only if at least this share of what the model saw is known; a model looks at what is there where it would be less.
_MIN_COVERAGE = 0.5
# Weight in attribution from which a channel may be told of alone: use and throughput (0.3) shift with the work for good, and may not.
_CAUSE = 0.5
# A channel's part in what is said alone counts from this share of the loudest one's on.
_LOUD_PART = 0.1
# In so many stretches of the learned time, and so much of them, a channel must be known before it may be told of alone.
_STRETCHES, _KNOWN = 24, 0.5
# What a channel's evidence is made of: where it is, and how restless.
_SHAPE = ("mean", "deviation")
# Smallest usual distance of a window's mean and deviation, in spreads.
_SHAPE_FLOOR = 1.0


def fit_model(
    values: Floats,
    times: Times,
    interval_ms: int,
    channels: tuple[Channel, ...],
    settings: Settings,
    heard: Heard | None = None,
    gone: Gone = NOTHING_GONE,
) -> EntityModel | None:
    """Learn from rows (rows, c) of healthy time, ascending in time; gaps are allowed, but rows without a full window give None.

    A channel that has only just come is left out, and judged from a later fit on. So is what is ``gone`` where most of the channels are: what is
    left is better judged without them than not at all.
    Tails come from ``heard``, the scores that healthy rows were given before they were learned, where there are enough of them and the settings
    want it; else from blocked cross-fitting: every window's score is that of a model that had not seen it or a neighbour that
    shares rows with it.
    """
    width = settings.window.rows
    full = full_windows(times, interval_ms, width)
    if not full.any():
        return None
    chosen = _old_enough(values, settings) & ~_called(channels, gone.out)
    looked = _look(values, channels, chosen, settings)
    here = ~_called(looked.channels, gone.more)[looked.kept]
    fewer = bool(len(here)) and float(here.mean()) < _MIN_COVERAGE
    if fewer:
        chosen &= ~_called(channels, gone.more)
        looked = _look(values, channels, chosen, settings)
    left_out = gone.out | gone.more if fewer else gone.out
    missing = tuple(channel.name for channel in channels if channel.name in left_out)
    channels, scale, moved, kept = looked
    if not len(kept):
        return None
    streams = _streams(moved, channels, kept, settings, 0, gaps(times, interval_ms))
    live = np.zeros((0, 0))
    # What a model said that looked at twice as many channels tells nothing of this one.
    if heard is not None and not fewer and settings.detectors.calibration == "live":
        live = heard.raw(len(times))
    streams = {stream: np.nan_to_num(rows[full], posinf=0.0, neginf=0.0) for stream, rows in streams.items()}
    detectors, tails = _fit_members(streams, live, settings, _lone_channels(moved, channels, interval_ms))
    shape = fit_columns(window_features(moved, width, _SHAPE)[full], _SHAPE_FLOOR)
    return EntityModel(channels, scale, kept, detectors, tails, shape, int(times[-1]), len(times), missing)


def _look(values: Floats, channels: tuple[Channel, ...], chosen: Mask, settings: Settings) -> _Looked:
    """Scale the ``chosen`` ones (c) of the channels of rows (rows, c), and choose among them those that the detectors see."""
    channels, values = (
        tuple(channel for channel, known in zip(channels, chosen, strict=True) if known),
        values[:, chosen],
    )
    scale = fit_scale(values, channels)
    moved = scale.standardise(values, channels)
    return _Looked(channels, scale, moved, _kept(moved, channels, settings))


def _called(channels: Sequence[Channel], names: Collection[str]) -> Mask:
    """Which channels have one of these names, bool (c)."""
    return np.array([channel.name in names for channel in channels], np.bool_)


def _fit_members(
    streams: Mapping[Stream, Floats], live: Floats, settings: Settings, lone: Lone
) -> tuple[dict[str, Detector], dict[str, Tail]]:
    """Every member, and tails of those that vote; of the streams (n, columns) and of scores (rows, members) as they were given live, if any.

    ``lone`` tells of the channels that may be told of alone.
    """
    detectors: dict[str, Detector] = {}
    tails: dict[str, Tail] = {}
    for place, name in enumerate(settings.detectors.members):
        stream = member(name).stream
        rows = streams[stream]

        def factory(name: str = name, stream: Stream = stream) -> Detector:
            group = columns(stream, settings.window.rows, settings.window.features)
            return make(name, settings.detectors, group, lone if stream is Stream.ROWS else None)

        detectors[name] = factory().fit(rows)
        if name in settings.detectors.alone:
            continue
        if len(live) >= ENOUGH:
            scores = live[:, place]
        elif settings.detectors.calibration == "training":
            scores = detectors[name].score(rows)
        else:
            scores = cross_fit(factory, rows, folds=_FOLDS, gap=settings.window.rows)
        tails[name] = fit_tail(scores)
    return detectors, tails


def rows_before(settings: Settings) -> int:
    """How many rows before a window its judgement looks at."""
    return max(past_rows(member(name).stream) for name in settings.detectors.members)


def _streams(
    moved: Floats, channels: Sequence[Channel], kept: NDArray[np.int64], settings: Settings, past: int, fresh: Mask
) -> dict[Stream, Floats]:
    """Every stream that a member sees, of standardised rows (past + n, c), of which k are kept; ``fresh`` ones follow no other.

    What speaks of one channel alone sees those that were pruned, too: a burst in the learned time makes all channels alike.
    """
    wanted = dict.fromkeys(member(name).stream for name in settings.detectors.members)
    width, features, seen = settings.window.rows, settings.window.features, moved[:, kept]
    return {
        stream: make_stream(
            stream, moved[:, _causes(channels)] if stream is Stream.ROWS else seen, width, features, past, fresh
        )
        for stream in wanted
    }


def _causes(channels: Sequence[Channel]) -> NDArray[np.int64]:
    """Indices of the channels that may be told of alone: use and sums swing with the work, followers with what they follow.

    Where a profile has nothing else, all are.
    """
    found = np.flatnonzero([channel.weight >= _CAUSE for channel in channels])
    return found if len(found) else np.arange(len(channels))


def _lone_channels(moved: Floats, channels: tuple[Channel, ...], interval_ms: int) -> Lone:
    """Of the channels that may be told of alone, with their learned rows among ``moved`` (rows, c): which say enough in one row, and which nothing.

    Enough say those that sum up what happened since the row before, if it is long; nothing those of which less than half of the learned time
    knows anything: what they never did so far is no news.
    """
    causes = _causes(channels)
    quick = np.array([channels[at].flow and interval_ms >= ENOUGH_MS for at in causes], np.bool_)
    blocks = min(_STRETCHES, len(moved))
    borders = np.linspace(0, len(moved), blocks + 1).round().astype(np.intp)[:-1]
    known = (
        np.logical_or.reduceat(np.isfinite(moved[:, causes]), borders, axis=0) if blocks else np.zeros((1, len(causes)))
    )
    return Lone(quick, known.mean(axis=0) < _KNOWN)


def _old_enough(values: Floats, settings: Settings) -> Mask:
    """Which of c channels have been known for long enough among rows (rows, c), bool (c): of a channel's first values nothing is learned."""
    rows = len(values)
    known = np.isfinite(values)
    age = np.where(known.any(axis=0), rows - known.argmax(axis=0), 0)
    return np.asarray(age >= min(settings.learning.first_rows, rows // 2), np.bool_)


def judge(
    model: EntityModel, values: Floats, times: Times, interval_ms: int, settings: Settings, past: int = 0
) -> Judgement:
    """Judge every full window among rows (rows, c) of the model's channels; the first ``past`` rows belong to none and only tell what was before."""
    width = settings.window.rows
    moved = model.scale.standardise(values, model.channels)
    full = full_windows(times[past:], interval_ms, width)
    ends = np.flatnonzero(full) + past + width - 1
    made = _streams(moved, model.channels, model.kept, settings, past, gaps(times, interval_ms))
    streams = {stream: rows[full] for stream, rows in made.items()}
    known = {stream: np.isfinite(rows) for stream, rows in streams.items()}
    raw = np.zeros((len(ends), len(model.detectors)))
    surprises = np.zeros_like(raw)
    # A memory that is full has seen all that it can.
    enough = min(settings.detectors.alone_after_ms / interval_ms, settings.learning.memory_rows)
    for place, (name, detector) in enumerate(model.detectors.items() if len(ends) else ()):
        stream = member(name).stream
        raw[:, place] = detector.score(np.where(known[stream], streams[stream], 0.0))
        tail, risk = model.tails.get(name), settings.episodes.risk
        own = raw[:, place]
        if tail is not None:
            surprises[:, place] = surprise(tail, own)
        elif model.rows >= enough:
            surprises[:, place] = alone_decades(own, settings.detectors.alone_at, risk)
    # Of the streams of kept channels the one that knows least: a window with one missing row has no deviation.
    shares = [part.mean(axis=1) for stream, part in known.items() if stream is not Stream.ROWS or len(known) == 1]
    coverage = np.min(shares, axis=0) if len(model.kept) else np.zeros(len(ends))
    names = list(model.detectors)
    told, alone = voted(surprises, names, settings.detectors), spoken_alone(surprises, names, settings.detectors)
    told = np.where(coverage >= _MIN_COVERAGE, told, np.nan)
    fused = np.where(coverage >= _MIN_COVERAGE, fuse(surprises, names, settings.detectors), np.nan)
    lone = _lone(model, streams, alone, settings)
    shape = window_features(moved[past:], width, _SHAPE)[full]
    means = shape[:, 0 :: len(_SHAPE)]
    channel_surprise = model.shape.surprise(shape).reshape(len(shape), len(model.channels), len(_SHAPE)).max(axis=2)
    outside = np.nan_to_num(np.abs(moved[ends])) > model.scale.band
    return Judgement(ends, fused, surprises, raw, channel_surprise, coverage, means, outside, alone, lone, told)


def _lone(model: EntityModel, streams: Mapping[Stream, Floats], alone: Floats, settings: Settings) -> Floats:
    """Parts (n, c) of what members say alone (n) by channel; windows in which they say nothing have none."""
    parts, loud, causes = (
        np.zeros((len(alone), len(model.channels))),
        np.flatnonzero(alone > 0),
        _causes(model.channels),
    )
    for name in settings.detectors.alone if len(loud) else ():
        if name in model.detectors:
            seen = np.nan_to_num(streams[member(name).stream][loud])
            own = model.detectors[name].contributions(seen).reshape(len(loud), len(causes), -1).sum(axis=2)
            parts[np.ix_(loud, causes)] += np.where(own >= _LOUD_PART * own.max(axis=1, keepdims=True), own, 0.0)
    return parts


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
    for name, tail in model.tails.items():
        arrays |= {f"tail.{name}.{key}": value for key, value in tail.arrays().items()}
    document = {"members": list(model.detectors), "fitted_ms": model.fitted_ms, "rows": model.rows}
    return {**document, "missing": list(model.missing)}, arrays


def restore_model(
    document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], channels: tuple[Channel, ...], settings: Settings
) -> EntityModel:
    """Rebuild a model from `model_arrays`; raises KeyError or ValueError when something is missing."""
    detectors: dict[str, Detector] = {}
    tails: dict[str, Tail] = {}
    for name in document["members"]:
        group = columns(member(name).stream, settings.window.rows, settings.window.features)
        detectors[name] = make(name, settings.detectors, group).restore(_part(arrays, f"detector.{name}."))
        if name not in settings.detectors.alone:
            tails[name] = Tail.restore(_part(arrays, f"tail.{name}."))
    scale = Scale(arrays["centre"], arrays["spread"], arrays["band"])
    shape = ColumnTails.of(arrays["shape"])
    fitted, rows = int(document["fitted_ms"]), int(document["rows"])
    # States of versions that looked at what was gone for as long as any row knew it lack it.
    missing = tuple(map(str, document.get("missing", ())))
    return EntityModel(channels, scale, arrays["kept"], detectors, tails, shape, fitted, rows, missing)


def _part(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {key[len(prefix) :]: value for key, value in arrays.items() if key.startswith(prefix)}
