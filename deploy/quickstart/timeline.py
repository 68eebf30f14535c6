"""What happened around a fault, and whether it is what should happen. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from quickstart.pages import Event
from quickstart.readings import Series

ALERT = "HwsondeHostAnomaly"


@dataclass(slots=True)
class Timeline:
    """First times of the steps from a fault to its page and back, in seconds since the epoch; None until they came.

    Parameters
    ----------
    onset
        When the fault began.
    expected
        Subsystem that must be named.
    """

    onset: float
    expected: str
    score: float | None = None
    alert: float | None = None
    page: Event | None = None
    fault_end: float | None = None
    resolve: Event | None = None
    peak: float = 0.0
    others: list[Event] = field(default_factory=list)

    def see(self, found: Iterable[Series], events: Iterable[Event]) -> list[str]:
        """Take what is new; give a line for each step that it completes."""
        lines = []
        for one in found:
            after = [(time, value) for time, value in zip(one.times, one.values, strict=True) if time >= self.onset]
            if after and one.name == "hwsonde_anomaly_score" and one.labels.get("detector") == "fused":
                lines.extend(self._score(after))
            elif after and self.alert is None and _firing(one):
                self.alert = after[0][0]
                lines.append(self.line(self.alert, f"alert firing: {ALERT}, subsystem {one.labels.get('subsystem')}"))
        for event in events:
            lines.extend(self._take(event))
        return lines

    def _score(self, after: list[tuple[float, float]]) -> list[str]:
        self.peak = max([self.peak, *(value for _, value in after)])
        above = [time for time, value in after if value > 1]
        if not above or self.score is not None:
            return []
        self.score = above[0]
        return [self.line(self.score, "first score above 1")]

    def _take(self, event: Event) -> list[str]:
        if event.action == "trigger" and self.page is None:
            self.page = event
            return [self.line(event.received, f"page: {event.summary}")]
        if event.action == "resolve" and self.page is not None and event.key == self.page.key and self.resolve is None:
            self.resolve = event
            return [self.line(event.received, "resolve, with the page's key")]
        # An addition to the page that is open is no page of its own.
        if self.page is None or event.key != self.page.key:
            self.others.append(event)
        return []

    def line(self, time: float, text: str) -> str:
        """One line of the time line."""
        return f"{time - self.onset:+8.1f} s  {text}"

    def problems(self) -> list[str]:
        """What is not as it should be; empty: the fault was found, named, paged once and resolved."""
        found = []
        if self.page is None:
            found.append(f"no page came (highest score {self.peak:.2f})")
        else:
            if self.page.subsystem != self.expected:
                found.append(f"the page names {self.page.subsystem or 'no subsystem'}, not {self.expected}")
            if self.resolve is None:
                found.append("the page was not resolved in time: the detector's page says what still deviates")
        if self.others:
            found.append(
                f"{len(self.others)} other events came: {self.others[0].action} {self.others[0].summary}".rstrip()
            )
        return found


def _firing(one: Series) -> bool:
    return one.name == "ALERTS" and one.labels.get("alertname") == ALERT and one.labels.get("alertstate") == "firing"
