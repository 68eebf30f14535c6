"""One host's way from samples to scores and episodes; `worker.step` runs it for all of them. Pure, like everything below."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from hwsonde_detector.decision.episodes import Persistence
from hwsonde_detector.decision.learning import Memory, Progress, align
from hwsonde_detector.decision.model import EntityModel, Judgement, fit_model, judge
from hwsonde_detector.explain.attribution import by_device, by_subsystem, evidence, top_channels
from hwsonde_detector.explain.directions import rows_needed
from hwsonde_detector.explain.episodes import TOP_CHANNELS, Newest, opened
from hwsonde_detector.settings import Settings
from hwsonde_detector.signals.channels import ChannelState, advance
from hwsonde_detector.signals.profiles import Profile
from hwsonde_detector.signals.targets import GAP_INTERVALS
from hwsonde_detector.types import (
    Entity,
    EntityReport,
    Episode,
    EpisodeEvent,
    Floats,
    Frame,
    Learning,
    Mask,
    Phase,
    SampleBatch,
    Score,
    Times,
)

# Rows kept beside the newest ones: enough for a window to go on, and to look back for the onset of a deviation.
_RECENT_ROWS = 60
# After a start the kept interval counts until so many rows have been seen.
_ROWS_FOR_INTERVAL = 10
# The newest row counts as deviating when half of the loudest channels are still outside of their bands.
_LOUDEST = 5
_PEAK_GROWTH = 1.25
_TOP_DEVICES = 10
THRESHOLD = 1.0


@dataclass(slots=True)
class HostState:
    """Everything known of one host.

    ``first`` is the very first row, while the interval is not known; ``recent`` holds the newest rows, learned or not; ``strengths`` the
    evidence of the windows that led to an episode; ``heard_ms`` is the time of the last tick that brought samples, ``rows_heard``
    how many rows came since the start, ``rows_since_window`` how many since the last window; ``absent`` says that it has been silent
    for so long that its series are gone; ``fresh`` is True until the first rows after a start of the detector.
    """

    entity: Entity
    channels: ChannelState
    first: Frame | None = None
    recent: Frame | None = None
    memory: Memory = field(default_factory=Memory)
    progress: Progress = field(default_factory=Progress)
    model: EntityModel | None = None
    persistence: Persistence = field(default_factory=Persistence)
    strengths: deque[Floats] = field(default_factory=deque)
    onset_ms: int | None = None
    episode: Episode | None = None
    told_peak: float = 0.0
    interval_ms: int | None = None
    last_row_ms: int | None = None
    heard_ms: int | None = None
    rows_heard: int = 0
    rows_since_window: int = 0
    absent: bool = False
    fresh: bool = True
    skipped: dict[str, int] = field(default_factory=dict)


def observe(
    host: HostState, batch: SampleBatch, now_ms: int, settings: Settings, profiles: tuple[Profile, ...]
) -> tuple[EntityReport | None, list[EpisodeEvent]]:
    """Take one tick's samples of a host; changes ``host``.

    Returns
    -------
    tuple
        The report, None when the host is gone, and what happened to its episode.
    """
    if batch.series or host.heard_ms is None:
        host.heard_ms = now_ms
    host.channels, news = advance(host.channels, batch, profiles)
    host.interval_ms = _interval(host, news.interval_ms, len(news.frame.times))
    for reason, count in (("reset", news.resets), ("impossible", news.rejected)):
        _skip(host, reason, count)
    frame = _unseen(host, news.frame, settings.window.rows)
    if host.interval_ms is None:
        # The first scrape alone does not tell how often to expect one; its row waits for the second.
        host.first, frame = frame, Frame(frame.entity, frame.channels, frame.times[:0], frame.values[:0])
    elif host.first is not None:
        host.first, frame = None, _joined(host.first, frame)
    if not len(frame.times) or host.interval_ms is None:
        if now_ms - host.heard_ms > settings.episodes.gone_after_ms:
            return None, _close(host, now_ms)
        return _report(host, [], settings), []
    _settle(host, frame, host.interval_ms, settings, restarted=news.restarted)
    scores: list[Score] = []
    events: list[EpisodeEvent] = []
    start = 0
    while start < len(frame.times):
        # A fit falls on the same row however the rows were split into ticks, so that a replay gives what the live run gave.
        stop = start + max(host.progress.rows_to_fit(settings.learning), 1)
        block = Frame(frame.entity, frame.channels, frame.times[start:stop], frame.values[start:stop])
        _take(host, block, host.interval_ms, settings, scores, events)
        start = stop
    return _report(host, scores, settings), events


def _take(
    host: HostState, block: Frame, interval_ms: int, settings: Settings, scores: list[Score], events: list[EpisodeEvent]
) -> None:
    """Judge a block of rows with the model in force, learn those that are healthy, fit again when due."""
    refused = np.zeros(len(block.times), np.bool_)
    joined = _joined(host.recent, block)
    if host.model is not None:
        judged = _judge(host.model, joined, len(block.times), interval_ms, settings)
        refused = _decide(host, host.model, judged, settings, scores, events)
    host.recent = _newest(joined, settings.window.rows)
    host.last_row_ms = int(block.times[-1])
    accepted = ~refused
    host.memory.append(
        Frame(host.entity, block.channels, block.times[accepted], block.values[accepted]), settings.learning.memory_rows
    )
    host.progress.accepted += int(accepted.sum())
    if accepted.any() and host.progress.rows_to_fit(settings.learning) == 0:
        memory = host.memory
        model = fit_model(memory.values.astype(np.float64), memory.times, interval_ms, memory.channels, settings)
        if model is not None:
            host.model, host.progress.fitted = model, host.progress.accepted
            host.strengths.clear()


@dataclass(frozen=True, slots=True)
class _Judged:
    """Judgement of the newest ``new`` rows.

    ``times`` and ``values`` are of all rows, older ones too, in the model's order of channels; ``window`` gives the judged window that ends in a row.
    """

    new: int
    times: Times
    values: Floats
    judgement: Judgement
    strengths: Floats
    window: Mapping[int, int]


def _judge(model: EntityModel, joined: Frame, new: int, interval_ms: int, settings: Settings) -> _Judged:
    width = settings.window.rows
    first = max(len(joined.times) - new - (width - 1), 0)
    values = align(joined.values, joined.channels, model.channels)
    judgement = judge(model, values[first:], joined.times[first:], interval_ms, settings)
    window = {int(end) + first: index for index, end in enumerate(judgement.windows)}
    strengths = evidence(judgement.surprises, model.channels, judgement.deviations)
    return _Judged(new, joined.times, values, judgement, strengths, window)


def _decide(
    host: HostState,
    model: EntityModel,
    judged: _Judged,
    settings: Settings,
    scores: list[Score],
    events: list[EpisodeEvent],
) -> Mask:
    """Score the newest rows one by one; give which of them must not be learned."""
    calibrated = host.progress.calibrated(settings.learning)
    refused = np.zeros(judged.new, np.bool_)
    begin = len(judged.times) - judged.new
    for row in range(begin, len(judged.times)):
        host.rows_since_window += 1
        fused = float("nan")
        if host.rows_since_window >= settings.window.step:
            host.rows_since_window = 0
            window = judged.window.get(row)
            fused = float(judged.judgement.fused[window]) if window is not None else fused
            if window is None or np.isnan(fused):
                _skip(host, "not_full" if window is None else "coverage", 1)
            else:
                score = _score(host.entity, judged, window, row, model, settings, calibrated=calibrated)
                scores.append(score)
                events += _episode(host, model, score, judged, window, row, settings)
        unhealthy = host.persistence.open or fused >= settings.episodes.raise_at
        host.progress.refused = host.progress.refused + 1 if unhealthy else 0
        # A shift that lasts is the new normal, whatever it was called before.
        refused[row - begin] = calibrated and unhealthy and host.progress.refused <= settings.learning.frozen_rows
    return refused


def _lasting(judgement: Judgement, window: int, strength: Floats) -> bool:
    loudest = [index for index in np.argsort(-strength, kind="stable")[:_LOUDEST] if strength[index] > 0]
    return bool(loudest) and 2 * int(judgement.outside[window, loudest].sum()) >= len(loudest)


def _score(
    entity: Entity, judged: _Judged, window: int, row: int, model: EntityModel, settings: Settings, *, calibrated: bool
) -> Score:
    judgement, strength, width = judged.judgement, judged.strengths[window], settings.window.rows
    newest = judged.values[max(row + 1 - rows_needed(width), 0) : row + 1]
    fused = float(judgement.fused[window]) / THRESHOLD
    parts = strength
    if strength.sum() <= 0:
        # Nothing lies beyond the usual: the small parts of a small score.
        parts = judgement.surprises[window] * np.array([channel.weight for channel in model.channels])
    shares = by_subsystem(parts, model.channels)
    members = {
        name: float(value) / THRESHOLD for name, value in zip(model.detectors, judgement.members[window], strict=True)
    }
    known = int(np.isfinite(judgement.deviations[window]).sum())
    return Score(
        entity=entity,
        end_ms=int(judged.times[row]),
        fused=fused,
        members=members,
        subsystems={subsystem: fused * share for subsystem, share in shares.items()},
        top=top_channels(strength, judgement.deviations[window], newest, model, TOP_CHANNELS, width),
        calibrated=calibrated,
        threshold=THRESHOLD,
        coverage=float(judgement.coverage[window]),
        anomalous_channels=float(judgement.outside[window].sum() / max(known, 1)),
        devices=tuple(by_device(strength, model.channels).items())[:_TOP_DEVICES],
    )


def _episode(
    host: HostState, model: EntityModel, score: Score, judged: _Judged, window: int, row: int, settings: Settings
) -> list[EpisodeEvent]:
    rules, strength = settings.episodes, judged.strengths[window]
    if score.fused >= rules.raise_at:
        host.onset_ms = host.onset_ms or score.end_ms
        host.strengths.append(strength)
        while len(host.strengths) > rules.raise_of:
            host.strengths.popleft()
    lasting = _lasting(judged.judgement, window, strength)
    opens, closes = host.persistence.observe(
        score.fused, score.end_ms, rules, lasting=lasting, calibrated=score.calibrated
    )
    if not host.persistence.open and not any(host.persistence.recent):
        host.onset_ms = None
        host.strengths.clear()
    if closes:
        return _close(host, score.end_ms)
    if opens:
        newest = Newest(judged.values[: row + 1], judged.times[: row + 1], host.interval_ms or 0, settings.window.rows)
        host.told_peak = score.fused
        host.episode = opened(host.entity, model, host.strengths, newest, host.onset_ms or score.end_ms, score.fused)
        return [EpisodeEvent(Phase.OPENED, score.end_ms, host.episode)]
    return _grow(host, score, rules.raise_at)


def _grow(host: HostState, score: Score, raise_at: float) -> list[EpisodeEvent]:
    """Keep the peak of an open episode; tell of it when it has grown enough to matter."""
    if host.episode is None:
        return []
    host.episode = replace(host.episode, peak=max(host.episode.peak, score.fused))
    if score.fused < max(host.told_peak * _PEAK_GROWTH, raise_at):
        return []
    host.told_peak = score.fused
    host.episode = replace(host.episode, top=score.top or host.episode.top)
    return [EpisodeEvent(Phase.CHANGED, score.end_ms, host.episode)]


def _close(host: HostState, at_ms: int) -> list[EpisodeEvent]:
    episode = host.episode
    host.episode = None
    host.onset_ms = None
    host.strengths.clear()
    return [] if episode is None else [EpisodeEvent(Phase.CLOSED, at_ms, replace(episode, end_ms=at_ms))]


def _interval(host: HostState, seen_ms: int | None, rows: int) -> int | None:
    """Scrape interval: the kept one until enough rows came to tell; two rows on both sides of a gap look like a long one."""
    host.rows_heard += rows
    if seen_ms is None or host.interval_ms is None:
        return seen_ms or host.interval_ms
    return seen_ms if host.rows_heard > _ROWS_FOR_INTERVAL else min(seen_ms, host.interval_ms)


def _settle(host: HostState, frame: Frame, interval_ms: int, settings: Settings, *, restarted: bool) -> None:
    """Be patient after a start of ours or of the exporter, and after a gap."""
    patience = settings.episodes.settle_rows * interval_ms
    if host.fresh or restarted:
        host.persistence.settle(int(frame.times[-1]) + patience)
        host.fresh = False
    before = frame.times[:1] if host.last_row_ms is None else np.array([host.last_row_ms])
    steps = np.diff(np.concatenate([before, frame.times]))
    gaps = np.flatnonzero(steps > GAP_INTERVALS * interval_ms)
    if len(gaps):
        host.persistence.settle(int(frame.times[gaps[-1]]) + patience)


def _unseen(host: HostState, frame: Frame, width: int) -> Frame:
    """Rows after the last one taken; rows read again after a restart only fill up what windows need."""
    if host.last_row_ms is None or not len(frame.times):
        return frame
    seen = frame.times <= host.last_row_ms
    if seen.any():
        again = Frame(frame.entity, frame.channels, frame.times[seen], frame.values[seen])
        host.recent = _newest(_joined(host.recent, again), width)
    return Frame(frame.entity, frame.channels, frame.times[~seen], frame.values[~seen])


def _newest(frame: Frame, width: int) -> Frame:
    kept = max(_RECENT_ROWS, width)
    return Frame(frame.entity, frame.channels, frame.times[-kept:], frame.values[-kept:])


def _joined(recent: Frame | None, block: Frame) -> Frame:
    if recent is None:
        return block
    old = align(recent.values, recent.channels, block.channels)
    return Frame(
        block.entity, block.channels, np.concatenate([recent.times, block.times]), np.concatenate([old, block.values])
    )


def _skip(host: HostState, reason: str, count: int) -> None:
    if count:
        host.skipped[reason] = host.skipped.get(reason, 0) + count


def _report(host: HostState, scores: list[Score], settings: Settings) -> EntityReport:
    skipped: Mapping[str, int] = dict(host.skipped)
    host.skipped.clear()
    model = host.model
    return EntityReport(
        entity=host.entity,
        scores=tuple(scores),
        learning=Learning(
            rows=host.progress.accepted,
            rows_needed=settings.learning.calibrated_rows,
            fitted_ms=model.fitted_ms if model is not None else None,
            frozen=host.progress.refused > 0,
            channels=len(host.recent.channels) if host.recent is not None else 0,
            channels_judged=len(model.kept) if model is not None else 0,
        ),
        interval_ms=host.interval_ms,
        open_episodes=(host.episode,) if host.episode is not None else (),
        skipped=skipped,
    )
