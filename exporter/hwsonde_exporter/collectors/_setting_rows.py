"""Rows of settings, and how the text of a kernel file becomes a value that two hosts can be compared by."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from hwsonde_exporter import parsing
from hwsonde_exporter.errors import ReadError
from hwsonde_exporter.host import Host

MAX_VALUE = 128
_DIGEST = 8
_ON = frozenset({"1", "y", "yes", "on", "enabled"})
_OFF = frozenset({"0", "n", "no", "off", "disabled"})


class Row(NamedTuple):
    """One setting.

    ``setting`` is a name of words joined by dots, the first of which is its area (``cpu.governor``); ``device`` is what the
    setting belongs to, empty where that is the host; ``value`` is normalised and at most `MAX_VALUE` characters long.
    """

    setting: str
    device: str
    value: str


# Makes the value of a cleaned line; an empty value stands for "nothing to tell".
Form = Callable[[str], str]


def row(setting: str, value: str, device: str = "") -> Row:
    """Row whose value is brought to a bounded length."""
    return Row(setting, device, bounded(value))


def bounded(value: str) -> str:
    """``value``, or its beginning and a digest of all of it where it is too long: long values that differ stay different."""
    if len(value) <= MAX_VALUE:
        return value
    return f"{value[: MAX_VALUE - _DIGEST - 1]}~{digest(value)}"


def digest(text: str) -> str:
    """Eight hexadecimal digits that tell a text from others; not for secrets."""
    return sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:_DIGEST]


def clean(data: bytes) -> str:
    """One line of printable characters, of any length; blanks and line ends are joined."""
    joined = " ".join(data.decode("utf-8", "replace").split())
    return "".join(character if character.isprintable() else "?" for character in joined)


def read_line(host: Host, path: Path | str) -> str | None:
    """Cleaned content of a small file; None if it is missing or cannot be read."""
    try:
        return clean(host.files.read_once(path))
    except ReadError:
        return None


def plain(text: str) -> str:
    """The text itself."""
    return text


def first_word(text: str) -> str:
    """The word before the number that the kernel writes behind it (``802.3ad 4``)."""
    return text.partition(" ")[0]


def switch(text: str) -> str:
    """``on`` or ``off`` of the many words for it; any other text as it is."""
    word = text.lower()
    return "on" if word in _ON else "off" if word in _OFF else text


def inverted(text: str) -> str:
    """As `switch`, of a file that says whether the thing is off."""
    return {"on": "off", "off": "on"}.get(switch(text), text)


def selected(text: str) -> str:
    """The word in brackets of a list of choices, or the whole text of a file with one word."""
    for word in text.split():
        if word.startswith("[") and word.endswith("]"):
            return word[1:-1]
    return text if " " not in text else ""


def words(meanings: Mapping[str, str]) -> Form:
    """Form that gives the word for each known number, and any other text as it is."""
    return lambda text: meanings.get(text, text)


def listed(text: str) -> str:
    """A list that may be empty."""
    return "none" if text in {"", "(null)"} else text


def kibibytes(text: str) -> str:
    """Bytes of a number of KiB."""
    number = parsing.number(text.encode())
    return "" if number is None else str(number * 1024)


def kilohertz(text: str) -> str:
    """Hertz of a number of kHz."""
    number = parsing.number(text.encode())
    return "" if number is None else str(number * 1000)


def agreed(values: Iterable[str]) -> str:
    """What many parts say: the one value, or each with the number of parts that say so; empty values are left out.

    ``performance`` if all agree, ``performance:191 powersave:1`` if not.
    """
    counts = Counter(value for value in values if value)
    if len(counts) <= 1:
        return next(iter(counts), "")
    return " ".join(f"{value}:{count}" for value, count in sorted(counts.items()))


def file_rows(host: Host, base: Path | str, table: Sequence[tuple[str, str, Form]], device: str = "") -> Iterator[Row]:
    """Rows of single files.

    Parameters
    ----------
    host
        Whose files are read.
    base
        Folder that the paths of the table are below.
    table
        Setting, path, and how its text becomes a value.
    device
        As in `Row`.
    """
    for setting, path, form in table:
        text = read_line(host, f"{base}/{path}")
        value = "" if text is None else form(text)
        if value:
            yield row(setting, value, device)
