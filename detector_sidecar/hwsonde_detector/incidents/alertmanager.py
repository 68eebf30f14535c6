"""Follows an Alertmanager beside the loop: what it last said is known at once, and it is never waited for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from hwsonde_detector.clock import Clock
from hwsonde_detector.errors import SourceError
from hwsonde_detector.incidents.entry import Entry
from hwsonde_detector.signals.entities import entity_of
from hwsonde_detector.types import Entity, Series
from hwsonde_detector.types.alerts import Alert
from hwsonde_detector.types.guidance import Matcher, Normal

log = logging.getLogger("hwsonde_detector.incidents")

_STOP_S = 1.0
_MOST_SHOWN = 20


class Asked(Protocol):
    """An Alertmanager."""

    def alerts(self) -> tuple[Alert, ...]:
        """Everything that fires; raises `SourceError`."""

    def silences(self, marker: Sequence[Matcher], labels: Collection[str]) -> tuple[Normal, ...]:
        """Silences that say what is normal; raises `SourceError`."""

    def close(self) -> None:
        """Close the connections."""


@dataclass(frozen=True, slots=True)
class Known:
    """What it said last, and when (0: never); ``failure`` is why the last question failed, empty where it did not."""

    at_ms: int = 0
    alerts: tuple[Alert, ...] = ()
    normal: tuple[Normal, ...] = ()
    failure: str = ""


class Follower:
    """Asks again and again.

    Parameters
    ----------
    asked
        Whom.
    clock
        Time.
    every_s
        How often, in seconds.
    marker
        Matchers of the silences that say what is normal; none: silences say nothing.
    labels
        Entity labels.
    """

    def __init__(
        self, asked: Asked, clock: Clock, every_s: float, marker: Sequence[Matcher], labels: Collection[str]
    ) -> None:
        self._asked = asked
        self._clock = clock
        self._every_s = every_s
        self._marker = tuple(marker)
        self._labels = frozenset(labels)
        self._known = Known()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="alertmanager", daemon=True)

    def start(self) -> None:
        """Ask from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Ask no more; returns within a second."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_S)

    def ask(self) -> None:
        """Ask once. What was said before stays where the answer fails: a silence ends by its own time, not because nobody answers."""
        try:
            alerts = self._asked.alerts()
            normal = self._asked.silences(self._marker, self._labels) if self._marker else ()
        except SourceError as error:
            if not self._known.failure:
                log.warning("alertmanager: %s", error)
            before = self._known
            self._known = Known(before.at_ms, before.alerts, before.normal, error.shown)
        else:
            if self._known.failure:
                log.info("alertmanager: answers again")
            self._known = Known(self._clock.now_ms(), alerts, normal)

    def normal(self) -> tuple[Normal, ...]:
        """Silences that say what is normal."""
        return self._known.normal

    def unheard(self) -> bool:
        """Whether it could tell what is normal and has not answered since the start."""
        return bool(self._marker) and self._known.at_ms == 0

    def of(self, entry: Entry) -> dict[str, Any]:
        """What is known of the alerts of an incident's host."""
        known = self._known
        own = [alert for alert in known.alerts if _is_of(alert, entry.entity)]
        return {
            "state": "failing" if known.failure else "known" if known.at_ms else "not yet",
            "asked_ms": known.at_ms or None,
            "sentence": self._sentence(known, len(own)),
            "alerts": [
                {
                    "name": alert.name,
                    "labels": dict(alert.labels),
                    "state": alert.state,
                    "silenced": alert.silenced,
                    "inhibited": alert.inhibited,
                    "since_ms": alert.since_ms,
                    "summary": alert.summary,
                }
                for alert in own[:_MOST_SHOWN]
            ],
        }

    def _sentence(self, known: Known, count: int) -> str:
        if not known.at_ms:
            return f"Not known: {known.failure or 'Alertmanager has not answered yet'}."
        what = f"{count} alert{'s' if count != 1 else ''} of this host" if count else "No alert of this host"
        age = max(0, self._clock.now_ms() - known.at_ms) // 1000
        late = f"; since then it does not answer ({known.failure})" if known.failure else ""
        return f"{what}, by Alertmanager {age} s ago{late}."

    def _run(self) -> None:
        while True:
            try:
                self.ask()
            except Exception as error:  # noqa: BLE001 - a defect here must not end the following
                log.error("alertmanager: %s: %s, a defect", type(error).__name__, error)  # noqa: TRY400 - one line
            if self._ended.wait(self._every_s):
                self._asked.close()
                return


def _is_of(alert: Alert, host: Entity) -> bool:
    """Whether an alert is of a host: it has those of its labels that are not empty, or, for the one that names it, an instance that does."""
    wanted = {pair for pair in host.labels if pair[1]}
    made = entity_of(Series("", alert.labels), [name for name, _ in host.labels])
    return bool(wanted) and wanted <= set(made.labels)
