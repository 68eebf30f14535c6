"""Watches which files collectors look at, and makes of them a tree that can take the host's place.

A collector asks the kernel by a handful of functions of the module `os`. While it is watched they note what they are asked
for, whoever asks; what `FileReader` has read is kept as it was read, so that the record tells exactly what the collectors saw.
"""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hwsonde_exporter.errors import ReadError
from hwsonde_exporter.host import FileReader, Paths

MAX_FILE_BYTES = 1 << 20
MAX_BYTES = 64 << 20
MAX_ENTRIES = 100_000
_MAX_HOPS = 40
# What a process sees of itself lies under its own name, not under its number, which another will have next time.
_ALIASES = frozenset((("proc", "self"), ("proc", "thread-self")))
# Of the root filesystem only these are read; of others it counts that they are there.
_ROOT_CONTENTS = frozenset((("etc", "os-release"), ("usr", "lib", "os-release"), ("etc", "tuned", "active_profile")))
_ROOT_PLACES = (
    ("etc",),
    ("lib", "systemd"),
    ("run",),
    ("usr", "lib", "os-release"),
    ("usr", "lib", "systemd"),
    ("var", "log", "pods"),
)

Parts = tuple[str, ...]


@dataclass(slots=True)
class Seen:
    """What collectors looked at, by absolute path.

    Attributes
    ----------
    contents
        Files as they were read.
    listed
        Directories whose names were asked for.
    touched
        Everything else that was opened or looked for.
    """

    contents: dict[str, bytes] = field(default_factory=dict)
    listed: set[str] = field(default_factory=set)
    touched: set[str] = field(default_factory=set)


class RecordingReader(FileReader):
    """Reads as `FileReader`, and keeps what it read."""

    def __init__(self, seen: Seen) -> None:
        super().__init__()
        self._seen = seen

    def read(self, path: Path | str) -> bytes:
        """Content of a file; kept."""
        return self._note(path, super().read(path))

    def read_once(self, path: Path | str) -> bytes:
        """Content of a file; kept."""
        return self._note(path, super().read_once(path))

    def _note(self, path: Path | str, data: bytes) -> bytes:
        self._seen.contents[os.path.abspath(path)] = data  # noqa: PTH100  (`resolve` would follow links)
        return data


