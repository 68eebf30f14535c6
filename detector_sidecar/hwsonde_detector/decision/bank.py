"""Former regimes of a host: what is kept of them, and which of them knows the newest rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hwsonde_detector.decision.ages import Ages
from hwsonde_detector.decision.calibration import calibrated
from hwsonde_detector.decision.learning import align
from hwsonde_detector.decision.model import EntityModel, Judgement, judge, rows_before
from hwsonde_detector.settings import Settings
from hwsonde_detector.types import Floats, Frame, Mask

# Members whose arrays are larger than so many times those of the smallest are made again when they are needed.
_LIGHT = 4
# A regime that did not know so many windows in a row is asked about every third one: in a long episode asking costs as much as judging.
_ASKED_ALWAYS, _ASKED_EVERY = 10, 3


@dataclass(slots=True, eq=False)
class Former:
    """A regime that is not in force.

    Attributes
    ----------
    ages
        Blocks of its rows, from which its model is made again.
    model
        What is needed to recognise it: its scale, tails and smallest detectors.
    busy
        Whether workloads were marked as running; None: either.
    born_ms, used_ms
        When it was learned first, and when it was in force last.
    quiet, loudness
        Windows in a row that it found quiet while the model in force did not, and the sum of its scores of them.
    loud
        Windows in a row that it did not find quiet; after some it is asked now and then only.
    barred
        Loud windows for which it is not asked: its model, made again, did not know the rows after all.
    """

    ages: Ages
    model: EntityModel
    busy: bool | None
    born_ms: int
    used_ms: int
    quiet: int = 0
    loudness: float = 0.0
    loud: int = 0
    barred: int = 0


def light(model: EntityModel) -> EntityModel:
    """The model with its small members only: a 400-channel subspace or forest is of megabytes, scales and tails are of kilobytes."""
    sizes = {name: sum(array.nbytes for array in one.arrays().values()) for name, one in model.detectors.items()}
    # Of those that vote: what speaks alone has the smallest arrays, and would leave none of the others.
    most = _LIGHT * min([sizes[name] for name in model.tails] or sizes.values())
    names = [name for name, size in sizes.items() if size <= most]
    return replace(
        model,
        detectors={name: model.detectors[name] for name in names},
        tails={name: tail for name, tail in model.tails.items() if name in names},
    )


def judge_newest(model: EntityModel, rows: Frame, count: int, interval_ms: int, settings: Settings) -> Judgement:
    """Judge the windows that end in the ``count`` newest rows, those of them that are full."""
    needed = settings.window.rows - 1 + count
    past = min(rows_before(settings), max(len(rows.times) - needed, 0))
    values = align(rows.values[-needed - past :], rows.channels, model.channels)
    return judge(model, values, rows.times[-needed - past :], interval_ms, settings, past)


def newest_loudness(model: EntityModel, rows: Frame, interval_ms: int, settings: Settings) -> float:
    """Largest score of any member in the newest window; NaN where that is not full or too little of it is known.

    The largest and not the agreement: a former regime must know the rows in every respect.
    """
    judgement = judge_newest(model, rows, 1, interval_ms, settings)
    if not len(judgement.windows) or np.isnan(judgement.fused[-1]):
        return float("nan")
    return float(np.nanmax(calibrated(judgement.members[-1], settings.episodes.risk)))


def compare(former: Sequence[Former], rows: Frame, interval_ms: int, settings: Settings, *, busy: bool) -> bool:
    """Ask every former regime about the newest window; gives whether any of them knows it.

    A regime in which workloads ran is not asked while none is marked, nor the other way round: a job that hangs looks like an idle host, and the
    idle host's model would call it quiet.
    """
    known = False
    for one in former:
        one.barred = max(one.barred - 1, 0)
        score = float("nan")
        fits = not one.barred and one.busy in (None, busy)
        if fits and (one.loud < _ASKED_ALWAYS or one.loud % _ASKED_EVERY == 0):
            score = newest_loudness(one.model, rows, interval_ms, settings)
        if score < settings.episodes.clear_at:
            one.quiet, one.loudness, one.loud = one.quiet + 1, one.loudness + score, 0
            known = True
        else:
            one.quiet, one.loudness, one.loud = 0, 0.0, one.loud + 1
    return known


def rest(former: Sequence[Former]) -> None:
    """The model in force knows the newest window: what others said before does not count."""
    for one in former:
        one.quiet, one.loudness, one.loud = 0, 0.0, 0


def best(former: Sequence[Former], needed: int) -> Former | None:
    """The regime that was quiet for longest, and of several the quietest; None if none was for ``needed`` windows."""
    fit = [one for one in former if one.quiet >= needed]
    return min(fit, key=lambda one: (-one.quiet, one.loudness, -one.used_ms)) if fit else None


def keep(former: list[Former], one: Former, most: int) -> None:
    """Add a regime; of too many the one that was not used for longest goes."""
    former.append(one)
    while len(former) > most:
        former.remove(min(former, key=lambda old: (old.used_ms, old.born_ms)))


def fault_score(surprises: Floats, faults: Mask, risk: float) -> float:
    """How rare the loudest of the channels is that no workload explains, in units of the risk; 0 where there is none.

    Parameters
    ----------
    surprises
        float64 (c): -log10 of the share of healthy windows in which a channel is as far off.
    faults
        bool (c): which channels count. The loudest of n is n times as often far off as one of them, which is taken off.
    risk
        Chance that a healthy window may pass 1.
    """
    own = surprises[faults]
    if not len(own):
        return 0.0
    return max(float(own.max()) - float(np.log10(len(own))), 0.0) / -float(np.log10(risk))
