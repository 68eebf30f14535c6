"""What a run leaves behind if it is killed, written down so that the next one finds and removes it.

A lock says whether a run is alive; the ledger holds the processes (number and start time) and folders that it made. Control groups and network
namespaces are found by their names.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from benchmarks.faults.errors import BenchError
from benchmarks.faults.kernel import Kernel


def usual_place() -> Path:
    """Where the ledger is: one for each user of this host, forgotten at a reboot as all that it speaks of."""
    if os.geteuid() == 0:
        return Path("/run/hwsonde-bench")
    return Path(os.environ.get("XDG_RUNTIME_DIR") or "/tmp") / f"hwsonde-bench-{os.geteuid()}"


class Ledger:
    """The list; entered while a run lasts.

    Parameters
    ----------
    folder
        Where lock and list are.
    kernel
        Tells a process from a later one of the same number.
    sweep
        Removes what is found by its name, such as control groups; gives what could not be removed.

    Raises
    ------
    BenchError
        On entering: another run is alive, or the folder cannot be written.
    """

    def __init__(self, folder: Path, kernel: Kernel, sweep: Callable[[], list[str]] = list) -> None:
        self.folder, self.kernel, self.sweep = folder, kernel, sweep
        self.found: list[str] = []
        self._lock: IO[bytes] | None = None

    def __enter__(self) -> Self:
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = (self.folder / "lock").open("ab")
        except OSError as error:
            raise BenchError(f"{self.folder} cannot be written ({error.strerror}): mend that") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            self._lock = None
            raise BenchError("another fault bench runs on this host: end it, or wait for its end") from None
        self.found = self.clear()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.clear()
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    @property
    def _list(self) -> Path:
        return self.folder / "made.jsonl"

    def process(self, pid: int) -> None:
        """Write down a process."""
        self._note({"pid": pid, "started": self.kernel.started(pid)})

    def scratch(self, folder: Path) -> None:
        """Write down a folder that is removed at the end, with all in it."""
        self._note({"folder": str(folder)})

    def _note(self, entry: dict[str, object]) -> None:
        with self._list.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")

    def clear(self) -> list[str]:
        """End and remove everything that is written down or found by its name; give what there was, in words."""
        found, folders = [], []
        for entry in self._entries():
            if "folder" in entry:
                folders.append(Path(str(entry["folder"])))
            elif self._kill(int(str(entry["pid"])), int(str(entry["started"]))):
                found.append(f"process {entry['pid']}")
        found += [f"{left} could not be removed" for left in self.sweep()]
        for folder in folders:
            if folder.is_dir():
                shutil.rmtree(folder, ignore_errors=True)
                found.append(f"folder {folder}")
        self._list.unlink(missing_ok=True)
        return found

    def _entries(self) -> list[dict[str, object]]:
        try:
            lines = self._list.read_text(encoding="utf-8").splitlines()
        except OSError:
            return []
        found = []
        for line in lines:
            # A run that was killed may have written half of the last line.
            with suppress(ValueError):
                found.append(json.loads(line))
        return found

    def _kill(self, pid: int, started: int) -> bool:
        if not started or self.kernel.started(pid) != started or self.kernel.state(pid) == "Z":
            return False
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
        for _ in range(100):
            if self.kernel.started(pid) != started or self.kernel.state(pid) in {"Z", "X", ""}:
                break
            time.sleep(0.02)
        return True
