"""A group of hosts through time: compared slot by slot, judged by the group's own past. Pure.

Rows are aligned to *slots* of one scrape interval: of each host the first row in a slot counts, else its last one in the slot before (two
scrapes of one target are never exactly an interval apart). What happened within one interval on two hosts is never put in an order. A slot
is judged once every host of the group has a row in it or after it; a host that is two slots behind the others is not waited for.

A host's value is the mean strength of its three loudest channels, judged by the tail of the same of its own past: 1 is the configured
risk. A host without enough past, be it new or ill from its first day, is judged by where the others usually lie, on channels that show
what is wrong by itself (weight 1), and must stay there for long: use and throughput may differ for ever for good reasons.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from hwsonde_detector.decision.calibration import Tail, calibrated, fit_tail, surprise
from hwsonde_detector.decision.episodes import Persistence
from hwsonde_detector.decision.learning import align
from hwsonde_detector.decision.scope import leading_device
from hwsonde_detector.detectors.peers import (
    LOUDEST,
    Cells,
    CellTails,
    Compared,
    Floats32,
    History,
    Indices,
    beyond_others,
    compare,
    fit_cells,
    lay_out,
    loudest,
)
from hwsonde_detector.detectors.tails import KNEE, ColumnTails
from hwsonde_detector.settings import EpisodeSettings, Settings
from hwsonde_detector.types import Channel, Device, Entity, Floats, Frame

# Beside a host that is loud by its own past, a smaller difference tells who it is: once in a thousand healthy slots at the default risk.
ODD_AT = 0.6
# Slots that a host may be behind before it is no longer waited for.
_PATIENCE = 2
# Values kept of each host, in slots; more only while they are of the present step.
TRAIL = 64
# Where more of a group than this stand out, it is no group of equals, and nobody of it is paged for that alone.
_ODD_SHARE = 0.25
_NEVER = 1e30
# At most so many hosts learn in one slot, so that a large group does not hold up a tick.
_FITS_A_SLOT = 2
# Of the moving average of spreads: its past counts for some twenty slots.
_SMOOTHING = 0.05


@dataclass(slots=True)
class Member:
    """One host of a group.

    Attributes
    ----------
    accepted, fitted, refused
        Slots that were healthy, how many of them when the model in force was made, and slots refused in a row.
    tails, tail
        The model: of its cells, and of its value; None before the first.
    persistence
        Of its value.
    trail
        End of a slot, value, and the part that stands out; oldest first.
    rows
        Rows not yet judged and the last one judged: number of the slot, channels, values.
    """

    accepted: int = 0
    fitted: int = 0
    refused: int = 0
    tails: CellTails | None = None
    tail: Tail | None = None
    persistence: Persistence = field(default_factory=Persistence)
    trail: deque[tuple[int, float, Device | None]] = field(default_factory=deque)
    rows: dict[int, tuple[tuple[Channel, ...], Floats]] = field(default_factory=dict)

    def warm(self, settings: Settings) -> bool:
        """Whether its own past judges it."""
        return self.tail is not None and self.fitted >= settings.learning.calibrated_rows

    def rows_to_fit(self, settings: Settings) -> int:
        """Slots until it learns again; 0 when that is due."""
        learning = settings.learning
        due = learning.first_rows
        if self.fitted:
            due = self.fitted + min(max(int(self.fitted * learning.refit_growth), 1), learning.refit_rows)
            if self.fitted < learning.calibrated_rows:
                due = min(due, learning.calibrated_rows)
        return max(due - self.accepted, 0)


@dataclass(frozen=True, slots=True, eq=False)
class Slot:
    """One judged slot: its end, the values of the hosts, their cells' strengths (n) and distances, and who rose and who fell."""

    end_ms: int
    values: Mapping[Entity, float]
    strength: Floats
    raw: Floats
    compared: Compared
    cells: Cells
    opened: tuple[Entity, ...]
    closed: tuple[Entity, ...]


