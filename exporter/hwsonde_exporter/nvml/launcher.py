"""Starts a worker, talks to it and ends it; the parent's half of the pipes."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Protocol

from hwsonde_exporter.nvml.progress import Slot, Where
from hwsonde_exporter.nvml.wire import EVENT_BYTES, Broken, Inbox, RawEvent, decode_event, encode

_MODULE = "hwsonde_exporter.nvml.worker"
_EVENTS_AT_ONCE = 4096
# How long a killed worker is waited for before it is called stuck; dying takes the kernel a few milliseconds.
_DEATH_SECONDS = 0.3


class Worker(Protocol):
    """A running worker, as the client sees it."""

    def send(self, message: object) -> None:
        """Send a message; raises `Broken` if the worker is gone or takes nothing."""

    def receive(self, timeout: float) -> object | None:
        """Give the next message, or None if none comes in ``timeout`` seconds; raises `Broken` if the worker is gone."""

    def where(self) -> Where | None:
        """What it is in now."""

    def events(self) -> list[RawEvent]:
        """Give the events that have come since the last call; works when the worker is dead, too."""

    def kill(self) -> bool:
        """End it at once; False if it does not die since the kernel holds it."""

    def gone(self) -> bool:
        """Whether it has ended."""

    def close(self) -> None:
        """Close the pipes of one that has ended."""


Launch = Callable[[], Worker]


class ChildProcess:
    """A worker in a process of its own, made anew from the interpreter's file and never by copying this process.

    Parameters
    ----------
    path
        Where the child looks for modules.
    """

    def __init__(self, path: Sequence[str] | None = None) -> None:
        requests, theirs = socket.socketpair()
        # A datagram comes whole or not at all, and stays in the kernel when its sender dies.
        events, their_events = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        memory = Slot.create()
        try:
            self._slot = Slot(memory)
            descriptors = (theirs.fileno(), their_events.fileno(), memory)
            # -P: the working directory is no place to look for modules of a program that may run as root.
            command = [sys.executable, "-P", "-m", _MODULE, *map(str, descriptors)]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(_places(sys.path if path is None else path))}
            self._process = subprocess.Popen(  # noqa: S603  (our own interpreter and module)
                command,
                pass_fds=descriptors,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                cwd="/",
            )
        except BaseException:
            requests.close()
            events.close()
            raise
        finally:
            theirs.close()
            their_events.close()
            os.close(memory)
        requests.settimeout(0)
        events.settimeout(0)
        self._requests, self._events, self._inbox = requests, events, Inbox()
        self._events_lock = threading.Lock()

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid

    def send(self, message: object) -> None:
        """Send a message; raises `Broken` if the worker is gone or takes nothing."""
        try:
            # A request is small: a worker whose pipe has no room for it has not read for a long time.
            data = encode(message)
            if self._requests.send(data) != len(data):
                raise Broken("the worker takes no more requests")
        except OSError as error:
            raise Broken(f"the worker takes no requests: {error.strerror or error}") from None

    def receive(self, timeout: float) -> object | None:
        """Give the next message, or None if none comes in ``timeout`` seconds; raises `Broken` if the worker is gone."""
        deadline = time.monotonic() + timeout
        while (message := self._inbox.message()) is None:
            if not _readable(self._requests, deadline - time.monotonic()):
                return None
            try:
                data = self._requests.recv(1 << 16)
            except BlockingIOError:
                continue
            except OSError as error:
                raise Broken(f"the worker is gone: {error.strerror or error}") from None
            if not data:
                raise Broken("the worker has ended")
            self._inbox.feed(data)
        return message

    def where(self) -> Where | None:
        """What it is in now."""
        return self._slot.read()

    def events(self) -> list[RawEvent]:
        """Give the events that have come since the last call, some thousand at most."""
        found: list[RawEvent] = []
        with self._events_lock, suppress(OSError):
            while len(found) < _EVENTS_AT_ONCE and (data := self._events.recv(EVENT_BYTES + 1)):
                event = decode_event(data)
                if event is not None:
                    found.append(event)
        return found

    def kill(self) -> bool:
        """End it at once; False if it does not die since the kernel holds it."""
        with suppress(OSError):
            self._process.send_signal(signal.SIGKILL)
        try:
            self._process.wait(_DEATH_SECONDS)
        except subprocess.TimeoutExpired:
            return False
        return True

    def gone(self) -> bool:
        """Whether it has ended."""
        return self._process.poll() is not None

    def close(self) -> None:
        """Close the pipes of one that has ended."""
        self._requests.close()
        with self._events_lock:
            self._events.close()
        self._slot.close()


def _places(path: Sequence[str]) -> list[str]:
    return [place for place in path if place and os.path.isabs(place)]  # noqa: PTH117  (texts go in and out)


def _readable(stream: socket.socket, timeout: float) -> bool:
    # Not select(), which knows no descriptor beyond 1023.
    poll = select.poll()
    poll.register(stream, select.POLLIN)
    return bool(poll.poll(max(0.0, timeout) * 1000))
