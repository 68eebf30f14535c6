"""Models and episodes on disk: when they are written, and what is said when that fails."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

from numpy.typing import NDArray

from hwsonde_detector import telemetry
from hwsonde_detector.errors import StateError
from hwsonde_detector.service.trouble import Trouble
from hwsonde_detector.state import check_directory, load_state, save_state, set_aside
from hwsonde_detector.telemetry import Counters

log = logging.getLogger("hwsonde_detector.service")

Saved: TypeAlias = tuple[Mapping[str, Any], Mapping[str, NDArray[Any]]]


class Saver:
    """Writes the state now and then.

    Parameters
    ----------
    directory
        Where to; None: nothing is kept.
    interval_s
        How often.
    counters
        Where saves and failures are counted.
    """

    def __init__(self, directory: Path | None, interval_s: float, counters: Counters) -> None:
        self.directory = directory
        self.interval_s = interval_s
        self._counters = counters
        self._last: float | None = None
        self._trouble = Trouble("state", "is written again")

    def prepare(self, now_ms: int, monotonic: float) -> None:
        """See that the directory can be written, and say so at once where it cannot: the service goes on without."""
        if self.directory is None:
            return
        try:
            check_directory(self.directory)
        except StateError as error:
            self._trouble.failed(str(error), now_ms, monotonic)

    def due(self, monotonic: float) -> bool:
        """Whether the interval is over."""
        if self._last is None:
            self._last = monotonic
        return self.directory is not None and monotonic - self._last >= self.interval_s

    def save(
        self, document: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], now_ms: int, monotonic: float
    ) -> None:
        """Write; a failure is counted and told once, the service goes on and what was on disk stays."""
        self._last = monotonic
        if self.directory is None:
            return
        try:
            save_state(self.directory, document, arrays)
        except (StateError, OSError) as error:
            self._counters.add(telemetry.STATE_FAILURES)
            self._trouble.failed(str(error), now_ms, monotonic)
        else:
            self._counters.add(telemetry.STATE_SAVES)
            self._trouble.worked(now_ms, monotonic)

    def load(self) -> Saved | None:
        """What was saved last; None where there is nothing that can be used (one line says why)."""
        if self.directory is None:
            return None
        try:
            return load_state(self.directory)
        except (StateError, OSError) as error:
            log.warning("state: %s", error)
            return None

    def reject(self, why: str) -> None:
        """What was loaded cannot be used: keep it for a person to look at, the next save would replace it."""
        if self.directory is not None:
            log.warning("state: %s; %s, learning starts anew", why, set_aside(self.directory))
