"""What one source of the fast sampler has given: a series for each quantity and set of labels, with its cumulative moments."""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from math import isfinite

from hwsonde_exporter.exposition import Block, Shape, block_of
from hwsonde_exporter.histogram import deviation_metric
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.moments import Moments
from hwsonde_exporter.privacy import SHOW, Privacy
from hwsonde_exporter.registry import Quantity
from hwsonde_exporter.selection import EVERYTHING, Selection

WINDOW_SECONDS = 60

Observation = tuple[Quantity, tuple[str, ...], float]
Key = tuple[str, tuple[str, ...]]


def derived_metrics(quantity: Quantity) -> tuple[Metric, ...]:
    """The families that the sampler publishes for a quantity.

    In this order: the summary (``<family>_sum``, ``<family>_count``), ``<family>_squared_deviation_total``,
    ``<family>_minimum``, ``<family>_maximum``.
    """
    summary = quantity.metric
    described = summary.help.rstrip(".")
    common = {"labels": summary.labels, "subsystem": summary.subsystem, "source": summary.source}
    return (
        summary,
        deviation_metric(summary, quantity.reference),
        Metric(
            f"{summary.name}_minimum",
            Kind.GAUGE,
            f"{described}: least observation of the trailing {WINDOW_SECONDS} s.",
            **common,  # type: ignore[arg-type]
        ),
        Metric(
            f"{summary.name}_maximum",
            Kind.GAUGE,
            f"{described}: greatest observation of the trailing {WINDOW_SECONDS} s.",
            **common,  # type: ignore[arg-type]
        ),
    )


class Series:
    """One quantity with one set of labels: turns raw readings into observations."""

    __slots__ = ("_previous", "_previous_time", "labels", "moments", "quantity", "seen")

    def __init__(self, quantity: Quantity, labels: tuple[str, ...]) -> None:
        self.quantity = quantity
        self.labels = labels
        self.moments = Moments(quantity.reference, WINDOW_SECONDS)
        self.seen = 0.0
        self._previous: float | None = None
        self._previous_time = 0.0

    def read(self, raw: float, now: float) -> bool:
        """Take a raw reading of monotonic time ``now``; False if it gave no observation though it should have.

        A counter's observation is its difference over the time that really passed. One that went backwards gives none,
        and neither does a value that is negative or not finite: the sum of a summary must never decrease.
        """
        self.seen = now
        if self.quantity.cumulative:
            previous, elapsed = self._previous, now - self._previous_time
            self._previous, self._previous_time = (raw, now) if isfinite(raw) else (None, now)
            if previous is None:
                return True
            if elapsed <= 0:
                return False
            raw = (raw - previous) / elapsed
        if not 0.0 <= raw < float("inf"):
            return False
        self.moments.observe(raw, int(now))
        return True


