"""Whether what is measured can be kept: the right things at the right places, room on the disk, and a Prometheus that goes on storing."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from quickstart.errors import QuickstartError
from quickstart.layout import Options

# Less than Prometheus writes in an hour here: what is below is full before long.
LEAST_ROOM = 16 << 20
# Prometheus begins to scrape some seconds after it is ready; a scrape or two may be late on a busy host.
SILENT_SECONDS = 15.0
SILENT_LOOKS = 3
ELSEWHERE = "or give another place with --data DIR"


def check_places(options: Options, names: Iterable[str]) -> None:
    """Refuse a data directory in which something stands where another kind of thing must be.

    Parameters
    ----------
    options
        Name the places.
    names
        Programs that write a log.

    Raises
    ------
    QuickstartError
        Naming the place and what is there.
    OSError
        If the data directory cannot be looked at.
    """
    data = options.data
    folders = (data, options.config, options.logs, options.state, data / "prometheus", data / "alertmanager")
    files = (data / "lock", options.events_log, *(options.logs / f"{name}.log" for name in names))
    for paths, wanted in ((folders, "directory"), (files, "file")):
        for path in paths:
            found = kind(path)
            if found not in {"", wanted}:
                raise QuickstartError(f"{path} is a {found} where a {wanted} must be: move it away, {ELSEWHERE}")


def kind(path: Path) -> str:
    """What lies there, in words; empty if nothing does. Raises OSError."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return "link to nothing" if path.is_symlink() else ""
    if stat.S_ISDIR(mode):
        return "directory"
    # A log may be led to /dev/null; a pipe would hold up who opens it.
    return "file" if stat.S_ISREG(mode) or stat.S_ISCHR(mode) else "pipe, socket or disk"


def room(directory: Path) -> int:
    """Bytes that this user may still write in a directory, 0 where no file can be made any more (statvfs(3)). Raises OSError."""
    found = os.statvfs(directory)
    # What a file system sets aside for root is room for root alone.
    root = os.geteuid() == 0
    blocks, files = (found.f_bfree, found.f_ffree) if root else (found.f_bavail, found.f_favail)
    # A total of 0 is that of a file system without a limit.
    if found.f_files and not files:
        return 0
    return blocks * found.f_frsize if found.f_blocks else sys.maxsize


def lack(directory: Path, least: int = LEAST_ROOM, measure: Callable[[Path], int] = room) -> str:
    """One line that says what is wrong with a directory to write in; empty if it has ``least`` bytes of room."""
    try:
        left = measure(directory)
    except OSError as error:
        return f"{directory}: {error.strerror}: what is measured cannot be kept there; bring it back, {ELSEWHERE}"
    if left >= least:
        return ""
    return f"{directory} has {left / 2**20:.1f} MiB left, {least >> 20} are needed: make room, {ELSEWHERE}"


class Storage:
    """Follows the room of a directory and whether new samples come; every change for the worse is one error.

    Parameters
    ----------
    directory
        Where everything is kept.
    now
        Seconds of a monotonic clock, which stands still while the host sleeps.
    measure
        Like `room`.
    """

    def __init__(self, directory: Path, now: float, measure: Callable[[Path], int] = room) -> None:
        self.errors = 0
        self.silent = False
        self._directory = directory
        self._measure = measure
        self._lacking = False
        self._newest = 0.0
        self._since = now
        self._looks = 0

    def look(self, newest: float, now: float, *, held: bool = False) -> list[str]:
        """Take the time of the newest sample that Prometheus has; give a line for each change.

        Parameters
        ----------
        newest
            In seconds since the epoch; only whether it changes matters.
        now
            Seconds of the monotonic clock.
        held
            Whether Prometheus is stopped on purpose.
        """
        return [*self._look_at_disk(), *self._look_at_samples(newest, now, held=held)]

    def _look_at_disk(self) -> list[str]:
        # Twice the room is asked for before all is well again, so that a log that is cut does not count anew each time.
        line = lack(self._directory, LEAST_ROOM * 2 if self._lacking else LEAST_ROOM, self._measure)
        was, self._lacking = self._lacking, bool(line)
        if self._lacking and not was:
            self.errors += 1
            return [line]
        return [f"{self._directory} has room again"] if was and not self._lacking else []

    def _look_at_samples(self, newest: float, now: float, *, held: bool) -> list[str]:
        if held or newest != self._newest:
            lines = [f"Prometheus stores again, after {now - self._since:.0f} s"] if self.silent and not held else []
            self._newest, self._since, self._looks, self.silent = newest, now, 0, False
            return lines
        self._looks += 1
        if self.silent or now - self._since < SILENT_SECONDS or self._looks < SILENT_LOOKS:
            return []
        self.silent = True
        self.errors += 1
        log = self._directory / "logs" / "prometheus.log"
        return [f"Prometheus has stored nothing for {now - self._since:.0f} s in {self._directory} (log: {log})"]
