"""From scores to episodes: persistence, hysteresis, and patience with our own doing. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from hwsonde_detector.settings import EpisodeSettings

ENOUGH_MS = 3000
"""Evidence of so many milliseconds is more than a hiccup. A gauge tells of one moment, however seldom it is read."""

# A window of rows so long needs no second one to be believed if it is so many times as loud as is asked for: a burst of seconds is thinned in it.
_LONG_MS, _LOUD = 10_000, 2.0

# A scrape interval wobbles by milliseconds; so many windows do not matter.
_NEARLY = 0.05


@dataclass(slots=True)
class Persistence:
    """State of one entity between two windows.

    Attributes
    ----------
    recent
        Whether each of the last ``raise_of`` windows was at least ``raise_at``.
    alone
        How many of the newest windows in a row were so by a member that needs nobody to agree.
    quiet
        Windows in a row below ``clear_at`` since the episode opened; one between there and ``raise_at`` counts half: what lies there need not be
        what opened the episode, and would hide the next fault.
    open
        Whether an episode is open.
    drifts
        Whether what is said alone is a drift and not a beginning, None while nothing is. What began stays one until it is quiet.
    settled_ms
        No episode opens on a window that ends before: the host may be busy with our own start, or a gap hides what led here.
    """

    recent: deque[bool] = field(default_factory=deque)
    alone: int = 0
    quiet: float = 0.0
    open: bool = False
    settled_ms: int = 0
    drifts: bool | None = None

    def hold(self, *, loud: bool, sudden: bool) -> bool:
        """Whether a window is to be judged without what is said alone: that is ``loud`` and wandered there, while no episode is open."""
        if not loud:
            self.drifts = None
        elif self.drifts is not False:
            self.drifts = not sudden
        return bool(self.drifts) and not self.open

    def observe(
        self,
        score: float,
        end_ms: int,
        settings: EpisodeSettings,
        *,
        lasting: bool,
        calibrated: bool,
        alone: float = 0.0,
        step_ms: int = 0,
    ) -> tuple[bool, bool]:
        """Take one window's score and say ``(opens, closes)``.

        Parameters
        ----------
        score
            Fused score over the threshold; NaN leaves everything as it is, but that no windows follow each other across it.
        end_ms
            Time of the window's last row.
        lasting
            Whether the newest row itself still deviates. A single bad row is part of as many windows as they are wide, so windows
            alone cannot tell a hiccup from a fault. Asked only where more than one window is.
        calibrated
            Whether scores count yet.
        alone
            The part of the score that a member says which needs nobody to agree.
        step_ms
            From one window to the next; 0 where time is not to count.
        """
        if score != score:  # noqa: PLR0124  NaN
            self.alone = 0
            return False, False
        self.recent.append(score >= settings.raise_at)
        self.alone = self.alone + 1 if alone >= settings.raise_at else 0
        at_once = step_ms >= _LONG_MS and alone >= _LOUD * settings.raise_at
        while len(self.recent) > settings.raise_of:
            self.recent.popleft()
        if self.open:
            self.quiet += _counts(step_ms, settings) * (1.0 if score < settings.clear_at else 0.5)
            if score >= settings.raise_at:
                self.quiet = 0.0
            if self.quiet + _NEARLY >= settings.clear_windows:
                self.open = False
                self.recent.clear()
                self.alone = 0
                return False, True
            return False, False
        # Who asks for one window alone asks for no persistence.
        lasting = lasting or settings.raise_of == 1
        agreed = lasting and sum(self.recent) >= settings.raise_windows
        by_one = settings.alone_windows > 0 and (at_once or self.alone >= settings.alone_windows)
        if calibrated and end_ms >= self.settled_ms and (agreed or by_one):
            self.open, self.quiet = True, 0.0
            return True, False
        return False, False

    def near(self, settings: EpisodeSettings, more: int = 0, *, alone: bool = False) -> bool:
        """Whether the next loud window may open an episode, counting ``more`` loud ones that were not observed yet, which are ``alone`` or not."""
        newest = list(self.recent)[max(len(self.recent) - settings.raise_of + more, 0) :]
        agreed = sum(newest) + more >= max(settings.raise_windows - 1, 1)
        lone = self.alone + more if alone or not more else 0
        return agreed or (settings.alone_windows > 0 and lone >= max(settings.alone_windows - 1, 1))

    def settle(self, until_ms: int) -> None:
        """Open no episode before ``until_ms``; an open one stays open."""
        self.settled_ms = max(self.settled_ms, until_ms)


def _counts(step_ms: int, settings: EpisodeSettings) -> float:
    """How many quiet windows one counts for, so that an episode closes after ``clear_after_ms`` at the latest, though never after one alone."""
    if not settings.clear_after_ms or step_ms < ENOUGH_MS:
        return 1.0
    return max(1.0, min(settings.clear_windows * step_ms / settings.clear_after_ms, settings.clear_windows / 2))
