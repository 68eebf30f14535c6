"""Signals to the service while it starts: most of two seconds go by until `service.signals` takes over.

Without this SIGTERM would end it as if it had failed, and would be lost where it is the first process of a container, to which the
kernel gives no signal that it has no handler for.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Sequence
from typing import NoReturn

_PRINTING = frozenset({"--help", "-h"})
_reloads: list[int] = []


def serves(arguments: Sequence[str]) -> bool:
    """Whether a command line is the service's, which runs until it is ended."""
    return list(arguments[:1]) == ["run"] and not _PRINTING.intersection(arguments)


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
