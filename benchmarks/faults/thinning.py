"""A recording as a slower scrape would have made it. Pure."""

from __future__ import annotations

import numpy as np

from hwsonde_detector.signals.entities import target_of
from hwsonde_detector.types import SampleBatch


class Thinner:
    """Keeps one scrape in so many.

    A scrape is kept if it lies in the second around a multiple of the wanted interval after the target's first, or after so much later than
    that. All series of a scrape have one time, so that it is kept or dropped whole.

    Parameters
    ----------
    every_ms
        The wanted interval.
    recorded_ms
        That of the recording.
    phase_ms
        How much later.
    """

    def __init__(self, every_ms: int, recorded_ms: int = 1000, phase_ms: int = 0) -> None:
        self.every_ms, self.recorded_ms, self.phase_ms = every_ms, recorded_ms, phase_ms
        self._first: dict[tuple[str, str], int] = {}

    def thin(self, batch: SampleBatch) -> SampleBatch:
        """The samples that are left; series without one disappear."""
        if self.every_ms <= self.recorded_ms or not batch.times.size:
            return batch
        counts = np.diff(batch.offsets)
        begins = np.zeros(len(batch.series), np.int64)
        for number, one in enumerate(batch.series):
            target = target_of(one)
            if target not in self._first and counts[number]:
                self._first[target] = int(batch.times[batch.offsets[number]])
            begins[number] = self._first.get(target, 0)
        phase = (batch.times - np.repeat(begins, counts) - self.phase_ms + self.recorded_ms // 2) % self.every_ms
        keep = phase < self.recorded_ms
        owners = np.repeat(np.arange(len(batch.series)), counts)[keep]
        left = np.bincount(owners, minlength=len(batch.series))
        series = tuple(one for one, count in zip(batch.series, left.tolist(), strict=True) if count)
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(left[left > 0])])
        return SampleBatch(series, offsets, batch.times[keep], batch.values[keep])
