"""Hosts made for one test: a few kernel files below a temporary folder."""

from __future__ import annotations

import os
from pathlib import Path

from hwsonde_exporter.errors import ReadError
from hwsonde_exporter.host import FileReader, Host, Paths
from tests.fixtures.make_node192 import Tree, write


def tree_host(folder: Path, files: Tree, reader: FileReader | None = None) -> Host:
    """Host with these files (``sys/...``, ``proc/...``); a content that begins with an arrow is a symbolic link."""
    write(files, folder)
    return Host(Paths(folder / "proc", folder / "sys", folder / "root"), reader or FileReader())


class Forbidden(FileReader):
    """Refuses files whose names end alike, as the kernel refuses those that only root may read."""

    def __init__(self, *names: str) -> None:
        super().__init__()
        self.names = names

    def read(self, path: Path | str) -> bytes:
        if os.fspath(path).endswith(self.names):
            raise ReadError(f"{path}: Permission denied") from PermissionError(13, "Permission denied")
        return super().read_once(path)

    read_once = read
