"""What the JSON interface answers and the page shows, made from what the loop published. Pure.

Numbers that JSON cannot hold (NaN, Inf) become null. Times are milliseconds UTC.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from hwsonde_detector import __version__
from hwsonde_detector.published import Published, PublishedHost
from hwsonde_detector.types import Contribution, Device, Entity, Episode, Floats, Score, SettingFinding
from hwsonde_detector.types.naming import incident_id
from hwsonde_detector.web.history import SUBSYSTEMS, History, Track, thin, within
from hwsonde_detector.web.links import host_links
from hwsonde_detector.web.quality import quality

SPARK_POINTS = 60
_SPARK_MS = 300_000


def hosts(published: Published, history: History, monotonic: float, now_ms: int) -> dict[str, Any]:
    """Answer of ``/api/v1/hosts``: the worst host first."""
    rows = [
        _host_row(
            published, host, _held(published, host, monotonic, now_ms), history.track(host.entity), monotonic, now_ms
        )
        for host in published.hosts
    ]
    rows.sort(key=lambda row: (_RANK[row["state"]], -(row["score"] or 0.0), row["name"]))
    return {
        "now_ms": now_ms,
        "version": __version__,
        "mode": "shadow" if published.shadow else "live",
        "summary": summary(rows, published),
        "source": source(published, now_ms),
        "hosts": rows,
    }


def host(
    published: Published,
    history: History,
    name: str,
    monotonic: float,
    now_ms: int,
    span: tuple[int, int] | None = None,
) -> dict[str, Any] | None:
    """Answer of ``/api/v1/hosts/NAME``, with scores of a span of time or all that are kept; None if there is no such host."""
    found = next((one for one in published.hosts if name_of(one.entity) == name), None)
    if found is None:
        return None
    whole = history.track(found.entity)
    track = thin(within(whole, *span) if span is not None else whole)
    newest = found.recent[-1].score if found.recent else None
    held = _held(published, found, monotonic, now_ms)
    top = newest.top if newest is not None else ()
    if not top and found.open_episodes:
        top = found.open_episodes[0].top
    return {
        **_host_row(published, found, held, whole, monotonic, now_ms),
        "now_ms": now_ms,
        "members": {key: number(value) for key, value in (held[-1].members.items() if held else ())},
        "history": {
            "kept_from_ms": int(whole.times[0]) if len(whole.times) else None,
            "times": track.times.tolist(),
            "score": _numbers(track.fused),
            "subsystems": {
                str(sub): _numbers(track.parts[:, index])
                for index, sub in enumerate(SUBSYSTEMS)
                if track.parts[:, index].any()
            },
        },
        "top": [contribution(part) for part in top],
        "episodes": {
            "open": [episode(one) for one in found.open_episodes],
            "past": [episode(one) for one in published.past if one.entity == found.entity],
        },
        "data": quality(found.data_quality(monotonic)),
        "settings": [setting(finding) for finding in found.settings],
        "normal": [{"reason": reason, **episode(one)} for one, reason in found.normal],
        "follows": name_of(found.follows) if found.follows is not None else None,
        "links": host_links(dict(published.links), found.entity),
    }


def episodes(published: Published) -> dict[str, Any]:
    """Answer of ``/api/v1/episodes``."""
    open_ones = sorted((one for known in published.hosts for one in known.open_episodes), key=lambda one: -one.start_ms)
    return {"open": [episode(one) for one in open_ones], "past": [episode(one) for one in published.past]}


def source(published: Published, now_ms: int) -> dict[str, Any]:
    """How reading goes, with a sentence for people."""
    state = published.source
    if state.failing:
        kind, text = "failing", f"no data for {duration(now_ms - state.since_ms)}: {state.message}"
    elif not state.answered:
        kind, text = "waiting", f"waiting for the first answer of {state.address or 'the source'}"
    elif published.catching_up:
        kind, text = "catching_up", "reading what happened before"
    elif published.last_sample_ms is None:
        kind, text = (
            "empty",
            f"{state.address or 'the source'} answers but has no series of the watched metrics yet: is the exporter scraped?",
        )
    else:
        age = max(0, now_ms - published.last_sample_ms)
        kind, text = "ok", f"newest sample {duration(age)} ago"
    return {
        "state": kind,
        "text": text,
        "since_ms": state.since_ms or None,
        "address": state.address,
        "last_sample_ms": published.last_sample_ms,
    }


def summary(rows: Sequence[dict[str, Any]], published: Published) -> str:
    """One sentence: what an operator must know first."""
    if not rows:
        return "No host is known yet."
    bad = [row for row in rows if row["state"] == "anomalous"]
    if bad:
        worst = bad[0]
        more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
        would = " (shadow mode: nobody is paged)" if published.shadow else ""
        return f"{worst['title'] or worst['name']}{more}{would}"
    faulty = [str(row["data_fault"]) for row in rows if row["data_fault"]]
    if faulty:
        more = f" and {len(faulty) - 1} more" if len(faulty) > 1 else ""
        return f"No anomaly, but a data fault: {faulty[0]}{more}"
    learning = sum(row["state"] == "learning" for row in rows)
    silent = sum(row["state"] == "silent" for row in rows)
    quiet = len(rows) - learning - silent
    parts = [
        f"{count} {word}" for count, word in ((quiet, "quiet"), (learning, "learning"), (silent, "silent")) if count
    ]
    return f"{len(rows)} host{'s' if len(rows) != 1 else ''}: {', '.join(parts)}."


_RANK = {"anomalous": 0, "silent": 1, "raised": 2, "learning": 3, "quiet": 4}


def _held(published: Published, known: PublishedHost, monotonic: float, now_ms: int) -> tuple[Score, ...]:
    return known.held(monotonic) if published.speaks_of_now(known, monotonic, now_ms) else ()


def _host_row(
    published: Published, known: PublishedHost, held: Sequence[Score], track: Track, monotonic: float, now_ms: int
) -> dict[str, Any]:
    newest = known.recent[-1].score if known.recent else None
    worst = max((score.fused for score in held if math.isfinite(score.fused)), default=None)
    # An episode goes on while windows come, though too little may be known in them to judge it.
    ill = bool(known.open_episodes) and published.speaks_of_now(known, monotonic, now_ms)
    state = "anomalous" if ill else _state(held, newest, worst)
    needed, learning = known.learning.rows_needed, known.learning
    spark = _spark(track, now_ms)
    data = known.data_quality(monotonic)
    return {
        "name": name_of(known.entity),
        "labels": dict(known.entity.labels),
        "named_by_instance": known.named_by_instance,
        "state": state,
        "score": number(worst),
        "calibrated": newest is not None and newest.calibrated,
        "subsystem": str(known.open_episodes[0].subsystem) if known.open_episodes else _loudest(held),
        "title": known.open_episodes[0].title if known.open_episodes else "",
        "since_ms": known.open_episodes[0].onset_ms if known.open_episodes else None,
        "end_ms": newest.end_ms if newest is not None else None,
        "interval_ms": known.interval_ms,
        "rows": learning.rows,
        "rows_needed": needed,
        "ready_in_s": _ready_in(learning.rows, needed, known.interval_ms),
        "frozen": learning.frozen,
        "settling": learning.settling,
        "regimes": learning.regimes,
        "model_ms": learning.fitted_ms,
        "channels": learning.channels,
        "channels_judged": learning.channels_judged,
        "coverage": number(known.coverage),
        "anomalous_channels": number(newest.anomalous_channels) if newest is not None else None,
        "threshold": number(newest.threshold) if newest is not None else None,
        "spark": spark,
        "data_fault": data.episode.title if data is not None and data.episode is not None else "",
    }


def _state(held: Sequence[Score], newest: Score | None, worst: float | None) -> str:
    if newest is None or not newest.calibrated:
        return "learning"
    if not held:
        return "silent"
    return "raised" if worst is not None and worst >= 1.0 else "quiet"


def _loudest(held: Sequence[Score]) -> str:
    if not held or not held[-1].subsystems:
        return ""
    subsystem, part = max(held[-1].subsystems.items(), key=lambda item: item[1] if math.isfinite(item[1]) else -1.0)
    return str(subsystem) if part > 0 else ""


def _ready_in(rows: int, needed: int, interval_ms: int | None) -> float | None:
    return max(0, needed - rows) * interval_ms / 1000 if interval_ms else None


def _spark(track: Track, now_ms: int) -> list[float | None]:
    recent = track.times > now_ms - _SPARK_MS
    return _numbers(thin(Track(track.times[recent], track.fused[recent], track.parts[recent]), SPARK_POINTS).fused)


def episode(one: Episode) -> dict[str, Any]:
    """An episode for people and programs."""
    return {
        "identity": one.identity,
        "incident": incident_id(one.identity, one.onset_ms),
        "host": name_of(one.entity),
        "subsystem": str(one.subsystem),
        "scope": str(one.scope),
        "device": device(one.device),
        "title": one.title,
        "start_ms": one.start_ms,
        "onset_ms": one.onset_ms,
        "end_ms": one.end_ms,
        "peak": number(one.peak),
        "top": [contribution(part) for part in one.top],
        "first_channels": [{"name": name, "at_ms": at_ms} for name, at_ms in one.first_channels],
        "uncertainty_ms": one.uncertainty_ms,
        "because": one.because,
        "settings": [setting(finding) for finding in one.settings],
    }


def contribution(part: Contribution) -> dict[str, Any]:
    """A channel's part in a score."""
    return {
        "channel": part.channel.name,
        "subsystem": str(part.channel.subsystem),
        "title": part.channel.title,
        "device": device(part.channel.device),
        "address": part.channel.address,
        "unit": part.channel.unit,
        "share": number(part.share),
        "deviation": number(part.deviation),
        "direction": str(part.direction),
        "value": number(part.value),
        "lower": number(part.lower),
        "upper": number(part.upper),
    }


