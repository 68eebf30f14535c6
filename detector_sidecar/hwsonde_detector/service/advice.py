"""What people tell, gathered for the loop: marks, silences and maintenance windows."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from hwsonde_detector import telemetry
from hwsonde_detector.config.incidents import Maintenance
from hwsonde_detector.incidents.marking import Inbox
from hwsonde_detector.telemetry import Counters
from hwsonde_detector.types.guidance import Guidance, Normal

log = logging.getLogger("hwsonde_detector.service")


# For how long after a start what was normal before is still taken to be so, where Alertmanager does not answer.
_UNSURE_MS = 600_000


class Advice:
    """Gives what is new and what holds; called by the loop, never waits.

    Parameters
    ----------
    inbox
        Marks that wait.
    silences
        Gives the silences that say what is normal.
    unheard
        Whether silences may hold that nobody has told of since the start.
    maintenance
        Windows by name; may be replaced.
    counters
        Where marks are counted.
    """

    def __init__(
        self,
        inbox: Inbox,
        silences: Callable[[], tuple[Normal, ...]],
        unheard: Callable[[], bool],
        maintenance: Mapping[str, Maintenance],
        counters: Counters,
    ) -> None:
        self.maintenance = maintenance
        self._inbox = inbox
        self._silences = silences
        self._unheard = unheard
        self._first_ms: int | None = None
        self._counters = counters
        self._before: frozenset[str] = frozenset()

    def __call__(self, now_ms: int) -> Guidance:
        """Everything that is told with the step at a time."""
        marks = self._inbox.take()
        for mark in marks:
            self._counters.add(telemetry.EPISODES_MARKED, 1, mark.kind)
        windows = (window.normal(name, now_ms) for name, window in sorted(self.maintenance.items()))
        normal = [one for one in (*self._silences(), *windows) if one.start_ms <= now_ms < one.end_ms]
        self._tell({one.reason for one in normal})
        self._first_ms = now_ms if self._first_ms is None else self._first_ms
        unsure = now_ms - self._first_ms < _UNSURE_MS and self._unheard()
        return Guidance(marks, tuple(normal), unsure)

    def _tell(self, reasons: set[str]) -> None:
        for reason in sorted(reasons - self._before):
            log.info("%s begins: what its hosts do counts as normal", reason)
        for reason in sorted(self._before - reasons):
            log.info("%s is over", reason)
        self._before = frozenset(reasons)
