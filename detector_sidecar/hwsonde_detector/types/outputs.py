"""What one step says of all hosts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from hwsonde_detector.types.faults import DataFaultEvent, DataQuality
from hwsonde_detector.types.samples import Entity, Frame
from hwsonde_detector.types.scores import Episode, EpisodeEvent, Learning, Score, SettingFinding


@dataclass(frozen=True, slots=True)
class EntityReport:
    """What one step says of one entity.

    ``named_by_instance`` says that the host's label is missing and the host part of ``instance`` serves for it.
    ``excused`` counts windows above 1 that opened no episode because workloads had changed, by reason; ``changes`` how often another model came
    into force, by what happened (learned, returned, rebased).
    ``quality`` says how its data are; None where nobody looks.

    ``settings`` are those that differ from its peers' or were changed lately, ``follows`` the host whose trouble explains that this one
    deviates as well, so that no episode of its own is told; None where there is none.

    ``rows`` are the host's newest rows, which overlap those of the step before; ``circle`` is what it has in common with its peers, as pairs of word
    and value, empty where nobody is compared with it. ``normal`` are open episodes that are not told because they count as normal, and why.

    ``window`` is the end of the newest full window, judged or not, with the share (0..1) of the channels that the model looks at which it knew; None
    before the first.
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
    rows: Frame | None = field(default=None, compare=False, repr=False)
    circle: tuple[tuple[str, str], ...] = ()
    normal: tuple[tuple[Episode, str], ...] = ()
    window: tuple[int, float] | None = None


@dataclass(frozen=True, slots=True)
class Hushed:
    """An event that was not told, because what the host does counts as normal: of which kind (where it opens), and why."""

    event: EpisodeEvent
    kind: str
    reason: str


@dataclass(frozen=True, slots=True)
class Outputs:
    """What one step says: reports of the entities that exist (also of those without a new window) and episode events.

    ``hushed`` are events that were not told.
    ``gone`` are entities that were known before and have had no sample for so long that their series must disappear.
    ``crowded_out`` are those of which nothing is kept any more because too many are gone.
    """

    reports: tuple[EntityReport, ...] = ()
    events: tuple[EpisodeEvent, ...] = ()
    gone: tuple[Entity, ...] = ()
    fault_events: tuple[DataFaultEvent, ...] = ()
    hushed: tuple[Hushed, ...] = ()
    crowded_out: tuple[Entity, ...] = ()
