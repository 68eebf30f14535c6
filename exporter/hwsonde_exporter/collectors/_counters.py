"""Counters of the kernel that do not behave like counters, made to."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

PartKey = TypeVar("PartKey", bound=Hashable)
SeriesKey = TypeVar("SeriesKey", bound=Hashable)


class Held:
    """Holds a counter that slips back a little; lets a large fall through as the restart that it is.

    ``idle`` and ``iowait`` of /proc/stat are computed anew at each read and slip back by a tick now and then, which
    ``rate()`` would take for a restart and a jump by the counter's whole value. A CPU that was taken offline and comes
    back starts again from little: a large fall.

    Parameters
    ----------
    limit
        The largest fall that is held, in the unit of the values.
    """

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self._last: dict[Hashable, int] = {}

    def value(self, key: Hashable, value: int) -> int:
        """Give ``value``, or the last one of ``key`` if ``value`` is a little below it."""
        last = self._last.get(key, 0)
        if value < last <= value + self.limit:
            return last
        self._last[key] = value
        return value


class SteadySum:
    """Sum of counters of parts that come and go, which itself never falls.

    When a CPU goes offline its counters vanish from the sum of its package; a plain sum would fall, and ``rate()`` would
    see a restart. Here the sum only ever grows by what each part has grown. A part that first appears later adds nothing
    until its next reading, because what it counted before was not counted here.

    Parameters
    ----------
    modulus
        What the parts are counted by, if they only ever fall because they wrap; 0 if one that falls was restarted.
    """

    def __init__(self, modulus: int = 0) -> None:
        self._modulus = modulus
        self._last: dict[Hashable, int] = {}
        self._total: int | None = None

    def update(self, parts: Mapping[PartKey, int]) -> int:
        """Take the present value of each part and give the sum."""
        if self._total is None:
            self._total = sum(parts.values())
        else:
            for key, value in parts.items():
                last = self._last.get(key, value)
                if value >= last:
                    self._total += value - last
                else:
                    # A part that restarted has counted at least its present value since.
                    self._total += (value - last) % self._modulus if self._modulus else value
        for key, value in parts.items():
            self._last[key] = value
        return self._total


class SteadySums:
    """A `SteadySum` for each of many series, forgotten when its series is no longer given."""

    def __init__(self) -> None:
        self._sums: dict[Hashable, SteadySum] = {}

    def update(self, series: Mapping[SeriesKey, Mapping[PartKey, int]]) -> dict[SeriesKey, int]:
        """Take the present value of each part of each series and give the sums."""
        self._sums = {key: self._sums.get(key) or SteadySum() for key in series}
        return {key: self._sums[key].update(parts) for key, parts in series.items()}
