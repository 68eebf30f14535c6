"""Closed incidents on disk: the index of `index`, and one compressed file for each incident.

An entry whose line in the index was lost is taken from the incident's own file, which holds it too. So is a whole index that is lost. A folder
whose index was written by a newer version is left as it is.
"""

from __future__ import annotations

import gzip
import json
import logging
import re
import threading
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from hwsonde_detector.errors import StateError
from hwsonde_detector.files import read_regular
from hwsonde_detector.incidents.entry import Entry, Mark, Said, entry_document, marked, read_entry, retained
from hwsonde_detector.incidents.index import VERSION, Contents, Early, Index, mark_record, replace_file
from hwsonde_detector.types.naming import INCIDENT_FORM

FOLDER = "incidents"
_INDEX = "index.log"
_NAME = re.compile(rf"({INCIDENT_FORM})\.json\.gz")
_MOST_DOCUMENT = 1 << 26
# Without a folder so many documents are kept in memory.
_IN_MEMORY = 200
_MOST_EARLY = 1000
_UNREAD = "The file of this incident cannot be read; the detector's log says why."

log = logging.getLogger("hwsonde_detector.incidents")


class Store:
    """Keeps closed incidents; may be used by any thread.

    Parameters
    ----------
    folder
        Where; made if it does not exist. None: nothing outlasts the process.
    most, keep_ms
        The newest so many are kept, and for so long after their end.
    """

    def __init__(self, folder: Path | None, most: int = 5000, keep_ms: int = 90 * 86_400_000) -> None:
        self.folder = folder
        self._index = Index(folder / _INDEX) if folder is not None else None
        self._most = most
        self._keep_ms = keep_ms
        # Whoever writes holds the first one and takes the second, for what is in memory, only for moments: nobody who reads waits for a disk.
        self._disk = threading.Lock()
        self._lock = threading.RLock()
        self._entries: dict[str, Entry] = {}
        self._listed: tuple[Entry, ...] | None = None
        self._marks: tuple[int, int] | None = None
        self._memory: OrderedDict[str, Mapping[str, Any]] = OrderedDict()
        # What was said of incidents that are not closed yet.
        self._early: Early = OrderedDict()
        # Incidents of which something could not be written, in order; whoever writes looks at it.
        self._owed: dict[str, None] = {}

    def open(self, now_ms: int) -> list[str]:
        """Read what is kept; gives one line for each thing that was damaged, or for all of it where a newer version wrote it.

        Raises
        ------
        StateError
            The folder cannot be made, read or written.
        """
        folder, index = self.folder, self._index
        if folder is None or index is None:
            return []
        try:
            with self._disk:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                found = index.read()
                if found.version > VERSION:
                    # Whatever would be written there might be what that version cannot read.
                    self.folder = self._index = None
                    return [
                        f"{_newer(index, found.version)}, and incidents are kept in memory: run that version again, or name another state.dir"
                    ]
                said = self._load(folder, index, found)
                self._forget_old(now_ms)
                self._write_index(index)
        except OSError as error:
            raise StateError(
                f"{folder}: incidents cannot be kept there ({error.strerror or error}); name a folder that can be written by state.dir"
            ) from error
        return said

    def peek(self) -> None:
        """Read the index and change nothing: for programs beside the running detector.

        Raises
        ------
        StateError
            There is nothing to read, it cannot be read, or a newer version wrote it.
        """
        folder, index = self.folder, self._index
        if folder is None or index is None:
            return
        if not folder.is_dir():
            raise StateError(f"{folder}: there are no incidents; name the folder of the running detector by state.dir")
        try:
            found = index.read(alive=True)
        except OSError as error:
            raise StateError(f"{index.path}: cannot be read ({error.strerror or error})") from error
        if found.version > VERSION:
            raise StateError(f"{_newer(index, found.version)}; use that version")
        if found.damaged:
            log.warning("%s: damaged lines are passed over: %d", index.path, found.damaged)
        with self._lock:
            self._entries, self._early = found.entries, found.early
            self._listed = self._marks = None

    def entries(self) -> tuple[Entry, ...]:
        """All of them, the newest onset first."""
        with self._lock:
            if self._listed is None:
                self._listed = tuple(sorted(self._entries.values(), key=lambda entry: (-entry.onset_ms, entry.id)))
            return self._listed

    def marks(self) -> tuple[int, int]:
        """How many were called useful, and how many noise."""
        with self._lock:
            if self._marks is None:
                said = [entry.mark for entry in self._entries.values()] + [mark for mark, _, _ in self._early.values()]
                self._marks = said.count(Mark.USEFUL), said.count(Mark.NOISE)
            return self._marks

    def get(self, name: str) -> Entry | None:
        """The entry of an id."""
        with self._lock:
            return self._entries.get(name)

    def add(self, entry: Entry, document: Mapping[str, Any], now_ms: int) -> None:
        """Keep an incident, in place of what was known of it.

        Raises
        ------
        StateError
            It could not be written; it is known until the end of the process, and `write_again` writes it.
        """
        with self._disk:
            with self._lock:
                entry = self._with_mark(entry)
                self._put(entry)
                self._memory[entry.id] = document
            try:
                if self.folder is not None and self._index is not None:
                    self._write(self.folder, self._index, entry, document)
                    with self._lock:
                        del self._memory[entry.id]
                    self._owed.pop(entry.id, None)
            except OSError as error:
                self._owed[entry.id] = None
                raise self._unwritten(entry.id, error) from error
            finally:
                with self._lock:
                    while len(self._memory) > _IN_MEMORY:
                        self._memory.popitem(last=False)
                self._forget_old(now_ms)

    def forget_old(self, now_ms: int) -> None:
        """Let go what was kept for long enough."""
        with self._disk:
            self._forget_old(now_ms)

    def mark(self, name: str, mark: Mark, at_ms: int, by: str) -> None:
        """Keep what a person said of an incident, closed or still open.

        Raises
        ------
        StateError
            It could not be written; it holds until the end of the process, and `write_again` writes it.
        """
        with self._disk:
            with self._lock:
                self._take_mark(name, (mark, at_ms, by))
            if self._index is None:
                return
            try:
                self._append(self._index, [mark_record(name, (mark, at_ms, by))])
            except OSError as error:
                self._owed[name] = None
                raise StateError(f"{self.folder}: index not written ({error.strerror or error}); make room") from error

    def write_again(self) -> int:
        """Write what could not be written before; gives of how many incidents that was.

        Raises
        ------
        StateError
            It still cannot be.
        """
        with self._disk:
            owed = tuple(self._owed)
        # Whoever marks one meanwhile waits for one of them, not for all.
        return sum(self._write_owed(name) for name in owed)

    def marked_early(self, name: str) -> Said | None:
        """What was said of an incident that is not closed yet: what, when, by whom."""
        with self._lock:
            return self._early.get(name)

    def document(self, name: str) -> dict[str, Any] | None:
        """What explains an incident; None where there is none.

        Raises
        ------
        StateError
            The file is damaged or cannot be read.
        """
        with self._lock:
            if name not in self._entries:
                return None
            if name in self._memory:
                return dict(self._memory[name])
        if self.folder is None:
            return None
        file = self.folder / f"{name}.json.gz"
        try:
            return _unpacked(file)[1]
        except FileNotFoundError:
            return None
        except (gzip.BadGzipFile, ValueError, KeyError, TypeError, EOFError, zlib.error) as error:
            said = f"damaged ({type(error).__name__}); its list entry is all that is left"
            raise StateError(f"{file}: {said}", shown=f"The file of this incident is {said}.") from error
        except OSError as error:
            raise StateError(f"{file}: cannot be read ({error.strerror or error})", shown=_UNREAD) from error

    def _with_mark(self, entry: Entry) -> Entry:
        """The entry with what was said of it while it was open, or when it had closed before."""
        early, before = self._early.pop(entry.id, None), self._entries.get(entry.id)
        if early is not None:
            return marked(entry, *early)
        if before is not None and before.mark and not entry.mark:
            return marked(entry, before.mark, before.marked_ms, before.marked_by)
        return entry

    def _take_mark(self, name: str, said: Said) -> None:
        known = self._entries.get(name)
        if known is not None:
            self._put(marked(known, *said))
            return
        self._early[name] = said
        self._marks = None
        self._early.move_to_end(name)
        while len(self._early) > _MOST_EARLY:
            self._early.popitem(last=False)

    def _put(self, entry: Entry) -> None:
        self._entries[entry.id] = entry
        self._listed = self._marks = None

    def _load(self, folder: Path, index: Index, found: Contents) -> list[str]:
        said = []
        entries = found.entries
        files = {named[1] for path in folder.iterdir() if (named := _NAME.fullmatch(path.name))}
        for leftover in folder.glob("*.new"):
            with suppress(OSError):
                leftover.unlink()
        lost, again = files - entries.keys(), 0
        for name in sorted(lost):
            try:
                entries[name] = read_entry(_unpacked(folder / f"{name}.json.gz")[0])
                again += 1
            except (OSError, ValueError, KeyError, TypeError, EOFError, zlib.error) as error:
                said.append(f"{folder / name}.json.gz: damaged ({type(error).__name__}); it is passed over")
        if found.damaged or again:
            said.append(
                f"{index.path}: {found.damaged} damaged lines, {again} incidents taken from their own files; the index is written anew"
            )
        with self._lock:
            self._entries, self._early = entries, found.early
            self._listed = self._marks = None
        return said

    def _forget_old(self, now_ms: int) -> None:
        _, gone = retained(self.entries(), now_ms, self._most, self._keep_ms)
        if not gone:
            return
        with self._lock:
            for entry in gone:
                del self._entries[entry.id]
                self._memory.pop(entry.id, None)
                self._owed.pop(entry.id, None)
            self._listed = self._marks = None
        if self.folder is None or self._index is None:
            return
        try:
            # First the files: one without an entry would come back as one.
            for entry in gone:
                with suppress(FileNotFoundError):
                    (self.folder / f"{entry.id}.json.gz").unlink()
            self._append(self._index, [{"gone": entry.id} for entry in gone])
        except OSError as error:
            log.warning("%s: old incidents could not be removed (%s)", self.folder, error.strerror or error)

    def _write_owed(self, name: str) -> bool:
        with self._disk:
            folder, index = self.folder, self._index
            if folder is None or index is None or name not in self._owed:
                return False
            with self._lock:
                entry, said, document = self._entries.get(name), self._early.get(name), self._memory.get(name)
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                if entry is not None:
                    self._write(folder, index, entry, document)
                elif said is not None:
                    self._append(index, [mark_record(name, said)])
            except OSError as error:
                # The next try begins with another one: it may be this one alone that cannot be written.
                self._owed[name] = self._owed.pop(name)
                raise self._unwritten(name, error) from error
            with self._lock:
                self._memory.pop(name, None)
            del self._owed[name]
            return entry is not None or said is not None

    def _write(self, folder: Path, index: Index, entry: Entry, document: Mapping[str, Any] | None) -> None:
        """Write an incident; one whose explanation was let go, or lies there already, to the index alone."""
        if document is not None:
            replace_file(folder / f"{entry.id}.json.gz", _packed(entry, document))
        self._append(index, [{"entry": entry_document(entry)}])

    def _unwritten(self, name: str, error: OSError) -> StateError:
        return StateError(f"{self.folder}: incident {name} not written ({error.strerror or error}); make room")

    def _append(self, index: Index, records: Iterable[Mapping[str, Any]]) -> None:
        index.append(records)
        with self._lock:
            living = len(self._entries) + len(self._early)
        if not index.is_spent(living):
            return
        try:
            self._write_index(index)
        except OSError as error:
            # Nothing is lost: all of it is in the one that goes on growing.
            log.warning("%s: not written anew (%s); make room", index.path, error.strerror or error)

    def _write_index(self, index: Index) -> None:
        with self._lock:
            kept, early = self.entries(), list(self._early.items())
        index.write(reversed(kept), early)


def _newer(index: Index, version: int) -> str:
    return f"{index.path}: version {version} is newer than this program's {VERSION}; it is left as it is"


def _packed(entry: Entry, document: Mapping[str, Any]) -> bytes:
    text = json.dumps({"entry": entry_document(entry), "document": document}, separators=(",", ":"))
    # The time in the head would make equal documents differ.
    return gzip.compress(text.encode(), 6, mtime=0)


def _unpacked(file: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Entry and document of a file; the checksum of gzip says whether it is whole."""
    content = read_regular(file, _MOST_DOCUMENT)
    text = json.loads(gzip.decompress(content))
    return text["entry"], text["document"]
