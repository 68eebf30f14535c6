"""Kernel files that exist only in memory."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from hwsonde_exporter.errors import ReadError
from hwsonde_exporter.host import FileReader, Host, Paths


class MemoryReader(FileReader):
    """Gives files from a dictionary of path below /proc or /sys -> content; counts how often each was read."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        super().__init__()
        self.contents = dict(files)
        self.reads: list[str] = []

    def read(self, path: Path | str) -> bytes:
        key = os.fspath(path)
        self.reads.append(key)
        if key not in self.contents:
            raise ReadError(f"{key}: No such file or directory")
        return self.contents[key]

    read_once = read


def memory_host(files: Mapping[str, bytes]) -> tuple[Host, MemoryReader]:
    """Host with these files; directories are looked for below a folder that does not exist."""
    reader = MemoryReader(files)
    return Host(Paths(Path("/proc"), Path("/nowhere/sys"), Path("/nowhere")), reader), reader
