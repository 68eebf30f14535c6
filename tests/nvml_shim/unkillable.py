"""Workers that no signal ends, as one in a sick driver is: by the kernel's hand where that can be had, and by a stand-in where not.

By the kernel: a call reads a file whose reader cannot be killed, which needs root and FUSE. By a stand-in: the call is deaf, and
the seam at which the exporter ends its worker reports that it did not end. That tries all that the exporter does about it, on any
machine; only that a killed process may live on is taken from the other.
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import pytest

from hwsonde_exporter.nvml.launcher import ChildProcess
from tests.nvml_shim.control import Control, Fault
from tests.nvml_shim.stuck_file import stuck_file

# Given the page of a host, a function of its first GPU and an empty place; gives what lets go.
Holder = Callable[[Control, str, Path], AbstractContextManager[Callable[[], None]]]


@contextmanager
def held_by_the_kernel(control: Control, function: str, folder: Path) -> Iterator[Callable[[], None]]:
    """Let a function hang where no signal reaches; raises `CannotMount` where that cannot be had."""
    with ExitStack() as stack:
        path = stack.enter_context(stuck_file(folder))
        control.inject(Fault(device=0, function=function, block=str(path)))

        def release() -> None:
            control.heal()
            stack.close()

        yield release


@contextmanager
def held_as_it_is_told(control: Control, function: str, folder: Path) -> Iterator[Callable[[], None]]:
    """Let a function hang, and let the end of the worker that is in it be reported as failed."""
    held: list[ChildProcess] = []
    patch = pytest.MonkeyPatch()
    kill = ChildProcess.kill

    def refuse(worker: ChildProcess) -> bool:
        held.append(worker)
        return False

    patch.setattr(ChildProcess, "kill", refuse)
    control.inject(Fault(device=0, function=function, hang="deaf"))

    def release() -> None:
        patch.undo()
        control.heal()
        while held:
            kill(held.pop())

    try:
        yield release
    finally:
        release()


HOLDERS: dict[str, Holder] = {"kernel": held_by_the_kernel, "told": held_as_it_is_told}


@contextmanager
def recorder_as_it_is_told(control: Control, function: str, folder: Path) -> Iterator[Callable[[], None]]:
    """The same for the recorder's child process."""
    held: list[subprocess.Popen[bytes]] = []

    class Unkillable(subprocess.Popen):  # type: ignore[type-arg]
        def kill(self) -> None:
            held.append(self)

    patch = pytest.MonkeyPatch()
    patch.setattr(subprocess, "Popen", Unkillable)
    control.inject(Fault(device=0, function=function, hang="deaf"))

    def release() -> None:
        patch.undo()
        control.heal()
        while held:
            process = held.pop()
            subprocess.Popen.kill(process)
            process.wait(10)

    try:
        yield release
    finally:
        release()


RECORDER_HOLDERS: dict[str, Holder] = {"kernel": held_by_the_kernel, "told": recorder_as_it_is_told}
