"""One line when something begins to fail and one when it works again, whatever the number of tries between. Pure but for the log."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

log = logging.getLogger("hwsonde_detector.service")


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

    def failed(self, message: str, now_ms: int, monotonic: float, shown: str | None = None) -> None:
        """It failed; the first time, and when the reason changes, a line is written. ``shown`` is what the page says, None: the same."""
        if not self.failing:
            self.failing, self.since_ms, self.began, self.tries = True, now_ms, monotonic, 0
            log.warning("%s: %s", self.subject, message)
        elif message != self.message:
            log.warning("%s: still failing, now: %s", self.subject, message)
        self.tries += 1
        self.message = message
        self.shown = message if shown is None else shown

    def worked(self, now_ms: int, monotonic: float) -> None:
        """It worked."""
        if self.failing:
            log.info("%s %s after %.1f s and %d tries", self.subject, self.working, monotonic - self.began, self.tries)
            self.failing, self.message, self.shown, self.since_ms = False, "", "", now_ms

    def pause(self, least: float, most: float = 4.0) -> float:
        """Seconds until the next try: twice as long each time, bounded."""
        return min(max(least, 0.25 * 2.0 ** min(self.tries, 10)), most)
