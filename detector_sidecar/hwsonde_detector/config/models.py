"""The sections of the detector's configuration, with defaults; each field's description is its documentation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, PrivateAttr

from hwsonde_detector import settings as s
from hwsonde_detector.config.addresses import Listen, ListenAddress, Url
from hwsonde_detector.config.data_faults import DataFaults
from hwsonde_detector.config.hosts import Peers, Regimes
from hwsonde_detector.config.incidents import Alertmanager, Automation, Incidents, Maintenance, MaintenanceText
from hwsonde_detector.config.section import Section
from hwsonde_detector.config.source import Source
from hwsonde_detector.config.tree import Path as KeyPath
from hwsonde_detector.config.values import (
    LINE,
    Choice,
    FilePath,
    Items,
    Real,
    Size,
    Span,
    Switch,
    Text,
    Whole,
)
from hwsonde_detector.types import Subsystem

MEMBERS = (
    "zscore", "mahalanobis", "isolation_forest", "extremes", "bounds", "level", "change", "unrest", "course", "jumps", "mixture",
)  # fmt: skip
# Members with a unit of their own: 1 is what healthy time reaches.
ALONE = ("bounds",)
FUSIONS = ("mean", "agreement")
GATES = ("score", "surprise")
CALIBRATIONS = ("live", "folds", "training")
SECOND = 1000
HOUR = 3600 * SECOND

_LABEL_NAME = Text(r"[a-zA-Z_][a-zA-Z0-9_]*", "the name of a label: letters, digits, underscores")
_WINDOW = s.WindowSettings()
_LEARNING = s.LearningSettings()
_DETECTORS = s.DetectorSettings()
_EPISODES = s.EpisodeSettings()


class Window(Section):
    """Windows are stated in rows (scrapes), so that 3 s at 1 s and 45 s at 15 s are the same setting."""

    rows: Annotated[int, Whole(2, 600)] = Field(default=_WINDOW.rows, description="Width of a window.")
    step: Annotated[int, Whole(1, 600)] = Field(default=_WINDOW.step, description="Distance between two windows.")
    features: Annotated[tuple[str, ...], Items(Choice(s.FEATURES), 1, len(s.FEATURES))] = Field(
        default=_WINDOW.features, description="What is computed of each channel in a window."
    )


class LearningSection(Section):
    """How much is learned before anything is said."""

    first_rows: Annotated[int, Whole(10, 1_000_000)] = Field(
        default=_LEARNING.first_rows, description="Rows before the first, uncalibrated scores."
    )
    calibrated_rows: Annotated[int, Whole(10, 1_000_000)] = Field(
        default=_LEARNING.calibrated_rows, description="Rows before scores count and may page."
    )
    memory_rows: Annotated[int, Whole(10, 1_000_000)] = Field(
        default=_LEARNING.memory_rows, description="Rows that are kept for the next fit."
    )
    refit_growth: Annotated[float, Real(0.01, 10)] = Field(
        default=_LEARNING.refit_growth, description="A new fit happens when the rows grew by this ratio."
    )
    refit_rows: Annotated[int, Whole(1, 1_000_000)] = Field(
        default=_LEARNING.refit_rows, description="A new fit happens at the latest after this many new rows."
    )
    frozen_rows: Annotated[int, Whole(1, 1_000_000)] = Field(
        default=_LEARNING.frozen_rows,
        description="Rows above 1 are not learned, until this many in a row were refused: a lasting shift is the new normal.",
    )
    gate: Annotated[str, Choice(GATES)] = Field(
        default=_LEARNING.gate,
        description="Which rows are not learned: with a `score` above 1, or with a `surprise` of more than two decades, whatever the threshold.",
    )
    heard_rows: Annotated[int, Whole(10, 1_000_000)] = Field(
        default=_LEARNING.heard_rows,
        description="Scores of learned rows that are remembered, for `calibration: live` and for a threshold that follows a budget.",
    )


class Detectors(Section):
    """Which detectors run and how many must agree."""

    members: Annotated[tuple[str, ...], Items(Choice(MEMBERS), 1, len(MEMBERS))] = Field(
        default=_DETECTORS.members, description="The detectors."
    )
    fusion: Annotated[str, Choice(FUSIONS)] = Field(
        default=_DETECTORS.fusion,
        description="How they become one score: the `mean` of their surprises, or their `agreement`, the k-th largest.",
    )
    agreement: Annotated[int, Whole(1, len(MEMBERS))] = Field(
        default=_DETECTORS.agreement, description="How many must agree, where `fusion` is `agreement`."
    )
    alone: Annotated[tuple[str, ...], Items(Choice(ALONE), 0, len(ALONE))] = Field(
        default=_DETECTORS.alone,
        description="Members that do not vote and need nobody to agree with them: they are judged by their own unit and not by a tail. "
        "Names that are not among `members` say nothing.",
    )
    alone_at: Annotated[float, Real(1.01, 1000)] = Field(
        default=_DETECTORS.alone_at,
        description="How much of their own unit counts as the risk; for `bounds`, how many times further than healthy time a channel must be. "
        "With a budget the threshold moves that, too.",
    )
    alone_after: Annotated[int, Span(0, 30 * 24 * HOUR)] = Field(
        default=_DETECTORS.alone_after_ms,
        description="How much healthy time a host's model must have seen before they say anything: a few minutes have not shown all that it does.",
    )
    calibration: Annotated[str, Choice(CALIBRATIONS)] = Field(
        default=_DETECTORS.calibration,
        description="Which scores of healthy rows tell how rare a score is: `live`, as they were given before the row was learned; `folds`, "
        "cross-fitted; `training`, of the rows that the model learned.",
    )
    correlation: Annotated[float, Real(0.1, 1)] = Field(
        default=_DETECTORS.correlation, description="Of channels that correlate above this, one is kept."
    )
    keep_constant: Annotated[bool, Switch()] = Field(
        default=_DETECTORS.keep_constant, description="Keep channels that never moved: their first change is news."
    )
    variance_kept: Annotated[float, Real(0.1, 1)] = Field(
        default=_DETECTORS.variance_kept, description="Share of variance in the subspace of `mahalanobis`."
    )
    residual: Annotated[bool, Switch()] = Field(
        default=_DETECTORS.residual, description="Whether `mahalanobis` sees what lies outside of its subspace, too."
    )
    knee: Annotated[float, Real(1, 1e9)] = Field(
        default=_DETECTORS.knee,
        description="Deviations beyond this grow with their logarithm in `zscore`, `mahalanobis`.",
    )
    trees: Annotated[int, Whole(1, 2000)] = Field(default=_DETECTORS.trees, description="Trees of `isolation_forest`.")
    tree_rows: Annotated[int, Whole(2, 100_000)] = Field(
        default=_DETECTORS.tree_rows, description="Rows that each tree sees."
    )
    seed: Annotated[int, Whole(0, 2**32 - 1)] = Field(default=_DETECTORS.seed, description="Seed of all randomness.")
    rise: Annotated[float, Real(0.01, 1)] = Field(
        default=_DETECTORS.rise, description="Which part of a rise the fused score follows in a row; 1: all of it."
    )
    fall: Annotated[float, Real(0.01, 1)] = Field(
        default=_DETECTORS.fall,
        description="The same of a fall; below 1, an episode with a few quiet rows in it stays one.",
    )


class Episodes(Section):
    """When a score becomes an episode, and so a page."""

    budget: Annotated[float, Real(0, 1e6)] = Field(
        default=_EPISODES.budget,
        description="Pages per 100 node-days that a host's threshold is set for; 0: `risk` sets it, and it stays.",
    )
    risk: Annotated[float, Real(1e-12, 0.1)] = Field(
        default=_EPISODES.risk, description="Chance of a healthy window to score above 1, where there is no budget."
    )
    raise_at: Annotated[float, Real(0.1, 100)] = Field(
        default=_EPISODES.raise_at, description="Score that counts towards an episode."
    )
    clear_at: Annotated[float, Real(0, 100)] = Field(
        default=_EPISODES.clear_at, description="Score below which windows count towards its end."
    )
    raise_windows: Annotated[int, Whole(1, 1000)] = Field(
        default=_EPISODES.raise_windows, description="An episode opens when this many"
    )
    raise_of: Annotated[int, Whole(1, 1000)] = Field(
        default=_EPISODES.raise_of, description="of the last this many windows are at least `raise_at`."
    )
    alone_windows: Annotated[int, Whole(0, 1000)] = Field(
        default=_EPISODES.alone_windows,
        description="It also opens when this many in a row are by a member of `detectors.alone`, which asks for several rows itself; 0: never. "
        "Where scrapes are ten seconds and more apart one is enough that is twice as loud.",
    )
    clear_windows: Annotated[int, Whole(1, 10_000)] = Field(
        default=_EPISODES.clear_windows,
        description="It closes after this many windows in a row below `clear_at`; one between there and `raise_at` counts half.",
    )
    clear_after: Annotated[int, Span(0, 24 * HOUR)] = Field(
        default=_EPISODES.clear_after_ms,
        description="Where scrapes are so slow that this takes longer, it closes after so long, with two windows at least; 0s: it takes its time.",
    )
    settle_rows: Annotated[int, Whole(0, 10_000)] = Field(
        default=_EPISODES.settle_rows, description="Rows after a start or a gap in which no episode opens."
    )
    gone_after: Annotated[int, Span(SECOND, 30 * 24 * HOUR)] = Field(
        default=_EPISODES.gone_after_ms,
        description="A host without a sample for so long is gone: its series end, an episode of it closes. What was learned of it is kept "
        "until it has been silent for 7 days, but of no more such hosts than half of the most that were there at once (16 in any case).",
    )


class State(Section):
    """What is kept over a restart: models and episodes."""

    dir: Annotated[Path, FilePath()] | None = Field(
        default=Path("/var/lib/hwsonde-detector"),
        description="Folder, which no other detector may use; null: nothing is kept and every start learns anew.",
    )
    save_interval: Annotated[int, Span(SECOND, 24 * HOUR)] = Field(
        default=60 * SECOND, description="How often it is saved besides at episodes and at the end."
    )


class Archive(Section):
    """A recording of every answer of the source, for `replay`."""

    record: Annotated[Path, FilePath()] | None = Field(
        default=None, description="File to append to; null: nothing is recorded."
    )
    max_size: Annotated[int, Size(2**16, 2**40)] = Field(
        default=2**30, description="Recording stops at this size, with one line in the log."
    )


class Web(Section):
    """The page, its JSON and `/metrics`."""

    listen: Annotated[ListenAddress, Listen()] = Field(
        default=ListenAddress("0.0.0.0", 9881),  # noqa: S104 - as the exporter does, and documented
        description="Address to listen on.",
    )
    config_file: Annotated[Path, FilePath()] | None = Field(
        default=None,
        description="File with TLS and users, with the keys of Prometheus's exporter-toolkit, as the exporter's `--web.config.file`; "
        "read again when it changes.",
    )
    without_password: Annotated[tuple[str, ...], Items(Choice(("health", "metrics")), 0, 2)] = Field(
        default=("health",),
        description="What is answered without a password where there are users: `health` (`/-/healthy`, `/-/ready`), `metrics` (`/metrics`).",
    )
    redact: Annotated[tuple[str, ...], Items(_LABEL_NAME, 0, 8)] = Field(
        default=(),
        description="Entity labels whose values pages and JSON show under another name; `/metrics` and the log keep them.",
    )


class Links(Section):
    """Where the page links to; addresses as an operator's browser reaches them."""

    prometheus: Annotated[str, Url()] | None = Field(default=None, description="Prometheus; null: `source.url`.")
    grafana: Annotated[str, Url()] | None = Field(default=None, description="Grafana.")
    alertmanager: Annotated[str, Url()] | None = Field(
        default=None, description="Alertmanager; null: `alertmanager.url`."
    )
    detector: Annotated[str, Url()] | None = Field(
        default=None, description="This detector's own page, for what is sent to others; null: no links to it are sent."
    )


