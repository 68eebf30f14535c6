"""Touches pages of a file that is larger than the memory it may use."""

from __future__ import annotations

import mmap
import os
import random
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchmarks.faults.child import Task

_BURST = 256


def paging(task: Task) -> None:
    """Arguments: ``data``, the file. Slot 0 counts pages touched."""
    try:
        file = os.open(task.arguments["data"], os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        sys.exit(f"{task.arguments['data']}: {error.strerror}")
    os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
    size = os.fstat(file).st_size
    pages = mmap.mmap(file, size, prot=mmap.PROT_READ)
    # Without reading ahead: each page is a fault of its own.
    pages.madvise(mmap.MADV_RANDOM)
    choose, number = random.Random(1), size // mmap.PAGESIZE
    total = 0
    task.begin()
    while task.running():
        for _ in range(_BURST):
            total += pages[choose.randrange(number) * mmap.PAGESIZE]
        task.meter.add(0, _BURST)
