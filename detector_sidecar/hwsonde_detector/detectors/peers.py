"""Comparing hosts, and the parts of one host, with their like at the same time.

A *cell* is one channel of one host. It is compared with the same channel of the other hosts of its group and, where it belongs to one of
several parts of a kind (GPUs, network cards, RDMA ports, disks of one class), with the same channel of the other parts of its host.
With the median M and the median absolute deviation of all values x of one comparison, on the axis on which the channel is judged::

    d = (x - M) / max(1.4826 MAD, usual MAD, floor)

The usual MAD is its own moving average: of few values it is small now and then by chance, and would make giants of small distances.

A group may always differ: a parameter server, a card in a warm slot. So d is judged by the cell's own past (`fit_cells`): its centre, the
98th percentile of the distance from it and the mean excess over that. A cell without enough past is judged by where the others of its
comparison usually lie, at the most: whoever lies beyond all of them stands out by himself.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hwsonde_detector.detectors.tails import ColumnTails
from hwsonde_detector.types import Channel, Entity, Floats

Indices = NDArray[np.int64]
Floats32 = NDArray[np.float32]
# Host, name of the channel, and what it is compared with: the same channel of other hosts, or of other parts.
CellName = tuple[Entity, str, str]
HOSTS, PARTS = "hosts", "parts"

_MAD_TO_DEVIATION = 1.4826
# As in `decision.scaling`: the smallest deviation that matters of a logarithmic channel.
_LOGARITHMIC_FLOOR = 0.3
# Channels whose strengths make a host's loudness.
LOUDEST = 3
# Smallest usual distance, in spreads of the group at the time.
_LEAST_USUAL = 1.0
_LEAST_EXCESS = 1.0 / 3.0
_PERCENTILE = 0.98
# A cell that was known less often has no past to be judged by.
_LEAST_ROWS = 20
# The distance of what is not judged at all.
_NEVER = 1e30

_KINDS = frozenset({"gpu", "nic", "rdma", "disk"})
# Parts that software made are not alike, whatever they are called.
_MADE = re.compile(r"lo\Z|veth|docker|br-|virbr|cali|cni|flannel|tap|tun|dummy|loop|z?ram|dm-|md\d|sr\d|fd\d")


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The n cells of a group, in order of host and channel.

    Attributes
    ----------
    members
        The m hosts.
    channels
        Channels of each host, as its rows have them.
    names
        What the cells are.
    owner, column
        int64 (n): number of the host, and of the channel among the host's.
    spans
        int64 (m + 1): cells ``spans[i]:spans[i + 1]`` are those of host i.
    starts, channel_spans
        int64: the first cell of each of the q channels that have cells; which of these q are whose, as ``spans``.
    divisor, floor, weight
        float64 (n): of the axis (0: not logarithmic), of the spread on that axis, and the channel's weight.
    comparisons
        int64 (k, w) each: the cells that are compared with each other, one comparison a row, filled up with -1.
    """

    members: tuple[Entity, ...]
    channels: tuple[tuple[Channel, ...], ...]
    names: tuple[CellName, ...]
    owner: Indices
    column: Indices
    spans: Indices
    starts: Indices
    channel_spans: Indices
    divisor: Floats
    floor: Floats
    weight: Floats
    comparisons: tuple[Indices, ...]

    def channel(self, cell: int) -> Channel:
        """The channel of a cell."""
        return self.channels[int(self.owner[cell])][int(self.column[cell])]

    def of(self, entity: Entity) -> tuple[CellName, ...]:
        """What the cells of a host are; none where it has none."""
        if entity not in self.members:
            return ()
        place = self.members.index(entity)
        return self.names[int(self.spans[place]) : int(self.spans[place + 1])]

    def row(self, rows: Sequence[Floats | None]) -> Floats:
        """Values of the cells (n), from each host's row of values of its channels; NaN where a host has none."""
        values = np.full(len(self.names), np.nan)
        for number, row in enumerate(rows):
            begin, end = self.spans[number], self.spans[number + 1]
            if row is not None and end > begin:
                values[begin:end] = row[self.column[begin:end]]
        return values


