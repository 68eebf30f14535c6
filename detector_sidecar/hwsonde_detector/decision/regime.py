"""What is known of a host's regimes between two rows. Nothing here decides."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from hwsonde_detector.decision.ages import Ages
from hwsonde_detector.decision.bank import Former
from hwsonde_detector.decision.episodes import Persistence
from hwsonde_detector.decision.heard import Heard
from hwsonde_detector.decision.learning import Memory, Progress
from hwsonde_detector.decision.marks import Marks
from hwsonde_detector.decision.model import EntityModel
from hwsonde_detector.decision.thresholds import Threshold
from hwsonde_detector.decision.turns import Turn
from hwsonde_detector.types import Channel, Entity, Episode, Floats, Frame, Mask, Role

START, STOP, PHASE, RETURNING = "start", "stop", "phase", "returning"


@dataclass(slots=True)
class Settling:
    """A change that is being learned.

    ``rows`` since it began, of which ``turned`` had passed when workloads changed last; of the windows ``judged``, ``loud`` were above 1, and
    the ``quiet`` newest were not.
    """

    reason: str
    rows: int = 0
    turned: int = 0
    judged: int = 0
    loud: int = 0
    quiet: int = 0


@dataclass(slots=True, eq=False)
class Regimes:
    """What is known of a host's regimes.

    Attributes
    ----------
    marks
        Which workloads are here.
    busy, born_ms, ages
        Of the regime in force, as in `hwsonde_detector.decision.bank.Former`.
    former
        The others.
    settling
        The change that is being learned; None: none is.
    pending, apart, looked
        Rows that are kept apart, those of a change or of an open episode, how many there were, and how many when an episode's were looked at last.
    excusing
        Only channels that no workload explains count: until the change is learned, and until an episode that they opened meanwhile has ended.
    young
        Rows for which another phase of a new regime may be learned.
    spent
        Rows excused and not paid back yet, in halves.
    excused, changes
        Since the last report: windows that opened no episode, and models that came into force.
    """

    marks: Marks = field(default_factory=Marks)
    busy: bool | None = False
    born_ms: int = 0
    ages: Ages = field(default_factory=Ages)
    former: list[Former] = field(default_factory=list)
    settling: Settling | None = None
    pending: Memory = field(default_factory=Memory)
    apart: int = 0
    looked: int = 0
    excusing: bool = False
    young: int = 0
    spent: int = 0
    excused: dict[str, int] = field(default_factory=dict)
    changes: dict[str, int] = field(default_factory=dict)

    def begin(self, reason: str) -> None:
        """Learn a change from here on."""
        self.settling = Settling(reason)
        self.drop_pending()

    def put_apart(self, row: Frame, most: int) -> None:
        """Keep a row out of the memory, among the newest ``most``."""
        self.pending.append(row, most)
        self.apart += 1

    def drop_pending(self) -> None:
        """Forget the rows that were kept apart."""
        self.pending, self.apart, self.looked = Memory(), 0, 0

    def told(self) -> tuple[dict[str, int], dict[str, int]]:
        """Give what was counted since the last call: windows excused and models changed."""
        counted = self.excused, self.changes
        self.excused, self.changes = {}, {}
        return counted


class Host(Protocol):
    """What regimes and fits change of a host."""

    entity: Entity
    recent: Frame | None
    memory: Memory
    progress: Progress
    model: EntityModel | None
    persistence: Persistence
    strengths: deque[Floats]
    episode: Episode | None
    regimes: Regimes
    interval_ms: int | None
    heard: Heard
    threshold: Threshold
    misfit: int
    turn: Turn


def fault_mask(channels: tuple[Channel, ...]) -> Mask:
    """Which channels no workload explains, bool (c)."""
    return np.array([channel.role is Role.FAULT for channel in channels], np.bool_)


def forget_windows(persistence: Persistence) -> None:
    """Close without having become quiet; what was loud before does not count any more."""
    persistence.open, persistence.quiet, persistence.alone, persistence.drifts = False, 0, 0, None
    persistence.recent.clear()
