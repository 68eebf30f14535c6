"""How long hosts were watched, by day: what a rate of pages over any stretch of time rests on. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hwsonde_detector.types import Entity, Outputs

DAY_MS = 86_400_000


@dataclass(slots=True)
class Day:
    """What was watched within one day (UTC).

    Attributes
    ----------
    first_ms, last_ms
        Where the first window began, and where the last one ended.
    live_ms, shadow_ms
        How long hosts were judged by scores that count, all hosts together: while somebody was paged, and in shadow mode.
    """

    first_ms: int
    last_ms: int
    live_ms: int = 0
    shadow_ms: int = 0

    def share(self, start_ms: int, end_ms: int) -> float:
        """How much of it lies in a range (0..1): it is taken as even from the first window to the last."""
        length = self.last_ms - self.first_ms
        inside = min(self.last_ms, end_ms) - max(self.first_ms, start_ms)
        return min(max(inside / length, 0.0), 1.0) if length > 0 else 0.0


@dataclass(slots=True)
class WatchTime:
    """Adds up the windows of steps.

    Attributes
    ----------
    keep_ms
        For how long days are kept; gaps do not count.
    days
        What is known, by number of the day.
    """

    keep_ms: int
    days: dict[int, Day] = field(default_factory=dict)
    _newest: dict[Entity, int] = field(default_factory=dict)
    _before_ms: int = 0

    def take(self, outputs: Outputs, step: int, *, shadow: bool) -> None:
        """Take what one step said; windows stand ``step`` rows apart. What is scored again, as after a start without models, counts once."""
        for entity in outputs.gone:
            self._newest.pop(entity, None)
        for report in outputs.reports:
            length = (report.interval_ms or 0) * step
            newest = self._newest.get(report.entity, self._before_ms)
            for score in report.scores:
                if score.calibrated and score.end_ms > newest and length:
                    self._add(score.end_ms, length, shadow=shadow)
            if report.scores:
                self._newest[report.entity] = max(newest, report.scores[-1].end_ms)

    def restore(self, part: Iterable[Sequence[int]]) -> None:
        """Go on from `saved`; raises TypeError or ValueError where it is of another kind."""
        self.days = {(last - 1) // DAY_MS: Day(first, last, live, shadow) for first, last, live, shadow in _whole(part)}
        self._before_ms = max((day.last_ms for day in self.days.values()), default=0)

    def saved(self) -> list[list[int]]:
        """What is known, oldest first, as JSON values."""
        known = (self.days[number] for number in sorted(self.days))
        return [[day.first_ms, day.last_ms, day.live_ms, day.shadow_ms] for day in known]

    def _add(self, end_ms: int, length: int, *, shadow: bool) -> None:
        # What ends at midnight belongs to the day before.
        number = (end_ms - 1) // DAY_MS
        begin_ms = max(end_ms - length, number * DAY_MS)
        day = self.days.get(number)
        if day is None:
            day = self.days[number] = Day(begin_ms, end_ms)
            self._forget()
        day.first_ms, day.last_ms = min(day.first_ms, begin_ms), max(day.last_ms, end_ms)
        if shadow:
            day.shadow_ms += length
        else:
            day.live_ms += length

    def _forget(self) -> None:
        # By their number, so that a clock that was wrong for a moment costs one of them and not all.
        while len(self.days) > -(-self.keep_ms // DAY_MS) + 1:
            del self.days[min(self.days)]


@dataclass(frozen=True, slots=True)
class WatchedDays:
    """What was watched, for figures: the days that are known, oldest first, and how many hosts there are now."""

    days: tuple[Day, ...] = ()
    hosts: int = 0

    @property
    def from_ms(self) -> int | None:
        """Since when it is known; None where nothing is."""
        return self.days[0].first_ms if self.days else None

    def live_ms(self, start_ms: int, end_ms: int) -> float:
        """How long hosts were watched in a range while somebody was paged, all hosts together."""
        return sum(day.live_ms * day.share(start_ms, end_ms) for day in self.days)

    def shadow_ms(self, start_ms: int, end_ms: int) -> float:
        """The same in shadow mode."""
        return sum(day.shadow_ms * day.share(start_ms, end_ms) for day in self.days)


def read_days(part: Iterable[Sequence[int]]) -> tuple[Day, ...]:
    """Days of a saved state, oldest first; raises TypeError or ValueError where something is of another kind."""
    return tuple(Day(*one) for one in _whole(part))


def _whole(part: Iterable[Sequence[int]]) -> list[tuple[int, int, int, int]]:
    return sorted((int(first), int(last), int(live), int(shadow)) for first, last, live, shadow in part)
