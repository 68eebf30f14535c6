"""One host's way from samples to scores and episodes; `worker.step` runs it for all of them. Pure, like everything below."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from hwsonde_detector.decision.episodes import Persistence
from hwsonde_detector.decision.feedback import Feedback
from hwsonde_detector.decision.heard import Heard
from hwsonde_detector.decision.learning import Memory, Progress
from hwsonde_detector.decision.model import EntityModel
from hwsonde_detector.decision.presence import back, misfits
from hwsonde_detector.decision.refits import refit
from hwsonde_detector.decision.regime import Regimes, forget_windows
from hwsonde_detector.decision.regimes import act, due, feel, remember, take_row, turn
from hwsonde_detector.decision.rows import joined, newest, part, recent_rows
from hwsonde_detector.decision.thresholds import Threshold, Watch
from hwsonde_detector.decision.trend import Trend
from hwsonde_detector.decision.turns import Turn
from hwsonde_detector.explain.episodes import Newest, opened
from hwsonde_detector.quality import QualityState
from hwsonde_detector.scoring import Judged, judge_rows, lasting, score_of
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
)

# After a start the kept interval counts until so many rows have been seen.
_ROWS_FOR_INTERVAL = 10
_PEAK_GROWTH = 1.25


@dataclass(slots=True)
class HostState:
    """Everything known of one host.

    ``first`` is the very first row, while the interval is not known; ``recent`` holds the newest rows, learned or not; ``strengths`` the
    evidence of the windows that led to an episode; ``silent_ms`` is for how long no tick has brought samples, ``rows_heard``
    how many rows came since the start, ``rows_since_window`` how many since the last window; ``absent`` says that it has been silent
    for so long that its series are gone; ``fresh`` is True until the first rows after a start of the detector;
    ``taken`` are the rows of the last step, for whoever compares hosts; ``feedback`` is what people said of its episodes;
    ``window`` is the end of the newest full window, judged or not, with the share of what the model looks at that it knew; ``misfit`` how many
    rows in a row were not judged for that, or knew of channels that the model left out; ``turn`` says whether models may be made in this step.
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
    silent_ms: int = 0
    rows_heard: int = 0
    rows_since_window: int = 0
    absent: bool = False
    fresh: bool = True
    skipped: dict[str, int] = field(default_factory=dict)
    regimes: Regimes = field(default_factory=Regimes)
    threshold: Threshold = field(default_factory=Threshold)
    heard: Heard = field(default_factory=Heard)
    watch: Watch = field(default_factory=Watch)
    trend: Trend = field(default_factory=Trend)
    quality: QualityState = field(default_factory=QualityState)
    taken: list[Frame] = field(default_factory=list)
    feedback: Feedback = field(default_factory=Feedback)
    window: tuple[int, float] | None = None
    misfit: int = 0
    turn: Turn = field(default_factory=Turn)


def observe(
    host: HostState, batch: SampleBatch, now_ms: int, settings: Settings, profiles: tuple[Profile, ...]
) -> tuple[EntityReport | None, list[EpisodeEvent]]:
    """Take one tick's samples of a host; changes ``host``, of which it is known already how long it was silent and whether it has its turn.

    Returns
    -------
    tuple
        The report, None when the host is gone, and what happened to its episode.
    """
    host.taken.clear()
    host.channels, news = advance(host.channels, batch, profiles)
    host.interval_ms = _interval(host, news.interval_ms, len(news.frame.times))
    for reason, count in (("reset", news.resets), ("impossible", news.rejected)):
        _skip(host, reason, count)
    frame = _unseen(host, news.frame, settings.window.rows)
    if host.interval_ms is None:
        # The first scrape alone does not tell how often to expect one; its row waits for the second.
        if len(frame.times):
            host.first = frame
        frame = part(frame, 0, 0)
    elif host.first is not None:
        host.first, frame = None, joined(host.first, frame)
    if not len(frame.times) or host.interval_ms is None:
        if host.silent_ms > settings.episodes.gone_after_ms:
            # What it comes back with is told anew.
            forget_windows(host.persistence)
            return None, _end(host, now_ms)
        return _report(host, [], settings), []
    _settle(host, frame, host.interval_ms, settings, restarted=news.restarted)
    scores: list[Score] = []
    events: list[EpisodeEvent] = []
    start = 0
    while start < len(frame.times):
        # A fit falls on the same row however the rows were split into ticks, so that a replay gives what the live run gave.
        to_fit = host.progress.rows_to_fit(settings.learning) if host.turn.given else len(frame.times)
        stop = start + max(to_fit, 1)
        start += _take(host, part(frame, start, stop), host.interval_ms, settings, scores, events)
    return _report(host, scores, settings), events


