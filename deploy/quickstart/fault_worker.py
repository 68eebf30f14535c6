"""Makes one real fault on this host for a bounded time: ``python -I -S fault_worker.py PARENT KIND SECONDS NUMBER [PATH]``.

It stands alone so that it starts fast, ends by itself after SECONDS whatever becomes of its parent, and is killed by the kernel
when its parent dies. It writes ``begin UNIXTIME`` once the fault begins and ``end UNIXTIME`` once it is over.

cpu     NUMBER processes that compute
disk    NUMBER processes that write past the page cache, each into its own unlinked file of 64 MiB below PATH
memory  NUMBER bytes are taken, and a part of them given back and taken again all the time
"""

import ctypes
import mmap
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

PR_SET_PDEATHSIG = 1
BLOCK = 1 << 20
FILE_BLOCKS = 64
CHUNK = 64 << 20
PAGE_TOUCHED = b"\x01"


def tie_to_parent(parent: int) -> None:
    """Let the kernel kill this process when its parent dies."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def compute(end: float) -> None:
    """Keep one CPU busy."""
    value = 1
    while time.monotonic() < end:
        for _ in range(100_000):
            value = (value * 1103515245 + 12345) & 0x7FFFFFFF


def write_through(end: float, directory: str) -> None:
    """Write blocks past the page cache; a file that never had a name cannot be left behind."""
    block = mmap.mmap(-1, BLOCK)
    block.write(os.urandom(BLOCK))
    for extra in (os.O_DIRECT, os.O_DSYNC):
        try:
            descriptor = os.open(directory, os.O_TMPFILE | os.O_RDWR | extra, 0o600)
            os.pwrite(descriptor, block, 0)
            break
        except OSError as error:
            problem = error
    else:
        sys.exit(f"{directory}: {problem.strerror}")
    place = 0
    while time.monotonic() < end:
        os.pwrite(descriptor, block, place * BLOCK)
        place = (place + 1) % FILE_BLOCKS


def hold_memory(end: float, size: int) -> None:
    """Take memory, then give back and take again one chunk after another, which costs page faults."""
    with suppress(OSError):
        # Should memory run out after all, this process is the one to go.
        Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")
    chunk = PAGE_TOUCHED * CHUNK
    held: list[mmap.mmap] = []
    while time.monotonic() < end:
        if len(held) * CHUNK < size:
            held.append(mmap.mmap(-1, CHUNK))
            held[-1][:] = chunk
            continue
        for taken in held:
            if time.monotonic() >= end:
                break
            taken.madvise(mmap.MADV_DONTNEED)
            taken[:] = chunk


def main() -> None:
    """Fork the workers, let them begin together, wait for them."""
    parent, kind, seconds, number, *path = sys.argv[1:]
    tie_to_parent(int(parent))
    me = os.getpid()
    count = 1 if kind == "memory" else int(number)
    gate, opener = os.pipe()
    children = []
    for _ in range(count):
        child = os.fork()
        if child == 0:
            tie_to_parent(me)
            os.close(opener)
            os.read(gate, 1)
            end = time.monotonic() + float(seconds)
            if kind == "cpu":
                compute(end)
            elif kind == "disk":
                write_through(end, path[0])
            else:
                hold_memory(end, int(number))
            os._exit(0)
        children.append(child)
    os.close(gate)
    print(f"begin {time.time():.6f}", flush=True)
    os.close(opener)
    failed = [status for _, status in (os.waitpid(child, 0) for child in children) if status]
    print(f"end {time.time():.6f}", flush=True)
    sys.exit(1 if failed else 0)


main()
