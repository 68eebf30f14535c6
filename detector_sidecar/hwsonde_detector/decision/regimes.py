"""Regimes: the ways in which a host works. Workloads begin, end and change phase, levels shift for good; none of that is a fault.

What begins another regime, and how it is learned:

- **Marks** (`hwsonde_detector.decision.marks`) say that a job or container began or ended. From then on rows are kept apart. What a workload explains
  opens no episode until the model in force is quiet again, or enough rows were kept to learn the new regime from.
- A **former regime** (`hwsonde_detector.decision.bank`) that is quiet where the model in force is loud is in force again after a few rows.
- A new regime may change **phase** while it is young: that is learned as well.
- An episode that lasts, and whose rows are steady by themselves, is the **new normal**.

No more than a third of the time, in the long run, is excused in this way: a host on which something starts all the time must not be
blind all the time.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hwsonde_detector.decision.ages import Axis
from hwsonde_detector.decision.bank import Former, best, compare, fault_score, rest
from hwsonde_detector.decision.changes import bring_back, learn_change, rebase
from hwsonde_detector.decision.model import EntityModel
from hwsonde_detector.decision.regime import (
    PHASE,
    RETURNING,
    START,
    STOP,
    Host,
    Regimes,
    Settling,
    fault_mask,
    forget_windows,
)
from hwsonde_detector.settings import Settings
from hwsonde_detector.types import Episode, Floats, Frame, Role, Score

STARTED = "workload started"
NEW_NORMAL = "new normal"

# A mark may be read a few seconds after what it explains: an episode that began so shortly before a workload is taken back. Where scrapes are far
# apart, two of them; a quarter of an hour before, nothing of it was there.
_LATE_MS, _LATE_SCRAPES, _LATE_ROWS = 15_000, 2, 15
# None of so many of the loudest channels may be a fault's for that.
_LOUDEST = 3
# Settling may take so many times ``learn_rows`` at once, and begin again while no more than so many times are unpaid, one row for two.
_SPENT_MOST, _SPENT_BEGIN = 4, 3
# So many refused rows an accepted one makes up for.
_PAID = 3
# A lasting episode that was not steady is looked at again after this part of ``rebase_rows``.
_REBASE_AGAIN = 4


def turn(host: Host, row: Floats, at_ms: int, interval_ms: int, settings: Settings) -> str:
    """Read the marks of a row (marks).

    Returns
    -------
    str
        Why the open episode is taken back; empty where it is not.
    """
    regimes, rules = host.regimes, settings.episodes
    before = regimes.marks.on
    regimes.marks.on = on = regimes.marks.turn(row)
    if not host.progress.calibrated(settings.learning):
        # Nothing pages yet, and all of it is one regime.
        regimes.busy, regimes.born_ms = bool(on), regimes.born_ms or at_ms
        return ""
    if before is None or on == before or not (regimes.settling is not None or _may_begin(regimes, settings)):
        return ""
    if regimes.settling is not None:
        regimes.settling.turned, regimes.settling.quiet = regimes.settling.rows, 0
        return ""
    reason, because = START if on - before else STOP, ""
    if host.persistence.open and not regimes.excusing:
        if reason is STOP or not _late(host.episode, at_ms, interval_ms):
            return ""
        because = STARTED
        forget_windows(host.persistence)
    elif reason is STOP and host.persistence.near(rules):
        # The end of a workload does not explain what began before: it may have ended because of it.
        return ""
    regimes.begin(reason)
    return because


def feel(
    host: Host,
    model: EntityModel,
    score: Score,
    evidence: tuple[Floats, Floats, bool],
    rows: Frame,
    interval_ms: int,
    settings: Settings,
) -> tuple[Score, Floats]:
    """Say what of a window counts towards an episode.

    Parameters
    ----------
    host, model
        The host, and the model in force.
    score
        The window's score.
    evidence
        float64 (c) each: surprises of the channels, and their strength; and whether a member says so that needs nobody to agree.
    rows
        The newest rows, the last of which ends the window.

    Returns
    -------
    tuple
        Score and strength (c): the given ones, or those of the channels that no workload explains.
    """
    regimes, rules = host.regimes, settings.episodes
    surprises, strength, alone = evidence
    loud, held = score.fused >= rules.raise_at, False
    if not loud:
        rest(regimes.former)
    elif score.calibrated and regimes.former:
        held = compare(regimes.former, rows, interval_ms, settings, busy=bool(regimes.marks.on))
    if loud and regimes.settling is None and _next_phase(host, settings, alone=alone):
        regimes.begin(PHASE)
    if regimes.settling is not None:
        _count(regimes.settling, loud=loud)
    if not host.persistence.open:
        regimes.excusing = regimes.settling is not None or held
    if not regimes.excusing:
        return score, strength
    faults = fault_mask(model.channels)
    value = fault_score(surprises, faults, rules.risk)
    if loud and value < rules.raise_at and not host.persistence.open:
        reason = regimes.settling.reason if regimes.settling is not None else RETURNING
        regimes.excused[reason] = regimes.excused.get(reason, 0) + 1
    top = tuple(part for part in score.top if part.channel.role is Role.FAULT)
    return replace(score, fused=value, top=top), strength * faults


def take_row(host: Host, row: Frame, settings: Settings, *, unhealthy: bool) -> bool:
    """Decide where a row goes that has been judged; gives whether the regime in force learns it."""
    regimes, rules = host.regimes, settings.regimes
    if regimes.settling is not None:
        regimes.settling.rows += 1
        regimes.spent += 2
        host.progress.refused = 0
        if host.persistence.open:
            # A fault that began meanwhile is not learned with the workload.
            row = replace(row, values=np.where(fault_mask(row.channels), np.nan, row.values))
        regimes.put_apart(row, 2 * rules.learn_rows)
        return False
    regimes.spent, regimes.young = max(regimes.spent - 1, 0), max(regimes.young - 1, 0)
    if unhealthy:
        host.progress.refused += 1
    else:
        # Where single strange rows are refused, a few healthy ones between them end no strange stretch.
        paid = _PAID if settings.learning.gate == "surprise" else host.progress.refused
        host.progress.refused = max(host.progress.refused - paid, 0)
    calibrated = host.progress.calibrated(settings.learning)
    if calibrated and host.persistence.open:
        regimes.put_apart(row, rules.rebase_rows)
    elif regimes.apart:
        regimes.drop_pending()
    # A shift that lasts is the new normal, whatever it was called before.
    return not (calibrated and unhealthy and host.progress.refused <= settings.learning.frozen_rows)


def due(host: Host, settings: Settings) -> bool:
    """Whether another model may come into force behind the newest row; no later row is judged before `act` was asked."""
    return _returning(host, settings) is not None or _settled(host.regimes, settings) or _lasts(host, settings)


def act(host: Host, at_ms: int, interval_ms: int, settings: Settings) -> str:
    """Bring another model into force if it is time; gives why the open episode ends, empty where it does not."""
    former, settling = _returning(host, settings), host.regimes.settling
    lasts = _lasts(host, settings)
    if lasts:
        host.regimes.looked = host.regimes.apart
    if former is not None:
        bring_back(host, former, at_ms, interval_ms, settings)
    elif settling is not None and _settled(host.regimes, settings):
        learn_change(host, settling, at_ms, interval_ms, settings)
    elif lasts and rebase(host, at_ms, interval_ms, settings):
        return NEW_NORMAL
    return ""


def remember(host: Host, interval_ms: int, settings: Settings) -> None:
    """Let what was accepted since the last call take part in fits for longer than it is among the newest rows."""
    if host.model is not None:
        limits = settings.window.rows, settings.regimes.long_rows, settings.regimes.forget_ms
        axis = Axis(host.model.scale, host.model.channels, host.model.missing)
        host.regimes.ages.offer(host.memory, host.progress.accepted, interval_ms, axis, limits)


def _may_begin(regimes: Regimes, settings: Settings) -> bool:
    return regimes.spent <= 2 * _SPENT_BEGIN * settings.regimes.learn_rows


def _count(settling: Settling, *, loud: bool) -> None:
    settling.judged += 1
    settling.loud += int(loud)
    settling.quiet = 0 if loud else settling.quiet + 1


def _late(episode: Episode | None, at_ms: int, interval_ms: int) -> bool:
    """Whether an episode is so young, and of such channels, that a workload whose mark comes only now explains it."""
    latest_ms = min(_LATE_ROWS * interval_ms, max(_LATE_SCRAPES * interval_ms, _LATE_MS))
    if episode is None or at_ms - episode.start_ms > latest_ms:
        return False
    return bool(episode.top) and all(part.channel.role is not Role.FAULT for part in episode.top[:_LOUDEST])


def _next_phase(host: Host, settings: Settings, *, alone: bool) -> bool:
    """Whether an episode of a young regime is about to open with this loud window or the next."""
    regimes = host.regimes
    if not regimes.young or host.persistence.open or not _may_begin(regimes, settings):
        return False
    return host.persistence.near(settings.episodes, 1, alone=alone)


def _settled(regimes: Regimes, settings: Settings) -> bool:
    settling, rows = regimes.settling, settings.regimes.learn_rows
    if settling is None:
        return False
    if settling.quiet >= rows // 2 or regimes.spent >= 2 * _SPENT_MOST * rows:
        return True
    # A workload that began while another was being learned has at least half of the rows.
    return settling.rows >= 2 * rows or (settling.rows >= rows and settling.rows - settling.turned >= rows // 2)


def _returning(host: Host, settings: Settings) -> Former | None:
    """The former regime that has known the newest rows for long enough; longer is asked for while an episode is open."""
    needed = settings.regimes.confirm_rows
    if host.persistence.open and not host.regimes.excusing:
        needed = max(needed, settings.episodes.clear_windows)
    return best(host.regimes.former, needed)


def _lasts(host: Host, settings: Settings) -> bool:
    regimes, rows = host.regimes, settings.regimes.rebase_rows
    if regimes.settling is not None or not host.persistence.open or regimes.apart < rows:
        return False
    return not regimes.looked or regimes.apart - regimes.looked >= max(rows // _REBASE_AGAIN, 1)
