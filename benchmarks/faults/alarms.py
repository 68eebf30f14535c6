"""Alarms of a method over time. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

EVIDENCE_MS = 3000
"""How long a method may look before it names a subsystem."""
GAP_MS = 10_000
"""Loud rows that are no farther apart are one alarm."""


@dataclass(slots=True)
class Alarm:
    """A method says that something is wrong with a host, from ``start_ms`` to ``end_ms``; ``subsystem`` is what it names first."""

    node: str
    start_ms: int
    end_ms: int
    subsystem: str


@dataclass(slots=True)
class Voice:
    """All that a method says of one host: its alarms in order, what it tells without paging anybody, and since when it can judge (None: never)."""

    alarms: list[Alarm] = field(default_factory=list)
    ready_ms: int | None = None
    findings: list[Alarm] = field(default_factory=list)


@dataclass(slots=True)
class Runs:
    """Turns loud rows into alarms.

    Parameters
    ----------
    node
        The host.
    gap_ms
        See `GAP_MS`; never less than two and a half scrapes.
    """

    node: str
    gap_ms: int = GAP_MS
    alarms: list[Alarm] = field(default_factory=list)
    _votes: dict[str, float] = field(default_factory=dict)

    def see(self, at_ms: int, votes: Mapping[str, float]) -> None:
        """Take a loud row; ``votes`` are weights by subsystem, summed over the first seconds."""
        last = self.alarms[-1] if self.alarms else None
        if last is None or at_ms - last.end_ms > self.gap_ms:
            self._votes = {}
            last = Alarm(self.node, at_ms, at_ms, "")
            self.alarms.append(last)
        last.end_ms = at_ms
        if at_ms - last.start_ms <= EVIDENCE_MS:
            for name, weight in votes.items():
                self._votes[name] = self._votes.get(name, 0.0) + weight
            if self._votes:
                last.subsystem = max(self._votes, key=lambda name: (self._votes[name], name))
