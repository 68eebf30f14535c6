"""Reading and writing past the page cache."""

from __future__ import annotations

import mmap
import os
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.faults.child import Task

BLOCK = 1 << 20
_SMALL = 64 << 10
_FILE_BLOCKS = 64
# As many as a meter has numbers.
_MOST = 4


def opened(path: str) -> tuple[int, mmap.mmap]:
    """A file to be read past the page cache, and aligned room for a block; ends the process where that cannot be done."""
    try:
        return os.open(path, os.O_RDONLY | os.O_DIRECT | os.O_CLOEXEC), mmap.mmap(-1, BLOCK)
    except OSError as error:
        sys.exit(f"{path}: {error.strerror}")


def read_block(file: int, room: mmap.mmap, place: int, size: int = BLOCK) -> int:
    """Read at a place; give how much there was."""
    return os.preadv(file, [memoryview(room)[:size]], place)


def writer(task: Task) -> None:
    """Arguments: ``folder``, and ``number`` (at most 4) of processes that write files without a name. Slots 0 to 3 are their bytes."""
    folder = task.arguments["folder"]
    try:
        # A file that never had a name cannot be left behind.
        files = [os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_DIRECT, 0o600) for _ in range(_count(task))]
    except OSError as error:
        sys.exit(f"{folder}: {error.strerror}")

    def write(slot: int) -> None:
        block = mmap.mmap(-1, BLOCK)
        block.write(os.urandom(BLOCK))
        place = 0
        while task.running():
            task.meter.add(slot, os.pwrite(files[slot], block, place * BLOCK))
            place = (place + 1) % _FILE_BLOCKS

    _together(task, write)


def random_reader(task: Task) -> None:
    """Arguments: ``data``, a file, and ``number`` (at most 4) of processes that read pieces of it. Slots 0 to 3 are their bytes."""
    size = Path(task.arguments["data"]).stat().st_size // _SMALL

    def read(slot: int) -> None:
        file, room = opened(task.arguments["data"])
        choose = random.Random(slot)
        while task.running():
            task.meter.add(slot, read_block(file, room, choose.randrange(size) * _SMALL, _SMALL))

    _together(task, read)


def _count(task: Task) -> int:
    return min(int(task.arguments["number"]), _MOST)


def _together(task: Task, body: Callable[[int], None]) -> None:
    """Begin, run a body for each slot, and end them all."""
    task.begin()
    children = [task.fork(lambda slot=slot: body(slot)) for slot in range(_count(task))]  # type: ignore[misc]
    while task.running():
        time.sleep(0.05)
    task.reap(children)
