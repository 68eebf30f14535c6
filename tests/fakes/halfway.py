"""A program that stays in the middle of its imports for as long as a test wants it to."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).parents[2]
# Found in place of a module that both programs import first of all. It takes any exception for nothing, as packages do that try what there is.
_SHIM = """
import importlib, sys, time
from pathlib import Path

place = Path(__file__).parent
(place / "reached").touch()
for _ in range(6000):
    try:
        if (place / "go").exists():
            break
        time.sleep(0.02)
    except BaseException:
        pass
sys.path.remove(str(place))
del sys.modules["argparse"]
importlib.import_module("argparse")
"""


class Halfway:
    """The module ``command[0]`` with arguments, started, and ended at the end of a ``with``.

    ``ignored`` says that whoever starts it has SIGINT and SIGHUP ignored.
    """

    def __init__(self, folder: Path, *command: str, ignored: bool = False, held: bool = True) -> None:
        self._place = folder / "halfway"
        self._place.mkdir()
        if held:
            (self._place / "argparse.py").write_text(_SHIM)
        self._log = folder / "halfway.log"
        paths = (str(self._place), str(ROOT / "exporter"), str(ROOT / "detector_sidecar"))

        def prepare() -> None:
            for number in (signal.SIGINT, signal.SIGHUP):
                signal.signal(number, signal.SIG_IGN if ignored else signal.SIG_DFL)

        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", *command],
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": ":".join(paths)},
                preexec_fn=prepare,  # noqa: PLW1509 - it does nothing but this
            )
        if held:
            self.until((self._place / "reached").exists)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def go(self) -> None:
        """Let it go on."""
        (self._place / "go").touch()

    def log(self) -> str:
        return self._log.read_text()

    def until(self, holds: Callable[[], bool], seconds: float = 60) -> None:
        end = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < end, self.log()
            assert self.process.poll() is None, self.log()
            time.sleep(0.005)

    def has(self, mask: str, number: int) -> bool:
        """Whether a signal is in a mask of the kernel's: ``SigCgt`` those with a handler, ``SigIgn`` those ignored."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        (bits,) = (line.split()[1] for line in status.splitlines() if line.startswith(f"{mask}:"))
        return bool(int(bits, 16) >> (number - 1) & 1)

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        return self.process.wait(60)
