"""One collector under guard: it is probed, run, timed, bounded, and whatever it does is caught and counted."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from traceback import extract_tb

from hwsonde_exporter.errors import CollectorError, Unavailable
from hwsonde_exporter.exposition import Block
from hwsonde_exporter.guard import Guard
from hwsonde_exporter.lanes import Job
from hwsonde_exporter.privacy import SHOW, Privacy
from hwsonde_exporter.registry import Collector
from hwsonde_exporter.selection import EVERYTHING, Selection
from hwsonde_exporter.snapshot import COALESCE_SECONDS, Snapshot
from hwsonde_exporter.state import State

_LOG = logging.getLogger(__name__)

PROBE_SECONDS = 60.0
# These exist at zero from the start: `increase()` would miss the first error of a series that begins with it.
_COUNTED_FROM_START = ("read_error", "timeout", "exception")


@dataclass(frozen=True, slots=True)
class Clocks:
    """Where time comes from: ``monotonic`` seconds and ``wall`` seconds since the epoch."""

    monotonic: Callable[[], float]
    wall: Callable[[], float]


class Cell:
    """Holds one collector and all that is known of it.

    At most one run is under way at any time; a run that hangs keeps its thread, and no other is begun until it returns.

    Parameters
    ----------
    kind
        The collector's class.
    make
        Makes the collector; called on the thread of the first run.
    limit
        Greatest number of series that it may give.
    clocks
        Where time comes from.
    selection
        Which metrics are published.
    privacy
        What becomes of personal labels.
    """

    def __init__(
        self,
        kind: type[Collector],
        make: Callable[[], Collector],
        limit: int,
        clocks: Clocks,
        selection: Selection = EVERYTHING,
        privacy: Privacy = SHOW,
    ) -> None:
        self.name = kind.name
        self.period = kind.period
        self.guard = Guard(kind.metrics, limit, selection, privacy)
        self._make = make
        self._clocks = clocks
        self._collector: Collector | None = None
        self._lock = threading.Lock()
        self._job: Job | None = None
        self._given_up = False
        self._next_probe = float("-inf")
        self._finished = float("-inf")
        self._snapshot: Snapshot | None = None
        self._errors: Counter[str] = Counter(dict.fromkeys(_COUNTED_FROM_START, 0))
        self._dropped: Counter[str] = Counter()
        self._state = State(kind.name, kind.help, kind.period, available=True)
        self._condition = ""

    def begin(self, allowed: float) -> tuple[Job | None, bool]:
        """Give the job to wait for, and whether it is new and must be given to a thread.

        A new one may take ``allowed`` seconds, however long those who join it are ready to wait.

        The job is None if there is nothing to wait for: the values were read a moment ago, the collector cannot work
        here and is not due for a probe, or its latest run hangs.
        """
        with self._lock:
            if self._job is not None:
                return (None if self._given_up else self._job), False
            now = self._clocks.monotonic()
            if now < self._next_probe and (not self._state.available or now - self._finished <= COALESCE_SECONDS):
                return None, False
            self._given_up = False
            self._job = Job(self._run, now + allowed)
            return self._job, True

    def give_up(self, job: Job) -> None:
        """Wait no longer for a run that has used up its time; it is counted once, and its values will not be used."""
        now = self._clocks.monotonic()
        with self._lock:
            if self._job is not job or job.started is None or self._given_up or now < job.until:
                return
            self._given_up = True
            # Of a background collector a late answer is still the newest one; of the others nobody waits for it.
            job.abandoned = self.period is None
            self._errors["timeout"] += 1
            self._fail("timeout", f"no answer within {now - job.started:.2g} s")

    def probe_soon(self) -> None:
        """Let the next run begin with a probe."""
        with self._lock:
            self._next_probe = float("-inf")

    def snapshot(self, asked: float) -> Snapshot | None:
        """The values that may be published for a scrape that asked at monotonic time ``asked``, with their time."""
        with self._lock:
            snapshot = self._snapshot
            if snapshot is None or not self._state.available or not snapshot.fresh(asked, self.period):
                return None
            return snapshot

    def state(self) -> State:
        """Everything that is known now."""
        with self._lock:
            hanging = None
            if self._given_up and self._job is not None and self._job.started is not None:
                hanging = self._clocks.monotonic() - self._job.started
            collector = self._collector
            return replace(
                self._state,
                hanging=hanging,
                errors=dict(self._errors),
                dropped=dict(self._dropped),
                rejected=collector.host.rejections.count if collector is not None else 0,
            )

    def check(self) -> None:
        """Give the present run up if it has used up its time."""
        job = self._job
        if job is not None:
            self.give_up(job)

    def _run(self, job: Job) -> None:
        began = self._clocks.monotonic()
        try:
            outcome = self._attempt(began)
        except Unavailable as error:
            self._finish(job, began, partial(self._close_down, error, counted=True))
        except CollectorError as error:
            self._finish(job, began, partial(self._count, "read_error", error))
        except BaseException as error:  # noqa: BLE001  (even one that calls sys.exit must harm no other)
            self._finish(job, began, partial(self._count, "exception", error))
        else:
            self._finish(job, began, partial(self._succeed, *outcome) if outcome is not None else _nothing)

    def _attempt(self, began: float) -> tuple[Block, dict[str, int]] | None:
        if self._collector is None:
            self._collector = self._make()
        if began >= self._next_probe:
            self._next_probe = began + PROBE_SECONDS
            try:
                self._collector.probe()
            except Unavailable as error:
                with self._lock:
                    self._close_down(error, counted=False)
                return None
            with self._lock:
                self._state = replace(self._state, available=True, reason="", detail="")
        if not self._state.available:
            return None
        block, dropped = self.guard.block(self._collector.collect())
        return block, dict(dropped)

    def _finish(self, job: Job, began: float, record: Callable[[], None]) -> None:
        ended = self._clocks.monotonic()
        with self._lock:
            self._job = None
            self._given_up = False
            if job.abandoned:
                # The scrape that asked is gone, and nobody knows when these values were true.
                return
            self._finished = ended
            self._state = replace(self._state, duration=ended - began)
            record()

    def _succeed(self, block: Block, dropped: dict[str, int]) -> None:
        wall = self._clocks.wall()
        self._snapshot = Snapshot(block, self._finished, wall)
        self._dropped.update(dropped)
        self._state = replace(self._state, success=True, problem="", last_success=wall, series=block.shape.size)
        condition = (
            "ok"
            if not dropped
            else "ok, but samples are dropped: "
            + ", ".join(f"{reason} {count}" for reason, count in sorted(dropped.items()))
        )
        self._note(condition, logging.WARNING if dropped else logging.INFO)

    def _count(self, reason: str, error: BaseException) -> None:
        self._errors[reason] += 1
        text = str(error) or type(error).__name__
        if reason == "exception":
            frame = extract_tb(error.__traceback__)[-1]
            text = f"{type(error).__name__}: {text} ({frame.filename.rpartition('/')[2]}:{frame.lineno})"
        self._fail(reason, " ".join(text.split()))

    def _fail(self, reason: str, problem: str) -> None:
        self._state = replace(self._state, success=False, problem=f"{reason}: {problem}")
        self._note(f"failing ({reason}): {problem}", logging.WARNING, key=f"failing {reason}")

    def _close_down(self, error: Unavailable, *, counted: bool) -> None:
        """Note that the collector cannot work here; found by a probe, that is no error."""
        if counted:
            self._errors[error.reason.value] += 1
            self._next_probe = self._clocks.monotonic() + PROBE_SECONDS
        self._snapshot = None
        self._state = replace(
            self._state,
            available=False,
            reason=error.reason.value,
            detail=error.detail,
            success=None,
            problem="",
            series=0,
        )
        self._note(
            f"cannot work here ({error.reason}): {error.detail}", logging.INFO, key=f"unavailable {error.reason}"
        )

    def _note(self, condition: str, level: int, key: str = "") -> None:
        """Write one line for each change of condition, never for each scrape."""
        key = key or condition
        if key == self._condition:
            return
        if not self._condition and key == "ok":
            level = logging.DEBUG  # that a collector works from the start is no news
        self._condition = key
        _LOG.log(level, "collector %s: %s", self.name, condition)


def _nothing() -> None:
    """Record nothing: the run ended with the finding that the collector cannot work here."""
