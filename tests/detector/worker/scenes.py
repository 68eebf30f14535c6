"""Four hosts of one job whose episodes the test makes up, and what is told of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

import numpy as np

from hwsonde_detector.decision.peering import Member, PeerGroup, Slot
from hwsonde_detector.detectors.peers import Compared, lay_out
from hwsonde_detector.settings import PeerSettings
from hwsonde_detector.standings import Circle, Telling
from hwsonde_detector.telling import Teller
from hwsonde_detector.types import (
    Channel,
    Contribution,
    Entity,
    EntityReport,
    Episode,
    EpisodeEvent,
    Learning,
    Phase,
    Scope,
    Score,
    Subsystem,
)

CHANNEL = Channel("c", Subsystem.CPU)
LEARNING = Learning(300, 240, None, frozen=False, channels=1, channels_judged=1)


def entity(number: int) -> Entity:
    return Entity((("node", f"n{number}"),))


def event(
    number: int,
    at_ms: int,
    phase: Phase = Phase.OPENED,
    subsystem: Subsystem = Subsystem.CPU,
    onset_ms: int = 9_000,
    because: str = "",
) -> EpisodeEvent:
    top = (Contribution(CHANNEL, 1.0, 9.0, 9.0, 0.0, 1.0),)
    end = at_ms if phase is Phase.CLOSED else None
    title = f"t; closed: {because}" if because else "t"
    start = onset_ms + 1000
    return EpisodeEvent(
        phase,
        at_ms,
        Episode(
            f"n{number}@{onset_ms}", entity(number), start, onset_ms, end, subsystem, 2.0, title, top, because=because
        ),
    )


def score(number: int, end_ms: int, fused: float, *, calibrated: bool = True) -> Score:
    return Score(entity(number), end_ms, fused, {}, {}, (), calibrated, 1.0, 1.0, 0.0)


class Scene:
    """Four hosts; who is loud and who is odd up to 10 s, and whose episodes count as normal."""

    def __init__(self, loud: Iterable[int] = (), odd: Iterable[int] = (), normal: Iterable[int] = ()) -> None:
        self.telling = Telling()
        self.normal = {entity(number) for number in normal}
        self.group = PeerGroup(
            {entity(number): Member() for number in range(4)},
            interval_ms=1000,
            judged=9,
            cells=lay_out([(entity(number), (CHANNEL,)) for number in range(4)], 4),
        )
        for number in range(4):
            self.hear(number, 2.0 if number in loud else 0.1, *range(6, 11))
            self.stand(number, *range(6, 11), odd=number in odd)
        circle = Circle(self.group, job=True, name="17")
        self.circles = {entity(number): circle for number in range(4)}
        self.events: list[EpisodeEvent] = []
        self.pages: dict[int, int] = {}
        self.teller = self._teller()

    def _teller(self) -> Teller:
        return Teller(
            self.telling,
            self.circles,
            PeerSettings(),
            lambda one, at_ms: (),
            lambda episode: episode.entity in self.normal,
            [one for one, member in self.group.members.items() if member.persistence.open],
        )

    def hear(self, number: int, fused: float, *seconds: int) -> None:
        scores = tuple(score(number, 1000 * second, fused) for second in seconds)
        self.telling.hear(EntityReport(entity(number), scores, LEARNING, 1000))

    def stand(self, number: int, *seconds: int, odd: bool = False) -> None:
        """What the host's peers say of it in slots that end at these seconds."""
        value = 2.0 if odd else 0.1
        member = self.group.members[entity(number)]
        member.trail = deque([*member.trail, *((1000 * second, value, None) for second in seconds)])

    def slot(self, number: int, second: int) -> Slot:
        """A slot that ends at a second, in which one host is unlike the others."""
        odd = np.arange(4) == number
        values, ones = np.where(odd, 50.0, 10.0), np.ones(4)
        compared = Compared(values - 10.0, 10.0 * ones, ones, ones)
        told = {entity(one): 2.0 if one == number else 0.1 for one in range(4)}
        return Slot(1000 * second, told, np.where(odd, 9.0, 0.0), values, compared, self.group.cells, (), ())

    def differ(self, number: int, second: int) -> None:
        """The host differs from its peers from the slot on that ends at a second."""
        self.group.members[entity(number)].persistence.open = True
        self.group.newest = self.slot(number, second)
        self.teller.rise(entity(number), self.group.newest)

    def agree(self, number: int, second: int) -> None:
        """The host differs no more."""
        self.group.members[entity(number)].persistence.open = False
        self.teller.fall(entity(number), 1000 * second)

    def finish(
        self, second: float, silent: Mapping[Entity, int] | None = None, rows: float | None = None
    ) -> list[tuple[Phase, int, Scope]]:
        """End a step; ``rows`` is the second of the newest row, where it is another one."""
        row_ms = round(1000 * (second if rows is None else rows))
        if rows is None:
            self.group.judged = int(second) - 1
        newest = {entity(number): row_ms for number in range(4)}
        self.teller.finish(newest, lambda one: self.group.members[one].persistence, round(1000 * second), silent or {})
        said = self.said()
        self.next()
        return said

    def next(self) -> None:
        """Begin another step."""
        self.events += self.teller.events
        for one, by in self.teller.pages.items():
            number = int(dict(one.labels)["node"][1:])
            self.pages[number] = self.pages.get(number, 0) + by
        self.teller = self._teller()

    def said(self) -> list[tuple[Phase, int, Scope]]:
        """Everything told so far."""
        return [
            (one.phase, int(dict(one.episode.entity.labels)["node"][1:]), one.episode.scope)
            for one in (*self.events, *self.teller.events)
        ]
