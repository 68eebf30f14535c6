"""Figures of a stretch of time for those who plan: how many incidents, how soon told of, how soon over, how many pages. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from hwsonde_detector.incidents.entry import Entry, Mark
from hwsonde_detector.incidents.watchtime import DAY_MS, WatchedDays

FORMAT = "hwsonde kpi 1"
_HOUR_MS = 3_600_000
_MOST_HOSTS = 20


@dataclass(frozen=True, slots=True)
class Span:
    """The range: from, and up to but not including; ms.

    ``known_ms`` is until when it is known that open incidents last (None: to the end), ``kept_ms`` since when incidents are kept.
    """

    start_ms: int
    end_ms: int
    known_ms: int | None = None
    kept_ms: int = 0


def figures(entries: Iterable[Entry], span: Span, watched: WatchedDays, version: str) -> dict[str, Any]:
    """The document.

    Parameters
    ----------
    entries
        Incidents that are kept, open ones among them, also others than those of the range.
    span
        Those that were told of in it count.
    watched
        How long hosts were judged by scores that count. The rate of pages is of the part of the range of which both this and the incidents are kept.
    version
        Of the program.
    """
    told = [entry for entry in entries if span.start_ms <= entry.told_ms < span.end_ms]
    paged = [entry for entry in told if entry.paged]
    rate_ms = _rate_ms(span, watched)
    days = watched.live_ms(rate_ms, span.end_ms) / DAY_MS if rate_ms is not None else 0.0
    shadow_days = watched.shadow_ms(rate_ms, span.end_ms) / DAY_MS if rate_ms is not None else 0.0
    counted = sum(rate_ms is not None and entry.told_ms >= rate_ms for entry in paged)
    useful = sum(entry.mark is Mark.USEFUL for entry in paged)
    noise = sum(entry.mark is Mark.NOISE for entry in paged)
    closed = [entry for entry in paged if entry.end_ms is not None]
    return {
        "format": FORMAT,
        "version": version,
        "start_ms": span.start_ms,
        "end_ms": span.end_ms,
        "hosts": watched.hosts,
        "node_days": round(days, 3),
        "shadow_node_days": round(shadow_days, 3),
        "incidents": len(paged),
        "normal": sum(bool(entry.normal) for entry in told),
        "shadow": sum(entry.shadow and not entry.normal for entry in told),
        "open": len(paged) - len(closed),
        "known_ms": _known_ms(span),
        "pages_per_100_node_days": round(counted * 100 / days, 3) if days else None,
        "rate_from_ms": rate_ms,
        "rate_incidents": counted,
        "detect_ms": _spread([entry.told_ms - entry.onset_ms for entry in paged]),
        "resolve_ms": _spread([entry.end_ms - entry.onset_ms for entry in closed if entry.end_ms is not None]),
        "host_hours": round(sum(_lasted(entry, span) for entry in paged) / _HOUR_MS, 3),
        "useful": useful,
        "noise": noise,
        "useful_share": useful / (useful + noise) if useful + noise else None,
        "by_subsystem": _grouped(paged, span, lambda entry: entry.subsystem),
        "by_host": _grouped(paged, span, lambda entry: entry.host)[:_MOST_HOSTS],
        "by_scope": _grouped(paged, span, lambda entry: entry.scope),
    }


def _rate_ms(span: Span, watched: WatchedDays) -> int | None:
    """From when on incidents and node-days of the range are kept; None where none of it is."""
    if watched.from_ms is None:
        return None
    from_ms = max(span.start_ms, span.kept_ms, watched.from_ms)
    return from_ms if from_ms < span.end_ms else None


def _known_ms(span: Span) -> int:
    return span.known_ms if span.known_ms is not None else span.end_ms


def _lasted(entry: Entry, span: Span) -> int:
    open_ms = _known_ms(span)
    end_ms = min(entry.end_ms if entry.end_ms is not None else open_ms, span.end_ms)
    return max(end_ms - max(entry.onset_ms, span.start_ms), 0)


def _spread(values: Sequence[int]) -> dict[str, int] | None:
    """Median, nine of ten, and the longest; None without any."""
    if not values:
        return None
    ordered = sorted(values)
    return {
        "median": ordered[(len(ordered) - 1) // 2],
        "p90": ordered[min(-(-len(ordered) * 9 // 10), len(ordered)) - 1],
        "longest": ordered[-1],
    }


def _grouped(entries: Iterable[Entry], span: Span, key: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - a function of an entry
    """Number, hours and marks by a name, most incidents first."""
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(key(entry), []).append(entry)
    rows = [
        {
            "name": name,
            "incidents": len(some),
            "host_hours": round(sum(_lasted(entry, span) for entry in some) / _HOUR_MS, 3),
            "useful": sum(entry.mark is Mark.USEFUL for entry in some),
            "noise": sum(entry.mark is Mark.NOISE for entry in some),
        }
        for name, some in groups.items()
    ]
    return sorted(rows, key=lambda row: (-int(str(row["incidents"])), str(row["name"])))
