"""The launcher of the bench's processes: ``python -P -m benchmarks.faults.child PARENT JOB``, where JOB is JSON of `children.Job`.

It lets the kernel kill it when its parent dies and when its time is over, moves into its control group and network namespace, and
then becomes a program, or imports its worker, says ``ready`` and begins at ``go``.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any

_PR_SET_PDEATHSIG = 1
_CLONE_NEWNET = 0x40000000
WORKERS = {
    "training": "training",
    "ring": "ring",
    "reader": "reader",
    "spin": "spin",
    "forks": "forks",
    "switches": "switches",
    "paging": "paging",
    "writer": "direct",
    "random_reader": "direct",
    "flood": "flood",
    "handles": "handles",
    "relay": "relay",
    "peers": "peers",
    "capture": "capture",
}
"""Module of `benchmarks.faults.workers` by name of worker."""


def tie(parent: int) -> None:
    """Let the kernel kill this process when its parent dies."""
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    # The parent may have died before the request was made.
    if os.getppid() != parent:
        os._exit(1)


def enter_network(path: str) -> None:
    """Move into a network namespace; raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if ctypes.CDLL(None, use_errno=True).setns(descriptor, _CLONE_NEWNET):
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number), path)
    finally:
        os.close(descriptor)


class Task:
    """What a worker is given: its arguments, a meter, and whether to go on."""

    def __init__(self, arguments: dict[str, Any], meter: Any, seconds: float) -> None:  # noqa: ANN401 - meters.Meter, imported late
        self.arguments, self.meter = arguments, meter
        self.end = time.monotonic() + seconds
        self.over = False
        signal.signal(signal.SIGTERM, self._ended)

    def _ended(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        self.over = True

    def begin(self) -> None:
        """Say that all is ready, and wait for the start; ends the process if nobody is there to give it."""
        os.write(1, b"ready\n")
        if os.read(0, 3) != b"go\n":
            os._exit(0)

    def running(self) -> bool:
        """Whether the worker should go on."""
        return not self.over and time.monotonic() < self.end

    def fork(self, body: Callable[[], None]) -> int:
        """Run something in a process of its own that ends with this one; give its number."""
        me = os.getpid()
        pid = os.fork()
        if pid:
            return pid
        try:
            tie(me)
            signal.alarm(max(int(self.end - time.monotonic()) + 1, 1))
            body()
        except Exception as error:  # noqa: BLE001 - there is nobody above it; the fault's proof tells that it did nothing
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(0)

    def reap(self, children: list[int]) -> None:
        """End processes that `fork` made."""
        for pid in children:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def main() -> None:
    """Become what the job says."""
    parent, job = int(sys.argv[1]), json.loads(sys.argv[2])
    tie(parent)
    signal.alarm(max(int(job["seconds"]) + 1, 1))
    for path in job["groups"]:
        try:
            Path(path).write_text(str(os.getpid()), encoding="ascii")
        except OSError as error:
            sys.exit(f"{path}: {error.strerror}")
    if job["netns"]:
        enter_network(job["netns"])
    if job["worker"] == "exec":
        command = job["arguments"]["command"]
        # The time limit survives execve, and so does the tie to the parent.
        os.execvp(command[0], command)
    from benchmarks.faults.meters import Meter  # noqa: PLC0415 - a program needs none

    task = Task(job["arguments"], Meter(Path(job["meter"]) if job["meter"] else None), job["seconds"])
    module = import_module(f"benchmarks.faults.workers.{WORKERS[job['worker']]}")
    getattr(module, job["worker"])(task)


if __name__ == "__main__":
    main()
