"""Labelled faults: what really happened, when and to which host. Pure: the file's content is passed in.

CSV with a header line, or JSON: a list of objects (or an object whose key ``labels`` is that list). Both have ``entity``, ``start`` and ``end``, and
may have ``kind`` and ``subsystems`` (or ``subsystem``); other fields are passed over.
"""

from __future__ import annotations

import csv
import difflib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from hwsonde_detector.errors import ConfigError
from hwsonde_detector.past.instants import ALLOWED, parse_instant
from hwsonde_detector.types import Entity, Labels, Subsystem

NO_KIND = "fault"
_NEEDED = ("entity", "start", "end")
_FIELDS = (*_NEEDED, "kind", "subsystem", "subsystems")
_SEPARATORS = str.maketrans("|;,", "   ")
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Label:
    """One fault.

    Attributes
    ----------
    host
        As the file has it: a name (``lab/n17`` or its last part, ``n17``), or labels that an entity must have.
    start_ms, end_ms
        Its first and last moment.
    kind
        What it was, for the table.
    subsystems
        Any of these named first is right; empty: not judged.
    place
        Where it stands, for messages: ``faults.csv:3``.
    """

    host: str | Labels
    start_ms: int
    end_ms: int
    kind: str
    subsystems: tuple[Subsystem, ...]
    place: str

    @property
    def name(self) -> str:
        """The host, for people."""
        return self.host if isinstance(self.host, str) else ",".join(f"{name}={value}" for name, value in self.host)

    def applies_to(self, entity: Entity) -> bool:
        """Whether an entity is meant."""
        if isinstance(self.host, str):
            return self.host in {str(entity), *(value for _, value in entity.labels[-1:])}
        return set(self.host) <= set(entity.labels)


def parse_labels(data: bytes, name: str) -> tuple[Label, ...]:
    """Read a file of labels.

    Parameters
    ----------
    data
        Its content.
    name
        Its name: one that ends in ``.json`` is read as JSON, everything else as CSV.

    Returns
    -------
    tuple
        In order of start, as far as equal in order of the file.

    Raises
    ------
    ConfigError
        One line a problem: file, line or number, what is wrong, what is allowed.
    """
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigError(f"{name}: the file is not UTF-8 text; give CSV or JSON") from None
    rows = _json_rows(text, name) if name.endswith(".json") else _csv_rows(text, name)
    labels: list[Label] = []
    problems: list[str] = []
    for place, row in rows:
        try:
            labels.append(_label(row, place))
        except ValueError as error:
            problems.append(f"{place}: {error}")
    if problems:
        raise ConfigError("\n".join(problems))
    if not labels:
        raise ConfigError(f"{name}: there is no label in it; give one line a fault, or leave --labels out")
    return tuple(sorted(labels, key=lambda one: one.start_ms))


def _csv_rows(text: str, name: str) -> list[tuple[str, Mapping[str, Any]]]:
    reader = csv.reader(text.splitlines(keepends=True), strict=True)
    rows: list[tuple[str, Mapping[str, Any]]] = []
    header: list[str] | None = None
    try:
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if header is None:
                header = [cell.strip().lower() for cell in cells]
                _check_names(header, f"{name}:{reader.line_num}")
            elif len(cells) != len(header):
                raise ConfigError(
                    f"{name}:{reader.line_num}: {len(cells)} fields, where the header has {len(header)}; quote a field that holds a comma"
                )
            else:
                rows.append((f"{name}:{reader.line_num}", dict(zip(header, cells, strict=True))))
    except csv.Error as error:
        raise ConfigError(f"{name}:{reader.line_num}: this is no CSV: {error}") from None
    return rows


def _json_rows(text: str, name: str) -> list[tuple[str, Mapping[str, Any]]]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        line = error.lineno if isinstance(error, json.JSONDecodeError) else 1
        why = error.msg if isinstance(error, json.JSONDecodeError) else "nested too deeply or a number too long"
        raise ConfigError(f"{name}:{line}: this is no JSON: {why}") from None
    if isinstance(document, dict):
        document = document.get("labels")
    if not isinstance(document, list) or not all(isinstance(row, dict) for row in document):
        raise ConfigError(f"{name}: a list of objects is needed, each with {', '.join(_NEEDED)}")
    rows = [(f"{name}: label {number}", row) for number, row in enumerate(document, 1)]
    for place, row in rows:
        _check_names(row, place)
    return rows


def _check_names(names: Iterable[str], place: str) -> None:
    names = list(names)
    if len(set(names)) < len(names):
        raise ConfigError(f"{place}: one name stands twice in the header")
    missing = [name for name in _NEEDED if name not in names]
    if missing:
        raise ConfigError(f"{place}: {', '.join(missing)} is missing; needed: {', '.join(_NEEDED)}")
    for name in names:
        close = difflib.get_close_matches(name, _FIELDS, 1, 0.8) if name not in _FIELDS else []
        if close:
            raise ConfigError(f"{place}: {name[:_LONGEST]!r} is not known, did you mean {close[0]}?")


def _label(row: Mapping[str, Any], place: str) -> Label:
    start, end = _moment(row, "start"), _moment(row, "end")
    if end < start:
        raise ValueError("it ends before it starts")
    kind = row.get("kind")
    return Label(
        host=_host(row["entity"]),
        start_ms=start,
        end_ms=end,
        kind=_text(kind, "kind") if kind not in (None, "") else NO_KIND,
        subsystems=_subsystems(row.get("subsystems") or row.get("subsystem") or ()),
        place=place,
    )


def _text(value: object, what: str) -> str:
    text = value.strip() if isinstance(value, str) else ""
    if not text or not text.isprintable() or len(text) > _LONGEST:
        raise ValueError(f"{what}: {_shown(value)} is not usable; allowed: a line of at most {_LONGEST} characters")
    return text


def _host(value: object) -> str | Labels:
    if isinstance(value, dict):
        if not value or not all(isinstance(part, str) for part in value.values()):
            raise ValueError(
                f"entity: {_shown(value)} is not usable; allowed: a name, or names of labels with their values"
            )
        return tuple(sorted(value.items()))
    return _text(value, "entity")


def _moment(row: Mapping[str, Any], name: str) -> int:
    value = row[name]
    if isinstance(value, int) and not isinstance(value, bool):
        text = str(value)
    elif isinstance(value, float) and math.isfinite(value):
        text = f"{value:.3f}"
    else:
        text = value.strip() if isinstance(value, str) else ""
    try:
        return parse_instant(text)
    except ValueError:
        raise ValueError(f"{name}: {_shown(value)} is no moment; allowed: {ALLOWED}") from None


def _subsystems(value: object) -> tuple[Subsystem, ...]:
    words = value.translate(_SEPARATORS).split() if isinstance(value, str) else value
    if not isinstance(words, list | tuple):
        raise ValueError(f"subsystems: {_shown(value)} is no list")  # noqa: TRY004 - one kind of error for whatever a field holds
    known: Callable[[object], bool] = {str(one) for one in Subsystem}.__contains__
    for word in words:
        if not isinstance(word, str) or not known(word):
            raise ValueError(f"subsystems: {_shown(word)} is not known; allowed: {', '.join(Subsystem)}")
    return tuple(Subsystem(word) for word in dict.fromkeys(words))


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
