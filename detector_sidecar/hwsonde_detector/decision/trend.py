"""What a host's fused surprise has been lately: the smoothed level that is told, and whether rows are too strange to be learned. Pure.

A fault lasts, a spike does not. The level follows a rise at once and a fall slowly::

    level += rise * (f - level)   where f is above it, else   level += fall * (f - level)

so that an episode with one quiet row in it stays one, and of two peaks as high the longer ranks higher. Both 1 is no smoothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from hwsonde_detector.settings import DetectorSettings

# A row that surprises by more decades than this is not learned, nor one that ends a stretch whose mean does.
_ROW, _STRETCH = 2.0, 1.5
# Weight of the newest row in that mean, and the most that a row may add: one spike must not close the gate for long.
_ALPHA, _MOST = 0.1, 8.0


@dataclass(slots=True)
class Trend:
    """Smoothed surprise and mean of the newest ones, in decades; whether the newest row was too strange to be learned."""

    level: float = 0.0
    mean: float = 0.0
    strange: bool = False

    def take(self, decades: float, settings: DetectorSettings) -> float:
        """Take a row's fused surprise, give the level; NaN (not judged) changes nothing and gives NaN."""
        if decades != decades:  # noqa: PLR0124  NaN
            return decades
        self.level += (settings.rise if decades > self.level else settings.fall) * (decades - self.level)
        self.mean += _ALPHA * (min(decades, _MOST) - self.mean)
        self.strange = decades > _ROW or self.mean > _STRETCH
        return self.level
