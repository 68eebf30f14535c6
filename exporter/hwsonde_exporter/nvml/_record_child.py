"""The recorder's child process: asks the library everything, and says before each call what it is about to ask.

Its lines are JSON: ``{"at": [scope, function]}`` before a call; ``{"scope", "function", "answer", "time", "again"}`` after it;
``{"devices": n}``; ``{"done": true}`` or ``{"failed": text}`` at the end.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hwsonde_exporter.nvml._record_calls import (
    Ask,
    counting_calls,
    device_calls,
    error_code,
    mig_calls,
    mig_handles,
    system_calls,
)

_MAX_GPUS = 32


@dataclass
class _Asker:
    """Asks everything and prints it, a line before each call and one after it."""

    nvml: Any
    skip: frozenset[tuple[str, str]]
    seconds: float

    def run(self) -> None:
        say({"at": ["s", "nvmlInitWithFlags"]})
        self.nvml.nvmlInit()
        for name, ask in system_calls().items():
            self._ask("s", name, lambda ask=ask: ask(self.nvml))  # type: ignore[misc]
        say({"at": ["s", "nvmlDeviceGetCount_v2"]})
        count = min(self.nvml.nvmlDeviceGetCount(), _MAX_GPUS)
        say({"devices": count})
        handles = {number: handle for number in range(count) if (handle := self._handle(number)) is not None}
        for number, handle in handles.items():
            self._device(str(number), handle, device_calls())
        began = time.monotonic()
        first = {number: self._sample(number, handle) for number, handle in handles.items()}
        time.sleep(max(0.0, self.seconds - (time.monotonic() - began)))
        for number, handle in handles.items():
            self._device(str(number), handle, counting_calls(), again=True)
            if (sample := first[number]) is not None:
                self._monitors(number, handle, sample)

    def _handle(self, number: int) -> Any:  # noqa: ANN401  (the binding's)
        return self._ask(
            str(number),
            "nvmlDeviceGetHandleByIndex_v2",
            lambda: self.nvml.nvmlDeviceGetHandleByIndex(number),
            show=False,
        )

    def _device(self, scope: str, handle: object, calls: Mapping[str, Ask], *, again: bool = False) -> None:
        for name, ask in calls.items():
            self._ask(scope, name, lambda ask=ask: ask(self.nvml, handle), again=again)  # type: ignore[misc]
        if "." not in scope and not again:
            say({"at": [scope, "nvmlDeviceGetMigDeviceHandleByIndex"]})
            for place, mig in enumerate(mig_handles(self.nvml, handle)):
                self._device(f"{scope}.{place}", mig, mig_calls())

    def _ask(self, scope: str, name: str, ask: Callable[[], Any], *, again: bool = False, show: bool = True) -> Any:  # noqa: ANN401
        if (scope, name) in self.skip or (scope.partition(".")[0], "*") in self.skip:
            return None
        say({"at": [scope, name]})
        found = None
        try:
            found = ask()
            answer = found if show else None
        except Exception as error:  # noqa: BLE001  (the binding raises what it likes)
            answer = {"error": error_code(error)}
        if answer is not None:
            say({"scope": scope, "function": name, "answer": answer, "time": time.monotonic(), "again": again})
        return found

    def _sample(self, number: int, handle: object) -> Any:  # noqa: ANN401  (the binding's)
        def take() -> object:
            sample = self.nvml.nvmlGpmSampleAlloc()
            self.nvml.nvmlGpmSampleGet(handle, sample)
            return sample

        return self._ask(str(number), "nvmlGpmSampleGet", take, show=False)

    def _monitors(self, number: int, handle: object, first: object) -> None:
        nvml = self.nvml

        def compare() -> dict[str, float]:
            second = nvml.nvmlGpmSampleAlloc()
            nvml.nvmlGpmSampleGet(handle, second)
            request = nvml.c_nvmlGpmMetricsGet_t()
            request.version, request.numMetrics = nvml.NVML_GPM_METRICS_GET_VERSION, nvml.NVML_GPM_METRIC_MAX - 1
            request.sample1, request.sample2 = first, second
            for place in range(request.numMetrics):
                request.metrics[place].metricId = place + 1
            nvml.nvmlGpmMetricsGet(request)
            for sample in (first, second):
                nvml.nvmlGpmSampleFree(sample)
            rows = request.metrics[: request.numMetrics]
            return {str(row.metricId): row.value for row in rows if row.nvmlReturn == 0 and abs(row.value) < 1e15}

        self._ask(str(number), "nvmlGpmMetricsGet", compare)


def plain(value: object) -> str:
    """What JSON has no form for, as a text: the binding gives some texts as bytes."""
    return value.decode("ascii", "replace").rstrip("\0") if isinstance(value, bytes) else str(value)


def say(message: Mapping[str, Any]) -> None:
    print(json.dumps(message, default=plain), flush=True)  # noqa: T201  (to the parent)


def ask_everything(arguments: Mapping[str, Any]) -> None:
    """Ask, print and end the process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if arguments["library"]:
        # The binding asks for libnvidia-ml.so.1; the linker gives it what is loaded under that name already.
        ctypes.CDLL(arguments["library"], mode=ctypes.RTLD_GLOBAL)
    skip = frozenset((scope, function) for scope, function in arguments["skip"])
    try:
        _Asker(importlib.import_module("pynvml"), skip, arguments["seconds"]).run()
        say({"done": True})
    except Exception as error:  # noqa: BLE001  (the parent tells the operator)
        say({"failed": f"{error}"})
    sys.stdout.flush()
    os._exit(0)  # the library's clean-up may hang


if __name__ == "__main__":
    ask_everything(json.loads(sys.argv[1]))