def family(channel: Channel) -> str | None:
    """What a channel is called without the part it belongs to, with the class of the part; None where parts are not compared.

    Examples
    --------
    >>> from hwsonde_detector.types import Device, Subsystem
    >>> family(Channel("disk_busy{device=nvme1n1}", Subsystem.STORAGE, Device("disk", "nvme1n1")))
    'disk nvme#n# disk_busy{device=*}'
    """
    device = channel.device
    if device is None or device.kind not in _KINDS or _MADE.match(device.name):
        return None
    # GPUs of one host are bought alike; other parts are alike where only numbers in their names differ.
    kind = device.kind if device.kind == "gpu" else f"{device.kind} {re.sub(r'[0-9]+', '#', device.name)}"
    for value in (device.name, json.dumps(device.name, ensure_ascii=False)):
        for end in (",", "}"):
            if f"={value}{end}" in channel.name:
                return f"{kind} {channel.name.replace(f'={value}{end}', f'=*{end}', 1)}"
    return None


def lay_out(members: Sequence[tuple[Entity, tuple[Channel, ...]]], minimum: int) -> Cells:
    """Find the cells of hosts with these channels.

    Parameters
    ----------
    members
        Hosts with their channels.
    minimum
        Fewer hosts with a channel, or parts of a kind, are not compared.
    """
    wanted: dict[tuple[object, ...], list[tuple[int, int, str]]] = {}
    for number, (_, channels) in enumerate(members):
        for place, channel in enumerate(channels):
            if channel.weight <= 0:
                continue
            wanted.setdefault((HOSTS, channel.name), []).append((number, place, HOSTS))
            part = family(channel)
            if part is not None:
                wanted.setdefault((PARTS, number, part), []).append((number, place, PARTS))
    compared = [cells for cells in wanted.values() if len(cells) >= max(minimum, 2)]
    ordered = sorted(cell for cells in compared for cell in cells)
    places = {cell: place for place, cell in enumerate(ordered)}
    owner, column = (np.array([cell[axis] for cell in ordered], np.int64) for axis in (0, 1))
    chosen = [members[number][1][place] for number, place, _ in ordered]
    spans = np.searchsorted(owner, np.arange(len(members) + 1)).astype(np.int64)
    first = np.ones(len(ordered), np.bool_)
    first[1:] = (np.diff(owner) != 0) | (np.diff(column) != 0)
    starts = np.flatnonzero(first).astype(np.int64)
    return Cells(
        members=tuple(entity for entity, _ in members),
        channels=tuple(channels for _, channels in members),
        names=tuple((members[number][0], members[number][1][place].name, kind) for number, place, kind in ordered),
        owner=owner,
        column=column,
        spans=spans,
        starts=starts,
        channel_spans=np.searchsorted(starts, spans).astype(np.int64),
        divisor=np.array([channel.floor if channel.logarithmic else 0.0 for channel in chosen], np.float64),
        floor=np.array(
            [_LOGARITHMIC_FLOOR if channel.logarithmic else max(channel.floor, 1e-300) for channel in chosen],
            np.float64,
        ),
        weight=np.array([channel.weight for channel in chosen], np.float64),
        comparisons=_padded([[places[cell] for cell in cells] for cells in compared]),
    )


def _padded(comparisons: Iterable[list[int]]) -> tuple[Indices, ...]:
    """Tables of comparisons of nearly equal size, so that little of them is filling."""
    sizes: dict[int, list[list[int]]] = {}
    for cells in comparisons:
        sizes.setdefault(len(cells).bit_length(), []).append(cells)
    tables = []
    for _, group in sorted(sizes.items()):
        table = np.full((len(group), max(map(len, group))), -1, np.int64)
        for place, cells in enumerate(group):
            table[place, : len(cells)] = cells
        tables.append(table)
    return tuple(tables)


@dataclass(frozen=True, slots=True, eq=False)
class Compared:
    """One moment of a group: float64 (n) each, NaN where not known.

    ``deviation`` is d; ``middle`` and ``spread`` are the comparison's median and spread, ``narrow`` the median absolute deviation that the
    spread is at least; these three on the axis on which the channel is judged.
    """

    deviation: Floats
    middle: Floats
    spread: Floats
    narrow: Floats


