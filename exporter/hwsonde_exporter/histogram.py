"""A cumulative histogram with the moments of the same observations.

A histogram is scraped as counts that only grow, so tails over any range follow from the increases of its buckets, and mean and
variance from those of sum, count and squared deviation (see `hwsonde_exporter.moments`).
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.moments import CompensatedSum

# Bounds for the time to another host and back: from two hosts on one switch to the other side of the world.
ROUND_TRIP_SECONDS = (1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5)


def deviation_metric(metric: Metric, reference: float) -> Metric:
    """The counter of squared deviations from ``reference`` that stands beside a summary or a histogram."""
    return Metric(
        f"{metric.name}_squared_deviation_total",
        Kind.COUNTER,
        f"{metric.help.rstrip('.')}: sum of (value - {reference!r})^2 over the observations.",
        metric.labels,
        subsystem=metric.subsystem,
        source=metric.source,
    )


class CumulativeMoments:
    """Count, sum and squared deviation of the observations of one set of labels, and their buckets where there are any.

    Parameters
    ----------
    metric
        A histogram, or a summary (then nothing but the moments is kept).
    deviation
        The counter of `deviation_metric` for the same ``reference``.
    reference
        The constant c of sum((value - c)^2), in the metric's unit.
    labels
        Label values of every sample.
    """

    __slots__ = ("_counts", "_deviation", "_labels", "_metric", "_reference", "_squares", "_total", "count")

    def __init__(self, metric: Metric, deviation: Metric, reference: float, labels: tuple[str, ...]) -> None:
        self.count = 0
        self._metric = metric
        self._deviation = deviation
        self._reference = reference
        self._labels = labels
        self._counts = [0] * (len(metric.buckets) + 1)
        self._total = CompensatedSum()
        self._squares = CompensatedSum()

    def observe(self, value: float) -> None:
        """Take one observation, finite and not negative."""
        self.count += 1
        # The bounds are inclusive: the first one that is not below the value.
        self._counts[bisect_left(self._metric.buckets, value)] += 1
        self._total.small += value
        deviation = value - self._reference
        self._squares.small += deviation * deviation

    def samples(self) -> list[Sample]:
        """All samples, those of a histogram's buckets first; a copy of the state at this moment."""
        metric, labels = self._metric, self._labels
        self._total.fold()
        self._squares.fold()
        samples = [
            Sample(metric, (*labels, bound), count, "_bucket")
            for bound, count in zip(metric.bounds, accumulate(self._counts), strict=False)
        ]
        samples.append(Sample(metric, labels, self._total.value, "_sum"))
        samples.append(Sample(metric, labels, self.count, "_count"))
        samples.append(Sample(self._deviation, labels, self._squares.value))
        return samples
