"""One folder, one detector: a lock on ``state.dir`` that ends with the process, however it ends."""

from __future__ import annotations

import fcntl
import logging
import os
import time
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from hwsonde_detector.errors import StateError

log = logging.getLogger("hwsonde_detector.service")

FILE_NAME = "state.lock"
# Who was killed a moment ago may still be giving back its memory, and holds its files until then.
_PATIENCE_S = 2.0
_AGAIN_S = 0.05


class Locks:
    """Folders that this process alone may write to.

    That of the start stays locked to the end: incidents, the key and what automation did lie there, whatever a reload says. Where no lock can
    be made, as in a folder that cannot be written, there is none, and the service goes on as it does there anyway.

    Parameters
    ----------
    directory
        ``state.dir`` at the start; made if it does not exist. None: nothing is kept.

    Raises
    ------
    StateError
        Another process holds it.
    """

    def __init__(self, directory: Path | None) -> None:
        self._first = directory
        self._held: dict[Path, int] = {}
        self.take(directory, _PATIENCE_S)

    def take(self, directory: Path | None, patience_s: float = 0.0) -> None:
        """Lock one more folder, made if it does not exist; one that this process holds already stays as it is.

        Raises
        ------
        StateError
            Another process holds it, after ``patience_s`` still.
        """
        if directory is None or directory in self._held:
            return
        file = directory / FILE_NAME
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = self._mine(file)
            if handle is None:
                handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            # Of a folder that cannot be written at all others tell.
            if os.access(directory, os.W_OK):
                _tell(file, error)
            return
        try:
            _lock(handle, patience_s)
        except BlockingIOError:
            os.close(handle)
            raise StateError(
                f"{directory}: another detector that runs keeps its state there; end that one, or name a folder of its own for this one by state.dir"
            ) from None
        except OSError as error:
            os.close(handle)
            _tell(file, error)
            return
        self._held[directory] = handle

    def keep(self, directory: Path | None) -> None:
        """Let go of all but this one and that of the start."""
        for held in set(self._held) - {self._first, directory}:
            os.close(self._held.pop(held))

    def release(self) -> None:
        """Let go of all."""
        while self._held:
            os.close(self._held.popitem()[1])

    def __enter__(self) -> Self:
        """Give itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let go of all."""
        self.release()

    def _mine(self, file: Path) -> int | None:
        """The lock of a folder that this process holds under another name."""
        with suppress(FileNotFoundError):
            asked = file.stat()
            for handle in self._held.values():
                if os.path.samestat(os.fstat(handle), asked):
                    return os.dup(handle)
        return None


def _lock(handle: int, patience_s: float) -> None:
    ends = time.monotonic() + patience_s
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= ends:
                raise
        else:
            return
        time.sleep(_AGAIN_S)


def _tell(file: Path, error: OSError) -> None:
    reason = error.strerror or error
    log.warning("state: %s: cannot be locked (%s); see that no other detector keeps its state there", file, reason)
