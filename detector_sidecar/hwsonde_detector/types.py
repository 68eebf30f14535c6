"""The plain values that rooms hand to each other.

Times are UTC, integers of milliseconds since the epoch. Nothing here computes, reads a clock or touches a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]
Times: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
Labels: TypeAlias = tuple[tuple[str, str], ...]


class Subsystem(StrEnum):
    """The parts of a host that a deviation is attributed to."""

    CPU = "cpu"
    GPU = "gpu"
    MEMORY = "memory"
    NETWORK = "network"
    STORAGE = "storage"
    POWER = "power"
    THERMAL = "thermal"
    PCIE = "pcie"
    WORKLOAD = "workload"


@dataclass(frozen=True, slots=True, order=True)
class Entity:
    """A host: the values of the configured entity labels, in the configured order, for example ``(("cluster", "a"), ("node", "n17"))``."""

    labels: Labels

    def __str__(self) -> str:
        """Give ``a/n17``: the values that are not empty, joined."""
        return "/".join(value for _, value in self.labels if value)


@dataclass(frozen=True, slots=True, order=True)
class Series:
    """Identity of one Prometheus series: its name, and all other labels in order of name."""

    name: str
    labels: Labels


@dataclass(frozen=True, slots=True)
class SampleBatch:
    """What a source hands over: raw samples of many series, in one pair of arrays.

    Series i owns ``times[offsets[i]:offsets[i + 1]]`` (ascending) and the values at the same places.
    Stale markers are left out by the source; NaN and Inf that an exporter really sent are kept.

    Attributes
    ----------
    series
        n identities, ascending and unique, so that an answer's order never changes a result.
    offsets
        int64 (n + 1).
    times
        int64 (m), milliseconds.
    values
        float64 (m).
    """

    series: tuple[Series, ...]
    offsets: Times
    times: Times
    values: Floats

    @staticmethod
    def empty() -> SampleBatch:
        """A batch without series."""
        return SampleBatch((), np.zeros(1, np.int64), np.zeros(0, np.int64), np.zeros(0))


class Role(StrEnum):
    """What a channel tells beside how its part of the host is doing."""

    SIGNAL = "signal"  # use, waiting, errors that a workload may cause
    MARK = "mark"  # a workload is here while the value is above 0; never judged
    FAULT = "fault"  # what no workload causes, whatever it does


@dataclass(frozen=True, slots=True, order=True)
class Device:
    """Class and stable identity of a part: ``Device("disk", "nvme0n1")``, ``Device("nic", "eth0")``."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Channel:
    """One number over time for one entity.

    Attributes
    ----------
    name
        Stable and readable: ``cpu_seconds{mode=user}``; unique within an entity.
    subsystem
        Where a deviation is attributed to.
    device
        The part it belongs to, None where it speaks of the whole host.
    floor
        The smallest deviation that matters, in the channel's own unit: physical floor of its scale.
    logarithmic
        True: heavy-tailed (bytes, packets, pages a second); its deviations are judged on asinh(value / floor).
    weight
        Share in attribution: 1 for a cause, about a third or 0 for a symptom (context switches, interrupts, totals).
    unit
        For people: ``cores``, ``bytes/s``, ``ratio``.
    signed
        Whether healthy values may be below 0 (the change of a level per second).
    title
        What people call it, such as ``SM clock``; empty where its name must serve.
    address
        Where its device sits (PCI address or slot); empty where nothing tells.
    flow
        Whether it is the rate of a counter (work done, time waited, errors) or how much a quantity swings: less of it than usual is no cause.
    paced
        Whether its values are read at a pace of their own, and only shown at each scrape.
    role
        Whether it is judged at all, and whether a change of workloads explains it.
    """

    name: str
    subsystem: Subsystem
    device: Device | None = None
    floor: float = 1.0
    logarithmic: bool = False
    weight: float = 1.0
    unit: str = ""
    signed: bool = False
    title: str = ""
    address: str = ""
    flow: bool = False
    paced: bool = False
    role: Role = Role.SIGNAL


@dataclass(frozen=True, slots=True)
class Frame:
    """Rows of channel values of one entity.

    Attributes
    ----------
    entity
        The host.
    channels
        c channels, in order of name.
    times
        int64 (rows), ascending, milliseconds: when the row's samples were scraped.
    values
        float64 (rows, c); NaN where a value is missing, impossible or masked after a counter reset.
    """

    entity: Entity
    channels: tuple[Channel, ...]
    times: Times
    values: Floats

    @property
    def mask(self) -> Mask:
        """Where a value is known, bool (rows, c)."""
        return np.isfinite(self.values)


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

    ``share`` is its part of the whole (0..1); ``deviation`` the distance from the expected value in robust deviations, signed;
    ``lower`` and ``upper`` bound what was expected, in the channel's own unit, as is ``value``. ``direction`` is by default that of
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


