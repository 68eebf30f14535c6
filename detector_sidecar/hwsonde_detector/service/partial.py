"""How long the source has answered in part only. Pure: clocks are passed in."""

from __future__ import annotations

from dataclasses import dataclass

LASTING_S = 60.0
_MOST = 10.0
# No answer speaks of a longer time before it: reads that failed otherwise lie in between.
_LONGEST_S = 15.0


@dataclass(slots=True)
class PartialAnswers:
    """Adds up the time in which answers were partial; such an answer is not scored, so that no host can tell of it.

    Whole answers take the time away again, as fast as it came; answers that failed otherwise change nothing.
    """

    _held_s: float = 0.0
    _last: float | None = None

    def observe(self, *, partial: bool, monotonic: float) -> None:
        """Take one answer."""
        passed = min(max(monotonic - self._last, 0.0), _LONGEST_S) if self._last is not None else 0.0
        self._last = monotonic
        self._held_s = min(max(self._held_s + (passed if partial else -passed), 0.0), _MOST * LASTING_S)

    @property
    def score(self) -> float:
        """1 when they have been partial for a minute."""
        return self._held_s / LASTING_S
