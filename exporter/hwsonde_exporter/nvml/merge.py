"""Counts XIDs that two sources tell of: the driver's library and the kernel's log. What both tell counts once.

A source that tells of an event tells of it once, so of two reports of the same code on the same GPU from *different* sources,
at about the same time, one is taken for the other's twin. Each report has one twin at most: a burst of n told by both counts n.
Among the possible twins the oldest is taken. Reports of one source come in the order of their times, and then this gives the
greatest possible number of pairs (see the test, which tries all of them).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

# Between the interrupt, the library's event and the line in the log lie milliseconds; a driver that is busy with a lost GPU
# takes a second or two.
WINDOW_SECONDS = 5.0
# A report waits for its twin as long as the other source may be late in being read: a worker that hung, a busy host.
WAIT_SECONDS = 60.0
# Kept reports of one source and code: those of a minute of looks, one each. Beyond that neighbours are joined.
_MOST_WAITING = 256


class Source(StrEnum):
    """Who tells of an event; the label ``source``."""

    NVML = "nvml"
    KMSG = "kmsg"

    @property
    def other(self) -> Source:
        """The other one."""
        return Source.KMSG if self is Source.NVML else Source.NVML


class Key(NamedTuple):
    """What is counted: a code on the GPU at a PCI address (``0000:3b:00``)."""

    address: str
    code: int


@dataclass(slots=True)
class _Waiting:
    """Reports without a twin that happened between two times."""

    earliest: float
    latest: float
    count: int


@dataclass(slots=True)
class _Tally:
    """All that is known of one key."""

    total: int = 0
    last: float = 0.0
    waiting: dict[Source, deque[_Waiting]] = field(default_factory=lambda: {source: deque() for source in Source})


@dataclass(frozen=True, slots=True)
class Count:
    """How often a code was seen, and when last (Unix time); ``last`` is 0 for one that was not seen."""

    total: int
    last: float


class Merger:
    """Takes reports of both sources and gives the counts, which never decrease.

    Parameters
    ----------
    window
        Seconds by which the times of twins may differ.
    wait
        Seconds for which a report waits for its twin to be read.
    """

    def __init__(self, window: float = WINDOW_SECONDS, wait: float = WAIT_SECONDS) -> None:
        self._window = window
        self._wait = wait
        self._tallies: dict[Key, _Tally] = {}

    def __contains__(self, key: object) -> bool:
        """Whether the key was reported before."""
        return key in self._tallies

    def __len__(self) -> int:
        """How many keys were reported."""
        return len(self._tallies)

    def add(self, source: Source, key: Key, span: tuple[float, float], count: int = 1) -> int:
        """Take ``count`` reports of a key; gives how many of them are new events.

        Parameters
        ----------
        source
            Who reports.
        key
            What.
        span
            Unix times between which they happened. Neither end may lie before that of the source's last report of this key, or
            a pair may be missed.
        count
            How many.
        """
        tally = self._tallies.setdefault(key, _Tally())
        left = count - self._pair(tally.waiting[source.other], span, count)
        tally.total += left
        tally.last = max(tally.last, span[1])
        if left:
            self._keep(tally.waiting[source], span, left)
        return left

    def forget(self, now: float) -> None:
        """Let go of reports whose twin will not come any more at Unix time ``now``."""
        limit = now - self._wait - self._window
        for tally in self._tallies.values():
            for waiting in tally.waiting.values():
                while waiting and waiting[0].latest < limit:
                    waiting.popleft()

    def counts(self) -> Mapping[Key, Count]:
        """Every key that was reported."""
        return {key: Count(tally.total, tally.last) for key, tally in self._tallies.items()}

    def _pair(self, waiting: deque[_Waiting], span: tuple[float, float], count: int) -> int:
        """How many of ``count`` reports have a twin among those that wait; takes the twins away, the oldest first."""
        earliest, latest = span[0] - self._window, span[1] + self._window
        paired = 0
        for entry in waiting:
            if entry.earliest > latest or paired == count:
                break
            if entry.latest >= earliest:
                taken = min(entry.count, count - paired)
                entry.count -= taken
                paired += taken
        if paired:
            remaining = [entry for entry in waiting if entry.count]
            waiting.clear()
            waiting.extend(remaining)
        return paired

    @staticmethod
    def _keep(waiting: deque[_Waiting], span: tuple[float, float], count: int) -> None:
        last = waiting[-1] if waiting else None
        if last is not None and (span == (last.earliest, last.latest) or len(waiting) >= _MOST_WAITING):
            last.latest = max(last.latest, span[1])
            last.count += count
            return
        waiting.append(_Waiting(*span, count))