@dataclass(slots=True, eq=False)
class PeerGroup:
    """Hosts that are peers of each other, or one host alone, whose parts are.

    ``judged`` is the number of the last judged slot of ``interval_ms``; ``usual`` is (n)
    the moving average of `Compared.narrow`, 0 before the first; ``own`` and ``others`` are the tails of all cells in force. ``newest`` is the slot
    that was judged last since the start of the detector.
    """

    members: dict[Entity, Member] = field(default_factory=dict)
    interval_ms: int = 0
    judged: int | None = None
    cells: Cells = field(default_factory=lambda: lay_out((), 2))
    history: History = field(default_factory=History)
    usual: Floats = field(default_factory=lambda: np.zeros(0))
    own: ColumnTails | None = None
    others: ColumnTails | None = None
    newest: Slot | None = None

    @property
    def judged_ms(self) -> int:
        """End of the last judged slot; 0 before the first."""
        return (self.judged + 1) * self.interval_ms if self.judged is not None else 0


Unhealthy = Callable[[Entity, int], bool]


def join(group: PeerGroup, entities: Mapping[Entity, Member] | tuple[Entity, ...]) -> None:
    """Make these the hosts of the group; those that stay keep their past, those that leave take theirs away."""
    group.members = {entity: group.members.get(entity) or Member() for entity in sorted(entities)}


def pace(group: PeerGroup, interval_ms: int) -> None:
    """Set the length of a slot: a whole number of quarter seconds, changed only when it is clearly another one."""
    rounded = max(round(interval_ms / 250) * 250, 250)
    if abs(rounded - group.interval_ms) <= 0.2 * group.interval_ms:
        return
    group.interval_ms, group.judged = rounded, None
    for member in group.members.values():
        member.rows.clear()


def take(group: PeerGroup, entity: Entity, frame: Frame) -> None:
    """Add new rows of a host; of those in one slot the first counts, what comes for a judged slot is too late."""
    member = group.members[entity]
    for time, row in zip(frame.times.tolist(), frame.values, strict=True):
        slot = time // group.interval_ms
        if group.judged is None or slot > group.judged:
            member.rows.setdefault(slot, (frame.channels, row))


def advance(group: PeerGroup, settings: Settings, unhealthy: Unhealthy, settled: Mapping[Entity, int]) -> list[Slot]:
    """Judge every slot that is complete.

    Parameters
    ----------
    group
        Changed in place.
    settings
        All of them.
    unhealthy
        Whether a host deviated from its own past at a time: such slots are not learned.
    settled
        Times before which no episode of a host opens, ms.
    """
    newest = {entity: max(member.rows) for entity, member in group.members.items() if member.rows}
    if not newest:
        return []
    waited_for = [slot for slot in newest.values() if slot >= max(newest.values()) - _PATIENCE]
    last = min(waited_for)
    first = min(min(member.rows) for member in group.members.values() if member.rows)
    if group.judged is not None:
        first = max(first, group.judged + 1)
    _lay_out(group, settings)
    present = {slot for member in group.members.values() for slot in member.rows if first <= slot <= last}
    slots = []
    if group.cells.names:
        slots = [_judge(group, number, settings, unhealthy, settled) for number in sorted(present)]
    group.newest = slots[-1] if slots else group.newest
    group.judged = max(last, group.judged or last)
    for member in group.members.values():
        member.rows = {slot: row for slot, row in member.rows.items() if slot >= last}
        while slots and len(member.trail) > TRAIL and member.trail[0][0] < slots[0].end_ms:
            member.trail.popleft()
    return slots


def _lay_out(group: PeerGroup, settings: Settings) -> None:
    """Find the cells anew when a host or a channel came or went."""
    known = dict(zip(group.cells.members, group.cells.channels, strict=True))
    present: list[tuple[Entity, tuple[Channel, ...]]] = []
    for entity, member in group.members.items():
        before = known.get(entity)
        channels = member.rows[max(member.rows)][0] if member.rows else before
        if channels is not None:
            present.append((entity, before if before is not None and channels == before else channels))
    if len(present) == len(known) and all(known.get(entity) is channels for entity, channels in present):
        return
    cells = lay_out(present, settings.peers.minimum)
    if cells.names != group.cells.names:
        group.history = group.history.moved(group.cells.names, cells.names)
        usual = dict(zip(group.cells.names, group.usual.tolist(), strict=True))
        group.usual = np.array([usual.get(name, 0.0) for name in cells.names], np.float64)
        _move_tails(group, cells)
        group.own = None
    group.cells = cells
    for place, entity in enumerate(cells.members):
        if cells.spans[place + 1] == cells.spans[place]:
            # Where nothing of a host is compared any more nothing would ever tell that it is like the others again.
            group.members[entity].persistence = Persistence()