def compare(values: Floats, cells: Cells, minimum: int, usual: Floats | None = None) -> Compared:
    """Distance of every cell from its like.

    Parameters
    ----------
    values
        float64 (n), in the channels' own units.
    cells
        What is compared with what.
    minimum
        Comparisons of fewer known values say nothing.
    usual
        float64 (n): what the median absolute deviation usually is, on the same axis (`Compared.narrow`); a smaller one of the moment is chance.
    """
    known = np.where(np.isfinite(values), values, np.nan)
    logarithmic = cells.divisor > 0
    moved = np.where(logarithmic, np.arcsinh(known / np.where(logarithmic, cells.divisor, 1.0)), known)
    deviation, middle, spread, narrow = (np.full(len(values), np.nan) for _ in range(4))
    for table in cells.comparisons:
        used = table >= 0
        block = np.where(used, moved[table], np.nan)
        centre, count = _medians(block)
        mad, _ = _medians(np.abs(block - centre[:, None]))
        mad = np.where(count < minimum, np.nan, mad * _MAD_TO_DEVIATION)
        scale = np.maximum(mad, cells.floor[table[:, 0]])
        if usual is not None:
            scale = np.maximum(scale, usual[table[:, 0]])
        places = table[used]
        deviation[places] = ((block - centre[:, None]) / scale[:, None])[used]
        middle[places] = np.broadcast_to(centre[:, None], block.shape)[used]
        spread[places] = np.broadcast_to(scale[:, None], block.shape)[used]
        narrow[places] = np.broadcast_to(mad[:, None], block.shape)[used]
    return Compared(deviation, middle, spread, narrow)


