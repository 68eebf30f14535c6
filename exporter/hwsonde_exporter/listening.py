"""A listening socket that lives through a shortage of descriptors."""

from __future__ import annotations

import errno
import logging
import resource
import socket
import time
from collections.abc import Callable

_LOG = logging.getLogger(__name__)

_SHORTAGES = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))
_PAUSE_SECONDS = 0.05
_QUIET_SECONDS = 60.0
# Of all descriptors that the process may have, so many are left to collectors for each one of a connection.
_SHARE = 4
_FEWEST = 8


def bounded_connections(most: int) -> int:
    """How many connections may be open: ``most``, or fewer where collectors would be left without descriptors."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return most if soft == resource.RLIM_INFINITY else min(most, max(_FEWEST, soft // _SHARE))


class Listening(socket.socket):
    """A listening socket whose `accept` answers a shortage by a pause, where others would be asked again and again at once.

    Parameters
    ----------
    taken
        The socket to take the place of; it is not usable any more.
    make_room
        Called in a shortage; lets go of a connection if it can.
    """

    def __init__(self, taken: socket.socket, make_room: Callable[[], object]) -> None:
        timeout = taken.gettimeout()
        super().__init__(taken.family, taken.type, taken.proto, fileno=taken.detach())
        self.settimeout(timeout)
        self._make_room = make_room
        self._told = float("-inf")

    def accept(self) -> tuple[socket.socket, object]:
        """Accept a connection; raises BlockingIOError in a shortage, which stands for "nothing to accept now"."""
        try:
            return super().accept()
        except OSError as error:
            if error.errno not in _SHORTAGES:
                raise
            now = time.monotonic()
            if now - self._told >= _QUIET_SECONDS:
                self._told = now
                text = (
                    "no connection can be accepted: %s; raise LimitNOFILE= or `ulimit -n`; said once a minute at most"
                )
                _LOG.error(text, error.strerror)
            self._make_room()
            time.sleep(_PAUSE_SECONDS)
            raise BlockingIOError(errno.EAGAIN, error.strerror) from error
