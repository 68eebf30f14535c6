"""What an episode says when it opens: subsystem, device, channels, order of onset and the sentence. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from hwsonde_detector.decision.model import EntityModel
from hwsonde_detector.explain.attribution import by_subsystem, devices_to_blame, top_channels
from hwsonde_detector.explain.onsets import onset_order, together
from hwsonde_detector.explain.titles import Order, identity, title
from hwsonde_detector.types import Entity, Episode, Floats, Subsystem, Times

TOP_CHANNELS = 10


@dataclass(frozen=True, slots=True)
class Newest:
    """The newest rows of a host.

    ``rows`` is float64 (n, c) in the model's order of channels and ``times`` int64 (n), oldest first, the last one now; ``interval_ms`` is
    the scrape interval and ``width`` how many rows a window has.
    """

    rows: Floats
    times: Times
    interval_ms: int
    width: int


def opened(
    entity: Entity, model: EntityModel, strengths: Collection[Floats], newest: Newest, onset_ms: int, peak: float
) -> Episode:
    """Give the episode that opens now.

    Parameters
    ----------
    entity, model
        The host and what is known of it.
    strengths
        Evidence, float64 (c) each, of the windows that led here.
    newest
        The newest rows.
    onset_ms
        End of the first anomalous window.
    peak
        The score so far.
    """
    total = np.sum(list(strengths), axis=0) if strengths else np.zeros(len(model.channels))
    shares = by_subsystem(total, model.channels)
    subsystem = max(shares, key=lambda name: (shares[name], name)) if shares else Subsystem.CPU
    # The windows that led here, from the first row of the first of them.
    span = newest.width + int(np.count_nonzero(newest.times > onset_ms))
    top = top_channels(total, newest.rows, model, TOP_CHANNELS, newest.width, span)
    devices = devices_to_blame(total, model.channels, subsystem)
    names = {entry.channel.name for entry in top}
    onsets = onset_order(newest.rows, newest.times.tolist(), model, names, newest.interval_ms)
    order = Order(together(onsets, newest.interval_ms), len(onsets))
    return Episode(
        identity=identity(entity, onset_ms),
        entity=entity,
        start_ms=int(newest.times[-1]),
        onset_ms=onset_ms,
        end_ms=None,
        subsystem=subsystem,
        peak=peak,
        title=title(entity, subsystem, top, onset_ms, devices, order),
        top=top,
        first_channels=tuple((onset.name, onset.at_ms) for onset in onsets),
        device=devices[0] if len(devices) == 1 else None,
        uncertainty_ms=newest.interval_ms,
    )
