"""Samples of what changes within a second: the driver's own, and those that the worker takes itself."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

from hwsonde_exporter.nvml.fast import LOOKS, FastReader
from hwsonde_exporter.nvml.gpu import DriverGone, Gpu
from hwsonde_exporter.nvml.groups import GROUPS
from hwsonde_exporter.nvml.wire import encode
from tests.exporter.nvml.fakes import Clock, gpu_of, raises

LOST = pynvml.NVML_ERROR_GPU_IS_LOST
MEMORY = SimpleNamespace(total=9, used=4, free=5)


def buffer_of(samples: list[tuple[int, int]]) -> Any:
    """nvmlDeviceGetSamples that gives again what was seen, as some drivers do."""
    return lambda *_: (
        1,
        [SimpleNamespace(timeStamp=time, sampleValue=SimpleNamespace(uiVal=value)) for time, value in samples],
    )


def ignored(*_: object) -> None:
    """Nobody wants to know what is asked."""


def taken(reader: FastReader) -> dict[str, list[float]]:
    return {name: values for _, name, values in reader.take()}  # type: ignore[misc]


def test_each_sample_of_the_driver_is_taken_once_and_none_from_before() -> None:
    clock = Clock()
    samples = [(1_000_000, 10), (1_100_000, 11), (0, 99)]
    gpu = gpu_of(clock, nvmlDeviceGetSamples=buffer_of(samples))
    reader = FastReader(10.0, clock)
    reader.read_buffers(gpu)
    assert taken(reader)["power"] == [11]
    samples += [(1_200_000, 12), (1_220_000, 13), (1_310_000, 14)]
    reader.read_buffers(gpu)
    # Two that lie nearer than a look are one.
    assert taken(reader)["power"] == [12, 14]
    reader.read_buffers(gpu)
    assert taken(reader) == {}


def test_a_buffer_with_one_sample_a_second_is_looked_past() -> None:
    clock = Clock()
    samples: list[tuple[int, int]] = []
    gpu = gpu_of(
        clock, nvmlDeviceGetSamples=buffer_of(samples), nvmlDeviceGetPowerUsage=lambda _: int(clock.now * 1000)
    )
    reader = FastReader(10.0, clock)
    for second in range(7):
        samples.append((1 + second * 1_000_000, 5))
        reader.read_buffers(gpu)
        clock.now += 1.0
    reader.take()
    for _ in range(5):
        clock.now += 0.1
        reader.look([gpu], ignored)
    assert len(taken(reader)["power"]) == 5


def test_a_reading_that_has_not_changed_is_not_observed_twice_within_a_second() -> None:
    clock = Clock()
    gpu = gpu_of(
        clock, nvmlDeviceGetPowerUsage=300_000, nvmlDeviceGetMemoryInfo=SimpleNamespace(total=9, used=4, free=5)
    )
    reader = FastReader(10.0, clock)
    for _ in range(7):
        reader.read_buffers(gpu)
        clock.now += 1.0
    for _ in range(25):
        clock.now += 0.1
        reader.look([gpu], ignored)
    values = taken(reader)
    assert values["power"] == [300_000] * 3
    assert values["memory"] == [4] * 25


def test_looking_takes_a_hundredth_of_the_time_at_most() -> None:
    clock = Clock()

    def slow(_: object, version: object = None) -> Any:
        clock.now += 0.05
        return SimpleNamespace(total=9, used=4, free=5)

    gpu = gpu_of(clock, nvmlDeviceGetMemoryInfo=slow)
    reader = FastReader(10.0, clock)
    reader.read_buffers(gpu)
    began = clock.now
    looks = 0
    while clock.now - began < 60.0:
        before = clock.now
        reader.look([gpu], ignored)
        looks += clock.now > before
        clock.now += 0.1
    assert looks <= 13


def test_without_a_rate_nothing_is_sampled() -> None:
    reader = FastReader(0.0, Clock())
    reader.read_buffers(gpu_of(nvmlDeviceGetSamples=buffer_of([(1, 1)])))
    assert reader.wait() is None
    assert reader.take() == []


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_is_no_sample_and_fits_the_message(value: float) -> None:
    clock = Clock()
    gpu = gpu_of(
        clock,
        nvmlDeviceGetSamples=lambda *_: (
            0,
            [SimpleNamespace(timeStamp=1, sampleValue=SimpleNamespace(dVal=value))],
        ),
        nvmlDeviceGetMemoryInfo=SimpleNamespace(total=9, used=value, free=5),
    )
    reader = FastReader(10.0, clock)
    for _ in range(3):
        reader.read_buffers(gpu)
        clock.now += 0.1
        reader.look([gpu], ignored)
    assert reader.take() == []
    assert json.loads(encode(reader.take())[4:]) == []


def two_gpus(clock: Clock, **first: Any) -> list[Gpu]:
    """Two GPUs of which the driver keeps no samples; the first one has functions of its own."""
    functions: dict[str, Any] = {
        "nvmlDeviceGetMemoryInfo": MEMORY,
        "nvmlDeviceGetPowerUsage": lambda _: int(clock.now * 1000),
    }
    one, other = gpu_of(clock, **functions | first), gpu_of(clock, **functions)
    one.number, one.uuid = 0, "GPU-a"
    other.number, other.uuid = 1, "GPU-b"
    return [one, other]


def polling(clock: Clock, gpus: list[Gpu]) -> FastReader:
    """A reader that has found that it must look itself."""
    reader = FastReader(10.0, clock)
    for _ in range(7):
        for gpu in gpus:
            reader.read_buffers(gpu)
        clock.now += 1.0
    # The first look is late, and the next one comes at once.
    for _ in range(2):
        reader.look(gpus, ignored)
    clock.now += 0.1
    reader.take()
    return reader


def test_a_gpu_that_is_lost_between_two_readings_costs_the_others_no_look() -> None:
    clock = Clock()
    gpus = two_gpus(clock)
    reader = polling(clock, gpus)
    gpus[0].nvml.functions["nvmlDeviceGetMemoryInfo"] = raises(LOST)
    assert reader.look(gpus, ignored)
    assert gpus[0].error == "gpu_is_lost"
    for _ in range(4):
        # The next look has its time, or the worker would do nothing else.
        assert reader.wait() == pytest.approx(0.1)
        clock.now += 0.1
        assert not reader.look(gpus, ignored)
    assert {uuid: len(values) for uuid, name, values in reader.take() if name == "memory"} == {"GPU-b": 5}  # type: ignore[arg-type]


def test_a_driver_that_is_gone_is_told_and_not_asked_without_end() -> None:
    clock = Clock()
    gpus = two_gpus(clock)
    reader = polling(clock, gpus)
    gpus[0].nvml.functions["nvmlDeviceGetMemoryInfo"] = raises(pynvml.NVML_ERROR_UNINITIALIZED)
    with pytest.raises(DriverGone):
        reader.look(gpus, ignored)
    assert reader.wait() == pytest.approx(0.1)


def test_what_is_looked_at_is_named_after_the_group_that_asks_the_same_and_left_out_with_it() -> None:
    assert LOOKS.keys() <= GROUPS.keys()
    clock = Clock()
    gpus = two_gpus(clock)
    reader = polling(clock, gpus)
    entered: list[tuple[int, str]] = []
    reader.look(gpus, lambda gpu, group: entered.append((gpu.number, group)), {(0, "memory")})
    assert (0, "memory") not in entered
    assert {(0, "power"), (1, "memory"), (1, "power")} <= set(entered)
    names = {(uuid, name) for uuid, name, _ in reader.take()}
    assert ("GPU-a", "memory") not in names
    assert {("GPU-a", "power"), ("GPU-b", "memory")} <= names
