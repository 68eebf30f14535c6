"""Sockets in the host's network namespace, which is not the exporter's own where it runs in a container."""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import threading
from pathlib import Path

from hwsonde_exporter.errors import Reason, Unavailable

_CLONE_NEWNET = 0x40000000
_OWN = Path("/proc/self")


def is_ours(procfs: Path) -> bool | None:
    """Whether this process is in the network namespace of process 1 of ``procfs``; None if that cannot be told.

    ``ns/net`` tells it to those who may trace process 1 (root). Everybody may look at ``net/dev``, whose inode number is
    that of the namespace's own entry in procfs, so that it is the same seen from any process of one namespace.
    """
    for name in ("ns/net", "net/dev"):
        try:
            theirs = (procfs / "1" / name).stat()
            ours = (_OWN / name).stat()
        except OSError:
            continue
        return theirs.st_ino == ours.st_ino
    return None


def host_socket(procfs: Path, family: int, kind: int, protocol: int = 0) -> socket.socket:
    """Open a socket in the network namespace of process 1 of ``procfs``; it stays there for as long as it lives.

    Parameters
    ----------
    procfs
        Where the host's /proc is mounted.
    family, kind, protocol
        As for `socket.socket`.

    Raises
    ------
    Unavailable
        If the host's namespace is not this one and cannot be entered, or cannot be told at all: values of a container's
        own namespace must not be taken for the host's.
    OSError
        If the kernel knows no such socket.
    """
    same = is_ours(procfs)
    if same:
        return socket.socket(family, kind | socket.SOCK_CLOEXEC, protocol)
    place = procfs / "1" / "ns" / "net"
    if same is None:
        raise Unavailable(
            Reason.NO_PERMISSION,
            f"{place} is hidden, so the host's network namespace cannot be told; run as root, or in the host's network",
        )
    try:
        return _in_namespace(place, family, kind, protocol)
    except PermissionError:
        raise Unavailable(
            Reason.NO_PERMISSION,
            f"this is not the host's network namespace and {place} may not be entered; run in the host's network, or with "
            "CAP_SYS_ADMIN and CAP_SYS_PTRACE",
        ) from None
    except FileNotFoundError:
        raise Unavailable(Reason.NO_KERNEL_SUPPORT, f"{place} is missing; is --path.procfs the host's /proc?") from None


def _in_namespace(place: Path, family: int, kind: int, protocol: int) -> socket.socket:
    """Open a socket in a thread that enters the namespace and ends there.

    A thread of the exporter must never be seen in another namespace, even for a moment or when going back fails. This one
    does nothing but open the socket and cannot block.
    """
    opened: list[socket.socket] = []
    problems: list[OSError] = []

    def enter() -> None:
        try:
            descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
            try:
                if ctypes.CDLL(None, use_errno=True).setns(descriptor, _CLONE_NEWNET) != 0:
                    number = ctypes.get_errno()
                    raise OSError(number, os.strerror(number))
            finally:
                os.close(descriptor)
            opened.append(socket.socket(family, kind | socket.SOCK_CLOEXEC, protocol))
        except OSError as error:
            problems.append(error)

    thread = threading.Thread(target=enter, name="network namespace", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        raise OSError(errno.EAGAIN, "no thread can be started") from None
    thread.join()
    if problems:
        raise problems[0]
    return opened[0]
