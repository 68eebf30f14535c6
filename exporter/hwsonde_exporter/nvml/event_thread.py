"""Waits for XID errors in a thread of the worker, and hands each over as soon as it comes. Part of the worker."""

from __future__ import annotations

import ctypes
import socket
import threading
import time
from typing import Any

from hwsonde_exporter.nvml.gpu import Gpu, Library
from hwsonde_exporter.nvml.wire import NO_INSTANCE, RawEvent, encode_event

_WAIT_MILLISECONDS = 1000
# Some errors come back at once, again and again, when a GPU is lost.
_PAUSE_SECONDS = 1.0
_NO_INSTANCE = 0xFFFFFFFF


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
        self._lock = threading.Lock()
        self._set: Any = None
        self._names: dict[int, tuple[str, str]] = {}
        self._registered: set[tuple[str, int]] = set()
        self._sequence = 0
        self.lost = 0

    def watch(self, gpus: list[Gpu]) -> None:
        """Wait for events of these GPUs from now on; those that are known already stay."""
        for gpu in gpus:
            self._names[_address(gpu.handle)] = (gpu.uuid, gpu.bus_id)
        # One that was reset in between has a new handle, and nobody waits for its events.
        keys = {(gpu.uuid, _address(gpu.handle)): gpu for gpu in gpus}
        fresh = {key: gpu for key, gpu in keys.items() if key not in self._registered}
        self._registered &= keys.keys()
        if not fresh:
            return
        if self._set is None:
            self._set = self._quietly("nvmlEventSetCreate")
            if self._set is None:
                return
            threading.Thread(target=self._serve, name="events", daemon=True).start()
        for key, gpu in fresh.items():
            self._registered.add(key)
            kinds = self._quietly("nvmlDeviceGetSupportedEventTypes", gpu.handle) or 0
            wanted = self._nvml.nvmlEventTypeXidCriticalError & kinds
            if wanted:
                self._quietly("nvmlDeviceRegisterEvents", gpu.handle, wanted, self._set)

    def _quietly(self, function: str, *arguments: object) -> Any:  # noqa: ANN401  (as the binding)
        try:
            return getattr(self._nvml, function)(*arguments)
        except Exception as error:  # noqa: BLE001  (the binding raises what it likes)
            self._library.count(self._library.error_name(error))
            return None

    def _serve(self) -> None:
        wait = getattr(self._nvml, "nvmlEventSetWait_v2", None) or self._nvml.nvmlEventSetWait
        while True:
            try:
                data = wait(self._set, _WAIT_MILLISECONDS)
            except Exception as error:  # noqa: BLE001  (as above)
                if self._library.error_name(error) != "timeout":
                    time.sleep(_PAUSE_SECONDS)
                continue
            if data.eventType & self._nvml.nvmlEventTypeXidCriticalError:
                self._hand_over(data)

    def _hand_over(self, data: Any) -> None:  # noqa: ANN401  (as the binding)
        uuid, bus_id = self._names.get(_address(data.device), ("", ""))
        instance = NO_INSTANCE if data.gpuInstanceId == _NO_INSTANCE else int(data.gpuInstanceId)
        self._sequence += 1
        event = RawEvent(self._sequence, time.time(), int(data.eventData), instance, uuid, bus_id)
        try:
            self._outbox.send(encode_event(event), socket.MSG_DONTWAIT)
        except OSError:
            self.lost += 1


def _address(handle: object) -> int:
    """Address that a handle stands for, which tells handles of one GPU from those of another."""
    return ctypes.cast(handle, ctypes.c_void_p).value or 0  # type: ignore[arg-type]
