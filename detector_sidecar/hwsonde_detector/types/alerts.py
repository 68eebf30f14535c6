"""What Alertmanager says."""

from __future__ import annotations

from dataclasses import dataclass

from hwsonde_detector.types.samples import Labels


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert that Alertmanager knows.

    ``state`` is ``active``, ``suppressed`` or ``unprocessed``; ``since_ms`` when it began to fire; ``summary`` is the annotation of that name.
    """

    labels: Labels
    state: str
    since_ms: int
    summary: str = ""
    silenced: bool = False
    inhibited: bool = False

    @property
    def name(self) -> str:
        """The rule's name."""
        return dict(self.labels).get("alertname", "")
