"""Everything about incidents that runs beside the loop: the book, Alertmanager, marks, automation."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable

from hwsonde_detector import __version__, telemetry
from hwsonde_detector.clock import Clock
from hwsonde_detector.config import Config
from hwsonde_detector.incidents.book import Book, Mode, Tracks
from hwsonde_detector.incidents.marking import Inbox, Marker
from hwsonde_detector.incidents.pages import Pages
from hwsonde_detector.incidents.store import FOLDER, Store
from hwsonde_detector.keys import derived
from hwsonde_detector.published import Noticeboard
from hwsonde_detector.redaction import Redactor
from hwsonde_detector.service.advice import Advice
from hwsonde_detector.service.wiring import open_automation, open_follower
from hwsonde_detector.telemetry import Counters
from hwsonde_detector.types import Entity, Episode

log = logging.getLogger("hwsonde_detector.service")

# Sections that are read at the start only.
_FIXED = ("incidents", "alertmanager", "automation")


class Desk:
    """Puts the parts together, starts them and ends them.

    Parameters
    ----------
    config, clock, counters
        As the program has them.
    tracks
        Scores of the recent past.
    key
        Secret of this installation.
    """

    def __init__(self, config: Config, clock: Clock, counters: Counters, tracks: Tracks, key: bytes) -> None:
        folder = config.state.dir / FOLDER if config.state.dir is not None else None
        kept = config.incidents
        self.book = Book(Store(folder, kept.keep, kept.keep_for), tracks, clock, _mode(config))
        self.redactor = Redactor(config.web.redact, derived(key, "redaction"))
        inbox = Inbox()
        self._clock = clock
        self._marker = Marker(derived(key, "marks"), clock, inbox.put)
        self._follower = open_follower(config, clock)
        self.advice = Advice(
            inbox,
            self._follower.normal if self._follower else tuple,
            self._follower.unheard if self._follower else bool,
            config.maintenance,
            counters,
        )
        self._automation = open_automation(
            config, clock, self._marker, lambda result: counters.add(telemetry.AUTOMATION, 1, result)
        )

    def pages(self, board: Noticeboard) -> Pages:
        """What answers for incidents."""
        return Pages(self.book, board, self._clock, self._follower, self.redactor, self._marker)

    def start(self, past: Iterable[Episode]) -> None:
        """Read what is kept, with the closed episodes that the state knows, newest first; then start what runs beside the loop."""
        self.book.resume(past)
        self.book.start()
        if self._follower is not None:
            self._follower.start()
        if self._automation is not None:
            self._automation.start()
            self.book.listeners.append(self._automation.hear)

    def stop(self) -> None:
        """End them; closed incidents that wait are written."""
        for part in (self._automation, self._follower):
            if part is not None:
                part.stop()
        self.book.stop()

    def adopt(self, config: Config, before: Config, *, keep_models: bool, lost: Container[Entity] = ()) -> None:
        """Go on with another configuration; without ``keep_models`` every host is learned anew, else those that are ``lost``."""
        self.advice.maintenance = config.maintenance
        self.book.mode = _mode(config)
        self.book.clear(lost if keep_models else None)
        for name in _FIXED:
            if getattr(config, name) != getattr(before, name):
                log.warning("reload: the section %s changes at the next start", name)


def _mode(config: Config) -> Mode:
    return Mode(config.mode == "shadow", config.window.step, __version__)
