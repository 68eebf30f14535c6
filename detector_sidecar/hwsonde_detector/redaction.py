"""Names that stand for others: values of labels are replaced wherever they stand, the same one by the same. Pure.

A value is found as a whole word, and at the beginning of a longer one that goes on with a dot, a colon or a hyphen (``n17.example.org:9100``).
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Collection, Iterable, Mapping
from functools import lru_cache
from typing import Any

from hwsonde_detector.types import Entity

_WORD = re.compile(r"\w+(?:[.:\-]+\w+)*")
_PART = re.compile(r"[.:\-]+")
_DIGITS = 8


class Redactor:
    """Replaces values of some labels.

    Parameters
    ----------
    labels
        Names of the entity labels whose values are replaced; none: nothing is.
    key
        Secret: without it nobody can try names until one fits.
    """

    def __init__(self, labels: Collection[str] = (), key: bytes = b"") -> None:
        self.labels = frozenset(labels)
        self._key = key
        self._stand_in = lru_cache(100_000)(self._name)

    @property
    def active(self) -> bool:
        """Whether anything is replaced."""
        return bool(self.labels)

    def known(self, entities: Iterable[Entity]) -> dict[str, str]:
        """What stands for which value of these hosts."""
        return {
            value: self._stand_in(label, value)
            for entity in entities
            for label, value in entity.labels
            if label in self.labels and value
        }

    def entity(self, entity: Entity) -> Entity:
        """A host under its other name."""
        return Entity(
            tuple(
                (label, self._stand_in(label, value) if label in self.labels and value else value)
                for label, value in entity.labels
            )
        )

    def _name(self, label: str, value: str) -> str:
        digest = hmac.digest(self._key, f"{label}\0{value}".encode("utf-8", "surrogatepass"), "sha256")
        return f"{label}-{digest.hex()[:_DIGITS]}"


def replaced(value: Any, known: Mapping[str, str]) -> Any:  # noqa: ANN401 - JSON values
    """JSON values with every text in them replaced, keys too; what is nothing of the kind stays as it is."""
    if not known:
        return value
    odd = _odd(known)
    return _walk(value, known, odd)


def _odd(known: Mapping[str, str]) -> re.Pattern[str] | None:
    """Values that are no word of their own, longest first."""
    some = sorted((value for value in known if not _WORD.fullmatch(value)), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, some))) if some else None


def _walk(value: Any, known: Mapping[str, str], odd: re.Pattern[str] | None) -> Any:  # noqa: ANN401
    if isinstance(value, str):
        return _text(value, known, odd)
    if isinstance(value, Mapping):
        return {_walk(key, known, odd): _walk(inner, known, odd) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        # Long lists of numbers are most of a document.
        return [inner if isinstance(inner, int | float) else _walk(inner, known, odd) for inner in value]
    return value


def _text(text: str, known: Mapping[str, str], odd: re.Pattern[str] | None) -> str:
    if odd is not None:
        text = odd.sub(lambda found: known[found[0]], text)
    return _WORD.sub(lambda found: _word(found[0], known), text)


def _word(word: str, known: Mapping[str, str]) -> str:
    """The longest beginning that is a value, and any later part that is one by itself."""
    if word in known:
        return known[word]
    ends = [found.start() for found in _PART.finditer(word)]
    for end in reversed(ends):
        if word[:end] in known:
            return known[word[:end]] + _rest(word[end:], known)
    if not ends:
        return word
    return word[: ends[0]] + _rest(word[ends[0] :], known)


def _rest(rest: str, known: Mapping[str, str]) -> str:
    mark = _PART.match(rest)
    return rest[: mark.end()] + _word(rest[mark.end() :], known) if mark else rest
