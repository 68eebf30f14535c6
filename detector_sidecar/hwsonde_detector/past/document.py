"""The results of a run over history as a JSON document; the page is drawn from the same. Pure.

Nothing in it depends on when or how fast the run was made, so that the same history gives the same bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from hwsonde_detector import __version__
from hwsonde_detector.past.figures import (
    DAY_MS,
    FaultFigures,
    Finding,
    KindFigures,
    PageRate,
    faults,
    opened,
    pages,
)
from hwsonde_detector.past.instants import format_instant
from hwsonde_detector.past.intervals import Share
from hwsonde_detector.past.tally import BINS, HostTally, Tally
from hwsonde_detector.types import Entity, Episode

FORM = 1


@dataclass(frozen=True, slots=True)
class About:
    """What a run was made of.

    Attributes
    ----------
    source
        The server's address without credentials, or the archive's name.
    learning_ms
        How much before the range could be learned from.
    step_ms
        Grid of the values; None: samples as they were scraped.
    labels
        Name of the file of labels; None: there was none.
    """

    source: str
    learning_ms: int
    step_ms: int | None
    labels: str | None


def backtest_document(about: About, tallies: Mapping[str, Tally]) -> dict[str, Any]:
    """All figures.

    Parameters
    ----------
    about
        What the run was made of.
    tallies
        What was counted, by preset; all over the same range.
    """
    first = next(iter(tallies.values()))
    return {
        "kind": "backtest",
        "form": FORM,
        "version": __version__,
        "from": format_instant(first.start_ms),
        "to": format_instant(first.end_ms),
        "from_ms": first.start_ms,
        "to_ms": first.end_ms,
        "learned_from": format_instant(max(first.start_ms - about.learning_ms, 0)),
        "source": about.source,
        "step_seconds": about.step_ms / 1000 if about.step_ms is not None else None,
        "labels": about.labels,
        "presets": [_preset(name, tally) for name, tally in tallies.items()],
    }


def _preset(name: str, tally: Tally) -> dict[str, Any]:
    figures = faults(tally)
    own_pages = Counter(episode.entity for episode in opened(tally))
    hosts = sorted(tally.hosts.items())
    return {
        "name": name,
        **_totals(tally),
        "pages": _rate(pages(tally)),
        "faults": _faults(figures) if figures is not None else None,
        "episodes": [
            _episode(episode, tally, figures) for episode in tally.episodes.touching(tally.start_ms, tally.end_ms)
        ],
        "hosts": [_host(entity, host, own_pages[entity], tally) for entity, host in hosts],
    }


def _totals(tally: Tally) -> dict[str, Any]:
    hosts = tally.hosts.values()
    windows = sum(host.windows for host in hosts)
    skipped = sum((host.skipped for host in hosts), Counter[str]())
    length = tally.end_ms - tally.start_ms
    return {
        "windows": windows,
        "calibrated_windows": sum(host.calibrated for host in hosts),
        "skipped_windows": dict(sorted(skipped.items())),
        "judged_ratio": _ratio(windows, windows + skipped.total()),
        "coverage_ratio": _ratio(sum(host.coverage for host in hosts), windows),
        "time_ratio": _ratio(
            min(sum(host.judged_ms for host in hosts), length * len(tally.hosts)), length * len(tally.hosts)
        ),
        "hosts_heard": len(tally.hosts),
        "hosts_calibrated": sum(host.calibrated > 0 for host in hosts),
    }


def _host(entity: Entity, host: HostTally, own_pages: int, tally: Tally) -> dict[str, Any]:
    length = tally.end_ms - tally.start_ms
    return {
        "host": str(entity),
        "labels": dict(entity.labels),
        "interval_seconds": host.interval_ms / 1000 if host.interval_ms is not None else None,
        "windows": host.windows,
        "calibrated_windows": host.calibrated,
        "skipped_windows": dict(sorted(host.skipped.items())),
        "coverage_ratio": _ratio(host.coverage, host.windows),
        "time_ratio": _ratio(min(host.judged_ms, length), length),
        "node_days": host.exposed_ms / DAY_MS,
        "pages": own_pages,
        "peak_seconds": length / BINS / 1000,
        "peaks": [round(value, 4) if np.isfinite(value) else None for value in host.peaks.tolist()],
    }


def _episode(episode: Episode, tally: Tally, figures: FaultFigures | None) -> dict[str, Any]:
    found = [one.label.kind for one in figures.findings if one.episode is episode] if figures is not None else []
    return {
        "identity": episode.identity,
        "host": str(episode.entity),
        "start": format_instant(episode.start_ms),
        "start_ms": episode.start_ms,
        "onset": format_instant(episode.onset_ms),
        "end": format_instant(episode.end_ms) if episode.end_ms is not None else None,
        "end_ms": episode.end_ms,
        "subsystem": str(episode.subsystem),
        "peak": episode.peak,
        "sentence": episode.title,
        "page": episode.start_ms > tally.start_ms,
        "found": found,
        "false": episode.identity in figures.false_episodes if figures is not None else None,
        "channels": [[one.channel.name, one.share] for one in episode.top],
    }


def _faults(figures: FaultFigures) -> dict[str, Any]:
    return {
        **_kind(figures.overall),
        "false_pages": _rate(figures.false),
        "kinds": {kind: _kind(own) for kind, own in figures.kinds.items()},
        "faults": [_finding(one) for one in figures.findings],
        "labels_outside": len(figures.elsewhere),
        "labels_unknown": [f"{label.place}: {label.name}" for label in figures.unknown],
    }


def _kind(own: KindFigures) -> dict[str, Any]:
    return {
        "found": _share(own.found),
        "judged": own.judged,
        "seconds_to_detect": asdict(own.seconds) if own.seconds is not None else None,
        "first_subsystem_right": _share(own.right),
    }


def _finding(one: Finding) -> dict[str, Any]:
    label = one.label
    return {
        "host": str(one.entity),
        "place": label.place,
        "kind": label.kind,
        "start": format_instant(label.start_ms),
        "start_ms": label.start_ms,
        "end": format_instant(label.end_ms),
        "end_ms": label.end_ms,
        "subsystems": [str(name) for name in label.subsystems],
        "judged": one.judged,
        "episode": one.episode.identity if one.episode is not None else None,
        "seconds_to_detect": one.seconds,
        "subsystem": str(one.episode.subsystem) if one.episode is not None else None,
        "right": one.right,
    }


def _share(one: Share) -> dict[str, Any]:
    return {"count": one.count, "total": one.total, "ratio": one.value, "low": one.low, "high": one.high}


def _rate(one: PageRate) -> dict[str, Any]:
    return {
        "count": one.pages,
        "node_days": one.node_days,
        "per_100_node_days": one.per_100,
        "low": one.low,
        "high": one.high,
    }


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def summary(document: Mapping[str, Any]) -> list[str]:
    """The results in a few lines, for a terminal."""
    lines = [f"{document['from']} to {document['to']}, read from {document['source']}"]
    for preset in document["presets"]:
        lines.append(f"{preset['name']}: {told_coverage(preset)}")
        lines.append(f"  pages: {told_rate(preset['pages'])}")
        faulty = preset["faults"]
        if faulty is not None:
            lines.append(f"  faults found: {told_share(faulty['found'])}{_told_seconds(faulty['seconds_to_detect'])}")
            lines.append(f"  first subsystem right: {told_share(faulty['first_subsystem_right'])}")
            lines.append(f"  false pages: {told_rate(faulty['false_pages'])}")
    return lines


def told_coverage(preset: Mapping[str, Any]) -> str:
    """How much was really looked at, as a sentence."""
    if not preset["windows"]:
        return f"not known: no window of {_hosts(preset['hosts_heard'])} was judged; was there data, and enough before the range to learn from?"
    text = (
        f"{_hosts(preset['hosts_heard'])}, {preset['windows']:,} windows judged ({percent(preset['judged_ratio'])} of those that were due, "
        f"{percent(preset['coverage_ratio'])} of their channels, {percent(preset['time_ratio'])} of the time)"
    )
    late = preset["windows"] - preset["calibrated_windows"]
    if late:
        text += f", {late:,} of them not calibrated yet"
    return text


def told_rate(rate: Mapping[str, Any]) -> str:
    """Pages and their rate with its interval."""
    if rate["per_100_node_days"] is None:
        return f"{rate['count']} in no calibrated time: no rate can be told"
    return (
        f"{rate['count']:,} in {figure(rate['node_days'])} node-days, {figure(rate['per_100_node_days'])} per 100 node-days "
        f"(95 %: {figure(rate['low'])} to {figure(rate['high'])})"
    )


def told_share(one: Mapping[str, Any]) -> str:
    """A share with its interval."""
    if one["ratio"] is None:
        return "none to count"
    return f"{one['count']} of {one['total']}, {percent(one['ratio'])} (95 %: {percent(one['low'])} to {percent(one['high'])})"


def told_spread(spread: Mapping[str, Any] | None) -> str:
    """Median and quartiles of seconds."""
    if spread is None:
        return "-"
    if spread["least"] == spread["most"]:
        return f"{figure(spread['median'])} s"
    return f"{figure(spread['median'])} s (half of them {figure(spread['lower'])} to {figure(spread['upper'])} s)"


def figure(value: float) -> str:
    """A number with three digits, or with all before the point where there are more."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def percent(ratio: float | None) -> str:
    """A ratio as people read it; never 100 % for less than all, nor 0 % for more than nothing."""
    if ratio is None:
        return "-"
    text = f"{ratio * 100:.1f}"
    if (text == "100.0") != (ratio == 1):
        text = "99.9"
    elif text == "0.0" and ratio > 0:
        text = "0.1"
    return f"{text.removesuffix('.0')} %"