def _medians(block: Floats) -> tuple[Floats, Indices]:
    """Median of the known values in each row of (k, w), NaN without any, and how many there are."""
    ordered = np.sort(block, axis=1)  # NaN last
    count = np.isfinite(block).sum(axis=1)
    low, high = np.maximum((count - 1) // 2, 0), np.minimum(count // 2, block.shape[1] - 1)
    rows = np.arange(len(block))
    middle = (ordered[rows, low] + ordered[rows, high]) / 2.0
    return np.where(count > 0, middle, np.nan), count


class History:
    """Deviations of the past: at most `LIMIT` moments of n cells, thinned out so that they reach back further and further.

    When it is full every second moment goes and half as many come from then on, until one in `SPARSEST` is kept; then the oldest quarter
    goes.
    """

    LIMIT = 256
    SPARSEST = 32

    def __init__(self, cells: int = 0) -> None:
        self._rows: Floats32 = np.full((self.LIMIT, cells), np.nan, np.float32)
        self.count = 0
        self.stride = 1
        self.waited = 0

    @property
    def rows(self) -> Floats32:
        """Moments kept, oldest first, float32 (count, n); NaN where a cell was not known or not healthy."""
        return self._rows[: self.count]

    @staticmethod
    def of(rows: Floats32, stride: int, waited: int) -> History:
        """Take back what was saved; raises ValueError if it is of another shape."""
        if rows.ndim != 2 or len(rows) > History.LIMIT or not 1 <= stride <= History.SPARSEST:
            raise ValueError("the kept history of peers is of another shape")
        history = History(rows.shape[1])
        history._rows[: len(rows)] = rows
        history.count, history.stride, history.waited = len(rows), stride, waited
        return history

    def add(self, deviation: Floats) -> None:
        """Append a moment, if it is one of those that are kept."""
        self.waited += 1
        if self.waited < self.stride:
            return
        self.waited = 0
        if self.count == self.LIMIT:
            kept = self._rows[::2] if self.stride < self.SPARSEST else self._rows[self.LIMIT // 4 :]
            self.count = len(kept)
            self._rows[: self.count] = kept.copy()
            self.stride = min(self.stride * 2, self.SPARSEST)
        self._rows[self.count] = np.clip(deviation, -1e6, 1e6)
        self.count += 1

    def moved(self, old: Sequence[CellName], new: Sequence[CellName]) -> History:
        """The same history with another set of cells; a new cell was never known."""
        places = {name: place for place, name in enumerate(old)}
        pairs = [(place, places[name]) for place, name in enumerate(new) if name in places]
        result = History(len(new))
        result.count, result.stride, result.waited = self.count, self.stride, self.waited
        if pairs:
            into, out = np.array(pairs, np.int64).T
            result._rows[: self.count, into] = self._rows[: self.count, out]
        return result


@dataclass(frozen=True, slots=True, eq=False)
class CellTails:
    """The past of c cells: ``own`` around each cell's own centre, ``far`` around the middle of its like; (2, c) usual distance and excess."""

    own: ColumnTails
    far: Floats


def fit_cells(rows: Floats32 | Floats) -> CellTails:
    """Learn how far cells usually lie from their like.

    Parameters
    ----------
    rows
        (r, c): deviations of the past; NaN where not known. A cell known in fewer than 20 rows is not judged.
    """
    rows = np.asarray(rows, np.float64)
    ordered = np.sort(rows, axis=0)
    count = np.isfinite(rows).sum(axis=0)
    columns = np.arange(rows.shape[1])
    if not len(rows):
        never = np.full(rows.shape[1], _NEVER)
        return CellTails(ColumnTails(np.zeros(rows.shape[1]), never, never), np.stack([never, never]))
    low, high = np.maximum((count - 1) // 2, 0), np.minimum(count // 2, len(rows) - 1)
    centre = np.where(count > 0, (ordered[low, columns] + ordered[high, columns]) / 2.0, 0.0)
    usual, excess = _tail(np.abs(rows - centre), count)
    far = _tail(np.abs(rows), count)
    return CellTails(ColumnTails(centre, usual, excess), np.stack(far))


def _tail(distance: Floats, count: Indices) -> tuple[Floats, Floats]:
    """98th percentile and mean excess over it of each column."""
    ordered = np.sort(distance, axis=0)
    columns = np.arange(distance.shape[1])
    usual = ordered[np.maximum(np.ceil(_PERCENTILE * (count - 1)).astype(np.int64), 0), columns]
    over = np.where(distance > usual, distance - usual, 0.0)
    excess = over.sum(axis=0) / np.maximum((over > 0).sum(axis=0), 1)
    usual = np.maximum(usual, _LEAST_USUAL)
    excess = np.maximum(excess, _LEAST_EXCESS * usual)
    seen = count >= _LEAST_ROWS
    return np.where(seen, usual, _NEVER), np.where(seen, excess, _NEVER)


def beyond_others(far: Floats, cells: Cells, minimum: int) -> ColumnTails:
    """Tails by which a cell without a past of its own is judged: the widest of the others that it is compared with.

    Parameters
    ----------
    far
        float64 (2, n): usual distance and excess of every cell (`fit_cells`).
    cells
        What is compared with what.
    minimum
        A cell is judged where it and the others that have a past are at least so many.
    """
    usual, excess = (np.full(len(cells.names), _NEVER) for _ in range(2))
    for table in cells.comparisons:
        used = table >= 0
        for values, result in zip(far, (usual, excess), strict=True):
            block = np.where(used, values[table], _NEVER)
            block = np.where(block < _NEVER, block, -np.inf)
            others = np.isfinite(block).sum(axis=1, keepdims=True) - np.isfinite(block)
            ordered = np.sort(block, axis=1)
            largest, second = ordered[:, -1:], ordered[:, -2:-1]
            widest = np.where(block == largest, second, largest)
            # Of two that are equally wide each is covered by the other.
            widest = np.where((block == largest).sum(axis=1, keepdims=True) > 1, largest, widest)
            result[table[used]] = np.where(others >= minimum - 1, widest, _NEVER)[used]
    return ColumnTails(np.zeros(len(usual)), usual, excess)


def loudest(strength: Floats, starts: Indices) -> Floats:
    """Mean strength (r) of the three loudest channels, of cells' strengths (r, c) whose channels begin at ``starts``; 0 without any."""
    if not len(starts):
        return np.zeros(len(strength))
    channels = np.maximum.reduceat(strength, starts, axis=1)
    count = min(LOUDEST, channels.shape[1])
    return np.asarray(np.partition(channels, channels.shape[1] - count, axis=1)[:, -count:].mean(axis=1), np.float64)
