"""Waits for XID errors in a thread of the worker, and hands each over as soon as it comes. Part of the worker."""

from __future__ import annotations

import ctypes
import socket
import threading
import time
from collections.abc import Callable, Collection
from typing import Any

from hwsonde_exporter.nvml.gpu import Gpu, Library
from hwsonde_exporter.nvml.wire import NO_INSTANCE, RawEvent, encode_event

_WAIT_MILLISECONDS = 1000
# Some errors come back at once, again and again, when a GPU is lost.
_PAUSE_SECONDS = 1.0
# A GPU whose events are refused now may be only on its way back from a reset.
_RETRY_SECONDS = 60.0
# Greater numbers of MIG instances are none; all bits set says that there is none.
_MOST_INSTANCES = 1 << 16
_REFUSED = object()

_Key = tuple[str, int]


class EventThread:
    """Receives the library's events of all GPUs.

    An event goes by a socket whose other end holds it even if this process dies. While that socket is full, events are counted as lost.

    Parameters
    ----------
    library
        The binding.
    outbox
        Where events go.
    """

    def __init__(self, library: Library, outbox: socket.socket) -> None:
        self._library = library
        self._nvml = library.nvml
        self._outbox = outbox
        self._set: Any = None
        self._thread: threading.Thread | None = None
        self._names: dict[int, tuple[str, str]] = {}
        self._registered: set[_Key] = set()
        self._due: dict[_Key, float] = {}  # when one that was refused is tried again
        self._sequence = 0
        self.lost = 0

    def watch(self, gpus: Collection[Gpu], enter: Callable[[Gpu | None], None]) -> None:
        """Wait for events of these GPUs from now on; those that are known already stay.

        Parameters
        ----------
        gpus
            The GPUs.
        enter
            Is told, before each call that may hang, of which GPU it asks; None for the library as a whole.
        """
        for gpu in gpus:
            self._names[_address(gpu.handle)] = (gpu.uuid, gpu.bus_id)
        # One that was reset in between has a new handle, and nobody waits for its events.
        keys = {_key(gpu): gpu for gpu in gpus}
        self._registered &= keys.keys()
        now = self._library.clock()
        self._due = {key: due for key, due in self._due.items() if key in keys}
        fresh = [gpu for key, gpu in keys.items() if key not in self._registered and now >= self._due.get(key, now)]
        if not fresh or not self._started(enter):
            return
        for gpu in fresh:
            enter(gpu)
            if self._register(gpu):
                self._registered.add(_key(gpu))
            else:
                self._due[_key(gpu)] = now + _RETRY_SECONDS

    def hears(self, gpus: Collection[Gpu]) -> bool:
        """Whether events of every one of these GPUs would be heard."""
        alive = self._thread is not None and self._thread.is_alive()
        return alive and bool(gpus) and all(_key(gpu) in self._registered for gpu in gpus)

    def _started(self, enter: Callable[[Gpu | None], None]) -> bool:
        if self._set is None:
            enter(None)
            made = self._quietly("nvmlEventSetCreate")
            if made is _REFUSED:
                return False
            self._set = made
            self._thread = threading.Thread(target=self._serve, name="events", daemon=True)
            self._thread.start()
        return True

    def _register(self, gpu: Gpu) -> bool:
        kinds = self._quietly("nvmlDeviceGetSupportedEventTypes", gpu.handle)
        wanted = 0 if kinds is _REFUSED else self._nvml.nvmlEventTypeXidCriticalError & kinds
        return bool(wanted) and self._quietly("nvmlDeviceRegisterEvents", gpu.handle, wanted, self._set) is not _REFUSED

    def _quietly(self, function: str, *arguments: object) -> Any:  # noqa: ANN401  (as the binding)
        try:
            return getattr(self._nvml, function)(*arguments)
        except Exception as error:  # noqa: BLE001  (the binding raises what it likes)
            self._library.count(self._library.error_name(error))
            return _REFUSED

    def _serve(self) -> None:
        while True:
            try:
                data = self._nvml.nvmlEventSetWait_v2(self._set, _WAIT_MILLISECONDS)
                if data.eventType & self._nvml.nvmlEventTypeXidCriticalError:
                    self._hand_over(data)
            except Exception as error:  # noqa: BLE001  (as above; a thread that ended would hear of nothing)
                if self._library.error_name(error) != "timeout":
                    time.sleep(_PAUSE_SECONDS)

    def _hand_over(self, data: Any) -> None:  # noqa: ANN401  (as the binding)
        uuid, bus_id = self._names.get(_address(data.device), ("", ""))
        instance = int(data.gpuInstanceId)
        self._sequence += 1
        event = RawEvent(
            self._sequence,
            time.time(),
            int(data.eventData),
            instance if 0 <= instance < _MOST_INSTANCES else NO_INSTANCE,
            uuid,
            bus_id,
        )
        try:
            self._outbox.send(encode_event(event), socket.MSG_DONTWAIT)
        except OSError:
            self.lost += 1


def _key(gpu: Gpu) -> _Key:
    return gpu.uuid, _address(gpu.handle)


def _address(handle: object) -> int:
    """Address that a handle stands for, which tells handles of one GPU from those of another."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0  # type: ignore[arg-type]
