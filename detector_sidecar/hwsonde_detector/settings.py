"""The knobs of the pure rooms, with their defaults; `config` fills them from YAML. Few on purpose."""

from __future__ import annotations

from dataclasses import dataclass, field

from hwsonde_detector.types import Subsystem

FEATURES = ("mean", "deviation", "minimum", "maximum", "slope", "difference", "energy")


@dataclass(frozen=True, slots=True)
class WindowSettings:
    """Windows are stated in rows, so that 3 s at 1 s and 45 s at 15 s are the same code.

    ``rows`` is the width, ``step`` the distance between two windows, ``features`` a selection of `FEATURES`.
    """

    rows: int = 3
    step: int = 1
    features: tuple[str, ...] = ("mean", "deviation", "slope")


@dataclass(frozen=True, slots=True)
class LearningSettings:
    """How much is learned before anything is said.

    ``first_rows`` rows give the first, uncalibrated scores; ``calibrated_rows`` rows make them count. ``memory_rows`` are
    kept for the next fit, which happens when the rows grew by ``refit_growth`` (a ratio), at the latest after ``refit_rows`` new ones.
    ``gate`` says which rows are not learned: those with a score above 1 (``score``), or those that surprise by more than two decades, now or on the
    mean of the last ten rows or so (``surprise``). After ``frozen_rows`` refused rows all are learned: a lasting shift is the new normal.
    ``heard_rows`` scores of learned rows are remembered, for `DetectorSettings.calibration` and the threshold.
    """

    first_rows: int = 60
    calibrated_rows: int = 240
    memory_rows: int = 3600
    refit_growth: float = 0.5
    refit_rows: int = 600
    frozen_rows: int = 3600
    gate: str = "score"
    heard_rows: int = 3600


@dataclass(frozen=True, slots=True)
class DetectorSettings:
    """Which detectors run and how they become one score.

    ``fusion`` is ``mean`` (of the members' surprises) or ``agreement``: the ``agreement``-th largest of them. ``calibration`` says which scores of
    healthy rows a member's tail is learned from: ``live`` (as they were judged before they were learned, cross-fitted ones until there are
    enough), ``folds`` (cross-fitted) or ``training`` (of the rows that the model learned). Of channels correlated above ``correlation`` one is
    looked at; ``keep_constant`` keeps those that never moved, whose first change is news. Deviations beyond ``knee`` grow
    with their logarithm in zscore and mahalanobis; ``residual`` lets mahalanobis see what lies outside of its subspace, too. ``rise`` and ``fall``
    smooth the fused score (`hwsonde_detector.decision.trend`); 1: not at all. The members that ``alone`` names need nobody to agree with them: as
    much as ``alone_at`` of such a member's own unit is the configured risk, once ``alone_after_ms`` of healthy time were learned: less has not
    shown what a host does.
    """

    members: tuple[str, ...] = ("zscore", "mahalanobis", "isolation_forest", "extremes", "bounds")
    fusion: str = "agreement"
    agreement: int = 2
    alone: tuple[str, ...] = ("bounds",)
    alone_at: float = 2.0
    alone_after_ms: int = 300_000
    calibration: str = "folds"
    correlation: float = 0.95
    keep_constant: bool = True
    variance_kept: float = 0.95
    residual: bool = True
    knee: float = 50.0
    trees: int = 100
    tree_rows: int = 256
    seed: int = 1
    rise: float = 1.0
    fall: float = 1.0