@contextmanager
def watched(seen: Seen) -> Iterator[None]:
    """Note what is opened, listed or looked for below, by any thread."""
    originals = {
        name: getattr(os, name) for name in ("open", "stat", "lstat", "readlink", "access", "listdir", "scandir")
    }
    lock = threading.Lock()

    def noting(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        into = seen.listed if name in {"listdir", "scandir"} else seen.touched

        def call(path: Any = ".", *arguments: Any, **options: Any) -> Any:  # noqa: ANN401  (whatever the original takes)
            if not isinstance(path, int) and options.get("dir_fd") is None:
                with lock:
                    into.add(os.path.abspath(os.fsdecode(path)))  # noqa: PTH100
            return original(path, *arguments, **options)

        return call

    for name, original in originals.items():
        setattr(os, name, noting(name, original))
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(os, name, original)


@dataclass(slots=True)
class Tree:
    """A host's files by path below ``proc``, ``sys`` and ``root``: bytes for a file, a text for a link's target, None for a directory."""

    entries: dict[Parts, bytes | str | None] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    size: int = 0

    def directory(self, parts: Parts) -> None:
        """Add a directory, and those above it."""
        for length in range(1, len(parts) + 1):
            self.entries.setdefault(parts[:length], None)

    def put(self, parts: Parts, content: bytes | str) -> bool:
        """Add a file or a link; False where there is no more room."""
        size = len(content)
        if self.size + size > MAX_BYTES or len(self.entries) >= MAX_ENTRIES:
            return False
        self.directory(parts[:-1])
        # A file that was only listed is there without content; what was read comes in its place.
        if self.entries.get(parts, b"") == b"":
            self.size += size
            self.entries[parts] = content
        return True


class Builder:
    """Makes a tree of what was seen.

    Parameters
    ----------
    paths
        Where the host's pseudo filesystems are.
    """

    def __init__(self, paths: Paths) -> None:
        named = ((paths.procfs, "proc"), (paths.sysfs, "sys"), (paths.rootfs, "root"))
        self._roots = [(str(path.absolute()), name) for path, name in named]
        self.tree = Tree()
        self._full = False

    def build(self, seen: Seen) -> Tree:
        """Copy everything; files that cannot be read now are named in ``left_out``."""
        for path, data in sorted(seen.contents.items()):
            self._add(path, data)
        for path in sorted(seen.touched - seen.contents.keys()):
            self._add(path, None)
        for path in sorted(seen.listed):
            self._add(path, None)
            self._list(path)
        # A link beside a file that was read tells a driver, a bus or a bond; nobody notes that it was followed.
        for parts in [
            parts for parts, content in list(self.tree.entries.items()) if content is None and parts[0] == "sys"
        ]:
            self._links_in(parts)
        self._namespaces()
        if self._full:
            self.tree.left_out["..."] = f"more than {MAX_BYTES >> 20} MiB or {MAX_ENTRIES} files"
        return self.tree

    def _add(self, path: str, data: bytes | None) -> None:
        """Copy what lies at a path; ``data`` is what was read from it, None if nothing was."""
        place = self._resolved(path)
        if place is None:
            return
        real = self._real(place)
        try:
            mode = os.lstat(real).st_mode
        except OSError:
            return
        if stat.S_ISDIR(mode):
            self.tree.directory(place)
        elif stat.S_ISREG(mode):
            self._file(place, real, data)

    def _resolved(self, path: str) -> Parts | None:
        """Where a path really leads, with every link on the way copied; None if that is not in the tree."""
        parts = self._mapped(path)
        for _ in range(_MAX_HOPS):
            place = self._follow(parts) if parts is not None else None
            if place is None or not Path(self._real(place)).is_symlink():
                return place
            parts = self._link(place)
        return None

    def _file(self, place: Parts, real: str, data: bytes | None) -> None:
        if place[0] == "root" and place[1:] not in _ROOT_CONTENTS:
            data = b""
        if data is None:
            try:
                data = FileReader().read_once(real)
            except ReadError as error:
                self.tree.left_out["/".join(place)] = str(error).rpartition(": ")[2]
                return
        if len(data) > MAX_FILE_BYTES:
            self.tree.left_out["/".join(place)] = f"larger than {MAX_FILE_BYTES >> 20} MiB"
            return
        self._put(place, data)

    def _list(self, path: str) -> None:
        place = self._resolved(path)
        if place is None:
            return
        try:
            names = os.listdir(self._real(place))  # noqa: PTH208
        except OSError:
            return
        for name in sorted(names):
            child = (*place, name)
            if child in _ALIASES:
                continue
            try:
                mode = os.lstat(self._real(child)).st_mode
            except OSError:
                continue
            if stat.S_ISDIR(mode):
                self.tree.directory(child)
            elif stat.S_ISLNK(mode):
                self._link(child)
            elif stat.S_ISREG(mode):
                self._put(child, b"")

    def _links_in(self, place: Parts) -> None:
        try:
            with os.scandir(self._real(place)) as found:
                names = sorted(entry.name for entry in found if entry.is_symlink())
        except OSError:
            return
        for name in names:
            self._link((*place, name))

    def _link(self, place: Parts) -> Parts | None:
        """Copy a link if it leads to a place in the tree; gives that place."""
        real = self._real(place)
        try:
            target = str(Path(real).readlink())
        except OSError:
            return None
        there = self._mapped(os.path.normpath(os.path.join(os.path.dirname(real), target)))  # noqa: PTH118, PTH120
        if there is None or (place[0] == "root") != (there[0] == "root"):
            return None
        if place[0] == "proc" and len(place) > 2 and place[1].isdigit() and there[0] != "proc":
            return None  # what a process works with is its own affair
        # The words of a relative target tell something: the last one is a driver's or a device's name.
        kept = (
            target
            if place[0] == there[0] and not target.startswith("/")
            else "../" * (len(place) - 1) + "/".join(there)
        )
        self._put(place, kept)
        try:
            if Path(self._real(there)).is_dir():
                self.tree.directory(there)
        except OSError:
            pass
        return there

    def _follow(self, parts: Parts) -> Parts | None:
        """Path without links but for its last part, with every link on the way copied; None if it leads out of the tree."""
        place: Parts = parts[:1]
        rest = list(parts[1:])
        hops = 0
        while rest:
            place = (*place, rest.pop(0))
            if rest and place not in _ALIASES and Path(self._real(place)).is_symlink():
                there = self._link(place)
                hops += 1
                if there is None or hops > _MAX_HOPS:
                    return None
                place, rest = there[:1], [*there[1:], *rest]
        return place

    def _namespaces(self) -> None:
        """Let processes of one network namespace share one ``net``: that they do is seen from its files' numbers."""
        first: dict[tuple[int, int], str] = {}
        numbers = sorted(
            {parts[1] for parts in self.tree.entries if parts[0] == "proc" and len(parts) > 1 and parts[1].isdigit()},
            key=int,
        )
        for number in numbers:
            place = ("proc", number, "net")
            try:
                found = Path(self._real(place), "snmp").stat()
            except OSError:
                continue
            owner = first.setdefault((found.st_dev, found.st_ino), number)
            below = [parts for parts in self.tree.entries if parts[:3] == place]
            if owner == number:
                self.tree.put((*place, "snmp"), b"")
                continue
            for parts in below:
                content = self.tree.entries.pop(parts)
                if isinstance(content, bytes):
                    self.tree.put(("proc", owner, *parts[2:]), content)
            self.tree.put(place, f"../{owner}/net")

    def _put(self, place: Parts, content: bytes | str) -> None:
        if not self.tree.put(place, content):
            self._full = True

    def _mapped(self, path: str) -> Parts | None:
        for root, name in self._roots:
            if path == root or path.startswith(f"{root.rstrip('/')}/"):
                parts = (name, *(part for part in path[len(root) :].split("/") if part))
                return None if name == "root" and not _wanted_of_root(parts[1:]) else parts
        return None

    def _real(self, place: Parts) -> str:
        root = next(root for root, name in self._roots if name == place[0])
        return "/".join((root.rstrip("/"), *place[1:])) or "/"


def _wanted_of_root(parts: Sequence[str]) -> bool:
    return any(tuple(parts[: len(prefix)]) == prefix for prefix in _ROOT_PLACES)
