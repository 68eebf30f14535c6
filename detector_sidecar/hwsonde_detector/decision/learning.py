"""What is remembered of an entity's healthy time, and when it is learned again."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from hwsonde_detector.settings import LearningSettings
from hwsonde_detector.types import Channel, Frame, Mask, Times

Floats32: TypeAlias = NDArray[np.float32]
AnyFloats = TypeVar("AnyFloats", NDArray[np.float32], NDArray[np.float64])


class Memory:
    """The newest accepted rows of one entity, oldest first, in a buffer of twice the limit that is shifted once a limit.

    Channels may come and go: a new one has NaN before it came; one without any value left in memory is dropped at the next shift.

    Parameters
    ----------
    channels
        c channels in order of name.
    times
        int64 (rows).
    values
        (rows, c); kept as float32, which is enough for learning and half the memory.
    """

    def __init__(
        self, channels: tuple[Channel, ...] = (), times: Times | None = None, values: Floats32 | None = None
    ) -> None:
        self.channels = channels
        self._times: Times = np.zeros(0, np.int64) if times is None else times
        self._values: Floats32 = np.zeros((0, len(channels)), np.float32) if values is None else values
        self._start, self._stop = 0, len(self._times)

    @property
    def times(self) -> Times:
        """Times of the rows, int64 (rows)."""
        return self._times[self._start : self._stop]

    @property
    def values(self) -> Floats32:
        """Rows, float32 (rows, c)."""
        return self._values[self._start : self._stop]

    def append(self, frame: Frame, limit: int) -> None:
        """Add the rows of ``frame`` and keep the newest ``limit``."""
        times, values = frame.times[-limit:], frame.values[-limit:]
        if not len(times):
            return
        if frame.channels != self.channels:
            # The newest description of a channel wins: a profile may have been edited.
            union = {channel.name: channel for channel in (*self.channels, *frame.channels)}
            self._rebuild(tuple(union[name] for name in sorted(union)), limit, frame.channels)
        elif self._stop + len(times) > len(self._times):
            self._rebuild(self.channels, limit, frame.channels)
        count = len(times)
        self._times[self._stop : self._stop + count] = times
        self._values[self._stop : self._stop + count] = _narrowed(align(values, frame.channels, self.channels))
        self._stop += count
        self._start = max(self._start, self._stop - limit)

    def forget(self, names: Collection[str]) -> None:
        """Drop what is kept of some channels; the others keep theirs."""
        self._values[:, [index for index, channel in enumerate(self.channels) if channel.name in names]] = np.nan

    def _rebuild(self, channels: tuple[Channel, ...], limit: int, arriving: tuple[Channel, ...]) -> None:
        """Move what is kept to the front of a fresh buffer that has room for ``limit`` more rows of the ``arriving`` channels."""
        needed = {channel.name for channel in arriving}
        kept = self.values[-limit:]
        old = self.channels
        alive: Mask = np.asarray(np.isfinite(kept).any(axis=0))
        dead = {channel.name for channel, seen in zip(old, alive, strict=True) if not seen}
        target = tuple(channel for channel in channels if channel.name not in dead or channel.name in needed)
        times = np.zeros(2 * limit, np.int64)
        values = np.full((2 * limit, len(target)), np.nan, np.float32)
        count = len(kept)
        times[:count] = self.times[-limit:]
        values[:count] = align(kept, old, target)
        self.channels, self._times, self._values, self._start, self._stop = target, times, values, 0, count


def _narrowed(values: AnyFloats) -> Floats32:
    """Values as float32; what it cannot hold is kept as missing, since an infinity would make every mean of its column one."""
    with np.errstate(over="ignore"):
        narrow = values.astype(np.float32)
    narrow[np.isinf(narrow)] = np.nan
    return narrow


def align(values: AnyFloats, source: tuple[Channel, ...], target: tuple[Channel, ...]) -> AnyFloats:
    """Columns of values (rows, len(source)) in the order of ``target``; NaN where the source lacks a channel."""
    if source == target:
        return values
    where = {channel.name: index for index, channel in enumerate(source)}
    moved = np.full((len(values), len(target)), np.nan, values.dtype)
    pairs = [(index, where[channel.name]) for index, channel in enumerate(target) if channel.name in where]
    if pairs:
        into, out = map(list, zip(*pairs, strict=True))
        moved[:, into] = values[:, out]
    return moved


@dataclass(slots=True)
class Progress:
    """How much was learned and when the next fit is due.

    ``accepted`` rows in all, ``fitted`` of them when the model in force was made (0 before the first), ``refused`` rows in a row.
    """

    accepted: int = 0
    fitted: int = 0
    refused: int = 0

    def rows_to_fit(self, settings: LearningSettings) -> int:
        """Rows that must be accepted before the next fit is due; 0 when it is due now."""
        return max(self._due(settings) - self.accepted, 0)

    def overdue(self, settings: LearningSettings) -> int:
        """For how many rows the next fit has been due, the one that made it due among them."""
        return max(self.accepted - self._due(settings) + 1, 0)

    def _due(self, settings: LearningSettings) -> int:
        if self.fitted == 0:
            return settings.first_rows
        growth = max(int(self.fitted * settings.refit_growth), 1)
        due = self.fitted + min(growth, settings.refit_rows)
        return min(due, settings.calibrated_rows) if self.fitted < settings.calibrated_rows else due

    def calibrated(self, settings: LearningSettings) -> bool:
        """Whether the model in force has seen enough rows for its scores to count."""
        return self.fitted >= settings.calibrated_rows