def _move_tails(group: PeerGroup, cells: Cells) -> None:
    """Give each host the tails of its cells in the new order; new cells have no past, those that stay keep theirs."""
    places = {name: place for place, name in enumerate(group.cells.names)}
    source = np.array([places.get(name, -1) for name in cells.names], np.int64)
    own, far = _gathered(group, group.cells)
    known = source >= 0
    centre = np.where(known, np.append(own.centre, 0.0)[source], 0.0)
    usual, excess, usual_far, excess_far = (
        np.where(known, np.append(values, _NEVER)[source], _NEVER) for values in (own.usual, own.excess, *far)
    )
    for number, entity in enumerate(cells.members):
        member, span = group.members[entity], slice(cells.spans[number], cells.spans[number + 1])
        if member.tails is not None:
            tails = ColumnTails(centre[span], usual[span], excess[span])
            member.tails = CellTails(tails, np.stack([usual_far[span], excess_far[span]]))


def _judge(
    group: PeerGroup, number: int, settings: Settings, unhealthy: Unhealthy, settled: Mapping[Entity, int]
) -> Slot:
    cells, end_ms = group.cells, (number + 1) * group.interval_ms
    raw = cells.row(
        [_row(group.members[entity], number, cells.channels[place]) for place, entity in enumerate(cells.members)]
    )
    compared = compare(raw, cells, settings.peers.minimum, group.usual)
    group.usual = _averaged(group.usual, compared.narrow)
    strength = _strength(group, compared.deviation, settings)
    values: dict[Entity, float] = {}
    for place, entity in enumerate(cells.members):
        member, span = group.members[entity], slice(cells.spans[place], cells.spans[place + 1])
        if not np.isfinite(compared.deviation[span]).any():
            continue
        value = _value(member, strength[None, span], _starts(cells, place), settings)
        values[entity] = value
        device = leading_device(strengths(cells, strength, place)) if value >= ODD_AT else None
        member.trail.append((end_ms, value, device))
    crowd = sum(value >= ODD_AT for value in values.values()) > max(1.0, _ODD_SHARE * len(group.members))
    opened, closed = [], []
    healthy = np.ones(len(cells.names), np.bool_)
    for place, entity in enumerate(cells.members):
        if entity not in values:
            continue
        member = group.members[entity]
        may = not crowd and end_ms >= settled.get(entity, 0)
        rises, falls = _persist(member, values[entity], end_ms, group.interval_ms, settings, may=may)
        opened += [entity] if rises else []
        closed += [entity] if falls else []
        ill = member.persistence.open or values[entity] >= 1.0 or unhealthy(entity, end_ms)
        member.refused = member.refused + 1 if ill else 0
        if ill and member.refused <= settings.learning.frozen_rows:
            healthy[cells.spans[place] : cells.spans[place + 1]] = False
        else:
            member.accepted += 1
    group.history.add(np.where(healthy, compared.deviation, np.nan))
    _learn(group, settings)
    return Slot(end_ms, values, strength, raw, compared, cells, tuple(opened), tuple(closed))


def _averaged(usual: Floats, newest: Floats) -> Floats:
    """Moving average of what is known; the first value is the average."""
    step = np.where(usual > 0, _SMOOTHING * (newest - usual), newest)
    return usual + np.where(np.isfinite(newest), step, 0.0)


def _row(member: Member, number: int, channels: tuple[Channel, ...]) -> Floats | None:
    """A host's values in a slot: of its own row in it, else of the one before."""
    found = member.rows.get(number) or member.rows.get(number - 1)
    if found is None:
        return None
    own, row = found
    return row if own is channels else align(row[None, :], own, channels)[0]


def _starts(cells: Cells, place: int) -> Indices:
    begin, end = cells.channel_spans[place], cells.channel_spans[place + 1]
    return np.asarray(cells.starts[begin:end] - cells.spans[place], np.int64)


def _strength(group: PeerGroup, deviation: Floats, settings: Settings) -> Floats:
    """Weighted surprise (n) of deviations (n)."""
    cells = group.cells
    if group.own is None or group.others is None:
        group.own, far = _gathered(group, cells)
        group.others = beyond_others(far, cells, settings.peers.minimum)
    warm = np.array([group.members[entity].warm(settings) for entity in cells.members], np.bool_)[cells.owner]
    strength = group.own.surprise(deviation[None, :])[0] * cells.weight
    if not warm.all():
        cold = group.others.surprise(deviation[None, :])[0] * (cells.weight >= 1.0)
        strength = np.where(warm, strength, cold)
    return np.where(np.isfinite(deviation), strength, 0.0)