@dataclass(frozen=True, slots=True)
class EpisodeSettings:
    """When a score becomes an episode.

    ``budget`` in pages per 100 node-days moves a host's threshold (`hwsonde_detector.decision.thresholds`); 0: it is fixed, and ``risk`` is the
    chance of a healthy window to pass 1.0. Raised when ``raise_windows`` of the last ``raise_of`` windows are at least ``raise_at``, or
    ``alone_windows`` in a row are by a member that needs nobody to agree (0: never; one that is twice as loud is enough where windows come ten
    seconds apart): such a one asks for several rows itself where rows are short. Closed when ``clear_windows`` in a row are below ``clear_at``, or
    twice as many below ``raise_at``; where scrapes are so slow that this would take more than ``clear_after_ms``, after that time, with two
    windows at least (0: however long it takes). After a gap, a start of the detector or of an exporter no episode is opened for
    ``settle_rows`` rows: starting costs the host a second or two of CPU, which is our own doing.
    """

    budget: float = 0.0
    risk: float = 1e-3
    raise_at: float = 1.0
    clear_at: float = 0.7
    raise_windows: int = 4
    raise_of: int = 5
    alone_windows: int = 2
    clear_windows: int = 10
    clear_after_ms: int = 60_000
    settle_rows: int = 10
    gone_after_ms: int = 300_000


@dataclass(frozen=True, slots=True)
class RegimeSettings:
    """How another way of working of a host is learned, recognised and remembered.

    A change of workloads is learned from ``learn_rows`` rows, in which nothing that a workload explains opens an episode. A former regime
    is in force again once it was quiet for ``confirm_rows`` rows; ``kept`` are remembered besides the one in force. An episode that lasts for
    ``rebase_rows`` rows, steady by itself, is the new normal. ``long_rows`` rows of each regime are remembered for longer than the newest ones, up
    to ``forget_ms``.
    """

    learn_rows: int = 240
    confirm_rows: int = 3
    kept: int = 6
    rebase_rows: int = 1800
    long_rows: int = 480
    forget_ms: int = 8 * 86_400_000


@dataclass(frozen=True, slots=True)
class DataFaultSettings:
    """When data count as faulty.

    A part, a collector or a metric is missed once it was there for ``usual_ms``; it must be away for ``missing_ms`` (a collector twice, a
    metric or a target four times as long, all of them at least five scrapes), beginning ``grace_ms`` after a start of the exporter, and after
    ``accept_ms`` it is missed no more. What is slow, skewed or unsteady must stay so for ``sustained_ms`` (at least ten scrapes).
    Single events (resets, lost scrapes, steps of a clock) count when there are ``events`` of them in about ten minutes. A clock that is
    off by ``skew_ms`` is skewed. An episode is over when every score was below ``clear_at`` for ``clear_ms``.
    """

    usual_ms: int = 1_800_000
    missing_ms: int = 30_000
    grace_ms: int = 120_000
    accept_ms: int = 86_400_000
    sustained_ms: int = 60_000
    events: int = 3
    skew_ms: int = 2_000
    clear_at: float = 0.7
    clear_ms: int = 60_000


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """Which hosts are compared, how, and what is said of their settings.

    ``by``: hosts with equal values of these are peers; ``workload`` and ``hardware`` stand for what the profiles' `groups` read from
    info series, any other word for a label of the host's series. Nothing is compared with fewer than ``minimum`` of a kind, itself among
    them. ``risk`` is the chance of a healthy slot of a host to pass 1.0. ``settings_every_ms`` is how often settings are read,
    ``settings_before_ms`` how long a change of one is remembered.
    """

    enabled: bool = True
    by: tuple[str, ...] = ("cluster", "role", "hardware", "workload")
    minimum: int = 4
    risk: float = 1e-5
    settings_every_ms: int = 30_000
    settings_before_ms: int = 3_600_000


@dataclass(frozen=True, slots=True)
class Settings:
    """All of them, and how series become entities.

    ``entity_labels`` name a host; ``subsystems`` limits what is looked at (empty: all).
    """

    entity_labels: tuple[str, ...] = ("cluster", "node")
    window: WindowSettings = field(default_factory=WindowSettings)
    learning: LearningSettings = field(default_factory=LearningSettings)
    detectors: DetectorSettings = field(default_factory=DetectorSettings)
    episodes: EpisodeSettings = field(default_factory=EpisodeSettings)
    subsystems: tuple[Subsystem, ...] = ()
    regimes: RegimeSettings = field(default_factory=RegimeSettings)
    data_faults: DataFaultSettings = field(default_factory=DataFaultSettings)
    peers: PeerSettings = field(default_factory=PeerSettings)
