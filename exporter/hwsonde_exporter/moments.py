"""Cumulative moments: what lets a slow scrape know the mean and the variance of a fast quantity exactly.

Between two scrapes let n, S and Q be the increases of count, sum and squared deviation from a constant c. Then the mean of
the observations between them is ``S / n`` and their population variance ``Q / n - (S / n - c) ** 2``, whatever the scrape
interval and however many scrapers there are. The constant keeps the digits: Q stays small if c is near the usual value.
"""

from __future__ import annotations

from collections import deque

# Before every second of the clock and of every window.
_NEVER = -(1 << 62)


class CompensatedSum:
    """Sum of values that are not negative, exact to the last digit of a float for as long as it runs.

    Observations are added to a small part, which is folded into the large one from time to time with its rounding error
    kept (Knuth's two-sum). A plain sum would round each observation to the large part's last digit. The value never decreases.
    """

    __slots__ = ("_error", "_large", "small")

    def __init__(self) -> None:
        self._large = 0.0
        self._error = 0.0
        self.small = 0.0

    @property
    def value(self) -> float:
        """The sum."""
        return self._large + (self._error + self.small)

    def fold(self) -> None:
        """Move the small part into the large one."""
        added = self._error + self.small
        large = self._large
        total = large + added
        part = total - large
        self._error = (large - (total - part)) + (added - part)
        self._large = total
        self.small = 0.0


class Moments:
    """Count, sum and squared deviation of the observations of one series, and its extremes over a trailing window.

    Parameters
    ----------
    reference
        The constant c of the squared deviation, in the quantity's unit.
    window
        Length of the trailing window of the extremes, in whole seconds.
    """

    __slots__ = (
        "_current",
        "_greatest",
        "_least",
        "_maxima",
        "_minima",
        "_reference",
        "_window",
        "count",
        "squares",
        "total",
    )

    def __init__(self, reference: float, window: int = 60) -> None:
        self.count = 0
        self.total = CompensatedSum()
        self.squares = CompensatedSum()
        self._reference = reference
        self._window = window
        self._current = _NEVER
        self._least = self._greatest = 0.0
        self._minima: deque[tuple[int, float]] = deque()
        self._maxima: deque[tuple[int, float]] = deque()

    def observe(self, value: float, second: int) -> None:
        """Take one observation.

        Parameters
        ----------
        value
            Finite and not negative.
        second
            Whole seconds of a clock that never goes back.
        """
        self.count += 1
        self.total.small += value
        deviation = value - self._reference
        self.squares.small += deviation * deviation
        if second != self._current:
            self._turn(second)
            self._least = self._greatest = value
        elif value < self._least:
            self._least = value
        elif value > self._greatest:
            self._greatest = value

    def extremes(self, second: int) -> tuple[float, float] | None:
        """Least and greatest observation of the window's seconds up to ``second``; None if there was none."""
        oldest = second - self._window
        if self._current <= oldest:
            return None
        for edge in (self._minima, self._maxima):
            while edge and edge[0][0] <= oldest:
                edge.popleft()
        least = min(self._minima[0][1], self._least) if self._minima else self._least
        greatest = max(self._maxima[0][1], self._greatest) if self._maxima else self._greatest
        return least, greatest

    def _turn(self, second: int) -> None:
        """Close the present second: what is no longer an extreme of any window to come is forgotten."""
        self.total.fold()
        self.squares.fold()
        closed = self._current
        if closed != _NEVER:
            while self._minima and self._minima[-1][1] >= self._least:
                self._minima.pop()
            self._minima.append((closed, self._least))
            while self._maxima and self._maxima[-1][1] <= self._greatest:
                self._maxima.pop()
            self._maxima.append((closed, self._greatest))
            oldest = second - self._window
            for edge in (self._minima, self._maxima):
                while edge and edge[0][0] <= oldest:
                    edge.popleft()
        self._current = second
