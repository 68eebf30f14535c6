"""One line when something begins to fail and one when it works again, whatever the number of tries between. Pure but for the log."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass, field

log = logging.getLogger("hwsonde_detector.service")

# What goes back and forth, or fails for another reason each time, gets so many lines in such a time; what holds after that is told then.
_MOST_LINES, _SPAN_S = 3, 60.0


@dataclass(slots=True)
class Trouble:
    """State of one thing that may fail.

    Parameters
    ----------
    subject
        What it is, as a line begins: ``source``, ``state``.
    working
        What the line says once it works again: ``answers again``.
    """

    subject: str
    working: str
    failing: bool = False
    since_ms: int = 0
    began: float = 0.0
    tries: int = 0
    message: str = field(default="")
    shown: str = field(default="")
    _ended: float = 0.0
    _told: str | None = None
    """What the log said last; None: that it works."""
    _turns: int = 0
    """How often it began to fail or to work since then."""
    _lines: deque[float] = field(default_factory=lambda: deque(maxlen=_MOST_LINES))
    """When the last lines were written."""

    def failed(self, message: str, now_ms: int, monotonic: float, shown: str | None = None) -> None:
        """It failed; the first time, and when the reason changes, a line is written. ``shown`` is what the page says, None: the same."""
        if not self.failing:
            self.failing, self.since_ms, self.began, self.tries = True, now_ms, monotonic, 0
            self._turns += 1
        self.tries += 1
        self.message = message
        self.shown = message if shown is None else shown
        self._tell(monotonic)

    def worked(self, now_ms: int, monotonic: float) -> None:
        """It worked."""
        if self.failing:
            self.failing, self.message, self.shown, self.since_ms = False, "", "", now_ms
            self._turns += 1
            self._ended = monotonic
        self._tell(monotonic)

    def pause(self, least: float, most: float = 4.0) -> float:
        """Seconds until the next try: twice as long each time, bounded."""
        return min(max(least, 0.25 * 2.0 ** min(self.tries, 10)), most)

    def _tell(self, monotonic: float) -> None:
        """Write the line that is due, unless there were enough of late: then the first call that may says how it is by then."""
        now = self.message if self.failing else None
        if now == self._told or (len(self._lines) == _MOST_LINES and monotonic - self._lines[0] < _SPAN_S):
            return
        turned = (now is None) != (self._told is None)
        untold = self._turns - turned
        more = f" (it changed {untold} times before without a line)" if untold else ""
        if now is None:
            log.info(
                "%s %s after %.1f s and %d tries%s",
                self.subject,
                self.working,
                self._ended - self.began,
                self.tries,
                more,
            )
        else:
            log.warning("%s: %s%s%s", self.subject, "" if turned else "still failing, now: ", now, more)
        self._told, self._turns = now, 0
        self._lines.append(monotonic)
