"""The worker process: owns NVIDIA's library and answers its parent until one of the two ends.

Run as ``python -m hwsonde_exporter.nvml.worker REQUESTS EVENTS MEMORY`` with three inherited descriptors.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from hwsonde_exporter.nvml.answer import WorkerState
from hwsonde_exporter.nvml.event_thread import EventThread
from hwsonde_exporter.nvml.fast import FastReader
from hwsonde_exporter.nvml.gpu import DriverGone, Library
from hwsonde_exporter.nvml.progress import NO_DEVICE, Slot
from hwsonde_exporter.nvml.session import Session
from hwsonde_exporter.nvml.wire import Broken, Inbox, encode, receive

_STATES = {
    "library_not_found": WorkerState.NO_LIBRARY,
    "driver_not_loaded": WorkerState.NO_DRIVER,
    "lib_rm_version_mismatch": WorkerState.MISMATCH,
    "no_permission": WorkerState.NO_PERMISSION,
}
_DETAILS = {
    WorkerState.NO_LIBRARY: "libnvidia-ml.so.1 is not to be found; install the driver's libraries, mount them into the container, "
    "or name one with --nvml.library",
    WorkerState.NO_DRIVER: "the kernel module of NVIDIA's driver is not loaded, or sees no GPU",
    WorkerState.MISMATCH: "kernel module and library of NVIDIA's driver are of different versions; load the module anew or reboot",
    WorkerState.NO_PERMISSION: "the device files of the GPUs may not be opened; see the permissions of /dev/nvidiactl",
}


class Failed(Exception):
    """The library does not work.

    Parameters
    ----------
    state
        Which of the reasons it is.
    detail
        One sentence.
    """

    def __init__(self, state: WorkerState, detail: str) -> None:
        super().__init__(detail)
        self.state = state
        self.detail = detail


def main(arguments: Sequence[str]) -> int:
    """Serve the parent that holds the other ends of these descriptors; gives the exit status."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a key in the parent's terminal is the parent's affair
    requests, events, memory = (int(text) for text in arguments)
    slot = Slot(memory)
    os.close(memory)
    stream = socket.socket(fileno=requests)
    outbox = socket.socket(fileno=events)
    threading.Thread(target=_end_with_parent, args=(outbox,), name="parent", daemon=True).start()
    with suppress(OSError), open("/proc/self/comm", "w", encoding="ascii") as name:
        name.write("hwsonde-nvml")
    inbox = Inbox()
    # The parent is gone, or wants nothing of us any more.
    with suppress(Broken, OSError):
        serve(stream, inbox, outbox, slot)
    # Not sys.exit: the library's own threads and clean-up may hang.
    os._exit(0)


def serve(stream: socket.socket, inbox: Inbox, outbox: socket.socket, slot: Slot) -> None:
    """Greet the parent, or tell it why not, and answer its requests; raises `Broken` at the end."""
    start = _mapping(receive(stream, inbox))
    try:
        session = begin(start, outbox, slot)
        session.count(_numbers(start.get("avoid")), _pairs(start.get("skip")))
        stream.sendall(encode({"hello": session.versions()}))
        # What exists now lives as long as the worker.
        gc.collect()
        gc.freeze()
        while True:
            request = _next(stream, inbox, session)
            reply = session.reply(
                int(request["number"]),
                [str(group) for group in request["groups"]],
                _numbers(request["avoid"]),
                _pairs(request["skip"]),
            )
            stream.sendall(encode(reply))
    except DriverGone as gone:
        failed = _failed(str(gone))
    except Failed as error:
        failed = error
    stream.sendall(encode({"failed": [failed.state.value, failed.detail]}))


def begin(start: Mapping[str, Any], outbox: socket.socket, slot: Slot) -> Session:
    """Load and start the library.

    Raises
    ------
    Failed
        If it does not start.
    """
    slot.enter(NO_DEVICE, "init", time.monotonic())
    path = start.get("library")
    if path is not None:
        # The binding asks for libnvidia-ml.so.1; the linker gives it what is loaded under that name already.
        try:
            ctypes.CDLL(str(path), mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            raise Failed(WorkerState.NO_LIBRARY, f"--nvml.library cannot be loaded: {error}"[:256]) from None
    try:
        nvml = importlib.import_module("pynvml")
    except ImportError:
        raise Failed(
            WorkerState.NO_BINDING, "the Python package nvidia-ml-py is not installed; install it beside hwsonde"
        ) from None
    library = Library(nvml, time.monotonic)
    try:
        nvml.nvmlInit()
    except Exception as error:  # noqa: BLE001  (the binding raises what it likes)
        raise _failed(library.error_name(error)) from None
    finally:
        slot.leave(time.monotonic())
    fast = FastReader(float(start.get("hertz", 0.0)), time.monotonic)
    return Session(library, slot, fast, EventThread(library, outbox) if start.get("events") else None)


def _next(stream: socket.socket, inbox: Inbox, session: Session) -> Mapping[str, Any]:
    """Wait for the next request, looking at the fast quantities meanwhile."""
    poll = select.poll()
    poll.register(stream, select.POLLIN)
    while (message := inbox.message()) is None:
        wait = session.wait()
        if not poll.poll(None if wait is None else max(1, wait * 1000)):
            session.look()
            continue
        data = stream.recv(1 << 16)
        if not data:
            raise Broken("the parent has ended")
        inbox.feed(data)
    return _mapping(message)


def _failed(error: str) -> Failed:
    state = _STATES.get(error, WorkerState.ERROR)
    return Failed(state, _DETAILS.get(state, f"NVIDIA's library does not work: {error}"))


def _mapping(message: object) -> Mapping[str, Any]:
    if not isinstance(message, dict):
        raise Broken("a request that is none")
    return message


def _numbers(value: object) -> set[int]:
    return {int(number) for number in value} if isinstance(value, list) else set()


def _pairs(value: object) -> set[tuple[int, str]]:
    """Pairs of the number of a GPU and a group of calls."""
    return {(int(number), str(group)) for number, group in value} if isinstance(value, list) else set()


def _end_with_parent(outbox: socket.socket) -> None:
    """End when the parent does, even while the main thread hangs in a call: its end of the events' socket closes."""
    with suppress(OSError):
        while outbox.recv(1):
            pass
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
