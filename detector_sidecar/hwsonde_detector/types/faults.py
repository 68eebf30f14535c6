"""What is said of the data themselves."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from hwsonde_detector.types.samples import Device, Entity
from hwsonde_detector.types.scores import Phase


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
