"""What explains an incident, as JSON values: the report of its episode, and what a report of the past does not have. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from hwsonde_detector.explain.analysis import Question, Topic, analyse
from hwsonde_detector.explain.findings import tallies
from hwsonde_detector.explain.neighbours import JobSpan
from hwsonde_detector.explain.report import Before, Learned, document
from hwsonde_detector.explain.series import Points
from hwsonde_detector.explain.verdict import name_of
from hwsonde_detector.incidents.watching import Watched
from hwsonde_detector.types import Entity, Episode, Score, SettingFinding, Subsystem

FORMAT = "hwsonde incident 1"
# Time that is shown before the onset, in scrapes.
_LEAD_ROWS = 60
_MOST_PEERS = 100
_MOST_SETTINGS = 20


@dataclass(frozen=True, slots=True)
class Trail:
    """Scores of a host over time: ``times`` in ms, ascending; ``fused``; and the parts by subsystem."""

    times: tuple[int, ...] = ()
    fused: tuple[float, ...] = ()
    parts: Mapping[Subsystem, tuple[float, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What is known beside the episode.

    Attributes
    ----------
    own
        Scores of the host, from before the onset on.
    peers
        Windows of its peers in the same time.
    others
        Other episodes that touch that time, and earlier ones of the host.
    version
        Of the program.
    step
        Rows from one window to the next.
    now_ms
        The present: until then an open episode lasts.
    """

    own: Trail = field(default_factory=Trail)
    peers: Mapping[Entity, tuple[Score, ...]] = field(default_factory=dict)
    others: tuple[Episode, ...] = ()
    version: str = ""
    step: int = 1
    now_ms: int = 0


@dataclass(frozen=True, slots=True)
class _Run:
    """The stretch of an incident, as `analyse` takes it."""

    start_ms: int
    end_ms: int
    scores: Mapping[Entity, tuple[Score, ...]]
    episodes: tuple[Episode, ...]
    intervals_ms: Mapping[Entity, int]
    skipped: Mapping[Entity, Mapping[str, int]]


def lead_ms(watched: Watched) -> int:
    """How long before the onset is shown."""
    return _LEAD_ROWS * max(watched.interval_ms, 1000)


def incident_document(watched: Watched, around: Surroundings) -> dict[str, Any]:
    """Everything that explains an incident; the same inputs give the same document.

    Parameters
    ----------
    watched
        The episode with what was kept of it.
    around
        What is known beside it.
    """
    episode = watched.episode
    end_ms = episode.end_ms if episode.end_ms is not None else max(around.now_ms, episode.start_ms)
    scores = {episode.entity: tuple(watched.scores), **around.peers}
    # Only hosts that are shown can be said to have had another one.
    same_time = tuple(one for one in around.others if one.entity in scores and _touches(one, episode.onset_ms, end_ms))
    run = _Run(
        episode.onset_ms - max(watched.interval_ms, 1),
        max(end_ms, episode.onset_ms),
        scores,
        (episode, *(one for one in same_time if one.identity != episode.identity)),
        {episode.entity: watched.interval_ms} if watched.interval_ms else {},
        {},
    )
    spans = {episode.entity: (run.start_ms, run.end_ms)}
    analysis = analyse(run, Question(Topic.EPISODE, episode.identity, spans), _circle(watched), around.step)
    report = document(
        analysis,
        around.version,
        rows=_rows(watched, len(analysis.causes)),
        learned=Learned(),
        before=Before(tuple(one for one in around.others if one.entity == episode.entity), "kept by the detector"),
        settings=[setting_document(one) for one in _settings(watched)],
    )
    return {
        "format": FORMAT,
        "version": around.version,
        "verdict": analysis.verdict.sentence,
        "causes_found": report["causes_found"],
        "causes": report["causes"],
        "settings": report["settings"],
        "coverage": _coverage(watched, run.end_ms - run.start_ms, around.step),
        "first": [{"channel": name, "at_ms": at_ms} for name, at_ms in episode.first_channels],
        "uncertainty_ms": episode.uncertainty_ms,
        "interval_ms": watched.interval_ms or None,
        "compared_by": [{"word": word, "value": value} for word, value in watched.circle if value],
        "scores": _scores(around.own),
        "hosts_named": [
            [list(pair) for pair in entity.labels]
            for entity in sorted(
                {*scores, *(one.entity for one in run.episodes), *(one.entity for one in watched.settings)}
            )
        ],
        "heard_from_ms": watched.since_ms,
        "heard_late": watched.since_ms is None or watched.since_ms > episode.start_ms,
        "channels_told": len(tallies(episode, watched.scores)),
    }


def _coverage(watched: Watched, length_ms: int, step: int) -> dict[str, Any]:
    """How much of the incident was judged: shares (0..1) of its windows and of the channels, None where that is not known."""
    expected = length_ms // (watched.interval_ms * step) if watched.interval_ms else 0
    known = [score.coverage for score in watched.scores if isfinite(score.coverage)]
    return {
        "windows": min(watched.windows / expected, 1.0) if expected and watched.windows else None,
        "channels": sum(known) / len(known) if known else None,
    }


def setting_document(one: SettingFinding) -> dict[str, Any]:
    """A finding as JSON values."""
    return {
        "host": name_of(one.entity),
        "setting": one.setting,
        "device": one.device,
        "value": one.value,
        "usual": one.usual,
        "agree": one.agree,
        "peers": one.peers,
        "previous": one.previous,
        "changed_at_ms": one.changed_at_ms,
    }


def peers_shown(watched: Watched) -> Sequence[Entity]:
    """Peers that are compared, a bounded number of them."""
    return watched.peers[:_MOST_PEERS]


def _settings(watched: Watched) -> list[SettingFinding]:
    known = {(one.setting, one.device): one for one in (*watched.episode.settings, *watched.settings)}
    return list(known.values())[:_MOST_SETTINGS]


def _circle(watched: Watched) -> list[JobSpan]:
    """The host and its peers as hosts of one job, which is how a report compares hosts."""
    if not watched.peers:
        return []
    called = "/".join(value for _, value in watched.circle if value) or "its peer group"
    forever = (-(2**62), 2**62)
    return [JobSpan(called, entity, *forever) for entity in (watched.episode.entity, *peers_shown(watched))]


def _rows(watched: Watched, causes: int) -> dict[tuple[int, Entity, str], Points]:
    interval, entity = max(watched.interval_ms, 1), watched.episode.entity
    lines = {name: line.points(interval) for name, line in watched.lines.items() if line.times}
    return {(rank, entity, name): points for rank in range(causes) for name, points in lines.items()}


def _touches(one: Episode, start_ms: int, end_ms: int) -> bool:
    return one.onset_ms <= end_ms and (one.end_ms is None or one.end_ms >= start_ms)


def _scores(trail: Trail) -> dict[str, Any]:
    return {
        "times": list(trail.times),
        "fused": [_number(value) for value in trail.fused],
        "parts": {str(name): [_number(value) for value in values] for name, values in trail.parts.items()},
    }


def _number(value: float) -> float | None:
    return float(f"{value:.4g}") if isfinite(value) else None
