"""How scrapes come: lost ones, uneven ones, a host that is silent, and a clock that differs from the server's. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from hwsonde_detector.detectors.faults.columns import EVENT_MS, Now
from hwsonde_detector.detectors.faults.view import HOST, TARGET, Target
from hwsonde_detector.settings import DataFaultSettings
from hwsonde_detector.types import Device, FaultEvidence

PATIENT_SCRAPES = 10
# A scrape is lost when the next one comes later than this many intervals; at least so many lost in a row weigh as one whole event.
_LOST_INTERVALS = 1.75
_WHOLE_EVENT = 4
# The distance of two scrapes is uneven when it is so far from a multiple of the interval.
_UNEVEN, _UNEVEN_STEP, _UNEVEN_WEIGHT, _UNEVEN_TOLD = 0.25, 1 / 32, 0.5, 0.25
# What is not yet sure stays just below the threshold.
_ALMOST = 0.99
_EVENTS_MOST = 2.0
# A clock that moves by more than this against the server's between two scrapes was set.
_STEP_S = 1.0
# A target is missed this many times as long as a device before it counts: an upgrade by hand takes a while.
_TARGET_PATIENCE = 4.0


@dataclass(slots=True)
class FlowBook:
    """What is known of the scrapes of one target; times in milliseconds, offsets in seconds.

    Attributes
    ----------
    lost_hits, lost, lost_ms
        Gaps, weighed and forgotten in time, the scrapes lost in them, and when the first began.
    run, run_ms
        Scrapes that have failed in a row, and when the first did.
    uneven
        Share of the last scrapes that came at uneven times.
    up, up_ms
        What the server said last of a scrape, None where it says nothing, and when.
    offset, scrape_s
        The clock's offset at the newest scrape, None before.
    skew_ms, skew_since, steps, step_count, step_ms
        How long the clock has been off, since when; steps, weighed and forgotten in time, their number, and when the first was.
    """

    lost_hits: float = 0.0
    lost: int = 0
    lost_ms: int = 0
    run: int = 0
    run_ms: int = 0
    uneven: float = 0.0
    up: float | None = None
    up_ms: int = 0
    offset: float | None = None
    skew_ms: float = 0.0
    skew_since: int = 0
    steps: float = 0.0
    step_count: int = 0
    step_ms: int = 0


def take_ups(book: FlowBook, times: Sequence[int], values: Sequence[float], *, restarted: bool, events: int) -> None:
    """Count scrapes that failed, but not those before a start of the exporter or of the host; what is read again changes nothing."""
    for time, value in zip(times, values, strict=True):
        if time <= book.up_ms:
            continue
        if value == 0.0:
            book.run_ms = time if book.run == 0 else book.run_ms
            book.run += 1
        elif value > 0.0:
            if book.run and not restarted:
                _lose(book, book.run, book.run_ms, events)
            book.run = 0
        book.up, book.up_ms = value, time


def _lose(book: FlowBook, scrapes: int, since_ms: int, events: int) -> None:
    book.lost_ms = since_ms if book.lost_hits == 0.0 else book.lost_ms
    book.lost_hits = min(book.lost_hits + min(scrapes, _WHOLE_EVENT) / _WHOLE_EVENT, _EVENTS_MOST * events)
    book.lost += scrapes


def take_scrapes(
    book: FlowBook, recent: Sequence[int], before_ms: int, now: Now, *, restarted: bool, events: int
) -> None:
    """Look at the distances of the scrapes after ``before_ms``; gaps count only where the server does not tell of failed scrapes."""
    book.lost_hits = max(book.lost_hits - now.elapsed_ms / EVENT_MS, 0.0)
    if book.lost_hits == 0.0:
        book.lost = 0
    if now.interval_ms <= 0:
        return
    for earlier, later in pairwise(recent):
        if later <= before_ms:
            continue
        intervals = (later - earlier) / now.interval_ms
        uneven = abs(intervals - round(intervals)) > _UNEVEN or round(intervals) == 0
        book.uneven += (float(uneven) - book.uneven) * _UNEVEN_STEP
        if intervals > _LOST_INTERVALS and book.up is None and not restarted:
            _lose(book, round(intervals) - 1, earlier, events)


def gap(
    book: FlowBook, newest_ms: int, now_ms: int, gone_after_ms: int, now: Now, settings: DataFaultSettings
) -> list[FaultEvidence]:
    """Evidence of lost scrapes and of silence.

    A host that is down, or starts, is told by others (the server knows that it cannot be scraped); silence alone stays below the
    threshold until the host is gone.
    """
    result = []
    host = Device(HOST, "")
    uneven = _UNEVEN_WEIGHT * book.uneven if book.uneven > _UNEVEN_TOLD else 0.0
    score = book.lost_hits / settings.events + uneven
    if score > 0.0:
        since = book.lost_ms if book.lost_hits > 0.0 else newest_ms
        result.append(FaultEvidence(host, score, since, book.lost, value=book.uneven))
    silent = _silent_ms(book, newest_ms, now_ms, now.interval_ms)
    if silent > 0:
        share = min(silent / max(gone_after_ms, 1), 1.0) * _ALMOST
        result.append(FaultEvidence(host, share, newest_ms, book.run, "silent"))
    return result


def _silent_ms(book: FlowBook, newest_ms: int, now_ms: int, interval_ms: int) -> int:
    if book.up is None:
        silent = now_ms - newest_ms
        return silent if silent > 3 * max(interval_ms, 1) else 0
    # Where the server has stopped to ask, the target was taken away, or the server itself was down.
    return book.up_ms - newest_ms if book.up == 0.0 and book.run > 1 else 0


def target_away(
    book: FlowBook, target: Target, newest_ms: int, other_ms: int, now: Now, settings: DataFaultSettings
) -> list[FaultEvidence]:
    """Evidence of a target that cannot be scraped while another one of its host (newest scrape ``other_ms``) can."""
    away = book.up_ms - newest_ms
    if book.up != 0.0 or book.run < 2 or other_ms <= newest_ms:
        return []
    patience = _TARGET_PATIENCE * max(settings.missing_ms, 5 * now.interval_ms)
    name = "/".join(part for part in target if part)
    return [FaultEvidence(Device(TARGET, name), away / patience, newest_ms, book.run)]


def take_clock(book: FlowBook, offset: float, scrape_s: float, now: Now, settings: DataFaultSettings) -> None:
    """Take by how many seconds the host's clock is ahead of the scrape's time; reading may have taken up to ``scrape_s``."""
    if book.offset is not None and abs(offset - book.offset) > _STEP_S + scrape_s:
        book.step_ms = now.ref_ms if book.steps == 0.0 else book.step_ms
        book.steps = min(book.steps + 1.0, _EVENTS_MOST * settings.events)
        book.step_count += 1
    book.offset = offset - scrape_s if offset > scrape_s else min(offset, 0.0)
    off = abs(book.offset) * 1000.0 >= settings.skew_ms
    if off and book.skew_ms == 0.0:
        book.skew_since = now.ref_ms
    patience = sustained(now, settings)
    book.skew_ms = min(max(book.skew_ms + (now.elapsed_ms if off else -now.elapsed_ms), 0.0), 2.0 * patience)
    book.steps = max(book.steps - now.elapsed_ms / EVENT_MS, 0.0)
    if book.steps == 0.0:
        book.step_count = 0


def skew(book: FlowBook, now: Now, settings: DataFaultSettings) -> list[FaultEvidence]:
    """Evidence of a clock that is off, or was set again and again."""
    if book.offset is None:
        return []
    ratio = abs(book.offset) * 1000.0 / settings.skew_ms
    held = book.skew_ms / sustained(now, settings)
    steps = book.steps / settings.events
    level = ratio if held >= 1.0 else min(ratio, _ALMOST)
    score = max(level, steps)
    if score < 0.1:
        return []
    since = book.skew_since if level >= steps and book.skew_ms > 0.0 else book.step_ms or now.ref_ms
    return [FaultEvidence(Device(HOST, ""), score, since, book.step_count, "clock", book.offset, 0.0)]


def sustained(now: Now, settings: DataFaultSettings) -> float:
    """How long something must last to count, in milliseconds."""
    return max(float(settings.sustained_ms), float(PATIENT_SCRAPES * now.interval_ms))
