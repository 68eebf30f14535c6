"""Which channels are there at all. Devices vanish for good, and come back. Pure.

Where most of what a model looks at is gone, nothing of the host can be judged. A driver that is switched off takes its hundreds of channels along,
and yet processors, disks and networks want to be watched. Such a model is made anew without what the newest rows know nothing of, and once
more when any of that is back: of what was learned of it nothing is lost meanwhile. That a device vanished is told elsewhere
(`hwsonde_detector.detectors.faults`).
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from hwsonde_detector.decision.model import EntityModel, Gone
from hwsonde_detector.decision.regime import Host
from hwsonde_detector.decision.rows import newest, recent_rows
from hwsonde_detector.settings import Settings
from hwsonde_detector.types import Frame, Mask

# Where rows are so far apart that ``learning.first_rows`` of them take longer, a channel is gone after so long; though never after fewer rows.
_GONE_MS, _GONE_ROWS = 300_000, 20


def gone_rows(interval_ms: int, settings: Settings) -> int:
    """For how many rows a model must not fit what is there to be made anew; as many must know nothing of a channel for it to be gone."""
    return min(settings.learning.first_rows, max(_GONE_MS // max(interval_ms, 1), _GONE_ROWS))


def back(model: EntityModel, rows: Frame) -> Mask:
    """Whether each of some rows (n) knows anything of what the model left out, bool (n)."""
    places = (
        [place for place, channel in enumerate(rows.channels) if channel.name in model.missing] if model.missing else []
    )
    return np.asarray(np.isfinite(rows.values[:, places]).any(axis=1), np.bool_)


def misfits(host: Host, interval_ms: int, settings: Settings) -> bool:
    """Whether the model in force has not fitted what is there for so long that it is time to see why."""
    return host.model is not None and host.misfit >= gone_rows(interval_ms, settings)


def another(host: Host, interval_ms: int, settings: Settings) -> bool:
    """Whether a model made now would look at other channels than the one in force, because some of these are gone or others are back."""
    known = _known(host.recent, interval_ms, settings)
    if host.model is None or known is None:
        return False
    looked_at = {host.model.channels[place].name for place in host.model.kept.tolist()}
    return not known.isdisjoint(host.model.missing) or not looked_at <= known


def gone(host: Host, names: Iterable[str], interval_ms: int, settings: Settings) -> Gone:
    """What of the channels of these ``names`` is not there any more.

    What was left out stays so until it is back. As long as the newest rows are too few to tell, nothing else is.
    """
    missing = frozenset(host.model.missing) if host.model is not None else frozenset()
    known = _known(host.recent, interval_ms, settings)
    if known is None:
        return Gone(missing - _names(host.recent))
    absent = (missing | frozenset(names)) - known
    out = absent if misfits(host, interval_ms, settings) else absent & missing
    return Gone(out, absent - out)


def _known(recent: Frame | None, interval_ms: int, settings: Settings) -> frozenset[str] | None:
    """Names of channels of which the newest rows know anything; None where too few have come to tell."""
    # No more are kept.
    rows = min(gone_rows(interval_ms, settings), recent_rows(settings.window.rows))
    if recent is None or len(recent.times) < rows:
        return None
    return _names(newest(recent, rows))


def _names(rows: Frame | None) -> frozenset[str]:
    if rows is None:
        return frozenset()
    seen = np.flatnonzero(np.isfinite(rows.values).any(axis=0))
    return frozenset(rows.channels[place].name for place in seen.tolist())
