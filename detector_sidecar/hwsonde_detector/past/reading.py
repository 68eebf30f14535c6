"""The past as batches with the times of their ticks: out of a Prometheus, or out of a recorded archive.

Prometheus is read in bounded parts, whose size follows what comes back. What the worker is given must not depend on that, or a run that
was interrupted would end otherwise than one that was not: so the samples are dealt out in ticks of full minutes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hwsonde_detector.config import Config
from hwsonde_detector.connect import open_source
from hwsonde_detector.errors import ArchiveError, SourceError
from hwsonde_detector.past.batches import cut, join
from hwsonde_detector.service.wiring import make_plan
from hwsonde_detector.signals.profiles import Profile
from hwsonde_detector.sources.archive import ArchiveSource, Tick
from hwsonde_detector.sources.base import Read, Source
from hwsonde_detector.types import SampleBatch

TICK_MS = 60_000
"""Distance of ticks over what a Prometheus gives: short enough to see a host fall silent, long enough to cost little."""

# What may work at the next try, and how long to wait before it.
_PASSING = frozenset({"unreachable", "garbled", "partial"})
_PAUSES_S = (1.0, 5.0, 20.0)
_EARLIEST = np.iinfo(np.int64).min

log = logging.getLogger("hwsonde_detector.past")


@dataclass(frozen=True, slots=True)
class Position:
    """How far a reading has come: batches given so far, and the time of the last one's tick (None before the first)."""

    batches: int = 0
    now_ms: int | None = None


@dataclass(frozen=True, slots=True)
class How:
    """What a reading may be told besides.

    Attributes
    ----------
    step_ms
        None: samples as they were scraped; otherwise values on a grid (``query_range``). An archive has its own.
    profiles
        What is read; None: the configuration's.
    after
        Where an interrupted reading goes on.
    pause
        Waits for so many seconds before a failed read is tried again.
    """

    step_ms: int | None = None
    profiles: tuple[Profile, ...] | None = None
    after: Position = field(default_factory=Position)
    pause: Callable[[float], object] = time.sleep


def open_records(
    config: Config, start_ms: int, end_ms: int, archive: Path | None, learning_ms: int, how: How | None = None
) -> Iterator[tuple[SampleBatch, int]]:
    """Give the past in order of time.

    Parameters
    ----------
    config
        Which Prometheus and which profiles, where there is no archive.
    start_ms, end_ms
        The range: later than ``start_ms``, up to ``end_ms``.
    archive
        A recorded archive to read instead; its recorded starts (kept models) are passed over.
    learning_ms
        How much before ``start_ms`` is given, too, to be learned from.
    how
        The rest.

    Yields
    ------
    tuple
        Samples, and the time of the tick that they are scored at. No batch has samples on both sides of ``start_ms``, but for those
        of an archive.

    Raises
    ------
    SourceError
        A read failed several times; what was given until then is good.
    ArchiveError
        The archive cannot be read.
    ConfigError
        The profiles cannot be used.
    """
    how = how or How()
    since_ms = start_ms - learning_ms
    if archive is not None:
        yield from _recorded(ArchiveSource(archive), since_ms, end_ms, how.after)
        return
    profiles = how.profiles if how.profiles is not None else make_plan(config).profiles
    source = open_source(config, profiles)
    try:
        begin = since_ms if how.after.now_ms is None else how.after.now_ms
        yield from ticks(_reads(source, begin, end_ms, how), begin, start_ms, end_ms)
    finally:
        source.close()


def archive_range(path: Path) -> tuple[int, int]:
    """Just before the first sample of an archive, and the time of its last answer, ms.

    Raises
    ------
    ArchiveError
        It cannot be read, or holds no answer with a sample.
    """
    archive = ArchiveSource(path)
    span = archive.span()
    if span is not None:
        for record in archive.records():
            if isinstance(record, Tick) and record.read.batch.times.size:
                return int(record.read.batch.times.min()) - 1, span[1]
    raise ArchiveError(f"{path}: the archive holds no samples; record one by archive.record or `capture`")


