"""Names that stand for others: values of labels are replaced wherever they stand, the same one by the same. Pure.

A value is found as a whole word, and at the beginning of a longer one that goes on with a dot, a colon or a hyphen (``n17.example.org:9100``). It is
also found as JSON escapes it, and so is what is left of it where somebody shortened a text: documents are redacted whole and shortened by who shows
them, but titles are bounded and older documents have shortened names in them.
"""

from __future__ import annotations

import hmac
import json
import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any

from hwsonde_detector.types import Entity

_WORD = re.compile(r"\w+(?:[.:\-]+\w+)*")
_PART = re.compile(r"[.:\-]+")
_DIGITS = 8
# Stand for what was left out of a text.
_CUTS = ("\N{HORIZONTAL ELLIPSIS}", "...")
_CUT = re.compile("|".join(map(re.escape, _CUTS)))
# Less than this, left of a value, is nobody's.
_LEAST = 2
_LAST = "\U0010ffff"
_GOES_ON = re.compile(r"\w\w")
_NUMBER = r"[+-]?\d+(?:\.\d+)?"
# No number goes on behind it.
_END = r"(?!\w|[.:]\d)"
# A number of some length that is part of a name: slurm:4711, slurm/4711, job_4711.
_JOINED = re.compile(rf"(?<!\w)([^\W\d_](?:\w*[^\W_])?[:/_])(\d{{3,}}){_END}")


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
        self.stand_in = lru_cache(100_000)(self._name)

    @property
    def active(self) -> bool:
        """Whether anything is replaced."""
        return bool(self.labels)

    def known(self, entities: Iterable[Entity]) -> dict[str, str]:
        """What stands for which value of these hosts."""
        return {
            value: self.stand_in(label, value)
            for entity in entities
            for label, value in entity.labels
            if label in self.labels and value
        }

    def entity(self, entity: Entity) -> Entity:
        """A host under its other name."""
        return Entity(
            tuple(
                (label, self.stand_in(label, value) if label in self.labels and value else value)
                for label, value in entity.labels
            )
        )

    def _name(self, label: str, value: str) -> str:
        digest = hmac.digest(self._key, f"{label}\0{value}".encode("utf-8", "surrogatepass"), "sha256")
        return f"{label}-{digest.hex()[:_DIGITS]}"


def is_number(value: str) -> bool:
    """Whether a value is a number: as many others of its kind are quantities, and no names."""
    return re.fullmatch(_NUMBER, value) is not None


def replaced(value: Any, known: Mapping[str, str]) -> Any:  # noqa: ANN401 - JSON values
    """JSON values with every text in them replaced, keys too; what is nothing of the kind stays as it is."""
    return Replacing(known).of(value)


