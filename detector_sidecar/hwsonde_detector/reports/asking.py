"""From the names on the command line to hosts, episodes and times. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hwsonde_detector.errors import ConfigError
from hwsonde_detector.explain.neighbours import JobSpan
from hwsonde_detector.explain.verdict import brief, listed, name_of
from hwsonde_detector.past.instants import parse_instant
from hwsonde_detector.types import Entity, Episode

# What is shown around an episode when no range is given.
BEFORE_MS, AFTER_MS = 600_000, 1_200_000
# Models that learned from another stretch may see the beginning a little earlier or later.
_NEAR_MS = 120_000
_NAMED = 5


def around(identity: str) -> tuple[int, int]:
    """The range around the episode of a name, such as ``lab/n17@2026-11-29T19:23:41Z``, in ms.

    Raises
    ------
    ConfigError
        The name has no time in it.
    """
    at_ms = _time_of(identity)
    if at_ms is None:
        raise ConfigError(
            f"--episode: {_short(identity)} has no time in it; give the episode's name as the page shows it, "
            "such as lab/n17@2026-11-29T19:23:41Z, or a range by --from and --to"
        )
    return max(at_ms - BEFORE_MS, 0), at_ms + AFTER_MS


def may_be(name: str, entity: Entity) -> bool:
    """Whether a name may mean a host: all of its labels (``lab/n17``), or one of them (``n17``)."""
    return str(entity) == name or any(value == name for _, value in entity.labels)


def find_host(name: str, known: Iterable[Entity]) -> Entity:
    """The host of a name: all of its labels (``lab/n17``), or one of them (``n17``).

    Raises
    ------
    ConfigError
        There is none, or more than one.
    """
    hosts = sorted(known)
    found = [entity for entity in hosts if str(entity) == name]
    found = found or [entity for entity in hosts if may_be(name, entity)]
    if len(found) > 1:
        names = listed([brief(name_of(entity)) for entity in found], _NAMED)
        raise ConfigError(f"--entity: {_short(name)} may be {names}; give one of them")
    if not found:
        names = listed([_short(name_of(entity)) for entity in hosts], _NAMED)
        raise ConfigError(f"--entity: {_short(name)} was not heard in this time; heard: {names}")
    return found[0]


def find_episode(name: str, episodes: Sequence[Episode]) -> Episode:
    """The episode of a name, or the one of the same host that began within two minutes of its time, the nearest.

    Raises
    ------
    ConfigError
        There is none.
    """
    for episode in episodes:
        if episode.identity == name:
            return episode
    at_ms, host = _time_of(name), name.rpartition("@")[0]
    near = [
        (abs(one.onset_ms - at_ms), one.identity, one)
        for one in episodes
        if at_ms is not None and str(one.entity) == host and abs(one.onset_ms - at_ms) <= _NEAR_MS
    ]
    if near:
        return min(near, key=lambda found: found[:2])[2]
    names = listed([_short(one.identity) for one in episodes], _NAMED)
    there = f"found: {names}" if names else "there is none in this range"
    raise ConfigError(f"--episode: {_short(name)} was not found when the range was scored again; {there}")


def span_of(name: str, jobs: Sequence[JobSpan], start_ms: int, end_ms: int) -> dict[Entity, tuple[int, int]]:
    """Hosts of a job, and of each the part of the range in which it ran there.

    Raises
    ------
    ConfigError
        It ran nowhere in the range.
    """
    spans: dict[Entity, tuple[int, int]] = {}
    for one in jobs:
        first, last = max(one.start_ms, start_ms), min(one.end_ms, end_ms)
        if first < last:
            before = spans.get(one.entity, (first, last))
            spans[one.entity] = (min(before[0], first), max(before[1], last))
    if not spans:
        raise ConfigError(
            f"--job: no host has series of {_short(name)} in this time; check the name (hwsonde_workload_info) and the range, "
            "and that the exporter's collector workload is on"
        )
    return spans


def _time_of(identity: str) -> int | None:
    try:
        return parse_instant(identity.rpartition("@")[2])
    except ValueError:
        return None


def _short(name: str) -> str:
    text = repr(name)
    return text if len(text) <= 80 else f"{text[:77]}..."
