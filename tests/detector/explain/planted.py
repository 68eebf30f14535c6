"""Scores and episodes with a fault whose channel, device, subsystem and beginning are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hwsonde_detector.explain.titles import identity
from hwsonde_detector.types import Channel, Contribution, Device, Entity, Episode, Score, Subsystem

T0 = 1_796_000_000_000
SECOND = 1000


def host(node: str, cluster: str = "lab") -> Entity:
    return Entity((("cluster", cluster), ("node", node)))


def channel(
    name: str, subsystem: Subsystem, device: Device | None = None, weight: float = 1.0, unit: str = "ratio"
) -> Channel:
    return Channel(name, subsystem, device, weight=weight, unit=unit)


def part(one: Channel, share: float, value: float = 0.9, upper: float = 0.2) -> Contribution:
    return Contribution(one, share, 30 * share, value, 0.0, upper)


def score(
    entity: Entity,
    end_ms: int,
    fused: float,
    top: Sequence[Contribution] = (),
    *,
    calibrated: bool = True,
    coverage: float = 1.0,
) -> Score:
    return Score(entity, end_ms, fused, {}, {}, tuple(top), calibrated, 1.0, coverage, 0.0)


def quiet(
    entity: Entity, seconds: int, fused: float = 0.4, *, start_ms: int = T0, step_ms: int = SECOND
) -> list[Score]:
    """Windows without anything, the first one ``step_ms`` after the start."""
    return [score(entity, start_ms + step_ms * place, fused) for place in range(1, seconds + 1)]


def fault(
    entity: Entity,
    begin_ms: int,
    windows: int,
    loud: Mapping[Channel, float],
    *,
    step_ms: int = SECOND,
    fused: float = 3.0,
    onsets: Mapping[str, int] | None = None,
    open_end: bool = False,
    subsystem: Subsystem | None = None,
) -> tuple[Episode, list[Score]]:
    """An episode of ``windows`` windows in which the channels have these shares, the first window at ``begin_ms``.

    ``onsets`` are the first rows outside of the band by channel (default: all at the beginning); the episode opens 3 windows later.
    """
    top = [part(one, share) for one, share in sorted(loud.items(), key=lambda pair: -pair[1])]
    scores = [score(entity, begin_ms + step_ms * place, fused, top) for place in range(windows)]
    first = onsets if onsets is not None else {one.name: begin_ms for one in loud}
    episode = Episode(
        identity=identity(entity, begin_ms),
        entity=entity,
        start_ms=begin_ms + 3 * step_ms,
        onset_ms=begin_ms,
        end_ms=None if open_end else scores[-1].end_ms,
        subsystem=subsystem or top[0].channel.subsystem,
        peak=fused,
        title=f"{entity} {top[0].channel.subsystem}: unusual",
        top=tuple(top),
        first_channels=tuple(sorted(first.items(), key=lambda pair: (pair[1], pair[0]))),
    )
    return episode, scores