class Replacing:
    """Replaces values in JSON values.

    Parameters
    ----------
    names
        What stands for which value, wherever that stands.
    numbers
        The same of values that are numbers, for each label. One is replaced where it is told that it is the label's: as the name of a part of that
        class, behind the label's name (``gpu 3``, ``gpu="3"``), or, with three digits and more, as part of a name (``slurm:4711``).
    """

    def __init__(self, names: Mapping[str, str], numbers: Mapping[str, Mapping[str, str]] | None = None) -> None:
        self._names = names
        self._forms = _odd_forms(names)
        self._odd = _any_of(self._forms)
        self._numbers = {label.lower(): own for label, own in (numbers or {}).items() if own}
        self._any_number = {value: name for own in self._numbers.values() for value, name in own.items()}
        self._behind = re.compile(
            rf'(?<!\w)(({"|".join(map(re.escape, self._numbers))})(?: |="?|[:/#-]))({_NUMBER}){_END}', re.IGNORECASE
        )

    def of(self, value: Any) -> Any:  # noqa: ANN401 - JSON values
        """The values with every text in them replaced, keys too."""
        return self._walk(value) if self._names or self._numbers else value

    def _walk(self, value: Any) -> Any:  # noqa: ANN401
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Mapping):
            inside = self._numbered_part(value) if self._numbers else value
            return {self._walk(key): self._walk(inner) for key, inner in inside.items()}
        if isinstance(value, list | tuple):
            # Long lists of numbers are most of a document.
            return [inner if isinstance(inner, int | float) else self._walk(inner) for inner in value]
        return value

    def _numbered_part(self, value: Mapping[Any, Any]) -> Mapping[Any, Any]:
        """A part of a host whose class is one of the labels, and whose name one of its numbers."""
        kind, name = value.get("class"), value.get("name")
        if not isinstance(kind, str) or not isinstance(name, str):
            return value
        return {**value, "name": self._numbers.get(kind.lower(), {}).get(name, name)}

    def _text(self, text: str) -> str:
        if any(mark in text for mark in _CUTS):
            text = self._mended(text)
        if self._odd is not None:
            text = self._odd.sub(lambda found: self._forms[found[0]], text)
        text = _WORD.sub(lambda found: _word(found[0], self._names), text)
        if not self._numbers:
            return text
        text = self._behind.sub(lambda found: found[1] + self._numbers[found[2].lower()].get(found[3], found[3]), text)
        return _JOINED.sub(lambda found: found[1] + self._any_number.get(found[2], found[2]), text)

    def _mended(self, text: str) -> str:
        """A text that was shortened, with what stands for the values of which it has a beginning before the mark or an end behind it.

        Where that may be of several values nobody can tell which stands there, and it is left out as well.
        """
        marks = _CUT.findall(text)
        first, *rest = _CUT.split(text)
        parts = [first]
        for mark, after in zip(marks, rest, strict=True):
            start, begun = self._begun(parts[-1])
            end, ended = self._ended(after)
            if both := begun & ended:
                begun, ended = both, set()
            parts[-1] = parts[-1][:start] + _only(begun) + mark
            parts.append(_only(ended) + after[end:])
        return "".join(parts)

    @cached_property
    def _sorted(self) -> tuple[list[str], list[str]]:
        """The values in order of their beginnings; and turned around, in order of their ends."""
        return sorted(self._names), sorted(value[::-1] for value in self._names)

    @cached_property
    def _longest(self) -> int:
        return max(map(len, self._names), default=0)

    def _begun(self, text: str) -> tuple[int, set[str]]:
        """Where in a text the longest beginning of a value stands that it ends with, and what stands for the values that this may be of."""
        for start in range(max(len(text) - self._longest, 0), len(text) - _LEAST + 1):
            if start and _GOES_ON.match(text, start - 1):
                continue
            if some := _beginning(self._sorted[0], text[start:]):
                return start, {self._names[value] for value in some}
        return len(text), set()

    def _ended(self, text: str) -> tuple[int, set[str]]:
        """Up to where in a text the longest end of a value reaches that it begins with, and what stands for the values that this may be of."""
        for end in range(min(len(text), self._longest), _LEAST - 1, -1):
            if end < len(text) and _GOES_ON.match(text, end - 1):
                continue
            if some := _beginning(self._sorted[1], text[end - 1 :: -1]):
                return end, {self._names[value[::-1]] for value in some}
        return 0, set()


def _beginning(values: Sequence[str], begin: str) -> Sequence[str]:
    """Those of sorted values that begin so."""
    first = bisect_left(values, begin)
    return values[first : bisect_left(values, begin + _LAST, first)]


def _only(names: Collection[str]) -> str:
    return next(iter(names)) if len(names) == 1 else ""


def _odd_forms(names: Mapping[str, str]) -> dict[str, str]:
    """Values that are no word of their own, as they are and as JSON writes them."""
    forms: dict[str, str] = {}
    for value, name in names.items():
        if not _WORD.fullmatch(value):
            forms[value] = name
            forms.setdefault(json.dumps(value, ensure_ascii=False)[1:-1], name)
    return forms


def _any_of(forms: Collection[str]) -> re.Pattern[str] | None:
    """What finds the longest of these."""
    return re.compile("|".join(map(re.escape, sorted(forms, key=len, reverse=True)))) if forms else None


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
