"""The index of closed incidents: a file that is only appended to, until most of its lines say nothing any more and it is written anew.

It begins with a line that names the version. Each further line is the CRC-32 of a JSON text and that text: an entry, a later state of it, what
was said of one that is not closed yet, or that one is gone. A damaged line is passed over. An index of a newer version is not read at all.
"""

from __future__ import annotations

import json
import os
import re
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from hwsonde_detector.files import read_regular
from hwsonde_detector.incidents.entry import Entry, Mark, Said, entry_document, marked, read_entry

VERSION = 1
_HEAD = re.compile(rb"hwsonde incidents (\d{1,9})\n")
_MOST_BYTES = 1 << 28
# So many lines more than twice the living ones make it worth while to write a small index anew.
_SPARE = 64

Early: TypeAlias = OrderedDict[str, Said]


@dataclass(slots=True)
class Contents:
    """What an index says.

    Attributes
    ----------
    version
        Of the index; of a newer one than `VERSION` nothing else is known.
    entries, early
        Entries by id, and what was said of incidents that were still open: what, when, by whom.
    damaged
        How many lines were passed over.
    """

    version: int = VERSION
    entries: dict[str, Entry] = field(default_factory=dict)
    early: Early = field(default_factory=OrderedDict)
    damaged: int = 0


class Index:
    """The file, written by one thread at a time.

    Parameters
    ----------
    path
        Where.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = 0
        self._tried = 0

    def read(self, *, alive: bool = False) -> Contents:
        """Read it; ``alive``: another process may be writing the last line. Raises OSError."""
        found = Contents()
        try:
            content = read_regular(self.path, _MOST_BYTES)
        except FileNotFoundError:
            return found
        head = _HEAD.match(content)
        if head is not None and int(head[1]) > VERSION:
            return Contents(version=int(head[1]))
        *lines, last = content[head.end() if head is not None and int(head[1]) == VERSION else 0 :].split(b"\n")
        for line in lines if alive else (*lines, last):
            if line and not _take(line, found):
                found.damaged += 1
        return found

    def append(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Add lines; raises OSError."""
        lines = [_line(record) for record in records]
        with open(self.path, "ab") as file:
            # What a full disk cut off ends here, so that only that line is lost.
            file.write(b"".join(lines) if ends_whole(self.path) else b"\n" + b"".join(lines))
            file.flush()
            os.fsync(file.fileno())
        self._lines += len(lines)

    def is_spent(self, living: int) -> bool:
        """Whether it is to be written anew: more than about half of its lines say nothing any more, and that did not fail just now."""
        return self._lines > max(2 * living, self._tried) + _SPARE

    def write(self, entries: Iterable[Entry], early: Iterable[tuple[str, Said]]) -> None:
        """Put this in place of all that it says; raises OSError, and it is then as it was."""
        self._tried = self._lines
        lines = [_line({"entry": entry_document(entry)}) for entry in entries]
        lines += [_line(mark_record(name, said)) for name, said in early]
        replace_file(self.path, b"hwsonde incidents %d\n" % VERSION + b"".join(lines))
        self._lines, self._tried = len(lines), 0


def mark_record(name: str, said: Said) -> dict[str, Any]:
    """The record of what was said of an incident."""
    mark, at_ms, by = said
    return {"mark": str(mark), "id": name, "at_ms": at_ms, "by": by}


def replace_file(target: Path, content: bytes) -> None:
    """Write a file under another name, flush it and rename it; raises OSError."""
    new = target.with_name(target.name + ".new")
    try:
        with open(new, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        new.replace(target)
    finally:
        with suppress(OSError):
            new.unlink()


def _line(record: Mapping[str, Any]) -> bytes:
    text = json.dumps(record, separators=(",", ":")).encode()
    return b"%08x %b\n" % (zlib.crc32(text), text)


def ends_whole(path: Path) -> bool:
    """Whether the last line of a file was written to its end; raises OSError."""
    with open(path, "rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return True
        file.seek(-1, os.SEEK_END)
        return file.read(1) == b"\n"


def _take(line: bytes, found: Contents) -> bool:
    """Take what a line says; False where it is damaged."""
    try:
        crc, _, text = line.partition(b" ")
        if int(crc, 16) != zlib.crc32(text):
            return False
        _apply(json.loads(text), found)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError):
        return False
    return True


def _apply(record: Mapping[str, Any], found: Contents) -> None:
    if "gone" in record:
        found.entries.pop(record["gone"], None)
    elif "mark" in record:
        name, said = record["id"], (Mark(record["mark"]), int(record["at_ms"]), str(record["by"]))
        if name in found.entries:
            found.entries[name] = marked(found.entries[name], *said)
        else:
            found.early[name] = said
    else:
        entry = read_entry(record["entry"])
        found.entries[entry.id] = entry
        found.early.pop(entry.id, None)
