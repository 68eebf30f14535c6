"""Signals to the serving program while it starts, until `signals` takes over: a third of a second, and more on a busy host.

Without this SIGTERM would end it as if it had failed, and would be lost where it is the first process of a container, to which the
kernel gives no signal that it has no handler for.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from typing import NoReturn

# With one of these it prints something and ends, although no other command is named.
_PRINTING = frozenset({"--once", "--help", "-h", "--version"})
_reloads: list[int] = []


def serves(arguments: Sequence[str]) -> bool:
    """Whether this is the service, which runs until it is ended."""
    return not _PRINTING.intersection(arguments) and (not arguments or arguments[0].startswith("-"))


def listen(arguments: Sequence[str]) -> None:
    """From now on the service ends at once, with status 0, when it is told to, and SIGHUP is kept; other commands are left alone.

    What was ignored when the process began stays so: by ``nohup``, or for a job in a shell's background.
    """
    if not serves(arguments):
        return
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _note if number == signal.SIGHUP else _end)


def reload_wanted() -> bool:
    """Whether SIGHUP came meanwhile."""
    return bool(_reloads)


def _note(number: int, _: object) -> None:
    _reloads.append(number)


def _end(*_: object) -> NoReturn:
    # Nothing has been opened for writing yet, and an exception might be taken for a failed import by whatever is being imported.
    os._exit(0)
