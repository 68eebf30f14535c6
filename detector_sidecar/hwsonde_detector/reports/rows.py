"""Values of the few channels that a report shows, out of records that are read once more. Pure.

A scored run keeps no values: those of all channels of all hosts would be far more than a report can show. So the stretches that matter are read
again once it is known which they are, and each keeps a bounded number of points (`Envelope`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from hwsonde_detector.explain.analysis import Charted
from hwsonde_detector.explain.series import Envelope, Points
from hwsonde_detector.plan import Plan
from hwsonde_detector.signals.channels import ChannelState, advance
from hwsonde_detector.signals.entities import Split, plan_split
from hwsonde_detector.types import Entity, Frame, SampleBatch

# What rates and slowly read channels need before a chart begins.
LEAD_MS = 180_000


class _Chart:
    """One wanted stretch: its envelope, and where its channels are among those of the last frame."""

    def __init__(self, wanted: Charted) -> None:
        self.wanted = wanted
        self.names = tuple(sorted(wanted.channels))
        self.envelope = Envelope(wanted.start_ms, wanted.end_ms, len(self.names))

    def add(self, frame: Frame) -> None:
        places = {channel.name: index for index, channel in enumerate(frame.channels)}
        values = np.full((len(frame.times), len(self.names)), np.nan)
        for index, name in enumerate(self.names):
            if name in places:
                values[:, index] = frame.values[:, places[name]]
        self.envelope.add(frame.times, values)


def collect_rows(
    records: Iterable[tuple[SampleBatch, int]], plan: Plan, wanted: Sequence[Charted]
) -> dict[tuple[int, Entity, str], Points]:
    """Values over time of the wanted channels.

    Parameters
    ----------
    records
        Batches with the times of their ticks, ascending, from `LEAD_MS` before the first stretch on.
    plan
        As the run was scored with.
    wanted
        Channels, hosts and stretches.

    Returns
    -------
    dict
        By rank of the cause, host and name of the channel; a channel without a value has no points.
    """
    charts: dict[Entity, list[_Chart]] = {}
    for one in wanted:
        charts.setdefault(one.entity, []).append(_Chart(one))
    states = {entity: ChannelState(entity) for entity in charts}
    intervals = dict.fromkeys(charts, 0)
    split: Split | None = None
    for batch, _ in records:
        if split is None or not split.fits(batch, plan.settings.entity_labels):
            split = plan_split(batch.series, plan.settings.entity_labels)
        parts = split.apply(batch)
        for entity in charts.keys() & parts.keys():
            states[entity], news = advance(states[entity], parts[entity], plan.profiles)
            intervals[entity] = news.interval_ms or intervals[entity]
            for chart in charts[entity]:
                chart.add(news.frame)
    every = [(entity, chart) for entity, own in charts.items() for chart in own]
    found = {
        (chart.wanted.rank, entity, name): chart.envelope.points(index, intervals[entity])
        for entity, chart in every
        for index, name in enumerate(chart.names)
    }
    return {key: points for key, points in found.items() if points.times}