class Log(Section):
    """Lines on standard error."""

    level: Annotated[str, Choice(("debug", "info", "warning", "error"))] = Field(
        default="info", description="The least severe that is written."
    )
    format: Annotated[str, Choice(("logfmt", "json"))] = Field(default="logfmt", description="Form of a line.")


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a configuration came from, so that it can be read again: file, and flags that win over it.

    ``lines`` are the lines of the keys in the file.
    """

    path: Path | None = None
    flags: Mapping[str, str] = field(default_factory=dict)
    lines: Mapping[KeyPath, int] = field(default_factory=dict, compare=False, repr=False)

    @property
    def directory(self) -> Path:
        """The folder that relative paths start from."""
        return self.path.parent if self.path is not None else Path()


class Config(Section):
    """The whole configuration of one detector process."""

    mode: Annotated[Literal["live", "shadow"], Choice(("live", "shadow"))] = Field(
        default="live",
        description="`shadow`: all is scored, what would have paged is published under other names and pages nobody.",
    )
    preset: Annotated[str, LINE] = Field(
        default="default",
        description="How is detected: name of a shipped preset (default, slow, reveal), or path of your own (with a slash or ending in .yaml). "
        "What this file says in `window`, `learning`, `detectors`, `episodes` and `regimes` wins over it.",
    )
    entity_labels: Annotated[tuple[str, ...], Items(_LABEL_NAME, 1, 8)] = Field(
        default=("cluster", "node"), description="Labels whose values name a host."
    )
    profiles: Annotated[tuple[str, ...], Items(LINE, 1, 20)] = Field(
        default=("hwsonde",),
        description="What is read and how: names of shipped profiles, or paths (with a slash or ending in .yaml) of your own.",
    )
    subsystems: Annotated[tuple[str, ...], Items(Choice(tuple(Subsystem)), 0, len(Subsystem))] = Field(
        default=(), description="Subsystems that are looked at; empty: all."
    )
    tick: Annotated[int | Literal["auto"], Span(100, HOUR, ("auto",))] = Field(
        default="auto", description="How often is read: `auto` follows the scrape, a duration is kept as it is."
    )
    source: Source = Field(default=Source(), description="")
    window: Window = Field(default=Window(), description="")
    learning: LearningSection = Field(default=LearningSection(), description="")
    detectors: Detectors = Field(default=Detectors(), description="")
    episodes: Episodes = Field(default=Episodes(), description="")
    regimes: Regimes = Field(default=Regimes(), description="")
    data_faults: DataFaults = Field(default=DataFaults(), description="")
    peers: Peers = Field(default=Peers(), description="")
    state: State = Field(default=State(), description="")
    archive: Archive = Field(default=Archive(), description="")
    maintenance: dict[str, Annotated[Maintenance, MaintenanceText()]] = Field(
        default={},
        description="Stretches of time in which what some hosts do counts as normal and pages nobody, by name.",
    )
    incidents: Incidents = Field(default=Incidents(), description="")
    automation: Automation = Field(default=Automation(), description="")
    alertmanager: Alertmanager = Field(default=Alertmanager(), description="")
    web: Web = Field(default=Web(), description="")
    links: Links = Field(default=Links(), description="")
    log: Log = Field(default=Log(), description="")

    _origin: Origin = PrivateAttr(default=Origin())

    @property
    def origin(self) -> Origin:
        """Where it came from."""
        return self._origin

    def settings(self) -> s.Settings:
        """Give the knobs of the pure rooms."""
        detectors = self.detectors.model_dump()
        episodes = self.episodes.model_dump()
        regimes = self.regimes.model_dump()
        peers = self.peers.model_dump()
        return s.Settings(
            entity_labels=self.entity_labels,
            window=s.WindowSettings(**self.window.model_dump()),
            learning=s.LearningSettings(**self.learning.model_dump()),
            detectors=s.DetectorSettings(alone_after_ms=detectors.pop("alone_after"), **detectors),
            episodes=s.EpisodeSettings(
                gone_after_ms=episodes.pop("gone_after"), clear_after_ms=episodes.pop("clear_after"), **episodes
            ),
            subsystems=tuple(Subsystem(name) for name in self.subsystems),
            regimes=s.RegimeSettings(forget_ms=regimes.pop("forget_after"), **regimes),
            data_faults=self.data_faults.settings(),
            peers=s.PeerSettings(
                settings_every_ms=peers.pop("settings_every"), settings_before_ms=peers.pop("settings_before"), **peers
            ),
        )
