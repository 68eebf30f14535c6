"""A lane: jobs one after the other on a thread, with a fresh thread where one job takes too long."""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable

from hwsonde_exporter.errors import ThreadError
from hwsonde_exporter.threads import spawn

_LOG = logging.getLogger(__name__)


class Job:
    """A piece of work that may be waited for.

    Attributes
    ----------
    work
        What to do; given the job.
    until
        Monotonic time after which it counts as hanging.
    done
        Set when the work has ended, however it ended.
    started
        Monotonic time at which the work began; None while it waits for its turn.
    abandoned
        Set by whoever no longer wants its result.
    """

    __slots__ = ("abandoned", "done", "started", "until", "work")

    def __init__(self, work: Callable[[Job], None], until: float) -> None:
        self.work = work
        self.until = until
        self.done = threading.Event()
        self.started: float | None = None
        self.abandoned = False


class Lane:
    """Runs jobs in the order in which they were given.

    One thread serves while all goes well. `relieve` puts a fresh thread in its place when the present job has run for
    too long; the old thread ends when its job returns, if it ever does.

    Parameters
    ----------
    clock
        Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._waiting: deque[Job] = deque()
        self._condition = threading.Condition()
        self._generation = 0
        self._current: Job | None = None
        self._served = self._short = False
        self._closed = False

    def submit(self, jobs: list[Job]) -> None:
        """Queue the jobs; returns at once."""
        with self._condition:
            if self._closed:
                return
            self._waiting.extend(jobs)
            self._serve_somehow()
            self._condition.notify()

    def relieve(self, patience: float) -> None:
        """Let a fresh thread take over what waits, if the present job has run for ``patience`` seconds or more."""
        with self._condition:
            job = self._current
            if self._closed:
                return
            if job is None or job.started is None:
                self._serve_somehow()
            elif self._clock() - job.started >= patience and self._start():
                self._current = None

    def close(self) -> None:
        """Take no more jobs; threads end when their present job returns."""
        with self._condition:
            self._closed = True
            self._waiting.clear()
            self._condition.notify_all()

    def _serve_somehow(self) -> None:
        if self._waiting and not self._served:
            self._start()

    def _start(self) -> bool:
        """Put a fresh thread in the place of the present one; False if there is none to be had, and then nothing changes."""
        try:
            spawn(f"lane-{self._generation + 1}", self._serve, self._generation + 1)
        except ThreadError as error:
            if not self._short:
                _LOG.error("%s; tried again with each scrape", error)
            self._short = True
            return False
        self._generation += 1
        self._served, self._short = True, False
        return True

    def _serve(self, generation: int) -> None:
        while True:
            with self._condition:
                while not self._waiting and generation == self._generation and not self._closed:
                    self._condition.wait()
                if generation != self._generation or self._closed:
                    return
                job = self._current = self._waiting.popleft()
                job.started = self._clock()
            try:
                job.work(job)
            finally:
                job.done.set()
                with self._condition:
                    if self._current is job:
                        self._current = None