def _take(
    host: HostState, block: Frame, interval_ms: int, settings: Settings, scores: list[Score], events: list[EpisodeEvent]
) -> int:
    """Judge rows with the model in force, learn those that are healthy, fit again when due; gives how many: no row behind a change of the model."""
    block, marks = host.regimes.marks.split(block)
    rows = joined(host.recent, block)
    if host.model is not None:
        judged = judge_rows(host.model, rows, len(block.times), interval_ms, settings)
        refused = _decide(host, judged, marks, interval_ms, settings, (scores, events))
        _hear(host, judged, refused, settings)
    else:
        refused = np.zeros(len(block.times), np.bool_)
        for row, at in zip(marks, block.times.tolist(), strict=True):
            turn(host, row, at, interval_ms, settings)
    taken = len(refused)
    host.taken.append(part(block, 0, taken))
    host.recent = newest(part(rows, 0, len(rows.times) - len(block.times) + taken), recent_rows(settings.window.rows))
    host.last_row_ms, before = int(block.times[taken - 1]), host.progress.accepted
    learned = np.flatnonzero(~refused)
    host.memory.append(
        Frame(host.entity, block.channels, block.times[learned], block.values[learned]), settings.learning.memory_rows
    )
    host.progress.accepted += len(learned)
    remember(host, interval_ms, settings)
    model = host.model
    if not host.turn.given:
        return taken
    if because := act(host, host.last_row_ms, interval_ms, settings):
        events += _end(host, host.last_row_ms, because)
    if host.model is not model:
        # What another regime's model said tells nothing of this one's.
        host.heard, host.misfit = Heard(), 0
    refit(host, interval_ms, settings, learned=host.progress.accepted > before)
    return taken


def _hear(host: HostState, judged: Judged, refused: Mask, settings: Settings) -> None:
    """Keep what was said of the rows that were learned."""
    begin = len(judged.times) - judged.new
    places = [judged.window.get(begin + row) for row in np.flatnonzero(~refused).tolist()]
    windows = [window for window in places if window is not None]
    judgement = judged.judgement
    host.heard.append(judgement.raw[windows], judgement.fused[windows], judged.model.rows, settings.learning.heard_rows)


def _decide(
    host: HostState,
    judged: Judged,
    marks: Floats,
    interval_ms: int,
    settings: Settings,
    told: tuple[list[Score], list[EpisodeEvent]],
) -> Mask:
    """Score the newest rows one by one, up to one behind which another model may come into force; give which of them must not be learned."""
    (scores, events), model = told, judged.model
    calibrated = host.progress.calibrated(settings.learning)
    refused, by_surprise = np.zeros(judged.new, np.bool_), settings.learning.gate == "surprise"
    returned, begin = back(model, judged.frame), len(judged.times) - judged.new
    for row in range(begin, len(judged.times)):
        at = int(judged.times[row])
        if because := turn(host, marks[row - begin], at, interval_ms, settings):
            events += _end(host, at, because)
        host.rows_since_window += 1
        fused = float("nan")
        if host.rows_since_window >= settings.window.step:
            host.rows_since_window = 0
            window, level = judged.window.get(row), host.threshold.level(settings.episodes)
            if window is not None:
                loud = judged.judgement.alone[window] >= level * settings.episodes.raise_at
                if host.persistence.hold(loud=bool(loud), sudden=bool(judged.sudden[window])):
                    judged.wait(window)
            fused = judged.follow(row, host.trend, settings.detectors) / level
            if window is not None:
                host.window = at, float(judged.judgement.coverage[window])
                host.misfit = host.misfit + settings.window.step if np.isnan(fused) or returned[row] else 0
            if window is None or np.isnan(fused):
                _skip(host, "not_full" if window is None else "coverage", 1)
                host.persistence.alone = 0
            else:
                score = score_of(host.entity, judged, row, level, settings, calibrated=calibrated)
                scores.append(score)
                host.watch.watched_ms += interval_ms * settings.window.step if calibrated else 0
                alone = float(judged.judgement.alone[window]) / level
                loud_alone = alone >= settings.episodes.raise_at
                told_by = judged.judgement.surprises[window], judged.strengths[window], loud_alone
                rows = part(judged.frame, 0, row + 1)
                score, strength = feel(host, model, score, told_by, rows, interval_ms, settings)
                # What a workload explains is not told of by anybody.
                alone = 0.0 if host.regimes.excusing else alone
                events += _episode(host, score, judged, window, row, (strength, alone), settings)
        unhealthy = host.trend.strange if by_surprise else host.persistence.open or fused >= settings.episodes.raise_at
        refused[row - begin] = not take_row(host, part(judged.frame, row, row + 1), settings, unhealthy=unhealthy)
        if not host.persistence.open:
            host.threshold.quiet(interval_ms, settings.episodes)
        if host.turn.given and (due(host, settings) or misfits(host, interval_ms, settings)):
            return refused[: row - begin + 1]
    return refused