def _gathered(group: PeerGroup, cells: Cells) -> tuple[ColumnTails, Floats]:
    """Tails of all cells by their own past, and how far they usually lie from their like (2, n)."""
    count = len(cells.names)
    centre, usual, excess = np.zeros(count), np.full(count, _NEVER), np.full(count, _NEVER)
    far = np.full((2, count), _NEVER)
    for place, entity in enumerate(cells.members):
        member, span = group.members.get(entity), slice(cells.spans[place], cells.spans[place + 1])
        tails = member.tails if member is not None else None
        if tails is not None and len(tails.own.centre) == cells.spans[place + 1] - cells.spans[place]:
            centre[span], usual[span], excess[span] = tails.own.centre, tails.own.usual, tails.own.excess
            far[:, span] = tails.far
    return ColumnTails(centre, usual, excess), far


def _value(member: Member, strength: Floats, starts: Indices, settings: Settings) -> float:
    """Value of a host from the strengths (1, c) of its cells: 1 is the configured risk."""
    loud = loudest(strength, starts)
    if member.tail is not None and member.warm(settings):
        # Strengths are decades: the loudest together surprise at most as if they were independent. Where all was still while it was learned,
        # what is usual for every single cell would be a giant by the tail.
        loud = np.minimum(surprise(member.tail, loud), min(LOUDEST, len(starts)) * loud)
    return float(calibrated(loud, settings.peers.risk)[0])


def _persist(
    member: Member, value: float, end_ms: int, step_ms: int, settings: Settings, *, may: bool
) -> tuple[bool, bool]:
    rules = settings.episodes if member.warm(settings) else _patient(settings)
    lasting = value >= rules.raise_at
    return member.persistence.observe(value, end_ms, rules, lasting=lasting, calibrated=may, step_ms=step_ms)


def _patient(settings: Settings) -> EpisodeSettings:
    """Rules for a host without a past of its own: only what stays so for half of the first rows counts."""
    windows = max(settings.learning.first_rows // 2, settings.episodes.raise_windows)
    return replace(settings.episodes, raise_windows=windows, raise_of=windows + windows // 4, alone_windows=0)


def _learn(group: PeerGroup, settings: Settings) -> None:
    """Fit the models that are due."""
    cells = group.cells
    due = [
        place
        for place, entity in enumerate(cells.members)
        if cells.spans[place + 1] > cells.spans[place] and not group.members[entity].rows_to_fit(settings)
    ]
    for place in due[:_FITS_A_SLOT]:
        member = group.members[cells.members[place]]
        rows = group.history.rows[:, cells.spans[place] : cells.spans[place + 1]]
        known = np.isfinite(rows).any(axis=1)
        member.tails = fit_cells(rows[known])
        member.tail = _fit_value(
            rows[known], cells.weight[cells.spans[place] : cells.spans[place + 1]], _starts(cells, place)
        )
        member.fitted = member.accepted
        group.own = None


def _fit_value(rows: Floats32, weight: Floats, starts: Indices) -> Tail | None:
    """Tail of a host's loudness, each half of the past judged by the other: rows that were learned say too little."""
    half = len(rows) // 2
    if half < 2:
        return None
    scores = []
    for seen, judged in ((rows[:half], rows[half:]), (rows[half:], rows[:half])):
        strength = fit_cells(seen).own.surprise(judged.astype(np.float64)) * weight
        scores.append(loudest(np.where(np.isfinite(judged), strength, 0.0), starts))
    return fit_tail(np.concatenate(scores))


def strengths(cells: Cells, strength: Floats, place: int) -> dict[Device | None, float]:
    """What is beyond the usual of a host's cells, by the part that they belong to."""
    found: dict[Device | None, float] = {}
    for cell in range(int(cells.spans[place]), int(cells.spans[place + 1])):
        beyond = float(strength[cell]) - KNEE * float(cells.weight[cell])
        if beyond > 0:
            device = cells.channel(cell).device
            found[device] = found.get(device, 0.0) + beyond
    return found
