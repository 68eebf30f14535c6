"""Asks the kernel for a perf event by a system call of its own, so that no test relies on the code under test to say what the kernel lacks."""

from __future__ import annotations

import ctypes
import os
import struct

_NUMBERS = {"x86_64": 298, "aarch64": 241}
_SOFTWARE, _CONTEXT_SWITCHES = 1, 3
_SIZE = 64  # the first version of struct perf_event_attr
_ALL_PROCESSES, _NO_GROUP, _CLOSE_ON_EXEC = -1, -1, 8


def refusal() -> int:
    """Error number with which the kernel refuses this process the context switches of a whole CPU; 0 if it counts them."""
    call = ctypes.CDLL(None, use_errno=True).syscall
    call.restype = ctypes.c_long
    call.argtypes = (ctypes.c_long, ctypes.c_char_p, *(ctypes.c_long,) * 4)
    wanted = struct.pack("=IIQ", _SOFTWARE, _SIZE, _CONTEXT_SWITCHES).ljust(_SIZE, b"\0")
    cpu = min(os.sched_getaffinity(0))
    found = call(_NUMBERS[os.uname().machine], wanted, _ALL_PROCESSES, cpu, _NO_GROUP, _CLOSE_ON_EXEC)
    if found < 0:
        return ctypes.get_errno()
    os.close(found)
    return 0