def _episode(
    host: HostState,
    score: Score,
    judged: Judged,
    window: int,
    row: int,
    told: tuple[Floats, float],
    settings: Settings,
) -> list[EpisodeEvent]:
    """Take a score, with its evidence (c) and the part of it that one member says alone."""
    rules, (strength, alone) = settings.episodes, told
    if score.fused >= rules.raise_at:
        host.onset_ms = host.onset_ms or score.end_ms
        host.strengths.append(strength)
        while len(host.strengths) > rules.raise_of:
            host.strengths.popleft()
    opens, closes = host.persistence.observe(
        score.fused,
        score.end_ms,
        rules,
        lasting=lasting(judged, window),
        calibrated=score.calibrated,
        alone=alone,
        step_ms=(host.interval_ms or 0) * settings.window.step,
    )
    if not host.persistence.open and not any(host.persistence.recent):
        host.onset_ms = None
        host.strengths.clear()
    if closes:
        host.feedback.closed(host.episode.identity if host.episode is not None else "", host.threshold)
        return _close(host, score.end_ms)
    if opens:
        recent = Newest(judged.values[: row + 1], judged.times[: row + 1], host.interval_ms or 0, settings.window.rows)
        host.told_peak = score.fused
        host.watch.pages += 1
        host.episode = opened(
            host.entity, judged.model, host.strengths, recent, host.onset_ms or score.end_ms, score.fused
        )
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


def _close(host: HostState, at_ms: int, because: str = "") -> list[EpisodeEvent]:
    episode = host.episode
    host.episode = None
    host.onset_ms = None
    host.strengths.clear()
    if episode is None:
        return []
    said = f"{episode.title}; closed: {because}" if because else episode.title
    return [EpisodeEvent(Phase.CLOSED, at_ms, replace(episode, end_ms=at_ms, because=because, title=said))]


def _end(host: HostState, at_ms: int, because: str = "") -> list[EpisodeEvent]:
    """Close an episode that has not become quiet; what people said of it meanwhile counts now."""
    found = _close(host, at_ms, because)
    if found:
        host.feedback.settle(host.threshold)
    return found


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
        # Times ascend, so the rows seen before are the first ones.
        again = part(frame, 0, int(seen.sum()))
        host.recent = newest(joined(host.recent, again), recent_rows(width))
    return part(frame, int(seen.sum()), len(frame.times))


def _skip(host: HostState, reason: str, count: int) -> None:
    if count:
        host.skipped[reason] = host.skipped.get(reason, 0) + count


def _report(host: HostState, scores: list[Score], settings: Settings) -> EntityReport:
    skipped: Mapping[str, int] = dict(host.skipped)
    host.skipped.clear()
    model, regimes = host.model, host.regimes
    excused, changes = regimes.told()
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
            settling=regimes.settling.reason if regimes.settling is not None else "",
            regimes=len(regimes.former),
            pages=host.watch.pages,
            watched_ms=host.watch.watched_ms,
        ),
        interval_ms=host.interval_ms,
        open_episodes=(host.episode,) if host.episode is not None else (),
        skipped=skipped,
        excused=excused,
        changes=changes,
        rows=host.recent,
        window=host.window,
    )
