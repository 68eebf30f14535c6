"""What people say of episodes, and what it does to a host's level. Pure.

An episode that ends raises the level by one step, whether it was right or not. Called noise it raises by one more; called useful it
raises not at all, what it raised is taken back: confirmed episodes do not count. The level never moves while an episode is open, so what is said
meanwhile counts when it ends.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hwsonde_detector.decision.thresholds import Threshold

USEFUL, NOISE = "useful", "noise"
# Episodes that are remembered; what is said of older ones counts as of one that raised nothing.
_MOST = 64


@dataclass(slots=True)
class Said:
    """One episode: what was said of it, by how many steps its end raises the level, and by how much it has moved it, in decades."""

    kind: str = ""
    base: int = 0
    moved: float = 0.0

    @property
    def steps(self) -> int:
        """By how many steps it counts."""
        return 0 if self.kind == USEFUL else self.base + (self.kind == NOISE)


@dataclass(slots=True)
class Feedback:
    """The newest episodes of one host by identity; ``waiting`` are those whose mark counts once no episode is open."""

    known: dict[str, Said] = field(default_factory=dict)
    waiting: list[str] = field(default_factory=list)

    def closed(self, identity: str, threshold: Threshold) -> None:
        """An episode has ended of itself."""
        self._of(identity).base = 1
        for name in dict.fromkeys([identity, *self.waiting]):
            self._settle(name, threshold)
        self.waiting.clear()

    def mark(self, identity: str, kind: str, threshold: Threshold, *, busy: bool) -> None:
        """Somebody has said what an episode was; ``busy`` while one is open on the host."""
        self._of(identity).kind = kind
        if busy:
            if identity not in self.waiting:
                self.waiting.append(identity)
        else:
            self._settle(identity, threshold)

    def settle(self, threshold: Threshold) -> None:
        """No episode is open any more: what waited counts."""
        for name in self.waiting:
            self._settle(name, threshold)
        self.waiting.clear()

    def uncount(self, identity: str, threshold: Threshold) -> None:
        """An episode counted as normal: its end raises nothing."""
        said = self.known.get(identity)
        if said is not None:
            said.base = 0
            self._settle(identity, threshold)

    def _of(self, identity: str) -> Said:
        said = self.known.pop(identity, None) or Said()
        self.known[identity] = said
        while len(self.known) > _MOST:
            del self.known[next(iter(self.known))]
        return said

    def _settle(self, identity: str, threshold: Threshold) -> None:
        said = self.known.get(identity)
        if said is not None:
            threshold.shift(-said.moved)
            said.moved = threshold.rise(said.steps)


def feedback_document(feedback: Feedback) -> dict[str, Any]:
    """Give it as JSON values."""
    known = [[name, said.kind, said.base, said.moved] for name, said in feedback.known.items()]
    return {"known": known, "waiting": list(feedback.waiting)}


def read_feedback(part: Mapping[str, Any] | None) -> Feedback:
    """Take back what `feedback_document` gave; None, of a state that has none, is nothing said."""
    if part is None:
        return Feedback()
    known = {str(name): Said(str(kind), int(base), float(moved)) for name, kind, base, moved in part["known"]}
    return Feedback(known, [str(name) for name in part["waiting"]])