def finer(
    records: Iterable[tuple[SampleBatch, int]], since_ms: int, until_ms: int, every_ms: int
) -> Iterator[tuple[SampleBatch, int]]:
    """The same records in shorter ticks up to a time: what is seen only once a tick is then known that exactly. Pure.

    Parameters
    ----------
    records
        Batches with the times of their ticks, ascending.
    since_ms
        All ticks are later.
    until_ms, every_ms
        Up to when they are made shorter, and how long they are then at most.
    """
    at = since_ms
    for batch, now_ms in records:
        edges = [*range(at + every_ms, min(now_ms, until_ms + 1), every_ms), now_ms]
        yield from zip(cut(batch, np.array([_EARLIEST, *edges], np.int64)), edges, strict=True)
        at = now_ms


def ticks(
    reads: Iterable[tuple[SampleBatch, int]], since_ms: int, start_ms: int, end_ms: int
) -> Iterator[tuple[SampleBatch, int]]:
    """Deal samples out in ticks of full minutes, however they were read. Pure.

    Parameters
    ----------
    reads
        Samples, and the time up to which they are complete, ascending; the last is complete up to ``end_ms``.
    since_ms
        All are later.
    start_ms
        No tick has samples on both sides of it.
    end_ms
        Time of the last tick.
    """
    rest, at = SampleBatch.empty(), since_ms
    for batch, until_ms in reads:
        rest = join(rest, batch)
        edges = _edges(at, until_ms, start_ms, end_ms)
        if not edges:
            continue
        # The last part is what must wait for the next read.
        *parts, rest = cut(rest, np.array([at, *edges, np.iinfo(np.int64).max], np.int64))
        yield from zip(parts, edges, strict=True)
        at = edges[-1]


def _edges(at: int, until_ms: int, start_ms: int, end_ms: int) -> list[int]:
    """Times of the ticks later than ``at``, up to ``until_ms``."""
    minutes = range((at // TICK_MS + 1) * TICK_MS, until_ms + 1, TICK_MS)
    return sorted({*minutes, *(one for one in (start_ms, end_ms) if at < one <= until_ms)})


def _reads(source: Source, since_ms: int, end_ms: int, how: How) -> Iterator[tuple[SampleBatch, int]]:
    """Answers with the time up to which they are complete; what fails is asked for again a few times.

    How far an answer reaches is known when the next one begins, so each is held back until then.
    """
    failures, answered = 0, False
    while since_ms < end_ms:
        held: Read | None = None
        try:
            for read in source.history(since_ms, end_ms, how.step_ms):
                answered = True
                if held is not None:
                    yield held.batch, read.since_ms
                    since_ms, failures = read.since_ms, 0
                held = read
        except SourceError as error:
            # A server that was never there is a wrong address.
            again = error.reason in _PASSING and (answered or error.reason != "unreachable")
            if not again or failures == len(_PAUSES_S):
                raise
            log.warning("%s; trying again", error)
            how.pause(_PAUSES_S[failures])
            failures += 1
        else:
            yield (held.batch if held is not None else SampleBatch.empty()), end_ms
            since_ms = end_ms


def _recorded(archive: ArchiveSource, since_ms: int, end_ms: int, after: Position) -> Iterator[tuple[SampleBatch, int]]:
    """Recorded ticks as they were; of the first one after the end only what belongs to the range."""
    given = 0
    for record in archive.records():
        if not isinstance(record, Tick) or record.now_ms <= since_ms:
            continue
        batch, now_ms = record.read.batch, record.now_ms
        if now_ms > end_ms:
            batch, now_ms = cut(batch, np.array([_EARLIEST, end_ms], np.int64))[0], end_ms
        given += 1
        if given > after.batches:
            yield batch, now_ms
        if record.now_ms > end_ms:
            return
    if archive.warning:
        log.warning("%s", archive.warning)
