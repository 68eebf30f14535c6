"""The shared page by which a test changes what a stand-in library answers, at once and in every process that has loaded it."""

from __future__ import annotations

import ctypes
import math
import mmap
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from tests.nvml_shim.recording import answer_lines

MAX_DEVICES, MAX_EVENTS, MAX_FUNCTIONS, NAME_BYTES, RULES_BYTES = 32, 512, 512, 56, 1 << 18
MAGIC = 0x316D766E2D737768

UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NO_PERMISSION, NOT_FOUND = 1, 2, 3, 4, 6
DRIVER_NOT_LOADED, GPU_IS_LOST, RESET_REQUIRED, LIB_RM_VERSION_MISMATCH, UNKNOWN = 9, 15, 16, 18, 999
XID_EVENT = 8


class _Event(ctypes.Structure):
    _fields_ = (
        ("device", ctypes.c_uint32),
        ("gpu_instance", ctypes.c_uint32),
        ("compute_instance", ctypes.c_uint32),
        ("unused", ctypes.c_uint32),
        ("type", ctypes.c_uint64),
        ("data", ctypes.c_uint64),
    )


class _Tally(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char * NAME_BYTES), ("calls", ctypes.c_uint64))


class Page(ctypes.Structure):
    """The page's layout, as ``struct control`` in src/shim.h has it."""

    _fields_ = (
        ("magic", ctypes.c_uint64),
        ("sequence", ctypes.c_uint64),
        ("start_ns", ctypes.c_uint64),
        ("fixed", ctypes.c_double),
        ("driver", ctypes.c_uint32),
        ("generation", ctypes.c_uint32),
        ("stale", ctypes.c_uint32),
        ("process_stride", ctypes.c_uint32),
        ("absent", ctypes.c_uint64),
        ("epoch", ctypes.c_uint32 * MAX_DEVICES),
        ("mig", ctypes.c_uint32 * MAX_DEVICES),
        ("mig_epoch", ctypes.c_uint32 * MAX_DEVICES),
        ("head", ctypes.c_uint64),
        ("events", _Event * MAX_EVENTS),
        ("rules_length", ctypes.c_uint32),
        ("rules", ctypes.c_char * RULES_BYTES),
        ("initialisations", ctypes.c_uint64),
        ("calls", ctypes.c_uint64),
        ("hanging", ctypes.c_uint64),
        ("last_process", ctypes.c_uint64),
        ("tallies", _Tally * MAX_FUNCTIONS),
    )


@dataclass(frozen=True)
class Fault:
    """What goes wrong with some calls.

    Parameters
    ----------
    device
        Number of the GPU in the recording, its MIG devices with it; ``"system"`` for calls without a device; None for all.
    function, arguments
        Names as NVML has them, and numbers joined by ``/``, with ``*`` and ``?`` as wildcards. Of a batch of field values a
        single one fails if ``arguments`` is its id, or its id and scope: ``"138/3"``.
    error
        The call gives this error.
    hang
        The call never returns: ``"asleep"`` ends by any signal, ``"deaf"`` by SIGKILL only.
    block
        The call reads this file first: whoever serves it decides how long the process cannot be killed.
    slow
        The call takes so many seconds longer.
    empty
        The list, the samples or the buffer holds nothing.
    one_in
        Only every so manieth call is concerned.
    """

    device: int | Literal["system"] | None = None
    function: str = "*"
    arguments: str = "*"
    error: int | None = None
    hang: Literal["asleep", "deaf"] | None = None
    block: str | None = None
    slow: float | None = None
    empty: bool = False
    one_in: int = 1

    def rules(self) -> list[str]:
        """Its lines in the page."""
        if self.error is not None:
            action, parameter = "error", str(self.error)
        elif self.hang is not None:
            action, parameter = {"asleep": "hang", "deaf": "deaf"}[self.hang], "0"
        elif self.block is not None:
            action, parameter = "block", self.block
        elif self.slow is not None:
            action, parameter = "slow", str(round(self.slow * 1e6))
        else:
            action, parameter = "empty", "0"
        scopes = {"system": ["s"], None: ["*"]}.get(self.device, [f"{self.device}", f"{self.device}.*"])  # type: ignore[call-overload]
        return [f"F {scope} {self.function} {self.arguments} {action} {parameter} {self.one_in}" for scope in scopes]

    @classmethod
    def from_recording(cls, data: Mapping[str, Any]) -> Fault:
        """A fault as a recording's ``faults`` has it."""
        return cls(**data)


