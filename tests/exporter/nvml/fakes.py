"""Stand-ins for the worker and for the library's binding, and a clock that tests move."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import pynvml

from hwsonde_exporter.nvml.gpu import Gpu, Library
from hwsonde_exporter.nvml.progress import Where
from hwsonde_exporter.nvml.wire import Broken, RawEvent


class Clock:
    """Monotonic seconds that pass when a test, or somebody who waits, says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def reply(number: int, uuids: list[str], **more: Any) -> dict[str, Any]:
    """What a worker says that sees GPUs with these UUIDs."""
    devices = [
        {
            "number": place,
            "uuid": uuid,
            "bus_id": f"0000:{place:02x}:00.0",
            "error": "",
            "readings": [["utilization_ratio", [], 50]],
        }
        for place, uuid in enumerate(uuids)
    ]
    return {
        "number": number, "gpus": len(uuids), "devices": devices, "unreachable": [], "calls": [["memory", 0.001]], "errors": [],
        "fast": [], "lost_events": 0, "listening": True, **more,
    }  # fmt: skip


class FakeWorker:
    """Answers what it is told to; sees GPUs ``a`` and ``b``.

    Parameters
    ----------
    clock
        Moves on while somebody waits in vain.
    hang
        Given the last request, what it hangs in, or None.
    greeting
        Its first message; None for none.
    immortal
        Whether it survives being killed.
    """

    def __init__(
        self,
        clock: Clock,
        hang: Callable[[Mapping[str, Any]], tuple[int, str] | None] = lambda _: None,
        greeting: object | None = None,
        *,
        immortal: bool = False,
    ) -> None:
        self.clock = clock
        self.hang = hang
        self.greeting = {"hello": {"driver_version": "570.1"}} if greeting is None else greeting
        self.immortal = immortal
        self.requests: list[Any] = []
        self.outbox: list[RawEvent] = []
        self.ended = False
        self.closed = False
        self.more: dict[str, Any] = {}
        self.answers: list[object] = []
        self._where: Where | None = None

    def send(self, message: Any) -> None:
        if self.ended:
            raise Broken("it has ended")
        self.requests.append(message)
        place = self.hang(message)
        if place is not None:
            self._where = Where(*place, self.clock.now)
        elif "number" not in message:
            self.answers.append(self.greeting)
        else:
            avoided = set(message["avoid"])
            answer = reply(message["number"], ["a", "b"], **self.more)
            answer["devices"] = [device for device in answer["devices"] if device["number"] not in avoided]
            answer["unreachable"] = [[number, "timeout"] for number in sorted(avoided)]
            self.answers.append(answer)

    def receive(self, timeout: float) -> object | None:
        if self.answers:
            return self.answers.pop(0)
        if self.ended:
            raise Broken("it has ended")
        self.clock.now += max(timeout, 1e-3)
        return None

    def where(self) -> Where | None:
        return self._where

    def events(self) -> list[RawEvent]:
        taken, self.outbox = self.outbox, []
        return taken

    def kill(self) -> bool:
        if not self.immortal:
            self.ended = True
        return self.ended

    def gone(self) -> bool:
        return self.ended

    def close(self) -> None:
        assert self.ended
        self.closed = True


class Binding:
    """The constants and structures of the real binding, with functions of the test's own; the others are missing in the library."""

    def __init__(self, **functions: Any) -> None:
        self.functions = functions
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if (
            not name.startswith("nvml")
            or not callable(getattr(pynvml, name))
            or isinstance(getattr(pynvml, name), type)
        ):
            return getattr(pynvml, name)
        self.calls.append(name)
        function = self.functions.get(name)
        if function is None:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
        return function if callable(function) else lambda *_, **__: function

    def __dir__(self) -> list[str]:
        return dir(pynvml)


def gpu_of(clock: Clock | None = None, /, **functions: Any) -> Gpu:
    """A GPU whose library has these functions."""
    return Gpu(Library(Binding(**functions), clock or Clock()), object(), 0, "GPU-a", "0000:3b:00.0")


def raises(code: int) -> Callable[..., Any]:
    """A function of the library that fails."""

    def fail(*_: object, **__: object) -> Any:
        raise pynvml.NVMLError(code)

    return fail


def fields_of(values: Mapping[tuple[int, int], tuple[int, Any]]) -> Callable[..., Any]:
    """nvmlDeviceGetFieldValues: type and value by field and scope; others are not supported."""

    def answer(_: object, wanted: list[tuple[int, int]]) -> list[Any]:
        found = []
        for field in wanted:
            kind, value = values.get(field, (3, None))
            union = SimpleNamespace(
                **dict.fromkeys(("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal"), 0xDEAD)
            )
            member = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")[kind]
            setattr(union, member, value)
            code = 0 if value is not None else pynvml.NVML_ERROR_NOT_SUPPORTED
            found.append(SimpleNamespace(nvmlReturn=code, valueType=kind, value=union))
        return found

    return answer
