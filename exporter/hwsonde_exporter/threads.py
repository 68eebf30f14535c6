"""Threads of this program, where the system gives it no more of them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from hwsonde_exporter.errors import ThreadError


def spawn(name: str, target: Callable[..., Any], *arguments: object) -> None:
    """Run a function on a thread of its own, which keeps nobody from ending the program.

    Raises
    ------
    ThreadError
        If there is no thread to be had: of a bound on processes (a pids cgroup, ``ulimit -u``), or for want of memory.
    """
    launch(threading.Thread(target=target, args=arguments, name=name, daemon=True))


def launch(thread: threading.Thread) -> None:
    """Start a thread; raises as `spawn`."""
    try:
        thread.start()
    except (RuntimeError, MemoryError) as error:
        raise ThreadError(
            "no thread can be started: too many tasks or too little memory; raise TasksMax= and MemoryMax= of the service, `ulimit -u` or `ulimit -v`"
        ) from error