def _hosts(count: int) -> str:
    return f"{count:,} host{'' if count == 1 else 's'}"


def _told_seconds(spread: Mapping[str, Any] | None) -> str:
    if spread is None:
        return ""
    return f", detected after {told_spread(spread)}"


def warnings(document: Mapping[str, Any]) -> list[str]:
    """What whoever reads the figures must know, one line each."""
    lines = [line for preset in document["presets"] for line in _warnings(preset)]
    return list(dict.fromkeys(lines))


def _warnings(preset: Mapping[str, Any]) -> list[str]:
    lines: list[str] = []
    late = preset["windows"] - preset["calibrated_windows"]
    if late:
        lines.append(
            f"{preset['name']}: {late:,} windows were judged before enough was learned, and could not page; "
            "learn from more of the past (--learn), or begin later"
        )
    faulty = preset["faults"]
    if faulty is None:
        return lines
    lines += [f"{name} is no host of the range; the label is left out" for name in faulty["labels_unknown"]]
    if faulty["labels_outside"]:
        lines.append(f"{faulty['labels_outside']} of the labels begin outside of the range and are left out")
    blind = faulty["found"]["total"] - faulty["judged"]
    if blind:
        lines.append(
            f"{preset['name']}: {blind} of {faulty['found']['total']} faults happened while no calibrated window was judged; "
            "they count as not found"
        )
    return lines
