"""Values over time that stay bounded however long an incident lasts, without losing a peak. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import isfinite

from hwsonde_detector.explain.series import Points

MOST_POINTS = 480
_DIGITS = 6


@dataclass(slots=True)
class Line:
    """One channel's values; of each run of neighbours the smallest and the largest stay.

    ``most`` points are kept at the most; when there are more, every four become two.
    """

    most: int = MOST_POINTS
    times: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    step: int = 1

    def add(self, at_ms: int, value: float) -> None:
        """Append a value; one that is not later than the last, or not finite, is passed over."""
        if not isfinite(value) or (self.times and at_ms <= self.times[-1]):
            return
        self.times.append(at_ms)
        self.values.append(float(f"{value:.{_DIGITS}g}"))
        if len(self.times) > self.most:
            self._halve()

    def _halve(self) -> None:
        keep: list[int] = []
        for start in range(0, len(self.times), 4):
            places = range(start, min(start + 4, len(self.times)))
            low = min(places, key=lambda place: self.values[place])
            high = max(places, key=lambda place: self.values[place])
            keep += sorted({low, high})
        self.times = [self.times[place] for place in keep]
        self.values = [self.values[place] for place in keep]
        self.step *= 2

    def points(self, interval_ms: int) -> Points:
        """The line as a chart takes it."""
        return Points(tuple(self.times), tuple(self.values), max(interval_ms, 1) * self.step * 2)
