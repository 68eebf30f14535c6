"""The fast sampler: observes the fast quantities ten times a second and publishes their cumulative moments."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from time import sleep as _sleep

from hwsonde_exporter.errors import ThreadError
from hwsonde_exporter.exposition import Block
from hwsonde_exporter.privacy import SHOW, Privacy
from hwsonde_exporter.registry import BoundedSource, FastSource, Quantity
from hwsonde_exporter.sampled import SourceSeries, derived_metrics
from hwsonde_exporter.selection import EVERYTHING, Selection
from hwsonde_exporter.threads import spawn

__all__ = ["Sampler", "SamplerCounts", "SourceSeries", "derived_metrics"]

_LOG = logging.getLogger(__name__)

# A source that fails is left alone for so long, so that a broken one does not cost ten exceptions a second.
_RETRY_SECONDS = 1.0
# A source that keeps the loop waiting for so long is left to its thread, and a fresh thread goes on with the rest.
_HANG_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class SamplerCounts:
    """What the sampler says of itself: ``late`` ticks were skipped, ``refused`` observations dropped, ``errors`` by source.

    ``series`` are those of the latest block of each source; ``beyond`` counts those that its blocks lacked for its limit.
    """

    ticks: int
    late: int
    refused: int
    errors: Mapping[str, int]
    series: Mapping[str, int] = field(default_factory=dict)
    beyond: Mapping[str, int] = field(default_factory=dict)


class _Source:
    """A source in the loop, with its series and when it may be asked again."""

    __slots__ = ("bounded", "busy", "errors", "full", "make", "name", "observer", "retry", "series", "troubled")

    def __init__(self, name: str, quantities: Collection[Quantity], make: Callable[[], FastSource]) -> None:
        self.name = name
        self.make = make
        self.observer: FastSource | None = None
        self.bounded: BoundedSource | None = None  # the observer, if it can be told how much is of use
        self.series = SourceSeries(quantities)
        self.full = False
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
        self._limit: Callable[[str], int] = lambda _: sys.maxsize
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
                source.series.bound(self._limit(source.name))
            self._period = 1.0 / hertz if hertz > 0 else 0.0
            if self._running:
                self._launch()

    def bound(self, limit: Callable[[str], int]) -> None:
        """Publish no more series of a source than ``limit`` says of its name; holds for sources that come later, too."""
        with self._lock:
            self._limit = limit
            for source in self._sources.values():
                source.series.bound(limit(source.name))

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
            filled = [source.name for source in chosen if source.series.full and not source.full]
            for source in chosen:
                source.full = source.series.full
        for name in filled:
            _LOG.warning("sampler: %s has more series than its limit; raise --collector.series-limit %s=N", name, name)
        return {name: block for name, block in found.items() if block.values}

    def counts(self) -> SamplerCounts:
        """What the sampler says of itself."""
        with self._lock:
            sources = self._sources.values()
            return SamplerCounts(
                self._ticks,
                self._late,
                self._refused,
                {source.name: source.errors for source in sources},
                {source.name: source.series.size for source in sources},
                {source.name: source.series.beyond for source in sources if source.series.beyond},
            )

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
                source.bounded = source.observer if isinstance(source.observer, BoundedSource) else None
            if source.bounded is not None:
                source.bounded.most = source.series.most
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
            more = source.bounded.left_out if source.bounded is not None else 0
            self._refused += source.series.read(observations, now, more)
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
