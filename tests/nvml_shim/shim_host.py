"""A host whose NVML answers from a recording: the library, what it reads and the page that controls it, in one folder."""

from __future__ import annotations

import _ctypes
import ctypes
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pynvml

from tests.nvml_shim.control import Control, Fault
from tests.nvml_shim.library import SONAME, build
from tests.nvml_shim.recording import lines, load


class ShimHost:
    """A recorded host.

    Parameters
    ----------
    recording
        A recording, or the name of one.
    folder
        An empty folder for it.
    fixed
        The recording's time, if it is to stand still.
    missing
        Functions that the library lacks besides those that the recording names.

    Attributes
    ----------
    library
        The library, for ``--nvml.library``.
    control
        Changes what it answers.
    """

    def __init__(
        self,
        recording: str | Mapping[str, Any],
        folder: Path,
        fixed: float | None = None,
        missing: tuple[str, ...] = (),
    ) -> None:
        self.recording: Mapping[str, Any] = load(recording) if isinstance(recording, str) else recording
        folder.mkdir(parents=True, exist_ok=True)
        self.library = folder / SONAME
        # A copy: the loader takes two names of one file for one library.
        shutil.copyfile(build((*self.recording.get("missing", ()), *missing)), self.library)
        (folder / "recording").write_text("".join(f"{line}\n" for line in lines(self.recording)))
        faults = [Fault.from_recording(fault) for fault in self.recording.get("faults", ())]
        self.control = Control(folder / "control", faults, fixed)

    def uuid(self, device: int) -> str:
        """Identity of a GPU."""
        return str(self.recording["devices"][device]["calls"]["nvmlDeviceGetUUID"])

    @contextmanager
    def bound(self) -> Iterator[Any]:
        """The module pynvml with this library loaded into this process, as if it were the only one."""
        before = pynvml.nvmlLib, dict(pynvml._nvmlGetFunctionPointer_cache), pynvml._nvmlLib_refcount
        library = ctypes.CDLL(str(self.library))
        pynvml.nvmlLib = library
        pynvml._nvmlGetFunctionPointer_cache.clear()
        try:
            yield pynvml
        finally:
            pynvml.nvmlLib = before[0]
            pynvml._nvmlGetFunctionPointer_cache.clear()
            pynvml._nvmlGetFunctionPointer_cache.update(before[1])
            pynvml._nvmlLib_refcount = before[2]
            _ctypes.dlclose(library._handle)
