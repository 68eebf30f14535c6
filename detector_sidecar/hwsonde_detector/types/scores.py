"""What is said of windows and of stretches of time: scores, contributions, episodes, findings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import cast

from hwsonde_detector.types.samples import Channel, Device, Entity, Subsystem


class Direction(StrEnum):
    """How a channel deviates: above or below what is expected, restless where it is steady, or still where it always moves."""

    HIGH = "high"
    LOW = "low"
    NOISY = "noisy"
    STUCK = "stuck"


# Stands for the direction that the value and its bounds give.
_BY_VALUE = cast(Direction, "")


@dataclass(frozen=True, slots=True)
class Contribution:
    """A channel's part in an anomalous score.

    ``share`` is its part of the whole (0..1); ``value`` the newest one in the channel's own unit, or the one furthest out where
    the newest is back inside; ``deviation`` its distance from the expected value in robust deviations, signed; ``lower`` and ``upper`` bound
    what was expected. ``direction`` is by default that of
    the value: beyond a bound, or the sign of the deviation between them.
    """

    channel: Channel
    share: float
    deviation: float
    value: float
    lower: float
    upper: float
    direction: Direction = _BY_VALUE

    def __post_init__(self) -> None:
        # The word of a kept state becomes the member again; one that is not known raises ValueError.
        object.__setattr__(self, "direction", Direction(self.direction or self._side()))

    def _side(self) -> Direction:
        if self.value > self.upper:
            return Direction.HIGH
        if self.value < self.lower:
            return Direction.LOW
        return Direction.LOW if self.deviation < 0 else Direction.HIGH


@dataclass(frozen=True, slots=True)
class Score:
    """The judgement of one window of one entity.

    Attributes
    ----------
    entity
        The host.
    end_ms
        Time of the window's last row.
    fused
        Calibrated value of the agreement over the threshold; 1 is the threshold.
    members
        The same of each detector, by name.
    subsystems
        Parts of ``fused`` by subsystem; they sum to it (to 0 where no channel was judged). Every subsystem that has channels is present.
    top
        Contributions of the channels that deviate most, largest share first; empty while nothing deviates.
    calibrated
        False until the tails have seen enough rows; nothing pages before.
    threshold
        What calibrated values were divided by.
    coverage
        Share of the channels that the model looks at which this window really judged (0..1).
    anomalous_channels
        Share of judged channels outside of their band (0..1).
    devices
        Devices whose channels deviate most, with their part of the whole (0..1), largest first, bounded.
    """

    entity: Entity
    end_ms: int
    fused: float
    members: Mapping[str, float]
    subsystems: Mapping[Subsystem, float]
    top: tuple[Contribution, ...]
    calibrated: bool
    threshold: float
    coverage: float
    anomalous_channels: float
    devices: tuple[tuple[Device, float], ...] = ()


class Phase(StrEnum):
    """What an episode event says."""

    OPENED = "opened"
    CHANGED = "changed"
    CLOSED = "closed"


class Scope(StrEnum):
    """How far an episode reaches.

    One part that stands out among its like; a host that stands out among its peers, as does every host without peers; all hosts of a
    job alike; hosts of several jobs alike, or a network that no single job explains.
    """

    DEVICE = "device"
    HOST = "host"
    JOB = "job"
    FABRIC = "fabric"


@dataclass(frozen=True, slots=True)
class SettingFinding:
    """A setting that sets a host apart from its peers, or that was changed lately; it may be both.

    Attributes
    ----------
    entity
        The host.
    setting
        Name of the setting: ``cpu.governor``.
    device
        The part it belongs to, as the exporter names it; empty: the host.
    value
        What it is now.
    usual
        What most of its peers have; None where it does not differ from them, or there are too few to tell.
    agree, peers
        How many of the others have the usual value, of how many that have the setting at all.
    previous
        What it was before; None where no change was seen.
    changed_at_ms
        Time of the first sample that showed the present value, up to one reading late; None where no recent change was seen.
    """

    entity: Entity
    setting: str
    device: str
    value: str
    usual: str | None = None
    agree: int = 0
    peers: int = 0
    previous: str | None = None
    changed_at_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Episode:
    """A stretch of time in which an entity stayed anomalous.

    Attributes
    ----------
    identity
        Stable: entity and start, ``n17@2026-11-29T19:23:41Z``.
    entity
        The host.
    start_ms
        End of the first anomalous window.
    onset_ms
        When the deviation began, at best plus or minus one interval: the first anomalous window's last row.
    end_ms
        End of the last anomalous window; None while open.
    subsystem
        Named once there are about 3 s of evidence, and then kept.
    peak
        Largest fused score.
    title
        One sentence: which host, which part, how far off, since when.
    top
        Contributions at the peak.
    first_channels
        Channels in order of onset, with the time of the first row outside of the band.
    device
        The part whose channels carry the deviation; None where no single one does.
    uncertainty_ms
        The onset and each time in ``first_channels`` may lie this much earlier or later: one scrape interval.
    because
        Why it was closed without having become quiet: ``new normal``, ``workload started``; empty otherwise.
    scope
        How far it reaches, named when it is told of and then kept.
    settings
        What is known of the host's settings that may have to do with it; bounded.
    """

    identity: str
    entity: Entity
    start_ms: int
    onset_ms: int
    end_ms: int | None
    subsystem: Subsystem
    peak: float
    title: str
    top: tuple[Contribution, ...] = ()
    first_channels: tuple[tuple[str, int], ...] = ()
    device: Device | None = None
    uncertainty_ms: int = 0
    because: str = ""
    scope: Scope = Scope.HOST
    settings: tuple[SettingFinding, ...] = ()


@dataclass(frozen=True, slots=True)
class EpisodeEvent:
    """Something happened to an episode at ``at_ms``."""

    phase: Phase
    at_ms: int
    episode: Episode


@dataclass(frozen=True, slots=True)
class Learning:
    """How far an entity's model has come.

    ``rows`` accepted so far, of ``rows_needed`` for a calibrated score; ``fitted_ms`` is the time of the last row of the model in
    force (None before the first), ``frozen`` says that learning waits because the score is above 1.
    ``settling`` says why a new regime is being learned meanwhile (start, stop, phase; empty: none is), ``regimes`` how many former ones are kept.
    ``pages`` episodes opened in the ``watched_ms`` milliseconds in which scores counted.
    """

    rows: int
    rows_needed: int
    fitted_ms: int | None
    frozen: bool
    channels: int
    channels_judged: int
    settling: str = ""
    regimes: int = 0
    pages: int = 0
    watched_ms: int = 0