def device(part: Device | None) -> dict[str, str] | None:
    """A part of a host."""
    return None if part is None else {"class": part.kind, "name": part.name}


def setting(finding: SettingFinding) -> dict[str, Any]:
    """A setting that differs from the peers' or was changed lately, with a sentence for people."""
    where = f"{finding.setting} of {finding.device}" if finding.device else finding.setting
    parts = [f"{where} is {finding.value}"]
    if finding.usual is not None:
        parts.append(f"{finding.agree} of {finding.peers} peers have {finding.usual}")
    if finding.changed_at_ms is not None:
        parts.append(f"it was {finding.previous} until {clock(finding.changed_at_ms)}")
    return {
        "host": name_of(finding.entity),
        "setting": finding.setting,
        "device": finding.device,
        "value": finding.value,
        "usual": finding.usual,
        "agree": finding.agree,
        "peers": finding.peers,
        "previous": finding.previous,
        "changed_at_ms": finding.changed_at_ms,
        "text": ", ".join(parts),
    }


def clock(ms: int) -> str:
    """Time of day in UTC: ``19:23:41Z``."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%H:%M:%SZ")


def name_of(entity: Entity) -> str:
    """What a host is called on the page and in addresses."""
    return str(entity) or "unnamed"


def duration(ms: float) -> str:
    """Rough length of time for people: ``4 s``, ``3 min``, ``2.5 h``."""
    seconds = max(0.0, ms / 1000)
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def number(value: float | None) -> float | None:
    """The value, None where it is not finite."""
    return float(value) if value is not None and math.isfinite(value) else None


def _numbers(values: Floats | Iterable[float]) -> list[float | None]:
    return [round(float(value), 4) if math.isfinite(value) else None for value in values]
