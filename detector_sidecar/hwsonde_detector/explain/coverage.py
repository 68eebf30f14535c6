"""How much of a stretch of time was really judged: without that, "nothing was found" says nothing. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hwsonde_detector.explain.windows import Windows, as_windows
from hwsonde_detector.types import Entity, Episode, Score, Times

# Two windows further apart than this many steps have a gap between them.
GAP_STEPS = 1.5
# A host was judged when at least these parts of its windows and of its channels were.
ENOUGH_WINDOWS = 0.95
ENOUGH_CHANNELS = 0.9
# One healthy window in a thousand passes 1 by chance; this many without an episode are no chance.
TOO_LOUD = 0.01
# The newest window of the present may be this old, and this many windows may be late, without anything being wrong.
LATE_MS, LATE_STEPS = 120_000, 4


@dataclass(frozen=True, slots=True)
class Coverage:
    """What was judged of one host.

    Attributes
    ----------
    entity, start_ms, end_ms
        Which host, and the time that counts: later than ``start_ms``, up to ``end_ms``.
    interval_ms
        Scrape interval; None where the host was not heard.
    expected, judged, uncalibrated
        Windows that the time holds, that were judged by a calibrated model, and by one that had not learned enough to count.
    channels
        Mean share of the channels that the judged windows looked at; 0 without such a window.
    gaps
        Stretches without a judged window, ``(from, to)`` in ms.
    loud
        Judged windows of at least 1 that belong to no episode.
    worst, worst_ms
        Largest score of the judged windows and its window's end; None without such a window.
    skipped
        Windows that were not judged, by reason.
    pace_ms
        Time from one window to the next; 0 where it is not known.
    """

    entity: Entity
    start_ms: int
    end_ms: int
    interval_ms: int | None
    expected: int
    judged: int
    uncalibrated: int
    channels: float
    gaps: tuple[tuple[int, int], ...]
    loud: int
    worst: float | None
    worst_ms: int | None
    skipped: Mapping[str, int]
    pace_ms: int = 0

    @property
    def windows(self) -> float:
        """Share of the expected windows that were judged (0..1)."""
        return min(self.judged / self.expected, 1.0) if self.expected else 0.0

    @property
    def enough(self) -> bool:
        """Whether "nothing was found" may be said of this host."""
        return self.windows >= ENOUGH_WINDOWS and self.channels >= ENOUGH_CHANNELS

    @property
    def calibrated(self) -> bool:
        """Whether any window was judged by a model that had learned enough."""
        return self.judged > 0

    @property
    def restless(self) -> bool:
        """Whether more windows passed 1 than chance explains."""
        return self.judged > 0 and self.loud > max(TOO_LOUD * self.judged, 1)

    @property
    def lost_ms(self) -> int | None:
        """Since when the host was not judged any more, to the end of its time; None where it was, but for what is always late."""
        if not self.gaps or not self.judged or self.gaps[-1][1] != self.end_ms:
            return None
        since_ms, end_ms = self.gaps[-1]
        return since_ms if end_ms - since_ms > max(LATE_MS, LATE_STEPS * self.pace_ms) else None


def coverage_of(
    entity: Entity,
    span: tuple[int, int],
    scores: Sequence[Score],
    interval_ms: int | None,
    step: int,
    skipped: Mapping[str, int],
    episodes: Sequence[Episode] = (),
) -> Coverage:
    """Coverage of one host.

    Parameters
    ----------
    entity
        The host.
    span
        Time that counts, ``(from, to)`` in ms; scores outside of it are passed over.
    scores
        Its windows, ascending.
    interval_ms
        Its scrape interval, None where it is not known.
    step
        Rows from one window to the next.
    skipped
        Windows that were not judged, by reason.
    episodes
        Those of the host.
    """
    start_ms, end_ms = span
    inside = as_windows(entity, scores).within(start_ms + 1, end_ms).finite()
    judged = inside.judged()
    pace = interval_ms * step if interval_ms else 0
    # Of equal ones the first.
    worst = int(judged.fused.argmax()) if len(judged) else None
    return Coverage(
        entity=entity,
        start_ms=start_ms,
        end_ms=end_ms,
        interval_ms=interval_ms,
        expected=(end_ms - start_ms) // pace if pace else 0,
        judged=len(judged),
        uncalibrated=len(inside) - len(judged),
        channels=float(judged.coverage.mean()) if len(judged) else 0.0,
        gaps=gaps(judged.ends_ms, span, pace),
        loud=_unexplained(judged, episodes),
        worst=float(judged.fused[worst]) if worst is not None else None,
        worst_ms=int(judged.ends_ms[worst]) if worst is not None else None,
        skipped=dict(sorted(skipped.items())),
        pace_ms=pace,
    )


def _unexplained(judged: Windows, episodes: Sequence[Episode]) -> int:
    loud = judged.ends_ms[judged.fused >= 1.0]
    for one in episodes:
        ended = loud > one.end_ms if one.end_ms is not None else np.zeros(len(loud), np.bool_)
        loud = loud[(loud < one.onset_ms) | ended]
    return len(loud)


def gaps(ends_ms: Sequence[int] | Times, span: tuple[int, int], pace_ms: int) -> tuple[tuple[int, int], ...]:
    """Stretches of a span without a window.

    Parameters
    ----------
    ends_ms
        Ends of the windows, ascending.
    span
        ``(from, to)`` in ms.
    pace_ms
        Time from one window to the next; 0 where it is not known: then the whole span is one gap unless there is a window.
    """
    start_ms, end_ms = span
    if not len(ends_ms):
        return ((start_ms, end_ms),) if end_ms > start_ms else ()
    if not pace_ms:
        return ()
    # The last window may end up to one pace before the end without anything being missing.
    edges = np.array([start_ms, end_ms], np.int64)
    marks = np.concatenate([edges[:1], np.asarray(ends_ms, np.int64), edges[1:]])
    wide = np.flatnonzero(np.diff(marks) > GAP_STEPS * pace_ms)
    return tuple((int(marks[place]), int(marks[place + 1])) for place in wide.tolist())


def shares(hosts: Sequence[Coverage]) -> tuple[float, float]:
    """Shares (0..1) of channels and of windows judged over all hosts.

    Every host counts alike in the windows, also one that was not heard at all; channels are those of the windows that were judged.
    """
    windows = sum(host.windows for host in hosts) / len(hosts) if hosts else 0.0
    counted = sum(host.judged for host in hosts)
    channels = sum(host.channels * host.judged for host in hosts) / counted if counted else 0.0
    return channels, windows
