"""Windows of one host as arrays: a stretch of the past has millions of them, and a report reads four numbers of each. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from hwsonde_detector.types import Entity, Floats, Mask, Score, Times

_UNKNOWN = float("nan")


@dataclass(frozen=True, slots=True, eq=False)
class Windows(Sequence[Score]):
    """Windows in order of time; where single ones are asked for, they come without what they said of channels.

    Attributes
    ----------
    entity
        The host.
    ends_ms, fused, calibrated, coverage
        int64, float64, bool and float64 (n): as in `hwsonde_detector.types.Score`.
    grain_ms
        0: these are all. Otherwise only the loudest judged one of each stretch of so many milliseconds is here.
    """

    entity: Entity
    ends_ms: Times
    fused: Floats
    calibrated: Mask
    coverage: Floats
    grain_ms: int = 0

    def __len__(self) -> int:
        """How many there are."""
        return len(self.ends_ms)

    @overload
    def __getitem__(self, index: int) -> Score: ...

    @overload
    def __getitem__(self, index: slice) -> Windows: ...

    def __getitem__(self, index: int | slice) -> Score | Windows:
        """One of them, or some."""
        if isinstance(index, slice):
            return self._some(index)
        return Score(
            self.entity,
            int(self.ends_ms[index]),
            float(self.fused[index]),
            {},
            {},
            (),
            calibrated=bool(self.calibrated[index]),
            threshold=1.0,
            coverage=float(self.coverage[index]),
            anomalous_channels=_UNKNOWN,
        )

    def within(self, first_ms: int, last_ms: int) -> Windows:
        """Those that ended from ``first_ms`` to ``last_ms``, both included."""
        start = int(np.searchsorted(self.ends_ms, first_ms))
        return self._some(slice(start, int(np.searchsorted(self.ends_ms, last_ms, side="right"))))

    def finite(self) -> Windows:
        """Those whose score is a number."""
        return self._some(np.isfinite(self.fused))

    def judged(self) -> Windows:
        """Those that a model judged which had learned enough."""
        return self._some(self.calibrated & np.isfinite(self.fused))

    def worst(self, first_ms: int, last_ms: int) -> float | None:
        """The largest score from ``first_ms`` to ``last_ms`` that counts; None where nothing was judged."""
        if self.grain_ms:
            first_ms = first_ms // self.grain_ms * self.grain_ms
            last_ms = (last_ms // self.grain_ms + 1) * self.grain_ms - 1
        own = self.within(first_ms, last_ms).judged()
        return float(own.fused.max()) if len(own) else None

    def _some(self, places: slice | Mask) -> Windows:
        return Windows(
            self.entity,
            self.ends_ms[places],
            self.fused[places],
            self.calibrated[places],
            self.coverage[places],
            self.grain_ms,
        )


def as_windows(entity: Entity, scores: Sequence[Score]) -> Windows:
    """The same as arrays; what are arrays already are given back as they are.

    Parameters
    ----------
    entity
        The host.
    scores
        Its windows, ascending.
    """
    if isinstance(scores, Windows):
        return scores
    return Windows(
        entity,
        np.array([score.end_ms for score in scores], np.int64),
        np.array([score.fused for score in scores], np.float64),
        np.array([score.calibrated for score in scores], np.bool_),
        np.array([score.coverage for score in scores], np.float64),
    )
