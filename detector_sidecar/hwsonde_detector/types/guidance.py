"""What people tell the detector: which episodes were useful, and what counts as normal for a while."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from hwsonde_detector.types.samples import Entity


@dataclass(frozen=True, slots=True)
class Matcher:
    """One condition on a label, as Alertmanager has them; a label that a host lacks is empty.

    ``regex`` matches the whole value, ``equal`` False turns the condition round.
    """

    name: str
    value: str
    regex: bool = False
    equal: bool = True

    def holds(self, value: str) -> bool:
        """Whether a value fulfils it."""
        same = bool(_pattern(self.value).fullmatch(value)) if self.regex else value == self.value
        return same is self.equal


@lru_cache(1000)
def _pattern(text: str) -> re.Pattern[str]:
    with warnings.catch_warnings():
        # Only an archive of a version that took them may have patterns that Python warns of: they mean what they meant then.
        warnings.simplefilter("ignore", FutureWarning)
        return re.compile(text)


@dataclass(frozen=True, slots=True)
class Normal:
    """A stretch of time in which what some hosts do is normal.

    Attributes
    ----------
    matchers
        Conditions on entity labels, all of which must hold.
    start_ms, end_ms
        From, and up to but not including.
    kind
        ``silence`` or ``maintenance``.
    reason
        A few words for people.
    """

    matchers: tuple[Matcher, ...]
    start_ms: int
    end_ms: int
    kind: str
    reason: str

    def holds(self, entity: Entity, now_ms: int) -> bool:
        """Whether it is the turn of a host."""
        if not self.start_ms <= now_ms < self.end_ms:
            return False
        labels: Mapping[str, str] = dict(entity.labels)
        return all(matcher.holds(labels.get(matcher.name, "")) for matcher in self.matchers)


@dataclass(frozen=True, slots=True)
class Marked:
    """Somebody said of an episode that it was ``useful`` or ``noise``."""

    entity: Entity
    identity: str
    kind: str


@dataclass(frozen=True, slots=True)
class Guidance:
    """What is told with one step: marks that are new, and everything that is normal at present.

    ``unsure`` while it is not known yet what is normal: whoever was called normal before stays so.
    """

    marks: tuple[Marked, ...] = ()
    normal: tuple[Normal, ...] = ()
    unsure: bool = False

    def __bool__(self) -> bool:
        """Whether anything is told."""
        return bool(self.marks or self.normal or self.unsure)


UNGUIDED = Guidance()


def guidance_document(guidance: Guidance) -> dict[str, Any]:
    """Give it as JSON values."""
    return {
        "marks": [[list(map(list, one.entity.labels)), one.identity, one.kind] for one in guidance.marks],
        "normal": [asdict(one) for one in guidance.normal],
        **({"unsure": True} if guidance.unsure else {}),
    }


def read_guidance(part: Mapping[str, Any]) -> Guidance:
    """Take back what `guidance_document` gave; raises KeyError, ValueError or TypeError where something is missing or of another kind."""
    marks = tuple(
        Marked(Entity(tuple((str(name), str(value)) for name, value in labels)), str(identity), str(kind))
        for labels, identity, kind in part["marks"]
    )
    normal = tuple(
        Normal(**{**one, "matchers": tuple(Matcher(**matcher) for matcher in one["matchers"])})
        for one in part["normal"]
    )
    return Guidance(marks, normal, bool(part.get("unsure", False)))
