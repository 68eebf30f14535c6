"""The fast sampler: observes the fast quantities ten times a second and publishes their cumulative moments."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from time import sleep as _sleep

from hwsonde_exporter.errors import ThreadError
from hwsonde_exporter.exposition import Block, Shape, block_of
from hwsonde_exporter.histogram import deviation_metric
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.moments import Moments
from hwsonde_exporter.privacy import SHOW, Privacy
from hwsonde_exporter.registry import FastSource, Quantity
from hwsonde_exporter.selection import EVERYTHING, Selection
from hwsonde_exporter.threads import spawn

_LOG = logging.getLogger(__name__)

WINDOW_SECONDS = 60
# A source that fails is left alone for so long, so that a broken one does not cost ten exceptions a second.
_RETRY_SECONDS = 1.0
# A source that keeps the loop waiting for so long is left to its thread, and a fresh thread goes on with the rest.
_HANG_SECONDS = 2.0

Observation = tuple[Quantity, tuple[str, ...], float]


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


@dataclass(frozen=True, slots=True)
class SamplerCounts:
    """What the sampler says of itself: ``late`` ticks were skipped, ``refused`` observations dropped, ``errors`` by source."""

    ticks: int
    late: int
    refused: int
    errors: Mapping[str, int]


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
    """All series of one source.

    The source gives its observations in the same order from tick to tick, so a series is found by comparing with the one
    that stood at this place before; only where that fails is it looked up.

    Parameters
    ----------
    quantities
        The quantities that the source declares; others are refused.
    """

    def __init__(self, quantities: Collection[Quantity]) -> None:
        self._metrics = {quantity.metric.name: derived_metrics(quantity) for quantity in quantities}
        self._by_key: dict[tuple[str, tuple[str, ...]], Series] = {}
        self._order: list[Series] = []
        self._quantities: tuple[Quantity, ...] = ()
        self._labels: tuple[tuple[str, ...], ...] = ()
        self._shape: Shape | None = None
        self._selection = EVERYTHING
        self._privacy = SHOW

    def select(self, selection: Selection, privacy: Privacy) -> None:
        """Publish only these metrics from now on, and only this of their labels."""
        if (selection, privacy) != (self._selection, self._privacy):
            self._selection, self._privacy, self._shape = selection, privacy, None

    def read(self, observations: Sequence[Observation], now: float) -> int:
        """Take the readings of one tick; gives the number of those that gave no observation."""
        if not observations:
            return 0
        quantities, labels, raws = zip(*observations, strict=True)
        if quantities != self._quantities or labels != self._labels:
            return self._read_anew(observations, now)
        refused = 0
        for series, raw in zip(self._order, raws, strict=True):
            if not series.read(raw, now):
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
        return block

    def _read_anew(self, observations: Sequence[Observation], now: float) -> int:
        """Look every series up, and remember their order if it may be relied upon in the next tick."""
        refused = 0
        order: list[Series] = []
        taken: set[tuple[str, tuple[str, ...]]] = set()
        for quantity, labels, raw in observations:
            key = (quantity.metric.name, labels)
            if key[0] not in self._metrics or len(labels) != len(quantity.metric.labels) or key in taken:
                refused += 1
                continue
            taken.add(key)
            series = self._by_key.get(key)
            if series is None:
                series = self._by_key[key] = Series(quantity, labels)
            order.append(series)
            if not series.read(raw, now):
                refused += 1
        sound = len(order) == len(observations)
        self._order = order if sound else []
        self._quantities = tuple(quantity for quantity, _, _ in observations) if sound else ()
        self._labels = tuple(labels for _, labels, _ in observations) if sound else ()
        return refused


class _Source:
    """A source in the loop, with its series and when it may be asked again."""

    __slots__ = ("busy", "errors", "make", "name", "observer", "retry", "series", "troubled")

    def __init__(self, name: str, quantities: Collection[Quantity], make: Callable[[], FastSource]) -> None:
        self.name = name
        self.make = make
        self.observer: FastSource | None = None
        self.series = SourceSeries(quantities)
        self.retry = float("-inf")
        self.errors = 0
        self.troubled = False
        self.busy = False


class Sampler:
    """Observes sources at a fixed rate on a thread of its own.

    Parameters
    ----------
    kinds
        Collector classes that are fast sources, by name, with a function that makes the instance which the loop owns. It is
        not the one that scrapes use: the two are read at the same time.
    hertz
        Ticks a second; 0 switches the sampler off.
    clock
        Monotonic seconds.
    usable
        Whether the source of this name can work here; asked before its first reading and after each failure.
    sleep
        Waits for so many seconds.
    selection
        Which metrics are published.
    privacy
        What becomes of personal labels.
    """

    def __init__(
        self,
        kinds: Mapping[str, tuple[type[FastSource], Callable[[], FastSource]]],
        hertz: float,
        clock: Callable[[], float],
        usable: Callable[[str], bool] = lambda _: True,
        sleep: Callable[[float], None] = _sleep,
        selection: Selection = EVERYTHING,
        privacy: Privacy = SHOW,
    ) -> None:
        self._clock = clock
        self._usable = usable
        self._sleep = sleep
        self._lock = threading.Lock()
        self._sources: dict[str, _Source] = {}
        self._period = 0.0
        self._generation = 0
        self._running = self._short = False
        self._busy: tuple[_Source, float] | None = None
        self._ticks = self._late = self._refused = 0
        self.configure(kinds, hertz, selection, privacy)

    def configure(
        self,
        kinds: Mapping[str, tuple[type[FastSource], Callable[[], FastSource]]],
        hertz: float,
        selection: Selection = EVERYTHING,
        privacy: Privacy = SHOW,
    ) -> None:
        """Take over new settings; sources that stay keep their moments."""
        with self._lock:
            self._sources = {
                name: self._sources.get(name) or _Source(name, kind.quantities, make)
                for name, (kind, make) in sorted(kinds.items())
            }
            for source in self._sources.values():
                source.series.select(selection, privacy)
            self._period = 1.0 / hertz if hertz > 0 else 0.0
            if self._running:
                self._launch()

    def start(self) -> None:
        """Start the loop; returns at once."""
        with self._lock:
            self._running = True
            self._launch()

    def stop(self) -> None:
        """End the loop after the present tick; returns at once."""
        with self._lock:
            self._running = False
            self._generation += 1

    def blocks(self, names: Collection[str] | None = None) -> dict[str, Block]:
        """Moments by name of the source, all read under one lock; ``names`` limits the sources."""
        now = self._clock()
        self._relieve(now)
        with self._lock:
            chosen = [source for source in self._sources.values() if names is None or source.name in names]
            found = {source.name: source.series.block(now) for source in chosen}
        return {name: block for name, block in found.items() if block.values}

    def counts(self) -> SamplerCounts:
        """What the sampler says of itself."""
        with self._lock:
            errors = {source.name: source.errors for source in self._sources.values()}
            return SamplerCounts(self._ticks, self._late, self._refused, errors)

    def tick(self, generation: int | None = None) -> None:
        """Read every source once; ends early when another thread has taken over (``generation`` is no longer the present one)."""
        generation = self._generation if generation is None else generation
        for source in list(self._sources.values()):
            began = self._clock()
            with self._lock:
                if generation != self._generation:
                    return
                if source.busy or began < source.retry:
                    continue
                source.busy = True
                self._busy = (source, began)
            if (source.observer is None or source.troubled) and not self._usable(source.name):
                with self._lock:
                    source.busy, source.retry = False, began + _RETRY_SECONDS
                continue
            self._observe(source, began, generation)
        with self._lock:
            if generation == self._generation:
                self._busy = None
                self._ticks += 1

    def _observe(self, source: _Source, began: float, generation: int) -> None:
        try:
            if source.observer is None:
                source.observer = source.make()
            observations = source.observer.observe()
        except BaseException as error:  # noqa: BLE001  (even one that calls sys.exit must harm no other)
            self._note_failure(source, began, error)
            return
        # The reading lies somewhere between; on a busy host the two may be far apart.
        now = (began + self._clock()) / 2
        with self._lock:
            source.busy = False
            if generation != self._generation:
                return
            self._refused += source.series.read(observations, now)
            recovered, source.troubled = source.troubled, False
        if recovered:
            _LOG.info("sampler: %s answers again", source.name)

    def _launch(self) -> None:
        self._generation += 1
        self._busy = None
        if self._period > 0 and self._sources:
            try:
                spawn("sampler", self._serve, self._generation, self._period)
            except ThreadError as error:
                if not self._short:
                    _LOG.error("sampler: %s; tried again with each scrape", error)
                self._short = True
            else:
                self._short = False

    def _serve(self, generation: int, period: float) -> None:
        due = self._clock() + period
        while generation == self._generation:
            wait = due - self._clock()
            if wait > 0:
                self._sleep(wait)
            if generation != self._generation:
                return
            # The next tick is at least half a period away, or a counter's difference would be mostly its last digit.
            late = max(0, int((self._clock() - due) / period + 0.5))
            if late:
                with self._lock:
                    self._late += late
            due += (late + 1) * period
            self.tick(generation)

    def _note_failure(self, source: _Source, now: float, error: BaseException) -> None:
        with self._lock:
            source.busy = False
            source.errors += 1
            source.retry = now + _RETRY_SECONDS
            first, source.troubled = not source.troubled, True
        if first:
            text = " ".join(str(error).split()) or type(error).__name__
            _LOG.warning("sampler: %s gives nothing: %s", source.name, text)

    def _relieve(self, now: float) -> None:
        """Go on without a source that hangs: a fresh thread passes it over until it returns."""
        with self._lock:
            if self._running and self._short:
                self._launch()
            if not self._running or self._busy is None or now - self._busy[1] < _HANG_SECONDS:
                return
            source = self._busy[0]
            source.errors += 1
            source.troubled = True
            self._launch()
        _LOG.warning("sampler: %s hangs and is passed over until it answers", source.name)
