"""Recording a source for a while, without scoring it."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from hwsonde_detector.errors import SourceError
from hwsonde_detector.sources.archive import ArchiveRecorder
from hwsonde_detector.sources.base import Source

_OVERLAP_MS = 1000
# A target that is scraped once a minute may answer as late as that: now and then a read goes so far back.
_WIDE_MS = 61_000
_WIDE_EVERY_MS = 10_000

logger = logging.getLogger("hwsonde_detector.capture")


@dataclass(frozen=True, slots=True)
class Captured:
    """What was recorded, and how many reads failed."""

    reads: int
    samples: int
    failures: int


def capture(
    source: Source,
    recorder: ArchiveRecorder,
    length_ms: int,
    every_ms: int,
    now_ms: Callable[[], int],
    pause: Callable[[float], bool],
) -> Captured:
    """Read and record until the time is over.

    Parameters
    ----------
    source, recorder
        From where, to where.
    length_ms, every_ms
        How long, and how often.
    now_ms
        The wall clock.
    pause
        Waits for so many seconds; True ends the recording early.
    """
    began = at = now_ms()
    first = since = began - every_ms - _OVERLAP_MS
    wide = began
    reads = samples = failures = 0
    failing = False
    while not recorder.stopped:
        try:
            read = source.read(since, at)
        except SourceError as error:
            failures += 1
            if not failing:
                logger.warning("%s", error)
            failing = True
        else:
            recorder.record(at, read)
            reads, samples, failing = reads + 1, samples + read.batch.times.size, False
            # Reads overlap: a scrape that took long is stored after others that began later.
            since = at - every_ms - _OVERLAP_MS
        due = at + every_ms
        if due - wide >= _WIDE_EVERY_MS:
            since, wide = max(min(since, due - _WIDE_MS), first), due
        if due > began + length_ms or pause(max(due - now_ms(), 0) / 1000):
            break
        at = max(now_ms(), at + 1)
    return Captured(reads, samples, failures)
