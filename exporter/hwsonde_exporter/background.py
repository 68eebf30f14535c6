"""A thread that runs one collector at its own period, so that what may block blocks nobody else."""

from __future__ import annotations

import threading
from collections.abc import Callable

from hwsonde_exporter.cell import Cell
from hwsonde_exporter.snapshot import STALE_PERIODS
from hwsonde_exporter.threads import launch


class Background:
    """Runs a cell every ``period`` seconds, beginning at once.

    Parameters
    ----------
    cell
        The collector under guard.
    period
        Seconds between the beginnings of two runs; a run that takes longer delays the next, runs are never made up for.
    clock
        Monotonic seconds.
    """

    def __init__(self, cell: Cell, period: float, clock: Callable[[], float]) -> None:
        self._cell = cell
        self._period = period
        self._clock = clock
        self._wake = threading.Event()
        self._stopped = False
        self.first_run = threading.Event()
        self._thread = threading.Thread(target=self._serve, name=f"collector-{cell.name}", daemon=True)

    def start(self) -> None:
        """Begin; returns at once. Raises `hwsonde_exporter.errors.ThreadError`."""
        launch(self._thread)

    def wake(self) -> None:
        """Run now instead of at the next period."""
        self._wake.set()

    def stop(self) -> None:
        """End after the present run; returns at once."""
        self._stopped = True
        self._wake.set()

    def _serve(self) -> None:
        due = self._clock()
        while not self._stopped:
            job, new = self._cell.begin(STALE_PERIODS * self._period)
            if job is not None and new:
                job.started = self._clock()
                try:
                    job.work(job)
                finally:
                    job.done.set()
            self.first_run.set()
            due = max(due + self._period, self._clock())
            self._wake.wait(max(0.0, due - self._clock()))
            if self._wake.is_set():
                self._wake.clear()
                due = self._clock()
