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
    Rows with a score above 1 are not learned, until ``frozen_rows`` rows in a row were refused: a lasting shift is the new normal.
    """

    first_rows: int = 60
    calibrated_rows: int = 240
    memory_rows: int = 3600
    refit_growth: float = 0.5
    refit_rows: int = 600
    frozen_rows: int = 3600


@dataclass(frozen=True, slots=True)
class DetectorSettings:
    """Which detectors run and how many must agree.

    ``agreement`` k: the fused score is the k-th largest calibrated score of the members. Of channels correlated above ``correlation`` one is
    looked at; ``keep_constant`` keeps those that never moved, whose first change is news. Deviations beyond ``knee`` grow
    with their logarithm in zscore and mahalanobis.
    """

    members: tuple[str, ...] = ("zscore", "mahalanobis", "isolation_forest", "extremes")
    agreement: int = 2
    correlation: float = 0.95
    keep_constant: bool = True
    variance_kept: float = 0.95
    knee: float = 50.0
    trees: int = 100
    tree_rows: int = 256
    seed: int = 1


@dataclass(frozen=True, slots=True)
class EpisodeSettings:
    """When a score becomes an episode.

    ``risk`` is the chance of a healthy window to pass 1.0. Raised when ``raise_windows`` of the last ``raise_of`` windows are at least
    ``raise_at``; closed when ``clear_windows`` in a row are below ``clear_at``. After a gap, a start of the detector or of an exporter
    no episode is opened for ``settle_rows`` rows: starting costs the host a second or two of CPU, which is our own doing.
    """

    risk: float = 1e-3
    raise_at: float = 1.0
    clear_at: float = 0.7
    raise_windows: int = 4
    raise_of: int = 5
    clear_windows: int = 10
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
