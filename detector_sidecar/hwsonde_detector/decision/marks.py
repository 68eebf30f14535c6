"""Which workloads are here: channels that tell of nothing else are taken out of the rows and read."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hwsonde_detector.types import Channel, Floats, Frame, Role


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """The columns that are marks, and the others, for one set of channels."""

    channels: tuple[Channel, ...]
    judged: tuple[Channel, ...]
    judged_places: NDArray[np.int64]
    mark_places: NDArray[np.int64]


def _tabled(channels: tuple[Channel, ...]) -> _Table:
    marked = np.array([channel.role is Role.MARK for channel in channels], np.bool_)
    judged, marks = np.flatnonzero(~marked), np.flatnonzero(marked)
    return _Table(channels, tuple(channels[place] for place in judged) if len(marks) else channels, judged, marks)


@dataclass(slots=True, eq=False)
class Marks:
    """The marks of one host.

    Attributes
    ----------
    on
        Names of the marks that are on; None before the first row.
    missing
        Those of them whose last value is not known. One row without it is forgiven: a scrape of a collector may fail.
    """

    on: frozenset[str] | None = None
    missing: frozenset[str] = frozenset()
    _table: _Table = field(default_factory=lambda: _tabled(()))

    def split(self, block: Frame) -> tuple[Frame, Floats]:
        """The block without its marks, and the values (rows, marks) of those, in the order in which `turn` takes them."""
        if self._table.channels is not block.channels and self._table.channels != block.channels:
            self._table = _tabled(block.channels)
        table = self._table
        if not len(table.mark_places):
            return block, np.zeros((len(block.times), 0))
        rest = Frame(block.entity, table.judged, block.times, block.values[:, table.judged_places])
        return rest, block.values[:, table.mark_places]

    def turn(self, row: Floats) -> frozenset[str]:
        """Read a row (marks) of the block that was split last; gives the marks that are on, which are not kept yet."""
        before = self.on or frozenset()
        if not len(row) and not before:
            return before
        names = [self._table.channels[place].name for place in self._table.mark_places.tolist()]
        on = {name for name, value in zip(names, row.tolist(), strict=True) if value > 0}
        off = {name for name, value in zip(names, row.tolist(), strict=True) if value <= 0}
        unsure = before - on - off
        self.missing = frozenset(unsure - self.missing)
        return frozenset(on | self.missing)
