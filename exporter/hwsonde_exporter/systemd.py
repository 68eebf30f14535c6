"""What systemd hands over and wants to hear: sockets that listen already, and the state of the service.

Protocols: sd_listen_fds(3) and sd_notify(3). Both are a few environment variables, so no library is needed.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import MutableMapping
from contextlib import suppress
from dataclasses import dataclass

from hwsonde_exporter.errors import ListenError

_LOG = logging.getLogger(__name__)

_FIRST = 3  # SD_LISTEN_FDS_START
_MOST = 64


@dataclass(frozen=True, slots=True)
class Inherited:
    """A listening socket from systemd, with its ``FileDescriptorName``."""

    name: str
    socket: socket.socket


def inherited_sockets(environment: MutableMapping[str, str], first: int = _FIRST) -> list[Inherited]:
    """Take the sockets that a ``.socket`` unit has opened for this process; none if it was not started so.

    The variables are removed from the environment, so that no child takes them for its own.

    Raises
    ------
    ListenError
        If one of them is no listening TCP socket.
    """
    process, count = environment.pop("LISTEN_PID", ""), environment.pop("LISTEN_FDS", "")
    names = environment.pop("LISTEN_FDNAMES", "").split(":")
    if process != str(os.getpid()) or not count.isdigit() or int(count) > _MOST:
        return []
    found = []
    for place in range(int(count)):
        name = names[place] if place < len(names) else ""
        found.append(Inherited(name or "unknown", _listening(first + place, name)))
    return found


def _listening(descriptor: int, name: str) -> socket.socket:
    shown = f"{name or 'unknown'} (descriptor {descriptor})"
    wanted = "the socket unit must have ListenStream=HOST:PORT and Accept=no"
    try:
        os.set_inheritable(descriptor, False)  # noqa: FBT003
        found = socket.socket(fileno=descriptor)
    except OSError as error:
        text = f"socket {shown} from systemd cannot be used: {error.strerror}; {wanted}"
        raise ListenError(text, passing=False) from error
    listens = found.type == socket.SOCK_STREAM and found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
    if found.family not in {socket.AF_INET, socket.AF_INET6} or not listens:
        raise ListenError(f"socket {shown} from systemd is no listening TCP socket; {wanted}", passing=False)
    return found


class Notifier:
    """Tells systemd how the service fares; does nothing where nobody listens.

    Parameters
    ----------
    environment
        Holds NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID; they are removed from it.
    """

    def __init__(self, environment: MutableMapping[str, str]) -> None:
        address = environment.pop("NOTIFY_SOCKET", "")
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        limit, process = environment.pop("WATCHDOG_USEC", ""), environment.pop("WATCHDOG_PID", "")
        meant = bool(self._address) and limit.isdigit() and process in {"", str(os.getpid())}
        #: Seconds between two signs of life, half of what systemd waits; None where it does not ask for them.
        self.interval = int(limit) / 2e6 if meant and int(limit) > 0 else None

    def ready(self, status: str) -> None:
        """Say that the service works, and what it does."""
        self._send(f"READY=1\nSTATUS={status}")

    def reloading(self) -> None:
        """Say that the configuration is being read again; `ready` ends that."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000}")

    def stopping(self) -> None:
        """Say that the service ends."""
        self._send("STOPPING=1")

    def alive(self) -> None:
        """Give a sign of life."""
        self._send("WATCHDOG=1")

    def _send(self, text: str) -> None:
        if not self._address:
            return
        # Not for want of a descriptor either does the service end.
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as connection:
            connection.settimeout(1.0)
            connection.sendto(text.encode(), self._address)
