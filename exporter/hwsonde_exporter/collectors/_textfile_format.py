"""A strict, bounded parser of the text exposition format, for files that other programs write.

Format: https://prometheus.io/docs/instrumenting/exposition_formats/, version 0.0.4, without time stamps.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from hwsonde_exporter.metric import OUR_PREFIX, Foreign, Kind

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_COMMENT = re.compile(rf"#[ \t]*(HELP|TYPE)[ \t]+({_NAME})(?:[ \t]+(.*))?\Z")
_HEAD = re.compile(rf"({_NAME})(?:[ \t]*(\{{)[ \t]*|[ \t])")
_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)[ \t]*=[ \t]*"((?:[^"\\]|\\[\\"n])*)"[ \t]*(,?)[ \t]*')
_BLANKS = re.compile(r"[ \t]+")
_NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\Z", re.ASCII)
_INTEGER = re.compile(r"-?[0-9]{1,15}\Z", re.ASCII)
_SPECIAL = {"nan": "nan", "+inf": "inf", "-inf": "-inf", "inf": "inf"}
_ESCAPE = re.compile(r'\\([\\"n])')
_HELP_ESCAPE = re.compile(r"\\([\\n])")
_NO_HELP = "Read from a file of the textfile directory."
_SUFFIXES = {Kind.HISTOGRAM: ("_bucket", "_sum", "_count"), Kind.SUMMARY: ("_sum", "_count", "")}
_OWN_LABELS = {Kind.HISTOGRAM: "le", Kind.SUMMARY: "quantile"}
_MAX_LABELS = 64

Labels = tuple[tuple[str, str], ...]


class FormatError(Exception):
    """Why a text is refused: ``reason`` is a word for a label, ``line`` where it lies (1 is the first, 0 the whole)."""

    def __init__(self, reason: str, line: int, detail: str) -> None:
        super().__init__(f"line {line}: {detail}" if line else detail)
        self.reason = reason
        self.line = line


@dataclass(slots=True)
class Family:
    """One metric family of a text.

    Attributes
    ----------
    name, kind, help
        As the text says; untyped, and a help text of ours, where it does not.
    series
        Value by suffix and labels; labels in the order of their names, ``le`` and ``quantile`` last.
    """

    name: str
    kind: Kind = Kind.UNTYPED
    help: str = _NO_HELP
    series: dict[tuple[str, Labels], float] = field(default_factory=dict)

    @property
    def names(self) -> frozenset[str]:
        """Names that its series have in the text, and the one that it has in OpenMetrics."""
        named = {self.name + suffix for suffix in _SUFFIXES.get(self.kind, ("",))} | {self.name}
        if self.kind is Kind.COUNTER:
            named.add(self.name.removesuffix("_total"))
        return frozenset(named)


class _Reader:
    """The state of reading one text."""

    def __init__(self, limit: int) -> None:
        self.families: dict[str, Family] = {}
        self._limit = limit
        self._count = 0
        self._typed: set[str] = set()
        self._helped: set[str] = set()

    def comment(self, number: int, word: str, name: str, rest: str) -> None:
        family = self.families.setdefault(name, Family(name))
        if word == "HELP":
            if name in self._helped:
                raise FormatError("broken", number, "a second HELP of the same metric")
            self._helped.add(name)
            family.help = _HELP_ESCAPE.sub(lambda match: "\n" if match.group(1) == "n" else "\\", rest) or _NO_HELP
            return
        if name in self._typed or family.series:
            raise FormatError("broken", number, "a second TYPE of the same metric, or one behind its series")
        self._typed.add(name)
        try:
            family.kind = Kind(rest.strip())
        except ValueError:
            raise FormatError("broken", number, "no type of the text format") from None

    def sample(self, number: int, name: str, labels: dict[str, str], value: float) -> None:
        family, suffix = self._family(name)
        if suffix not in _SUFFIXES.get(family.kind, ("",)):
            raise FormatError("broken", number, f"a {family.kind} has no series of its bare name")
        own = _OWN_LABELS.get(family.kind, "") if suffix in {"_bucket", ""} else ""
        if own and _value(labels.get(own, "")) is None:
            raise FormatError("broken", number, f"a {family.kind} needs a number in its label {own}")
        ordered = tuple(sorted(labels.items(), key=lambda pair: (pair[0] == own, pair[0])))
        if (suffix, ordered) in family.series:
            raise FormatError("duplicate", number, "a series that came before")
        self._count += 1
        if self._count > self._limit:
            raise FormatError("too_many", number, f"more than {self._limit} series")
        family.series[suffix, ordered] = value

    def _family(self, name: str) -> tuple[Family, str]:
        """Family that a series of this name belongs to, and what it appends to the family's name."""
        for kind, suffixes in _SUFFIXES.items():
            for suffix in suffixes:
                base = name.removesuffix(suffix) if suffix and name.endswith(suffix) else ""
                family = self.families.get(base)
                if family is not None and family.kind is kind:
                    return family, suffix
        return self.families.setdefault(name, Family(name)), ""


