"""A small training loop on the CPU with the phases of a large one: load, compute, checkpoint."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.faults.meters import Progress

if TYPE_CHECKING:
    from benchmarks.faults.child import Task

_COMPUTE_SECONDS = 4.0
_LOADS = 24
_CHUNK = 1 << 20
_CHECKPOINT = 12
_WIDTH, _BATCH, _RATE = 512, 256, 1e-3


def library() -> str:
    """What the loop computes with: ``torch`` where it is installed, else ``numpy``."""
    return "torch" if find_spec("torch") is not None else "numpy"


def numpy_step() -> Callable[[], None]:
    """One step of gradient descent of a network with one hidden layer."""
    random = np.random.default_rng(1)
    first = random.normal(0, 0.05, (_WIDTH, _WIDTH)).astype(np.float32)
    second = random.normal(0, 0.05, (_WIDTH, _WIDTH)).astype(np.float32)
    inputs = random.normal(0, 1, (_BATCH, _WIDTH)).astype(np.float32)
    wanted = np.tanh(inputs)

    def step() -> None:
        hidden = np.maximum(inputs @ first, 0)
        wrong = (hidden @ second - wanted) / _BATCH
        back = (wrong @ second.T) * (hidden > 0)
        np.subtract(second, _RATE * (hidden.T @ wrong), out=second)
        np.subtract(first, _RATE * (inputs.T @ back), out=first)

    return step


def torch_step() -> Callable[[], None]:
    """The same with PyTorch and its optimiser."""
    import torch  # type: ignore[import-not-found,unused-ignore]  # noqa: PLC0415 - only where it is installed

    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(_WIDTH, _WIDTH), torch.nn.ReLU(), torch.nn.Linear(_WIDTH, _WIDTH))
    optimiser = torch.optim.SGD(model.parameters(), lr=_RATE)
    inputs = torch.randn(_BATCH, _WIDTH)
    wanted = torch.tanh(inputs)

    def step() -> None:
        optimiser.zero_grad()
        torch.nn.functional.mse_loss(model(inputs), wanted).backward()
        optimiser.step()

    return step


def training(task: Task) -> None:
    """Arguments: ``data``, the file that is loaded, and ``checkpoint``, the file that is written. Slot 0 is progress, slot 1 the phase."""
    data, checkpoint = Path(task.arguments["data"]), Path(task.arguments["checkpoint"])
    step = torch_step() if library() == "torch" else numpy_step()
    progress, size = Progress(task.meter), data.stat().st_size
    block = os.urandom(_CHUNK)
    place = 0

    def timed(sort: str, work: Callable[[], object]) -> None:
        began = time.monotonic()
        work()
        progress.piece(sort, time.monotonic() - began)

    task.begin()
    with data.open("rb", buffering=0) as source:
        while task.running():
            task.meter.put(1, 1.0)
            for _ in range(_LOADS):
                source.seek(place)
                timed("load", lambda: np.frombuffer(source.read(_CHUNK), np.uint8).sum())
                place = (place + _CHUNK) % max(size - _CHUNK, 1)
                if not task.running():
                    return
            task.meter.put(1, 2.0)
            end = time.monotonic() + _COMPUTE_SECONDS
            while time.monotonic() < end and task.running():
                timed("step", step)
            task.meter.put(1, 3.0)
            with checkpoint.open("wb", buffering=0) as target:
                for _ in range(_CHECKPOINT):
                    timed("write", lambda: target.write(block))
                timed("sync", lambda: os.fsync(target.fileno()))
