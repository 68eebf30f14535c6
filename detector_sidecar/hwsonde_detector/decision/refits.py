"""Making a host's model: of what is there, when it is the host's turn, and what is to be forgotten with the old one. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from hwsonde_detector.decision.ages import training_rows
from hwsonde_detector.decision.heard import Heard
from hwsonde_detector.decision.model import EntityModel, fit_model
from hwsonde_detector.decision.presence import another, gone, misfits
from hwsonde_detector.decision.regime import Host
from hwsonde_detector.settings import Settings
from hwsonde_detector.types import Channel, Floats, Times

Rows: TypeAlias = tuple[tuple[Channel, ...], Times, Floats]
"""c channels, int64 (rows) and float64 (rows, c), as `hwsonde_detector.decision.ages.training_rows` gives them."""


def make_model(
    host: Host, rows: Rows, interval_ms: int, settings: Settings, heard: Heard | None = None
) -> EntityModel | None:
    """Learn from rows what of them is still there; None where there is nothing to learn from. A model that was made is the host's turn."""
    channels, times, values = rows
    left = gone(host, (channel.name for channel in channels), interval_ms, settings)
    model = fit_model(values, times, interval_ms, channels, settings, heard, left)
    if model is None:
        return None
    host.turn.taken = True
    # What no row tells of any more, but a block does, is still missed.
    remembered: frozenset[str] = host.regimes.ages.known() & left.out if left.out else frozenset()
    return replace(model, missing=tuple(sorted(remembered.union(model.missing))))


def refit(host: Host, interval_ms: int, settings: Settings, *, learned: bool) -> None:
    """Make the model in force anew if that is due; ``learned`` says that rows came to what it is made of."""
    due = learned and host.progress.rows_to_fit(settings.learning) == 0
    if misfits(host, interval_ms, settings):
        if not due and not another(host, interval_ms, settings):
            # It is only patchy, and another one would be no better; that is seen again after as long.
            host.misfit = 0
            return
        _fit(host, interval_ms, settings)
        host.misfit = 0
    elif due:
        _fit(host, interval_ms, settings)


def _fit(host: Host, interval_ms: int, settings: Settings) -> None:
    rows = training_rows(host.memory, host.regimes.ages)
    missing = frozenset(host.model.missing) if host.model is not None else frozenset()
    same = missing == gone(host, (channel.name for channel in rows[0]), interval_ms, settings).out
    model = make_model(host, rows, interval_ms, settings, host.heard if same else None)
    if model is None:
        return
    host.model, host.progress.fitted = model, host.progress.accepted
    host.strengths.clear()
    if not same or missing != frozenset(model.missing):
        # What was heard of other channels tells nothing of these.
        host.heard = Heard()
    elif host.progress.calibrated(settings.learning):
        host.threshold.learn(host.heard.fused(model.rows), interval_ms, settings.episodes)