class SourceSeries:
    """All series of one source, as far as its limit goes: who came first stays.

    The source gives its observations in the same order from tick to tick, so a series is found by comparing with the one
    that stood at this place before; only where that fails is it looked up.

    Parameters
    ----------
    quantities
        The quantities that the source declares; others are refused.
    limit
        Greatest number of series that are published.

    Attributes
    ----------
    beyond
        Series that blocks lacked for the limit, counted with each block.
    """

    def __init__(self, quantities: Collection[Quantity], limit: int = sys.maxsize) -> None:
        self._metrics = {quantity.metric.name: derived_metrics(quantity) for quantity in quantities}
        self._by_key: dict[Key, Series] = {}
        self._order: list[Series | None] = []  # None stands for what is beyond the limit
        self._order_unread = 0
        self._quantities: tuple[Quantity, ...] = ()
        self._labels: tuple[tuple[str, ...], ...] = ()
        self._shape: Shape | None = None
        self._selection = EVERYTHING
        self._privacy = SHOW
        self._limit = limit
        self._sizes = self._published()
        self._unread = self._unseen = (
            0  # series that the latest tick left out: readings that came, and those that did not
        )
        self.beyond = 0

    @property
    def most(self) -> int:
        """How many observations a tick has a use for."""
        least = min(self._sizes.values(), default=0)
        return self._limit // least if least else self._limit

    @property
    def size(self) -> int:
        """Number of series of the latest block."""
        return self._shape.size if self._shape is not None else 0

    @property
    def full(self) -> bool:
        """Whether the latest tick had more than the limit allows."""
        return self._unread + self._unseen > 0

    def select(self, selection: Selection, privacy: Privacy) -> None:
        """Publish only these metrics from now on, and only this of their labels."""
        if (selection, privacy) != (self._selection, self._privacy):
            self._selection, self._privacy, self._shape = selection, privacy, None
            self._sizes = self._published()
            self.bound(self._limit)

    def bound(self, limit: int) -> None:
        """Publish no more than so many series from now on."""
        self._limit = limit
        kept: dict[Key, Series] = {}
        used = 0
        for key, series in self._by_key.items():
            if len(kept) < limit and used + self._sizes[key[0]] <= limit:
                kept[key] = series
                used += self._sizes[key[0]]
        self._by_key = kept
        self._quantities = ()  # what was beyond it may be within

    def read(self, observations: Sequence[Observation], now: float, more: int = 0) -> int:
        """Take the readings of one tick; gives the number of those that gave no observation.

        ``more`` is how many further ones there were that the source kept back, as it was told to (`most`).
        """
        self._unseen = more * max(self._sizes.values(), default=0)
        if not observations:
            self._unread = 0
            return 0
        quantities, labels, raws = zip(*observations, strict=True)
        if quantities != self._quantities or labels != self._labels:
            return self._read_anew(observations, now)
        self._unread = self._order_unread
        refused = 0
        for series, raw in zip(self._order, raws, strict=True):
            if series is not None and not series.read(raw, now):
                refused += 1
        return refused

    def block(self, now: float) -> Block:
        """Moments of all series at monotonic time ``now``; those that have not been read for the window are forgotten."""
        gone = [key for key, series in self._by_key.items() if now - series.seen > WINDOW_SECONDS]
        for key in gone:
            del self._by_key[key]
        if gone:
            self._quantities = ()
        samples: list[Sample] = []
        for series in self._by_key.values():
            moments, labels = series.moments, series.labels
            summary, squares, minimum, maximum = self._metrics[series.quantity.metric.name]
            samples.append(Sample(summary, labels, moments.total.value, "_sum"))
            samples.append(Sample(summary, labels, moments.count, "_count"))
            samples.append(Sample(squares, labels, moments.squares.value))
            extremes = moments.extremes(int(now))
            if extremes is not None:
                samples.append(Sample(minimum, labels, extremes[0]))
                samples.append(Sample(maximum, labels, extremes[1]))
        block = block_of(samples, self._shape, self._selection, self._privacy)
        self._shape = block.shape
        self.beyond += self._unread + self._unseen
        return block

    def _published(self) -> dict[str, int]:
        """How many series one set of labels has, by quantity: fewer where some are not published."""
        return {
            name: sum(len(metric.suffixes) for metric in metrics if not self._selection.hides(metric))
            for name, metrics in self._metrics.items()
        }

    def _read_anew(self, observations: Sequence[Observation], now: float) -> int:
        """Look every series up, and remember their order if it may be relied upon in the next tick."""
        refused = unread = 0
        used = sum(self._sizes[name] for name, _ in self._by_key)
        order: list[Series | None] = []
        taken: set[Key] = set()
        for quantity, labels, raw in observations:
            key = (quantity.metric.name, labels)
            if key[0] not in self._metrics or len(labels) != len(quantity.metric.labels) or key in taken:
                refused += 1
                continue
            taken.add(key)
            series = self._by_key.get(key)
            if series is None and len(self._by_key) < self._limit and used + self._sizes[key[0]] <= self._limit:
                series = self._by_key[key] = Series(quantity, labels)
                used += self._sizes[key[0]]
            order.append(series)
            if series is None:
                unread += self._sizes[key[0]]
            elif not series.read(raw, now):
                refused += 1
        self._unread = self._order_unread = unread
        sound = len(order) == len(observations)
        self._order = order if sound else []
        self._quantities = tuple(quantity for quantity, _, _ in observations) if sound else ()
        self._labels = tuple(labels for _, labels, _ in observations) if sound else ()
        return refused