class Control:
    """Writes the page.

    Parameters
    ----------
    path
        The file, beside the library.
    faults
        What the host suffers from at the start; `heal` does not take it away.
    fixed
        The recording's time if it is to stand still.
    """

    def __init__(self, path: Path, faults: Iterable[Fault] = (), fixed: float | None = None) -> None:
        path.write_bytes(bytes(ctypes.sizeof(Page)))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), ctypes.sizeof(Page))
        self.page = Page.from_buffer(self._memory)
        self._own = list(faults)
        self._faults: list[Fault] = []
        self._answers: dict[tuple[str, str], list[str]] = {}
        self.page.start_ns = time.time_ns()
        self.page.stale = UNINITIALIZED
        self.freeze(fixed)
        self._write()
        self.page.magic = MAGIC

    # ---- faults and answers ----

    def inject(self, *faults: Fault) -> None:
        """Add faults; the earlier one wins where two concern a call."""
        self._faults += faults
        self._write()

    def heal(self) -> None:
        """End every injected fault and every changed answer."""
        self._faults.clear()
        self._answers.clear()
        self.page.process_stride = 0
        self._write()

    def answer(self, device: int | str, function: str, answer: object) -> None:
        """Let a call give another answer, in the recording's form; ``device`` is a number, ``"s"``, or ``"0.1"`` for MIG."""
        self._answers[str(device), function] = [
            *self._answers.get((str(device), function), ()),
            *answer_lines(str(device), function, answer),
        ]
        self._write()

    def _write(self) -> None:
        rules = [line for fault in (*self._faults, *self._own) for line in fault.rules()]
        rules += [line for lines in self._answers.values() for line in lines]
        text = "".join(f"{line}\n" for line in rules).encode()
        if len(text) > RULES_BYTES:
            raise ValueError(f"{len(text)} bytes of rules do not fit into {RULES_BYTES}")
        self.page.sequence |= 1
        place = Page.rules.offset
        self._memory[place : place + len(text)] = text
        self.page.rules_length = len(text)
        self.page.sequence += 1

    # ---- time ----

    def freeze(self, seconds: float | None) -> None:
        """Let the recording's time stand still, or run again (None)."""
        self.page.fixed = math.nan if seconds is None else seconds

    # ---- the driver and the GPUs ----

    def unload_driver(self, error: int = DRIVER_NOT_LOADED) -> None:
        """Let nvmlInit fail with this error, and all other calls as if it had never been called."""
        self.page.driver = error

    def load_driver(self, stale: int = UNINITIALIZED) -> None:
        """Load the driver anew: everything that was handed out before is answered with ``stale`` until nvmlInit."""
        self.page.stale = stale
        self.page.generation += 1
        self.page.driver = 0

    def reset_gpu(self, device: int, stale: int = INVALID_ARGUMENT) -> None:
        """Reset a GPU: handles to it that were handed out before are answered with ``stale``."""
        self.page.stale = stale
        self.page.epoch[device] += 1

    def remove_gpu(self, device: int) -> None:
        """Take a GPU away; those behind it move up by one index."""
        self.page.absent |= 1 << device

    def add_gpu(self, device: int) -> None:
        """Put a GPU back."""
        self.page.absent &= ~(1 << device)

    def switch_mig(self, device: int, on: bool | None) -> None:
        """Switch MIG on or off, or back to what is recorded (None); handles to MIG devices go stale."""
        self.page.mig[device] = {None: 0, False: 1, True: 2}[on]
        self.page.mig_epoch[device] += 1

    def grow_processes(self, stride: int) -> None:
        """Let entries of lists of processes have so many bytes, whatever the symbol promises."""
        self.page.process_stride = stride

    def event(self, device: int, kind: int, data: int, instance: tuple[int, int] = (2**32 - 1, 2**32 - 1)) -> None:
        """Let an event happen."""
        place = self.page.events[self.page.head % MAX_EVENTS]
        place.device, place.type, place.data = device, kind, data
        place.gpu_instance, place.compute_instance = instance
        self.page.head += 1

    def xid(self, device: int, code: int) -> None:
        """Let an XID error happen."""
        self.event(device, XID_EVENT, code)

    # ---- what the library tells ----

    @property
    def initialisations(self) -> int:
        """How often nvmlInit succeeded, in all processes together."""
        return int(self.page.initialisations)

    @property
    def hanging(self) -> int:
        """How many calls hang, or hung when their process was killed."""
        return int(self.page.hanging)

    @property
    def last_process(self) -> int:
        """Number of the process that initialised the library last."""
        return int(self.page.last_process)

    def calls(self, function: str) -> int:
        """How often a function was called, in all processes together."""
        wanted = function.encode()[: NAME_BYTES - 1]
        return sum(tally.calls for tally in self.page.tallies if tally.name == wanted)
