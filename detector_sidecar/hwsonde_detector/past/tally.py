"""What the steps of a run over history add up to, in bounded memory: counts and one bounded line of peaks a host. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hwsonde_detector.past.labels import Label
from hwsonde_detector.past.run import EpisodeLog, windows_skipped
from hwsonde_detector.types import Entity, Mask, Outputs, Score, Times

BINS = 480
"""Points of the line of peaks."""

SLACK_ROWS = 10
"""So many scrapes around a labelled fault an alarm is neither false nor, if it began before, another one."""


def slack_ms(interval_ms: int | None) -> int:
    """The same in milliseconds, for a host that is scraped so often."""
    return SLACK_ROWS * (interval_ms or 0)


@dataclass(slots=True)
class HostTally:
    """Counts of one host.

    Attributes
    ----------
    labels
        The faults that happened to it, in order.
    peaks
        float32 (BINS): largest fused score of each part of the range; NaN where no window was judged.
    windows, calibrated
        Windows that were judged, and those of them that could page.
    coverage
        Sum over the windows of the share of channels that was judged.
    judged_ms, exposed_ms, quiet_ms
        Time that the windows stand for: all of them, those that could page, and those of these that are no labelled fault nor near one.
    seen
        For each label, the calibrated windows within it.
    skipped
        Windows that were not judged, by reason.
    interval_ms
        Scrape interval as last observed.
    """

    labels: tuple[Label, ...]
    peaks: NDArray[np.float32]
    seen: list[int]
    windows: int = 0
    calibrated: int = 0
    coverage: float = 0.0
    judged_ms: int = 0
    exposed_ms: int = 0
    quiet_ms: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    interval_ms: int | None = None

    def take(self, scores: Sequence[Score], start_ms: int, end_ms: int, window_ms: int) -> None:
        """Add windows of the range, each of which stands for ``window_ms``."""
        ends = np.array([score.end_ms for score in scores], np.int64)
        calibrated = np.array([score.calibrated for score in scores], np.bool_)
        fused = np.array([score.fused for score in scores], np.float32)
        np.fmax.at(self.peaks, (ends - start_ms - 1) * BINS // (end_ms - start_ms), fused)
        self.windows += len(scores)
        self.calibrated += int(calibrated.sum())
        self.coverage += float(sum(score.coverage for score in scores))
        self.judged_ms += window_ms * len(scores)
        self.exposed_ms += window_ms * int(calibrated.sum())
        near = self._near(ends, calibrated)
        self.quiet_ms += window_ms * int((calibrated & ~near).sum())

    def _near(self, ends: Times, calibrated: Mask) -> Mask:
        """Which windows lie in or near a labelled fault; counts those within."""
        slack = slack_ms(self.interval_ms)
        near = np.zeros(len(ends), np.bool_)
        for number, label in enumerate(self.labels):
            within = (ends >= label.start_ms) & (ends <= label.end_ms + slack)
            self.seen[number] += int((within & calibrated).sum())
            near |= within | ((ends >= label.start_ms - slack) & (ends < label.start_ms))
        return near


@dataclass(slots=True)
class Tally:
    """Counts of all hosts over the range ``start_ms`` (not included) to ``end_ms``.

    ``step_rows`` is the distance of two windows; ``hosts`` and ``episodes`` are what was found.
    """

    start_ms: int
    end_ms: int
    step_rows: int
    labels: tuple[Label, ...] = ()
    hosts: dict[Entity, HostTally] = field(default_factory=dict)
    episodes: EpisodeLog = field(default_factory=EpisodeLog)

    def take(self, outputs: Outputs, now_ms: int) -> None:
        """Add what one step said at ``now_ms``."""
        self.episodes.take(outputs)
        if outputs.events:
            self.episodes.forget_before(self.start_ms)
        if now_ms <= self.start_ms:
            return
        for report in outputs.reports:
            host = self._host(report.entity)
            host.interval_ms = report.interval_ms or host.interval_ms
            host.skipped.update(windows_skipped(report.skipped))
            scores = [score for score in report.scores if self.start_ms < score.end_ms <= self.end_ms]
            if scores:
                host.take(scores, self.start_ms, self.end_ms, self.step_rows * (host.interval_ms or 0))

    def _host(self, entity: Entity) -> HostTally:
        if entity not in self.hosts:
            labels = tuple(label for label in self.labels if label.applies_to(entity))
            self.hosts[entity] = HostTally(labels, np.full(BINS, np.nan, np.float32), [0] * len(labels))
        return self.hosts[entity]
