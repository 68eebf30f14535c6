"""Rules for single configuration values: what is allowed, in words, and how text becomes a value.

Each rule is put on a field by ``Annotated[type, Rule(...)]``. Its sentence `allowed` is used twice, in the line that an operator
gets for a bad value and in the generated reference, so that the two cannot differ.
"""

from __future__ import annotations

import math
import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import GetCoreSchemaHandler, ValidationInfo
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?", re.ASCII)
_SIZE = re.compile(r"(\d+)\s*(B|KiB|MiB|GiB|kB|MB|GB)", re.ASCII)
_SIZE_UNITS = {"B": 1, "kB": 1000, "MB": 10**6, "GB": 10**9, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


class RefusedError(ValueError):
    """A value is not allowed; the text says what is wrong with it."""


def parse_duration(text: str) -> int:
    """Milliseconds of a duration as Prometheus writes it.

    Examples
    --------
    >>> parse_duration("1m30s")
    90000

    Raises
    ------
    RefusedError
        The text is no such duration.
    """
    found = _DURATION.fullmatch(text) if text else None
    if found is None:
        raise RefusedError(f"{text!r} is no duration")
    days, hours, minutes, seconds, millis = (int(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60_000 + seconds * 1000 + millis


def format_duration(ms: int) -> str:
    """The shortest text that `parse_duration` reads back.

    Examples
    --------
    >>> format_duration(90_000)
    '1m30s'
    """
    parts = []
    for unit in ("d", "h", "m", "s", "ms"):
        count, ms = divmod(ms, _UNITS_MS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def format_size(count: int) -> str:
    """Bytes in the largest binary unit that divides them: ``256MiB``."""
    for unit in ("GiB", "MiB", "KiB"):
        if count and count % _SIZE_UNITS[unit] == 0:
            return f"{count // _SIZE_UNITS[unit]}{unit}"
    return f"{count}B"


def shown(value: object) -> str:
    """A value as an error line shows it: short, on one line."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


class Rule(ABC):
    """What one value may be. Subclasses say it (`allowed`) and do it (`parse`)."""

    @property
    @abstractmethod
    def allowed(self) -> str:
        """What is allowed, as the end of a sentence."""

    @abstractmethod
    def parse(self, value: object, base: Path) -> Any:  # noqa: ANN401 - each rule gives its own type
        """Give the checked value; ``base`` is the folder that relative paths start from.

        Raises
        ------
        RefusedError
            The value is not allowed; the text says what is wrong with it.
        """

    def show(self, value: object) -> str:
        """The value as one would write it in YAML."""
        return str(value)

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        """Let pydantic call `parse`."""
        del source, handler

        def check(value: object, info: ValidationInfo) -> Any:  # noqa: ANN401
            base = (info.context or {}).get("base", Path())
            try:
                return self.parse(value, base)
            except RefusedError as error:
                raise PydanticCustomError(
                    "rule", "{problem}; allowed: {allowed}", {"problem": str(error), "allowed": self.allowed}
                ) from None

        return core_schema.with_info_plain_validator_function(check)


@dataclass(frozen=True, slots=True)
class Whole(Rule):
    """A whole number within bounds."""

    low: int
    high: int

    @property
    def allowed(self) -> str:
        """The bounds."""
        return f"a whole number from {self.low} to {self.high}"

    def parse(self, value: object, base: Path) -> int:
        """Refuse booleans, fractions and text."""
        del base
        if isinstance(value, bool) or not isinstance(value, int):
            raise RefusedError(f"{shown(value)} is no whole number")
        if not self.low <= value <= self.high:
            raise RefusedError(f"{shown(value)} is out of range")
        return value


@dataclass(frozen=True, slots=True)
class Real(Rule):
    """A number within bounds, both included."""

    low: float
    high: float

    @property
    def allowed(self) -> str:
        """The bounds."""
        return f"a number from {self.low:g} to {self.high:g}"

    def parse(self, value: object, base: Path) -> float:
        """Refuse booleans, NaN and text; 1e-4 without a dot is text in YAML 1.1 and taken."""
        del base
        if isinstance(value, str) and re.fullmatch(r"[+-]?\d+(\.\d*)?[eE][+-]?\d+", value):
            value = float(value)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise RefusedError(f"{shown(value)} is no number")
        if not math.isfinite(value) or not self.low <= value <= self.high:
            raise RefusedError(f"{shown(value)} is out of range")
        return float(value)


@dataclass(frozen=True, slots=True)
class Switch(Rule):
    """True or false."""

    @property
    def allowed(self) -> str:
        """Both."""
        return "true or false"

    def parse(self, value: object, base: Path) -> bool:
        """Refuse all but booleans."""
        del base
        if not isinstance(value, bool):
            raise RefusedError(f"{shown(value)} is neither")
        return value

    def show(self, value: object) -> str:
        """YAML's spelling."""
        return str(value).lower()


@dataclass(frozen=True, slots=True)
class Span(Rule):
    """A duration within bounds; the value is in milliseconds. ``words`` (such as ``auto``) are kept as they are."""

    low_ms: int
    high_ms: int
    words: tuple[str, ...] = ()

    @property
    def allowed(self) -> str:
        """The bounds, with an example of the spelling."""
        words = "".join(f"{word}, or " for word in self.words)
        return f"{words}a duration from {format_duration(self.low_ms)} to {format_duration(self.high_ms)}, written as 250ms, 15s, 5m or 1h30m"

    def parse(self, value: object, base: Path) -> int | str:
        """Read the text; a bare number has no unit and is refused."""
        del base
        if isinstance(value, str) and value in self.words:
            return value
        if isinstance(value, bool) or not isinstance(value, str):
            unit = " without a unit" if isinstance(value, int | float) and not isinstance(value, bool) else ""
            raise RefusedError(f"{shown(value)} is a number{unit}" if unit else f"{shown(value)} is no duration")
        ms = parse_duration(value)
        if not self.low_ms <= ms <= self.high_ms:
            raise RefusedError(f"{value} is out of range")
        return ms

    def show(self, value: object) -> str:
        """Give ``15s`` for 15000."""
        return format_duration(value) if isinstance(value, int) else str(value)


@dataclass(frozen=True, slots=True)
class Size(Rule):
    """A size in bytes within bounds."""

    low: int
    high: int

    @property
    def allowed(self) -> str:
        """The bounds, with an example of the spelling."""
        return f"a size from {format_size(self.low)} to {format_size(self.high)}, written as 512KiB, 256MiB or 2GB"

    def parse(self, value: object, base: Path) -> int:
        """Read the text; a bare number has no unit and is refused."""
        del base
        found = _SIZE.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            raise RefusedError(f"{shown(value)} is no size with a unit")
        count = int(found[1]) * _SIZE_UNITS[found[2]]
        if not self.low <= count <= self.high:
            raise RefusedError(f"{value} is out of range")
        return count

    def show(self, value: object) -> str:
        """Give ``256MiB``."""
        return format_size(value) if isinstance(value, int) else str(value)


@dataclass(frozen=True, slots=True)
class Choice(Rule):
    """One of a few words."""

    words: tuple[str, ...]

    @property
    def allowed(self) -> str:
        """The words."""
        return "one of " + ", ".join(self.words)

    def parse(self, value: object, base: Path) -> str:
        """Refuse other words."""
        del base
        if not isinstance(value, str) or value not in self.words:
            raise RefusedError(f"{shown(value)} is not known")
        return value


@dataclass(frozen=True, slots=True)
class Text(Rule):
    """A line of text that a pattern describes."""

    pattern: str
    what: str

    @property
    def allowed(self) -> str:
        """The description."""
        return self.what

    def parse(self, value: object, base: Path) -> str:
        """Match the whole text."""
        del base
        if not isinstance(value, str) or not re.fullmatch(self.pattern, value, re.ASCII):
            raise RefusedError(f"{shown(value)} is not usable")
        return value


LINE = Text(r"[ -~]+", "printable ASCII text on one line")


@dataclass(frozen=True, slots=True)
class Items(Rule):
    """A list of values that differ from one another, each under one rule."""

    rule: Rule
    low: int = 0
    high: int = 100

    @property
    def allowed(self) -> str:
        """How many, and what each may be."""
        return f"a list of {self.low} to {self.high} different values, each {self.rule.allowed}"

    def parse(self, value: object, base: Path) -> tuple[Any, ...]:
        """Check the list, then each value."""
        if not isinstance(value, list | tuple):
            raise RefusedError(f"{shown(value)} is no list")
        found = tuple(self.rule.parse(item, base) for item in value)
        if len(set(found)) != len(found):
            raise RefusedError(f"{shown(list(value))} names one value twice")
        if not self.low <= len(found) <= self.high:
            raise RefusedError(f"the list has {len(found)} values")
        return found

    def show(self, value: object) -> str:
        """Give ``[a, b]``."""
        return f"[{', '.join(map(str, value))}]" if isinstance(value, Sequence) else str(value)


@dataclass(frozen=True, slots=True)
class FilePath(Rule):
    """A path; a relative one starts from the folder of the configuration file."""

    what: str = "a path, relative to this file or absolute"

    @property
    def allowed(self) -> str:
        """The description."""
        return self.what

    def parse(self, value: object, base: Path) -> Path:
        """Resolve against ``base``."""
        if not isinstance(value, str) or not value.strip() or "\0" in value:
            raise RefusedError(f"{shown(value)} is no path")
        return base / value
