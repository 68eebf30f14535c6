"""What a regime looked like longer ago than its newest rows tell: a few blocks of neighbouring rows, as unlike each other as can be had.

The newest rows (`hwsonde_detector.decision.learning.Memory`) are an hour at one row a second; a job that runs once a day is then forgotten 23
times a day. Accepted rows are therefore also cut into blocks; a block that is kept takes part in the next fits for days. When there are too
many, one of those goes that have most of their like: the distance to the fourth nearest is smallest. What happens all the time is thinned, and of
what happens once a day four blocks stay, which are a hundredth of the rows of a fit: as many as a model needs to know it.

Blocks and not single rows, because a window needs neighbours.

While devices are away, blocks that know them count as unlike those that do not, so that the time without them does not push out all that was
learned of them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hwsonde_detector.decision.learning import Floats32, Memory, align
from hwsonde_detector.decision.scaling import Scale
from hwsonde_detector.detectors.columns import softened
from hwsonde_detector.signals.windows import full_windows, transform
from hwsonde_detector.types import Channel, Floats, Mask, Times

BLOCK_ROWS = 12
# Blocks that may be alike before one of them goes.
_LIKE = 4
# Blocks are compared by their means in spreads; what lies further off counts with its logarithm.
_FAR = 8.0
# Fits judge their rows in four folds of neighbours; each fold gets its share of the old blocks, or the tails would be those of a model that
# had not seen them.
_PARTS = 4


@dataclass(frozen=True, slots=True)
class Axis:
    """The scale that blocks are compared on: that of the model in force, with its channels; and what it misses."""

    scale: Scale
    channels: tuple[Channel, ...]
    missing: tuple[str, ...] = ()

    def place(self, levels: Floats, channels: tuple[Channel, ...]) -> Floats:
        """Levels (blocks, channels) on this scale, as (blocks, c) in spreads; 0 where a block knows nothing of a channel.

        Where channels are missed there is one column more: what a block knows of them, and as far off as if every channel were.
        """
        moved = (align(levels, channels, self.channels) - self.scale.centre) / self.scale.spread
        placed = softened(np.where(np.isfinite(moved), moved, 0.0), _FAR)
        missed = [index for index, channel in enumerate(channels) if channel.name in self.missing]
        if not missed:
            return placed
        known = np.isfinite(levels[:, missed]).mean(axis=1, keepdims=True)
        return np.asarray(np.column_stack([placed, _FAR * np.sqrt(len(self.channels)) * known]), np.float64)


def block_rows(width: int) -> int:
    """Rows of a block for windows of ``width`` rows: enough for several windows."""
    return max(BLOCK_ROWS, 3 * width)


@dataclass(slots=True, eq=False)
class Ages:
    """Blocks of one regime, in order of time.

    Attributes
    ----------
    channels
        c channels.
    times, values
        int64 (blocks, rows) and float32 (blocks, rows, c).
    seen
        Accepted rows that were offered already.
    levels
        float64 (blocks, c): means on the axis on which values are judged; NaN where nothing is known.
    """

    channels: tuple[Channel, ...] = ()
    times: Times = field(default_factory=lambda: np.zeros((0, 0), np.int64))
    values: Floats32 = field(default_factory=lambda: np.zeros((0, 0, 0), np.float32))
    seen: int = 0
    levels: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.levels = _levels(self.values, self.channels)

    @property
    def rows(self) -> int:
        """How many rows are kept."""
        return int(self.times.size)

    def known(self) -> frozenset[str]:
        """Names of the channels of which any block knows something."""
        seen = np.flatnonzero(np.isfinite(self.levels).any(axis=0))
        return frozenset(self.channels[place].name for place in seen.tolist())

    def forget(self, names: Collection[str]) -> None:
        """Drop what is kept of some channels; the others keep theirs."""
        gone = [index for index, channel in enumerate(self.channels) if channel.name in names]
        self.values[:, :, gone] = np.nan
        self.levels[:, gone] = np.nan

    def offer(self, memory: Memory, accepted: int, interval_ms: int, axis: Axis, limits: tuple[int, int, int]) -> None:
        """Take what was accepted since the last call and fills a block.

        Parameters
        ----------
        memory
            The newest accepted rows.
        accepted
            Rows accepted in all; the newest of them ends ``memory``.
        interval_ms
            The scrape interval.
        axis
            What blocks are compared on.
        limits
            Rows of a window, rows to keep at most, and milliseconds after which a block is forgotten.
        """
        width, most, forget_ms = limits
        size = block_rows(width)
        if self.times.size and self.times.shape[1] != size:
            # Windows became wider or narrower: blocks of another length do not fit beside the new ones.
            self._keep(np.zeros(len(self.times), np.bool_))
        first = accepted - len(memory.times)
        # Rows that have left the memory already cannot be taken any more.
        self.seen += -(-max(first - self.seen, 0) // size) * size
        while self.seen + size <= accepted:
            begin = self.seen - first
            self.seen += size
            times = memory.times[begin : begin + size]
            if full_windows(times, interval_ms, width).any():
                self._add(times, memory.values[begin : begin + size], memory.channels, axis.missing)
                self._forget(int(times[-1]) - forget_ms)
                if len(self.times) > max(most // size, 2):
                    self._keep(np.arange(len(self.times)) != _crowded(axis.place(self.levels, self.channels)))

    def before(self, first_ms: int | None, channels: tuple[Channel, ...]) -> tuple[Times, Floats32]:
        """Blocks that ended before a time (None: all), as times (blocks, rows) and values (blocks, rows, channels)."""
        count = len(self.times) if first_ms is None else int(sum(block[-1] < first_ms for block in self.times))
        times, values = self.times[:count], self.values[:count]
        flat = align(values.reshape(times.size, len(self.channels)), self.channels, channels)
        return times, flat.reshape(*times.shape, len(channels))

    def _add(self, times: Times, values: Floats32, channels: tuple[Channel, ...], missing: Collection[str]) -> None:
        if not len(self.times):
            self.channels, self.times, self.values = channels, times[None].copy(), values[None].copy()
            self.levels = _levels(self.values, channels)
            return
        # The newest rows say which channels there are; what is missed may come back.
        here = {channel.name for channel in channels} if missing else set()
        missed = [channel for channel in self.channels if channel.name in missing and channel.name not in here]
        if missed:
            union = tuple(sorted((*channels, *missed), key=lambda channel: channel.name))
            channels, values = union, align(values, channels, union)
        if channels != self.channels:
            _, self.values = self.before(None, channels)
            self.channels, self.levels = channels, _levels(self.values, channels)
        self.times = np.concatenate([self.times, times[None]])
        self.values = np.concatenate([self.values, values[None]])
        self.levels = np.concatenate([self.levels, _levels(values[None], channels)])

    def _forget(self, before_ms: int) -> None:
        kept = self.times[:, -1] >= before_ms
        if not kept.all():
            self._keep(kept)

    def _keep(self, chosen: Mask) -> None:
        self.times, self.values, self.levels = self.times[chosen], self.values[chosen], self.levels[chosen]


def _levels(values: Floats32, channels: tuple[Channel, ...]) -> Floats:
    """Means (blocks, c) of blocks (blocks, rows, c) on the axis on which they are judged."""
    blocks, rows, count = values.shape
    moved = transform(values.reshape(blocks * rows, count).astype(np.float64), channels).reshape(blocks, rows, count)
    known = np.isfinite(moved)
    number = known.sum(axis=1)
    total = np.where(known, moved, 0.0).sum(axis=1)
    return np.asarray(np.where(number > 0, total / np.maximum(number, 1), np.nan), np.float64)


def _crowded(means: Floats) -> int:
    """Index of the block that has most of its like, of means (blocks, c): the oldest of those whose fourth nearest is nearest."""
    square = np.square(means).sum(axis=1)
    distance = np.maximum(square[:, None] + square[None, :] - 2.0 * (means @ means.T), 0.0)
    np.fill_diagonal(distance, np.inf)
    place = min(_LIKE, len(means) - 1) - 1
    return int(np.argmin(np.partition(distance, place, axis=1)[:, place]))


def training_rows(memory: Memory, ages: Ages) -> tuple[tuple[Channel, ...], Times, Floats]:
    """Rows for a fit: the newest ones, with the older blocks dealt out among them.

    Returns
    -------
    tuple
        c channels, int64 (rows) times, float64 (rows, c) values. Times ascend but at the seams, over which no window goes; the last row is the
        newest one.
    """
    if not len(memory.times):
        kept = ages.values.reshape(ages.rows, len(ages.channels))
        return ages.channels, ages.times.ravel(), kept.astype(np.float64)
    old_times, old_values = ages.before(int(memory.times[0]), memory.channels)
    if not len(old_times):
        return memory.channels, memory.times, memory.values.astype(np.float64)
    bounds = np.linspace(0, len(memory.times), _PARTS + 1).round().astype(np.intp)
    times: list[Times] = []
    values: list[NDArray[np.float32]] = []
    for part in range(_PARTS):
        times += [old_times[part::_PARTS].ravel(), memory.times[bounds[part] : bounds[part + 1]]]
        old = old_values[part::_PARTS]
        values += [
            old.reshape(old.shape[0] * old.shape[1], old.shape[2]),
            memory.values[bounds[part] : bounds[part + 1]],
        ]
    return memory.channels, np.concatenate(times), np.concatenate(values).astype(np.float64)
