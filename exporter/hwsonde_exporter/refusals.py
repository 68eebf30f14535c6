"""What the listeners turned away: counted, and told in the log at most once a minute."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

_LOG = logging.getLogger(__name__)

REASONS = ("tls", "password", "tries", "rate")
_QUIET_SECONDS = 60.0


class Refusals:
    """Counts refused connections and requests by reason.

    Reasons: ``tls`` (no handshake, or no certificate that is wanted), ``password`` (missing or wrong), ``tries`` (too many
    wrong ones from there), ``rate`` (beyond ``rate_limit``).

    Parameters
    ----------
    clock
        Monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._counts = dict.fromkeys(REASONS, 0)
        self._told: dict[str, float] = {}

    @property
    def counts(self) -> dict[str, int]:
        """Number by reason, each from 0."""
        with self._lock:
            return dict(self._counts)

    def note(self, reason: str, address: str, text: str) -> None:
        """Count one, and write a line unless one of this reason was written within a minute."""
        now = self._clock()
        with self._lock:
            self._counts[reason] += 1
            if now - self._told.get(reason, float("-inf")) < _QUIET_SECONDS:
                return
            self._told[reason] = now
        _LOG.warning("refused %s: %s; further ones of this kind are only counted for a minute", address, text)
