"""Bringing another model into force: a new regime's, a former one's, or that of what began as an episode and stayed."""

from __future__ import annotations

import numpy as np

from hwsonde_detector.decision.ages import Ages, training_rows
from hwsonde_detector.decision.bank import Former, fault_score, judge_newest, keep, light, rest
from hwsonde_detector.decision.calibration import calibrated
from hwsonde_detector.decision.episodes import Persistence
from hwsonde_detector.decision.learning import Memory, Progress, align
from hwsonde_detector.decision.model import EntityModel, judge
from hwsonde_detector.decision.refits import make_model
from hwsonde_detector.decision.regime import PHASE, Host, Settling, fault_mask, forget_windows
from hwsonde_detector.settings import Settings
from hwsonde_detector.types import Floats, Frame, Times

LEARNED, RETURNED, REBASED = "learned", "returned", "rebased"

# A regime is new if at least this share of the windows since the change was above 1.
_LOUD_SHARE = 0.25
# Half of a lasting episode may lie at most so many spreads of the other half from that.
_STEADY_SHIFT = 2.0
# A regime is young for so many times ``learn_rows`` rows.
_YOUNG = 2


def learn_change(host: Host, settling: Settling, at_ms: int, interval_ms: int, settings: Settings) -> None:
    """End settling: learn the rows since, as a regime of their own where the model in force does not know them."""
    regimes, needed = host.regimes, settings.regimes.learn_rows
    rows = regimes.pending
    regimes.settling = None
    regimes.drop_pending()
    count = len(rows.times)
    ended_quietly = settling.quiet >= needed // 2
    if ended_quietly or settling.loud < _LOUD_SHARE * settling.judged:
        # The model in force knows how it works now; the time until it was quiet belongs to no regime.
        _accept(host, rows, count - min(settling.quiet, count) if ended_quietly else 0, settings)
        if regimes.busy != bool(regimes.marks.on):
            regimes.busy = None
        return
    if count < needed:
        return
    if settling.reason == PHASE:
        _accept(host, rows, 0, settings)
        model = make_model(host, training_rows(host.memory, regimes.ages), interval_ms, settings)
        if model is not None:
            host.progress.fitted = host.progress.accepted
            _force(host, host.memory, host.progress, model, LEARNED)
        return
    model = make_model(host, (rows.channels, rows.times, rows.values.astype(np.float64)), interval_ms, settings)
    if model is not None:
        _bank(host, at_ms, settings)
        _begin_regime(host, rows, at_ms, model, LEARNED)
        regimes.young = _YOUNG * needed


def bring_back(host: Host, former: Former, at_ms: int, interval_ms: int, settings: Settings) -> bool:
    """Bring a former regime into force again, if its whole model knows the newest row too."""
    regimes = host.regimes
    learned = training_rows(Memory(), former.ages)
    model = make_model(host, learned, interval_ms, settings)
    quiet = False
    if model is not None and host.recent is not None:
        fused = calibrated(judge_newest(model, host.recent, 1, interval_ms, settings).fused, settings.episodes.risk)
        quiet = bool(len(fused)) and bool(fused[-1] < settings.episodes.raise_at)
    if model is None or not quiet:
        former.quiet, former.loudness, former.barred = 0, 0.0, settings.regimes.learn_rows
        return False
    regimes.former.remove(former)
    _bank(host, at_ms, settings)
    regimes.ages, regimes.busy, regimes.born_ms, regimes.young = former.ages, former.busy, former.born_ms, 0
    # It was calibrated when it was put away, from more rows than are kept.
    count = max(former.ages.rows, settings.learning.calibrated_rows)
    former.ages.seen = count
    _force(host, Memory(learned[0]), Progress(count, count), model, RETURNED)
    return True


def rebase(host: Host, at_ms: int, interval_ms: int, settings: Settings) -> bool:
    """Take a lasting episode's rows as the new normal, if what its first half teaches would have opened no episode in its second."""
    regimes = host.regimes
    if host.recent is None or host.model is None or regimes.excusing:
        return False
    newest = judge_newest(host.model, host.recent, 1, interval_ms, settings).surprises
    faults = fault_mask(host.model.channels)
    if len(newest) and fault_score(newest[-1], faults, settings.episodes.risk) >= settings.episodes.raise_at:
        # What no workload explains is no way to work either.
        return False
    rows = regimes.pending
    times, values = rows.times, rows.values.astype(np.float64)
    if not _steady(host, times, values, interval_ms, settings):
        return False
    model = make_model(host, (rows.channels, times, values), interval_ms, settings)
    if model is None:
        return False
    _bank(host, at_ms, settings)
    forget_windows(host.persistence)
    _begin_regime(host, rows, at_ms, model, REBASED)
    return True


def _steady(host: Host, times: Times, values: Floats, interval_ms: int, settings: Settings) -> bool:
    """Whether a model of the first half of the rows kept apart calls the second half quiet."""
    channels, half = host.regimes.pending.channels, len(times) // 2
    first = make_model(host, (channels, times[:half], values[:half]), interval_ms, settings)
    if first is None:
        return False
    second = align(values[half:], channels, first.channels)
    moved = first.scale.standardise(second, first.channels)
    known = np.isfinite(moved)
    shift = np.where(known, moved, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    if np.abs(shift).max(initial=0.0) > _STEADY_SHIFT:
        # It is still on its way.
        return False
    later = judge(first, second, times[half:], interval_ms, settings)
    scores, alones = (calibrated(one, settings.episodes.risk) for one in (later.fused, later.alone))
    trial, step_ms = Persistence(), interval_ms * settings.window.step
    return not any(
        trial.observe(score, index, settings.episodes, lasting=True, calibrated=True, alone=alone, step_ms=step_ms)[0]
        for index, (score, alone) in enumerate(zip(scores.tolist(), alones.tolist(), strict=True))
    )


def _bank(host: Host, at_ms: int, settings: Settings) -> None:
    """Keep the regime in force among the former ones; what was never learned well is not worth it."""
    regimes = host.regimes
    if host.model is not None and host.progress.calibrated(settings.learning) and regimes.ages.rows:
        former = Former(regimes.ages, light(host.model), regimes.busy, regimes.born_ms, at_ms)
        keep(regimes.former, former, settings.regimes.kept)


def _force(host: Host, memory: Memory, progress: Progress, model: EntityModel, change: str) -> None:
    """Bring a model into force."""
    regimes = host.regimes
    host.memory, host.progress, host.model = memory, progress, model
    host.strengths.clear()
    if not host.persistence.open:
        host.persistence.recent.clear()
        host.persistence.alone = 0
    regimes.settling = None
    regimes.drop_pending()
    rest(regimes.former)
    regimes.changes[change] = regimes.changes.get(change, 0) + 1


def _begin_regime(host: Host, rows: Memory, at_ms: int, model: EntityModel, change: str) -> None:
    """Bring a regime into force that was not known before: ``rows`` are all that is known of it."""
    regimes = host.regimes
    regimes.ages, regimes.busy, regimes.born_ms, regimes.young = Ages(), bool(regimes.marks.on), at_ms, 0
    count = len(rows.times)
    _force(host, rows, Progress(count, count), model, change)


def _accept(host: Host, rows: Memory, start: int, settings: Settings) -> None:
    """Let the regime in force learn rows from ``start`` on."""
    frame = Frame(host.entity, rows.channels, rows.times[start:], rows.values[start:].astype(np.float64))
    host.memory.append(frame, settings.learning.memory_rows)
    host.progress.accepted += len(frame.times)
