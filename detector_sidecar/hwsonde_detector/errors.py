"""Every error that hwsonde-detector raises on purpose.

Tree::

    DetectorError               one line, meant for the operator
    |-- ConfigError             a flag, a configuration file or a profile is wrong (file, line, key, what is allowed)
    |-- ListenError             the address of the page and of /metrics cannot be bound
    |-- SourceError             a read failed; counted under `reason`, tried again at the next tick
    |   |-- SourceUnreachable   nobody answers (refused, time-out, name not found)
    |   |-- SourceRefused       the server answers and says no (4xx, 5xx, status error)
    |   |-- SourceGarbled       the answer is not what the API promises (truncated, HTML from a proxy, wrong shape)
    |   |-- SourcePartial       the server says that its answer is partial: it is not scored
    |-- StateError              the state on disk cannot be used or written (damaged, newer version, disk full)
    |-- ArchiveError            a recorded archive cannot be read or written
"""

from __future__ import annotations

import errno
from typing import ClassVar

TOO_LITTLE_MEMORY = "too little memory; raise MemoryMax= or `ulimit -v`"
NO_THREAD = "no thread can be started: too many tasks or too little memory; raise TasksMax= and MemoryMax=, `ulimit -u` or `ulimit -v`"
_DEEPEST = 20
_UNMAPPED = "failed to map segment from shared object"
_ROOM = 1 << 26


def shortage(error: BaseException) -> str:
    """The line for an error that came of too little memory or too few threads, and of nobody's defect; empty for any other."""
    one: BaseException | None = error
    for _ in range(_DEEPEST):
        if one is None:
            break
        if isinstance(one, MemoryError) or (isinstance(one, OSError) and one.errno == errno.ENOMEM):
            return TOO_LITTLE_MEMORY
        if isinstance(one, ImportError) and _is_unloaded(str(one)):
            return TOO_LITTLE_MEMORY
        if isinstance(one, RuntimeError) and str(one) == "can't start new thread":
            return NO_THREAD
        one = one.__cause__ or one.__context__
    return ""


def _is_unloaded(text: str) -> bool:
    """Whether the loader of libraries had no memory, whose error has no number, and sometimes no reason either."""
    if "static TLS block" in text:
        # The loader's own reserve for variables of threads is used up; no memory that anybody could add helps.
        return False
    if "annot allocate memory" in text:
        return True
    if not text.endswith(_UNMAPPED):
        return False
    # It says the same where nothing may be executed from a file system; then there is room.
    try:
        bytearray(_ROOM)
    except MemoryError:
        return True
    return False


class DetectorError(Exception):
    """Base of every error raised on purpose; its text is one line that says what to do.

    Parameters
    ----------
    text
        The line, for the log and for whoever runs the program.
    shown
        What the page may say in its place to whoever reads it; None: the same. It names no file of this host.
    """

    def __init__(self, text: str = "", *, shown: str | None = None) -> None:
        super().__init__(text)
        self.shown = text if shown is None else shown


class ConfigError(DetectorError):
    """A flag, a configuration file or a profile is wrong."""


class ListenError(DetectorError):
    """The listen address cannot be bound."""


class SourceError(DetectorError):
    """A read failed; it is counted and tried again at the next tick."""

    reason: ClassVar[str] = "error"


class SourceUnreachable(SourceError):
    """Nobody answers."""

    reason: ClassVar[str] = "unreachable"


class SourceRefused(SourceError):
    """The server answers and says no."""

    reason: ClassVar[str] = "refused"


class SourceGarbled(SourceError):
    """The answer is not what the API promises."""

    reason: ClassVar[str] = "garbled"


class SourcePartial(SourceError):
    """The server says that its answer is partial."""

    reason: ClassVar[str] = "partial"


class StateError(DetectorError):
    """The state on disk cannot be used or written."""


class ArchiveError(DetectorError):
    """A recorded archive cannot be read or written."""