class FaultKind(StrEnum):
    """The ways in which the data of a host can be at fault."""

    MISSING = "missing"
    GAP = "gap"
    IMPOSSIBLE = "impossible"
    RESET = "reset"
    STUCK = "stuck"
    SLOW = "slow"
    SKEW = "skew"
    PARTIAL = "partial"


@dataclass(frozen=True, slots=True)
class FaultEvidence:
    """What a data fault is seen on.

    Attributes
    ----------
    device
        The part: ``Device("gpu", "3 (GPU-5f1c)")``, ``Device("collector", "nvme")``, ``Device("metric", "hwsonde_x")``; ``Device("host", "")`` is
        the whole.
    score
        1 is the threshold.
    since_ms
        When it began; of what is missing the last scrape that still had it.
    count
        How many: series that are missing, values that cannot be, resets, lost scrapes, steps of a clock.
    name
        The series that it was seen on, or the reason that the exporter gives.
    value, usual
        What was met and what is usual: parts of this class that are left and all of them, seconds, a value that repeats and the parts that move.
    """

    device: Device
    score: float
    since_ms: int
    count: int = 0
    name: str = ""
    value: float | None = None
    usual: float | None = None


@dataclass(frozen=True, slots=True)
class DataFault:
    """One kind of data fault of one host: its score (1 is the threshold), and evidence, strongest first.

    ``affected`` counts everything that has evidence of a score of at least 1, also what is left out of ``evidence``.
    """

    kind: FaultKind
    score: float = 0.0
    evidence: tuple[FaultEvidence, ...] = ()
    affected: int = 0


@dataclass(frozen=True, slots=True)
class DataFaultEpisode:
    """A stretch of time in which the data of a host stayed at fault.

    Attributes
    ----------
    identity
        Stable: ``data n17@2026-11-29T19:23:41Z``.
    entity
        The host.
    kind
        The worst kind when it was told last.
    start_ms, onset_ms, end_ms
        When the score passed 1, when the fault began, when it was over; None while open.
    peak
        Largest score of any kind.
    title
        One sentence: which host, which part, what is wrong, since when.
    evidence
        Of the worst kind at the peak.
    """

    identity: str
    entity: Entity
    kind: FaultKind
    start_ms: int
    onset_ms: int
    end_ms: int | None
    peak: float
    title: str
    evidence: tuple[FaultEvidence, ...] = ()


@dataclass(frozen=True, slots=True)
class DataFaultEvent:
    """Something happened to an episode of data faults at ``at_ms``."""

    phase: Phase
    at_ms: int
    episode: DataFaultEpisode


@dataclass(frozen=True, slots=True)
class DataQuality:
    """How the data of a host are at ``at_ms``.

    ``faults`` has every kind once, in order; ``coverage`` is the share (0..1) of what is usually there that is there, 1 before anything is known.
    """

    at_ms: int
    faults: tuple[DataFault, ...] = ()
    coverage: float = 1.0
    episode: DataFaultEpisode | None = None


@dataclass(frozen=True, slots=True)
class EntityReport:
    """What one step says of one entity.

    ``named_by_instance`` says that the host's label is missing and the host part of ``instance`` serves for it.
    ``excused`` counts windows above 1 that opened no episode because workloads had changed, by reason; ``changes`` how often another model came
    into force, by what happened (learned, returned, rebased).
    ``quality`` says how its data are; None where nobody looks.

    ``settings`` are those that differ from its peers' or were changed lately, ``follows`` the host whose trouble explains that this one
    deviates as well, so that no episode of its own is told; None where there is none.
    """

    entity: Entity
    scores: tuple[Score, ...]
    learning: Learning
    interval_ms: int | None
    open_episodes: tuple[Episode, ...] = ()
    skipped: Mapping[str, int] = field(default_factory=dict)
    named_by_instance: bool = False
    excused: Mapping[str, int] = field(default_factory=dict)
    changes: Mapping[str, int] = field(default_factory=dict)
    quality: DataQuality | None = None
    settings: tuple[SettingFinding, ...] = ()
    follows: Entity | None = None


@dataclass(frozen=True, slots=True)
class Outputs:
    """What one step says: reports of the entities that exist (also of those without a new window) and episode events.

    ``gone`` are entities that were known before and have had no sample for so long that their series must disappear.
    """

    reports: tuple[EntityReport, ...] = ()
    events: tuple[EpisodeEvent, ...] = ()
    gone: tuple[Entity, ...] = ()
    fault_events: tuple[DataFaultEvent, ...] = ()
