"""When to read next, what stretch to read, and what time it is where the data live. Pure: clocks and answers are passed in."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hwsonde_detector.types import SampleBatch


@dataclass(slots=True)
class Pace:
    """Aims each tick just after the scrape that it waits for.

    Parameters
    ----------
    fixed_ms
        Distance of ticks; None follows the scrape.

    Notes
    -----
    Following: the next scrape is expected one interval after the newest sample. A sample can be read only when its scrape is over and
    stored, so the tick comes ``margin_ms`` later. A read that finds nothing new is repeated twice at short distance; if that finds the sample, it
    came late and the margin grows to what was needed, otherwise the target is silent and the margin stays. With several
    targets at different phases the newest one sets the pace and the others wait for less than an interval.
    """

    MARGIN_MS: ClassVar[float] = 120.0
    RETRIES: ClassVar[int] = 2

    fixed_ms: int | None = None
    interval_ms: int = 1000
    margin_ms: float = 120.0
    _newest_ms: int | None = None
    _planned_ms: float | None = None
    _retries: int = 0
    _silent: int = 0

    @property
    def tick_ms(self) -> int:
        """Distance of two ticks."""
        return self.fixed_ms or self.interval_ms

    def observe(self, newest_ms: int | None, interval_ms: int | None, asked_ms: int) -> None:
        """Learn from a read at ``asked_ms`` whose newest sample is ``newest_ms``."""
        self.interval_ms = interval_ms or self.interval_ms
        found = newest_ms is not None and (self._newest_ms is None or newest_ms > self._newest_ms)
        if found and newest_ms is not None:
            if self._retries:
                self.margin_ms = min(max(self.margin_ms, float(asked_ms - newest_ms)), self.interval_ms / 2, 2000.0)
            else:
                self.margin_ms = max(self.MARGIN_MS, self.margin_ms * 0.99)
            self._newest_ms, self._retries, self._silent = newest_ms, 0, 0
        elif self._retries < self.RETRIES and self._silent < self.RETRIES:
            self._retries += 1
        else:
            self._retries, self._silent = 0, self._silent + 1

    def rest(self) -> None:
        """Forget what was planned: the time that passes now is not lateness (a back-off, a catch-up)."""
        self._planned_ms = None

    def plan(self, now_ms: int) -> tuple[float, int]:
        """Time of the next tick, later than ``now_ms``, and how many due ticks are skipped because the last one took so long."""
        if self.fixed_ms is not None:
            origin, step = self._planned_ms if self._planned_ms is not None else now_ms, float(self.fixed_ms)
        elif self._newest_ms is None:
            origin, step = now_ms, float(self.interval_ms)
        else:
            origin, step = self._newest_ms + self.margin_ms, float(self.interval_ms)
            if self._retries:
                return now_ms + min(max(self.interval_ms / 10, 100.0), 1000.0), 0
        due = origin + step * max(1, math.floor((now_ms - origin) / step) + 1)
        # A moved clock is no late tick.
        between = (due - self._planned_ms) / step if self._planned_ms is not None else 1.0
        skipped = max(0, round(between) - 1) if between < 3600 else 0
        self._planned_ms = due
        return due, skipped


@dataclass(slots=True)
class Cursor:
    """Which stretch of time the next read asks for.

    Parameters
    ----------
    position_ms
        All samples up to here were seen.
    longest_ms
        Bound of one read.
    samples
        About how many samples one answer should hold: a long catch-up is split accordingly.

    Notes
    -----
    A sample bears the time at which its scrape began, and can be read once the scrape is over: up to an interval later. Every read of
    the present overlaps the one before by the shortest interval and a second. That is too little for a target that is scraped seldom and answers
    slowly, and to read all targets so far back each time would cost many times as much: so every sixth of the longest interval one
    read goes back to that interval before the last such read.
    """

    WIDEST_MS: ClassVar[int] = 300_000

    position_ms: int
    longest_ms: int
    samples: int = 500_000
    _stretch_ms: float = 60_000.0
    _wide: bool = False
    _wide_ms: int | None = None

    def span(self, now_ms: int, interval_ms: int, slowest_ms: int = 0) -> tuple[int, int]:
        """``(since, until)`` of the next read; ``until`` is before ``now_ms`` while catching up.

        Parameters
        ----------
        now_ms
            The time of the read.
        interval_ms, slowest_ms
            The shortest and the longest scrape interval.
        """
        # At most half a read, so that every read of the past moves on.
        overlap = min(interval_ms + 1000, self.longest_ms // 2)
        position = min(self.position_ms, now_ms)
        since = position - overlap
        stretch = int(min(self.longest_ms, max(self._stretch_ms, 3.0 * overlap)))
        self._wide = False
        if now_ms - since > stretch:
            return since, since + stretch
        slowest = min(slowest_ms, self.WIDEST_MS)
        last = position if self._wide_ms is None else min(self._wide_ms, position)
        if slowest > interval_ms + 1000 and (self._wide_ms is None or now_ms - self._wide_ms >= slowest / 6):
            self._wide = True
            since = min(since, max(last - slowest - 1000, now_ms - stretch))
        return since, now_ms

    def forget_before(self, oldest_ms: int) -> None:
        """Give up what lies before: nobody wants to wait for it any more."""
        self.position_ms = max(self.position_ms, oldest_ms)

    def shrink(self) -> None:
        """Ask for less at once: the last read failed, perhaps because its answer was too large."""
        self._stretch_ms = max(self._stretch_ms / 2, 10_000.0)

    def advance(self, batch: SampleBatch, since_ms: int, until_ms: int, *, behind: bool) -> None:
        """Move on after the answer to ``(since_ms, until_ms]``; ``behind`` says that it was a stretch of the past."""
        if batch.times.size:
            self.position_ms = max(self.position_ms, min(int(batch.times.max()), until_ms))
            per_ms = batch.times.size / max(until_ms - since_ms, 1)
            self._stretch_ms = min(max(self.samples / per_ms, 10_000.0), float(self.longest_ms))
        elif behind:
            self._stretch_ms = float(self.longest_ms)
        if behind:
            self.position_ms = max(self.position_ms, until_ms)
        if behind or self._wide:
            self._wide_ms = until_ms


@dataclass(slots=True)
class Slowest:
    """The longest scrape interval of all series, as the reads show it: a host may have targets that are scraped less often than its main one."""

    KEPT_MS: ClassVar[int] = 600_000
    NONE_MS: ClassVar[int] = 1 << 62

    interval_ms: int = 0
    _seen_ms: int = 0

    def observe(self, batch: SampleBatch, now_ms: int) -> None:
        """Learn from a read; what no read confirms for `KEPT_MS` is forgotten."""
        found = self._longest(batch)
        # Scrapes are not to the millisecond.
        if found >= 0.9 * self.interval_ms or now_ms - self._seen_ms > self.KEPT_MS:
            self.interval_ms, self._seen_ms = found, now_ms

    def _longest(self, batch: SampleBatch) -> int:
        """Longest of the shortest distances of neighbours in each series, which a missed scrape does not lengthen; 0 without any."""
        starts = batch.offsets[:-1][np.diff(batch.offsets) > 0]
        if not starts.size:
            return 0
        gaps = np.append(np.diff(batch.times), self.NONE_MS)
        gaps[starts[1:] - 1] = self.NONE_MS
        shortest = np.minimum.reduceat(gaps, starts)
        return int(shortest[shortest < self.NONE_MS].max(initial=0))


@dataclass(slots=True)
class Timeline:
    """The time to ask the source for: the wall clock, but not back with it.

    After the clock jumped back the data's own time goes on with the monotonic clock from the newest sample, for at most ``ahead_ms``:
    a source elsewhere still has new samples there, and a source on this machine gets none before the clock has caught up.
    """

    ahead_ms: int = 240_000
    _wall_ms: int | None = None
    _monotonic: float = 0.0
    _told_ms: int | None = None
    _newest_ms: int | None = None
    _newest_at: float = 0.0

    def now_ms(self, wall_ms: int, monotonic: float) -> tuple[int, int]:
        """``(time, jump)``: by how many ms the wall clock went back since the last call, 0 for less than a second."""
        jump = 0
        if self._wall_ms is not None:
            expected = self._wall_ms + (monotonic - self._monotonic) * 1000
            jump = int(expected - wall_ms) if expected - wall_ms > 1000 and wall_ms < self._wall_ms else 0
        self._wall_ms, self._monotonic, told = wall_ms, monotonic, wall_ms
        if self._newest_ms is not None:
            elapsed = int((monotonic - self._newest_at) * 1000)
            told = max(wall_ms, self._newest_ms + min(elapsed, self.ahead_ms))
        self._told_ms = told
        return told, jump

    def observe(self, newest_ms: int, monotonic: float) -> None:
        """A sample of this time was read; it moves the time on no further than to what was told last."""
        if self._told_ms is not None:
            newest_ms = min(newest_ms, self._told_ms)
        if self._newest_ms is None or newest_ms > self._newest_ms:
            self._newest_ms, self._newest_at = newest_ms, monotonic


@dataclass(slots=True)
class SourceClock:
    """What time it is by the clock that stamps the samples, told from samples that come in step with time.

    Two reads of the present whose newest samples are as far apart as the reads show that the source lives, and so how its clock differs from
    ours. One read shows nothing: an old sample may be the last one of a source that fell silent.
    """

    _newest_ms: int | None = None
    _newest_at: float = 0.0
    _in_step: bool = False

    def observe(self, newest_ms: int, monotonic: float, tolerance_ms: float) -> None:
        """A read of the present brought this newest sample; ``tolerance_ms`` is how unevenly samples may come."""
        if self._newest_ms is not None:
            step = newest_ms - self._newest_ms
            if step <= 0:
                return
            self._in_step = abs(step - (monotonic - self._newest_at) * 1000) <= tolerance_ms
        self._newest_ms, self._newest_at = newest_ms, monotonic

    def rest(self) -> None:
        """Forget everything: the past is read now."""
        self._newest_ms, self._in_step = None, False

    def now_ms(self, monotonic: float) -> int | None:
        """Time there, None where it is not known."""
        if self._newest_ms is None or not self._in_step:
            return None
        return self._newest_ms + round((monotonic - self._newest_at) * 1000)
