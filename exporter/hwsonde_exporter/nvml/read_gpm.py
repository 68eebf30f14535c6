"""Hardware counters of a GPU (Hopper and later): how busy its units were between two looks. Functions of the worker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from hwsonde_exporter.nvml.gpu import Gpu, Row

_Metrics = Sequence[tuple[str, tuple[str, ...], str]]
# Reading, labels, name of the quantity: percentages of the time or of the greatest possible between the two looks.
METRICS = (
    ("graphics_active_ratio", (), "NVML_GPM_METRIC_GRAPHICS_UTIL"),
    ("sm_active_ratio", (), "NVML_GPM_METRIC_SM_UTIL"),
    ("sm_occupancy_ratio", (), "NVML_GPM_METRIC_SM_OCCUPANCY"),
    ("tensor_active_ratio", (), "NVML_GPM_METRIC_ANY_TENSOR_UTIL"),
    ("dram_active_ratio", (), "NVML_GPM_METRIC_DRAM_BW_UTIL"),
    ("pipe_active_ratio", ("fp16",), "NVML_GPM_METRIC_FP16_UTIL"),
    ("pipe_active_ratio", ("fp32",), "NVML_GPM_METRIC_FP32_UTIL"),
    ("pipe_active_ratio", ("fp64",), "NVML_GPM_METRIC_FP64_UTIL"),
    ("pipe_active_ratio", ("integer",), "NVML_GPM_METRIC_INTEGER_UTIL"),
    ("pipe_active_ratio", ("tensor_hmma",), "NVML_GPM_METRIC_HMMA_TENSOR_UTIL"),
    ("pipe_active_ratio", ("tensor_imma",), "NVML_GPM_METRIC_IMMA_TENSOR_UTIL"),
    ("pipe_active_ratio", ("tensor_dfma",), "NVML_GPM_METRIC_DFMA_TENSOR_UTIL"),
    # Mebibytes a second.
    ("pcie_rate_bytes_per_second", ("transmit",), "NVML_GPM_METRIC_PCIE_TX_PER_SEC"),
    ("pcie_rate_bytes_per_second", ("receive",), "NVML_GPM_METRIC_PCIE_RX_PER_SEC"),
)
_INSTANCE_METRICS = (("mig_sm_active_ratio", (), "NVML_GPM_METRIC_SM_UTIL"),)
# The library wants 100 ms between two looks at least; a second that a busy host cuts short is one all the same.
_LEAST_SECONDS = 0.8
# Two looks that lie further apart tell of a time that nobody asks about any more.
_LONGEST_SECONDS = 30.0


class Pair:
    """Two buffers of the library that take turns; one at most is filled. What they told last is kept."""

    def __init__(self, buffers: Sequence[Any]) -> None:
        self.buffers = list(buffers)
        self.taken: float | None = None
        self.rows: list[Row] = []


def gpm(gpu: Gpu) -> Iterator[Row]:
    """How busy the units of the GPU were since the last reading; nothing at the first."""
    if not _supported(gpu):
        return
    nvml, handle = gpu.nvml, gpu.handle
    yield from _look(gpu, "gpm", METRICS, "nvmlGpmSampleGet", partial(nvml.nvmlGpmSampleGet, handle))


def instance_activity(gpu: Gpu, instances: Iterable[int]) -> Iterator[Row]:
    """The same of each MIG instance."""
    wanted = {f"gpm of instance {instance}": instance for instance in sorted(instances)}
    gone = [key for key in gpu.memory if key.startswith("gpm of instance ") and key not in wanted]
    for key in gone:
        gpu.library.spare += gpu.memory.pop(key).buffers
    if not wanted or not _supported(gpu):
        return
    nvml, handle = gpu.nvml, gpu.handle
    for key, instance in wanted.items():
        take = partial(nvml.nvmlGpmMigSampleGet, handle, instance)
        for name, _, value in _look(gpu, key, _INSTANCE_METRICS, "nvmlGpmMigSampleGet", take):
            yield name, (str(instance),), value


def release(gpu: Gpu) -> None:
    """Leave all buffers of a GPU to others.

    They belong to no GPU, so a GPU that comes and goes needs no new ones; nor is a library that may hang asked to take them back.
    """
    for key in [key for key, kept in gpu.memory.items() if isinstance(kept, Pair)]:
        gpu.library.spare += gpu.memory.pop(key).buffers


def _supported(gpu: Gpu) -> bool:
    support = gpu.ask("nvmlGpmQueryDeviceSupport")
    return support is not None and bool(support.isSupportedDevice)


def _look(gpu: Gpu, key: str, metrics: _Metrics, function: str, take: Callable[[Any], object]) -> Iterator[Row]:
    """Look again, and compare with the last look if that is neither too near nor too far."""
    pair = gpu.memory.get(key)
    if pair is None:
        buffers = _buffers(gpu)
        if len(buffers) < 2:
            gpu.library.spare += buffers
            return
        pair = gpu.memory[key] = Pair(buffers)
    now = gpu.library.clock()
    if pair.taken is not None and now - pair.taken < _LEAST_SECONDS:
        # Too early: what was told of the time until a moment ago holds.
        yield from pair.rows
        return
    before, fresh = pair.buffers
    taken = gpu.call(function, lambda: take(fresh) or True)
    elapsed = None if pair.taken is None else now - pair.taken
    pair.taken = now if taken is not None else None
    pair.rows = []
    if taken is None:
        return
    pair.buffers = [fresh, before]
    if elapsed is not None and elapsed <= _LONGEST_SECONDS:
        pair.rows = list(_compare(gpu, before, fresh, metrics))
        yield from pair.rows


def _buffers(gpu: Gpu) -> list[Any]:
    """Two buffers, as far as there are any to be had; those that nobody uses come first."""
    spare = gpu.library.spare
    found: list[Any] = []
    while len(found) < 2:
        buffer = spare.pop() if spare else gpu.call("nvmlGpmSampleAlloc", gpu.nvml.nvmlGpmSampleAlloc)
        if buffer is None:
            break
        found.append(buffer)
    return found


def _compare(gpu: Gpu, before: Any, fresh: Any, metrics: _Metrics) -> Iterator[Row]:  # noqa: ANN401  (as the binding)
    nvml = gpu.nvml
    wanted = [(name, labels, getattr(nvml, constant, None)) for name, labels, constant in metrics]
    known = [(name, labels, number) for name, labels, number in wanted if number is not None]
    # The structure has room for every quantity there is, so one serves for all.
    request = gpu.library.scratch.get("gpm")
    if request is None:
        request = gpu.library.scratch["gpm"] = nvml.c_nvmlGpmMetricsGet_t()
    request.version = nvml.NVML_GPM_METRICS_GET_VERSION
    request.numMetrics = len(known)
    request.sample1, request.sample2 = before, fresh
    for place, (_, _, number) in enumerate(known):
        request.metrics[place].metricId = number
        request.metrics[place].nvmlReturn = 0
    if gpu.call("nvmlGpmMetricsGet", lambda: nvml.nvmlGpmMetricsGet(request) or True) is None:
        return
    for place, (name, labels, _) in enumerate(known):
        metric = request.metrics[place]
        if metric.nvmlReturn == 0:
            yield name, labels, metric.value