def parse_textfile(data: bytes, limit: int) -> list[Family]:
    """Parse a whole text; give its families in order of first appearance, those without series left out.

    Parameters
    ----------
    data
        Content of the file.
    limit
        Greatest number of series.

    Raises
    ------
    FormatError
        ``broken`` for what the format does not allow, a text that ends within a line included; ``timestamp`` for a series
        with a time; ``duplicate`` for a series that comes twice; ``collision`` for a name like ours, or one that two
        families claim; ``too_many`` beyond the limit. The detail never repeats the text.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise FormatError("broken", data.count(b"\n", 0, error.start) + 1, "not UTF-8") from None
    if text and not text.endswith("\n"):
        raise FormatError(
            "broken", text.count("\n") + 1, "the last line has no end; write the file elsewhere and rename it"
        )
    reader = _Reader(limit)
    for number, line in enumerate(text.split("\n"), 1):
        _read_line(reader, number, line.strip(" \t"))
    families = [family for family in reader.families.values() if family.series]
    claimed: set[str] = set()
    for family in families:
        if any(name.startswith(OUR_PREFIX) for name in family.names):
            raise FormatError("collision", 0, f"names that begin with {OUR_PREFIX} are this program's own")
        if not claimed.isdisjoint(family.names):
            raise FormatError(
                "collision", 0, "two metrics would claim the same name (as x and x_count of a histogram x)"
            )
        claimed |= family.names
    return families


def _read_line(reader: _Reader, number: int, line: str) -> None:
    if not line:
        return
    if line.startswith("#"):
        comment = _COMMENT.match(line)
        if comment:
            reader.comment(number, comment.group(1), comment.group(2), comment.group(3) or "")
        return
    head = _HEAD.match(line)
    if not head:
        raise FormatError("broken", number, "neither a comment nor a series with its value")
    labels, place = _labels(number, line, head.end()) if head.group(2) else ({}, head.end())
    tokens = _BLANKS.split(line[place:].lstrip(" \t"))
    if not 1 <= len(tokens) <= 2:
        raise FormatError("broken", number, "neither a comment nor a series with its value")
    value = _value(tokens[0])
    if value is None or not all(_INTEGER.match(stamp) for stamp in tokens[1:]):
        raise FormatError("broken", number, "no number where a value belongs")
    if len(tokens) > 1:
        raise FormatError(
            "timestamp", number, "a series with a time stamp, which a file that is read later may not have"
        )
    reader.sample(number, head.group(1), labels, value)


def _labels(number: int, line: str, place: int) -> tuple[dict[str, str], int]:
    """Labels that begin at a place of a line, and the place behind their closing brace."""
    labels: dict[str, str] = {}
    comma = ","
    while not line.startswith("}", place):
        match = _LABEL.match(line, place) if comma else None
        if not match:
            raise FormatError("broken", number, "labels are not as the format wants them")
        name, value, comma = match.groups()
        if name in labels or name.startswith("__"):
            raise FormatError("broken", number, "a label that comes twice, or is reserved")
        labels[name] = _ESCAPE.sub(lambda escaped: "\n" if escaped.group(1) == "n" else escaped.group(1), value)
        place = match.end()
        if len(labels) > _MAX_LABELS:
            raise FormatError("broken", number, f"more than {_MAX_LABELS} labels")
    return labels, place + 1


def _value(token: str) -> float | None:
    """Number of a token as the format spells it, or None; a whole number stays one."""
    if _INTEGER.match(token):
        return int(token)
    if _NUMBER.match(token):
        return float(token)
    special = _SPECIAL.get(token.lower())
    return None if special is None else float(special)


def metric_of(family: Family, labels: Labels) -> Foreign:
    """Description of those series of a family that have these labels."""
    return Foreign(family.name, family.kind, family.help, tuple(name for name, _ in labels))
