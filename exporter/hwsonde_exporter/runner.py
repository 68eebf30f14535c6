"""Runs the collectors: the cheap ones when a scrape asks, the others in the background."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from hwsonde_exporter.background import Background
from hwsonde_exporter.cell import Cell, Clocks
from hwsonde_exporter.errors import Reason
from hwsonde_exporter.exposition import Block
from hwsonde_exporter.host import Host
from hwsonde_exporter.lanes import Job, Lane
from hwsonde_exporter.privacy import SHOW, Privacy
from hwsonde_exporter.registry import Collector
from hwsonde_exporter.selection import EVERYTHING, Selection
from hwsonde_exporter.snapshot import Snapshot
from hwsonde_exporter.state import State

# A collector that keeps the others waiting for so long is left to its thread, and a fresh one goes on with the rest.
_PATIENCE_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class RunnerSettings:
    """What may be configured.

    Attributes
    ----------
    enabled
        Names of the collectors that run.
    timeout
        Seconds that a scrape waits for its collectors when it does not say itself.
    series_limit
        Greatest number of series of one collector, and of what is sampled of it.
    series_limits
        The same for collectors that have a limit of their own, by name.
    selection
        Which metrics are published.
    privacy
        What becomes of personal labels.
    """

    enabled: frozenset[str]
    timeout: float = 0.8
    series_limit: int = 2000
    series_limits: Mapping[str, int] = field(default_factory=dict)
    selection: Selection = EVERYTHING
    privacy: Privacy = SHOW

    def limit(self, name: str) -> int:
        """Greatest number of series of the collector of this name."""
        return self.series_limits.get(name, self.series_limit)


class Runner:
    """All collectors, each in its cell.

    Parameters
    ----------
    kinds
        Collector classes by name.
    make_host
        Gives the `Host` of one collector. Each has its own, since one that hangs in reading a file holds up everybody who
        wants the same file of the same reader.
    settings
        See `RunnerSettings`.
    clocks
        Where time comes from.
    """

    def __init__(
        self,
        kinds: Mapping[str, type[Collector]],
        make_host: Callable[[], Host],
        settings: RunnerSettings,
        clocks: Clocks,
    ) -> None:
        self._kinds = dict(kinds)
        self._make_host = make_host
        self._clocks = clocks
        self._lane = Lane(clocks.monotonic)
        self._cells: dict[str, Cell] = {}
        self._background: dict[str, Background] = {}
        self._lock = threading.Lock()
        self._started = False
        self.incomplete = 0  # scrapes that were answered without a collector which was not ready in time
        self.settings = settings
        self.configure(settings)

    @property
    def names(self) -> frozenset[str]:
        """Names of all collectors, the disabled ones too."""
        return frozenset(self._kinds)

    @property
    def enabled(self) -> frozenset[str]:
        """Names of the collectors that run."""
        return frozenset(self._cells)

    def configure(self, settings: RunnerSettings) -> None:
        """Take over new settings; collectors that stay enabled keep their counts and their values."""
        with self._lock:
            self.settings = settings
            cells = {}
            for name in sorted(settings.enabled):
                kind = self._kinds[name]
                cell = self._cells.get(name) or Cell(
                    kind, self._maker(kind), settings.limit(name), self._clocks, settings.selection, settings.privacy
                )
                cell.guard.limit, cell.guard.selection = settings.limit(name), settings.selection
                cell.guard.privacy = settings.privacy
                cells[name] = cell
                if kind.period is not None and name not in self._background:
                    background = Background(cell, kind.period, self._clocks.monotonic)
                    if self._started:
                        background.start()
                    self._background[name] = background
            for name in [name for name in self._background if name not in cells]:
                self._background.pop(name).stop()
            self._cells = cells

    def start(self) -> None:
        """Start the background collectors, and probe and read the others once."""
        with self._lock:
            for background in self._background.values():
                background.start()
            self._started = True
        self.collect()

    def settle(self, timeout: float) -> None:
        """Wait until each background collector has run once, for ``timeout`` seconds at most."""
        deadline = self._clocks.monotonic() + timeout
        for background in list(self._background.values()):
            background.first_run.wait(max(0.0, deadline - self._clocks.monotonic()))

    def stop(self) -> None:
        """Begin nothing any more; returns at once."""
        self._lane.close()
        for background in list(self._background.values()):
            background.stop()

    def probe_again(self) -> None:
        """Probe every collector with its next run; those in the background run now."""
        for cell in list(self._cells.values()):
            cell.probe_soon()
        for background in list(self._background.values()):
            background.wake()

    def collect(self, names: Collection[str] | None = None, timeout: float | None = None) -> dict[str, Block]:
        """Values of the enabled collectors, by name; see `snapshots`."""
        return {name: snapshot.block for name, snapshot in self.snapshots(names, timeout).items()}

    def snapshots(self, names: Collection[str] | None = None, timeout: float | None = None) -> dict[str, Snapshot]:
        """Values of the enabled collectors and when they were read, by name; those that have none now are left out.

        Reads those without a period, sharing a reading that is under way or 100 ms old. A collector that does not
        answer in time is left out, and not asked again until it has answered.

        Parameters
        ----------
        names
            Which collectors; None means all that are enabled.
        timeout
            Seconds to wait; None means `RunnerSettings.timeout`.
        """
        asked = self._clocks.monotonic()
        timeout = self.settings.timeout if timeout is None else timeout
        cells = [cell for name, cell in self._cells.items() if names is None or name in names]
        if self._read([cell for cell in cells if cell.period is None], asked, timeout):
            with self._lock:
                self.incomplete += 1
        for cell in cells:
            if cell.period is not None:
                cell.check()
        found = ((cell.name, cell.snapshot(asked)) for cell in cells)
        return {name: snapshot for name, snapshot in found if snapshot is not None}

    def usable(self, name: str) -> bool:
        """Whether a collector runs and can work here, as far as its probe knows."""
        cell = self._cells.get(name)
        return cell is not None and cell.state().available

    def states(self) -> list[State]:
        """State of every collector, in order of name."""
        cells = self._cells
        states = []
        for name, kind in sorted(self._kinds.items()):
            if name in cells:
                states.append(cells[name].state())
            else:
                state = State(name, kind.help, kind.period, available=False)
                detail = f"switched off; --collector.{name} switches it on"
                states.append(replace(state, reason=Reason.DISABLED.value, detail=detail))
        return states

    def _maker(self, kind: type[Collector]) -> Callable[[], Collector]:
        return lambda: kind(self._make_host())

    def _read(self, cells: list[Cell], asked: float, timeout: float) -> int:
        """Read collectors; gives the number of those that were not ready in time."""
        waiting: list[tuple[Cell, Job]] = []
        fresh: list[Job] = []
        for cell in cells:
            job, new = cell.begin(max(timeout, self.settings.timeout))
            if job is not None:
                waiting.append((cell, job))
                if new:
                    fresh.append(job)
        if fresh:
            self._lane.submit(fresh)
        patience = min(_PATIENCE_SECONDS, timeout / 4)
        # The lane works in order: when the last one is done, usually all are, and this thread wakes only once.
        for _, job in reversed(waiting):
            self._wait(job, asked + timeout, patience)
        late = [(cell, job) for cell, job in waiting if not job.done.is_set()]
        for cell, job in late:
            cell.give_up(job)
        if late:
            # What hangs must not keep the next scrape's jobs waiting.
            self._lane.relieve(patience)
        return len(late)

    def _wait(self, job: Job, deadline: float, patience: float) -> None:
        while not (job.done.is_set() or job.abandoned):
            left = deadline - self._clocks.monotonic()
            if left <= 0:
                return
            if not job.done.wait(min(patience, left)):
                self._lane.relieve(patience)
