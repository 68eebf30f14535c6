"""Marks of people: who may give one, and the way of it to the loop."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

from hwsonde_detector.clock import Clock
from hwsonde_detector.incidents.entry import Entry, Mark
from hwsonde_detector.incidents.tokens import holds, sign
from hwsonde_detector.types.guidance import Marked

# How long the form of a page holds, and how long a link in a mail or a ticket.
FORM_MS = 12 * 3_600_000
LINK_MS = 30 * 86_400_000
_MOST_WAITING = 10_000


class Inbox:
    """Marks that wait for the loop; may be used by any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Marked] = []

    def put(self, entry: Entry, mark: Mark) -> None:
        """Keep one for the next step."""
        with self._lock:
            if len(self._waiting) < _MOST_WAITING:
                self._waiting.append(Marked(entry.entity, entry.identity, str(mark)))

    def take(self) -> tuple[Marked, ...]:
        """Everything that waits, once."""
        with self._lock:
            waiting, self._waiting = tuple(self._waiting), []
        return waiting


@dataclass(frozen=True, slots=True)
class Marker:
    """Gives words that allow to mark, and checks them.

    Parameters
    ----------
    key
        Secret.
    clock
        Time.
    heard
        Told of each mark.
    """

    key: bytes
    clock: Clock
    heard: Callable[[Entry, Mark], None]

    def form(self, name: str) -> str:
        """The word of a page's form."""
        return sign(self.key, name, self.clock.now_ms() + FORM_MS)

    def link(self, name: str) -> str:
        """The word of a link that is sent."""
        return sign(self.key, name, self.clock.now_ms() + LINK_MS)

    def allows(self, name: str, token: str) -> bool:
        """Whether a word allows to mark an incident."""
        return holds(self.key, name, token, self.clock.now_ms())
