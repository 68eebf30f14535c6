"""Slow, obvious versions of what is done on arrays."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class NaivePart:
    """One part, by hand."""

    present: float = 0.0
    total: float = 0.0
    absent: float = 0.0

    def take(self, there: bool | None, elapsed: float, accept: float) -> None:
        if there is True:
            self.total += self.absent + elapsed
            self.absent = 0.0
            self.present += elapsed
        elif there is False:
            self.absent += elapsed
        if self.absent >= accept:
            self.present = self.total = self.absent = 0.0

    def score(self, usual: float, patience: float) -> float:
        if self.present < usual or self.present < 0.9 * self.total or self.absent == 0.0:
            return 0.0
        return self.absent / patience


@dataclass
class NaiveGauge:
    """One gauge, by hand: times of its readings and what they were."""

    readings: list[tuple[float, float]]

    def rest(self) -> float:
        """How long the newest value has been repeated."""
        last = self.readings[-1][1]
        first = self.readings[-1][0]
        for time, value in reversed(self.readings):
            if value != last:
                break
            first = time
        return self.readings[-1][0] - first

    def moves(self) -> int:
        return sum(before[1] != after[1] for before, after in zip(self.readings, self.readings[1:], strict=False))

    def longest(self) -> float:
        """The longest rest that is over."""
        longest, first = 0.0, self.readings[0][0]
        for before, after in zip(self.readings, self.readings[1:], strict=False):
            if before[1] != after[1]:
                longest = max(longest, before[0] - first)
                first = after[0]
        return longest
