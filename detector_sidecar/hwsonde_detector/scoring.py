"""From the judgement of rows to the scores that are told. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hwsonde_detector.decision.learning import align
from hwsonde_detector.decision.model import EntityModel, Judgement, judge, rows_before
from hwsonde_detector.decision.trend import Trend
from hwsonde_detector.explain.attribution import by_device, by_subsystem, evidence, top_channels, weighed
from hwsonde_detector.explain.directions import rows_needed
from hwsonde_detector.explain.episodes import TOP_CHANNELS
from hwsonde_detector.settings import DetectorSettings, Settings
from hwsonde_detector.types import Entity, Floats, Frame, Mask, Score, Times

# The newest row counts as deviating when half of the loudest channels are still outside of their bands.
_LOUDEST = 5
_TOP_DEVICES = 10

# What is said alone counts so many times what all channels' own tails say together.
_LONE = 2.0
# What is said alone is sudden if one of the channels that say it most came at least so much of its way within the rows before.
_SUDDEN_ROWS, _SUDDEN_PART, _LEAST_BEFORE = 60, 0.5, 5


@dataclass(frozen=True, slots=True)
class Judged:
    """Judgement of the newest ``new`` rows.

    ``times`` and ``values`` are of all rows, older ones too, in the model's order of channels, ``frame`` has all channels; ``window`` gives the
    judged window that ends in a row.
    """

    model: EntityModel
    new: int
    frame: Frame
    times: Times
    values: Floats
    judgement: Judgement
    strengths: Floats
    window: Mapping[int, int]
    sudden: Mask

    def wait(self, window: int) -> None:
        """Let only those say something of a window who must agree."""
        self.judgement.fused[window], self.judgement.alone[window] = self.judgement.voted[window], 0.0

    def follow(self, row: int, trend: Trend, settings: DetectorSettings) -> float:
        """Let the trend take the fused surprise of the window that ends in a row, and tell its level in its place; NaN where it was not judged."""
        window = self.window.get(row)
        if window is None:
            return float("nan")
        level = trend.take(float(self.judgement.fused[window]), settings)
        self.judgement.fused[window] = level
        return level


def judge_rows(model: EntityModel, rows: Frame, new: int, interval_ms: int, settings: Settings) -> Judged:
    """Judge the windows that end in the newest ``new`` rows."""
    before = len(rows.times) - new
    needed = settings.window.rows - 1
    past = min(rows_before(settings), max(before - needed, 0))
    first = max(before - needed - past, 0)
    values = align(rows.values, rows.channels, model.channels)
    judgement = judge(model, values[first:], rows.times[first:], interval_ms, settings, past)
    window = {int(end) + first: index for index, end in enumerate(judgement.windows)}
    strengths = evidence(judgement.surprises, model.channels, judgement.deviations)
    # A burst in the learned time makes a channel's own tail so long that little or nothing lies beyond it: what speaks alone also says where.
    # By the ratios and not by their squares: of parts that fail alike none may be lost.
    lone = weighed(np.sqrt(judgement.lone), model.channels, judgement.deviations)
    enough = judgement.alone >= -np.log10(settings.episodes.risk) * settings.episodes.raise_at
    told = (lone.sum(axis=1) > 0) & (enough | (strengths.sum(axis=1) <= 0))
    size = np.maximum(strengths.sum(axis=1), judgement.alone)[told]
    strengths[told] += _LONE * (size / lone.sum(axis=1)[told])[:, None] * lone[told]
    sudden = _sudden(model, values, judgement, first, settings.window.rows)
    return Judged(model, new, rows, rows.times, values, judgement, strengths, window, sudden)


def _sudden(model: EntityModel, values: Floats, judgement: Judgement, first: int, width: int) -> Mask:
    """Whether what is said alone of each window (n) began a short while ago; true where nothing is, or too little is known of the time before.

    What wanders off for longer than that is a drift: a fault begins.
    """
    found = np.ones(len(judgement.windows), np.bool_)
    for window in np.flatnonzero(judgement.alone > 0).tolist():
        end = int(judgement.windows[window]) + first
        begin, stop = max(end - _SUDDEN_ROWS, 0), end - width
        if stop - begin < _LEAST_BEFORE:
            continue
        lone = judgement.lone[window]
        loud = np.flatnonzero(lone >= _SUDDEN_PART * lone.max())
        moved = model.scale.standardise(values[begin : end + 1], model.channels)[:, loud]
        before, now = np.nan_to_num(moved[: stop - begin]), np.nan_to_num(moved[-1])
        came = np.abs(now - np.median(before, axis=0))
        found[window] = bool((came >= _SUDDEN_PART * np.abs(now)).any())
    return found


def lasting(judged: Judged, window: int) -> bool:
    """Whether the newest row itself still deviates, and not only a row before it in the same window."""
    strength, outside = judged.strengths[window], judged.judgement.outside[window]
    loudest = [index for index in np.argsort(-strength, kind="stable")[:_LOUDEST] if strength[index] > 0]
    return bool(loudest) and 2 * int(outside[loudest].sum()) >= len(loudest)


def score_of(entity: Entity, judged: Judged, row: int, level: float, settings: Settings, *, calibrated: bool) -> Score:
    """Score of the judged window that ends in a row; ``level`` is the threshold in decades of surprise, which is 1."""
    window, model, judgement, width = judged.window[row], judged.model, judged.judgement, settings.window.rows
    strength = judged.strengths[window]
    newest = judged.values[max(row + 1 - rows_needed(width), 0) : row + 1]
    fused = float(judgement.fused[window]) / level
    parts = strength
    if strength.sum() <= 0:
        # Nothing lies beyond the usual: the small parts of a small score.
        parts = judgement.surprises[window] * np.array([channel.weight for channel in model.channels])
    shares = by_subsystem(parts, model.channels)
    members = zip(model.detectors, judgement.members[window].tolist(), strict=True)
    known = int(np.isfinite(judgement.deviations[window]).sum())
    return Score(
        entity=entity,
        end_ms=int(judged.times[row]),
        fused=fused,
        members={name: value / level for name, value in members},
        subsystems={subsystem: fused * share for subsystem, share in shares.items()},
        top=top_channels(strength, newest, model, TOP_CHANNELS, width, width),
        calibrated=calibrated,
        threshold=level,
        coverage=float(judgement.coverage[window]),
        anomalous_channels=float(judgement.outside[window].sum() / max(known, 1)),
        devices=tuple(by_device(strength, model.channels).items())[:_TOP_DEVICES],
    )
