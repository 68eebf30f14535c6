"""What NVIDIA's GPUs are doing: use, memory, clocks, heat, power, PCIe; read every second."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import ClassVar

from hwsonde_exporter.collectors._gpu_collector import GpuReadings, metrics_of
from hwsonde_exporter.collectors._gpu_rows import Row, by_reading
from hwsonde_exporter.collectors._gpu_state_table import STATE
from hwsonde_exporter.collectors._nvidia_procfs import read_gpus
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.nvml.answer import Answer
from hwsonde_exporter.registry import Quantity, register

_ROWS = by_reading(STATE)
_SAMPLED = "driver's sample buffers (nvmlDeviceGetSamples) where it keeps them, else looked at with each tick; "

UP = Metric(
    "hwsonde_gpu_up",
    Kind.GAUGE,
    "Whether a GPU seen since the exporter started answers (1) or not (0).",
    ("gpu", "uuid"),
    "",
    "gpu",
    "1 if nvmlDeviceGetHandleByIndex and the calls after it succeed; 0 on NVML_ERROR_GPU_IS_LOST, NVML_ERROR_RESET_REQUIRED, "
    "NVML_ERROR_UNKNOWN, a timeout, or when it is missing",
)
SKIPPED = Metric(
    "hwsonde_gpu_nvml_skipped",
    Kind.GAUGE,
    "Constant 1 for calls to a GPU that are left out for a while because they hung; call is * where it is not asked at all.",
    ("gpu", "uuid", "call"),
    "",
    "gpu",
    "hwsonde_exporter.nvml.quarantine",
)


def _quantity(name: str, unit: str, help: str, source: str, reference: float, subsystem: str = "gpu") -> Quantity:  # noqa: A002  (as in Metric)
    metric = Metric(f"hwsonde_gpu_{name}_{unit}", Kind.SUMMARY, help, ("gpu", "uuid"), unit, subsystem, source)
    return Quantity(metric, reference, cumulative=False)


# By the worker's name: the quantity and the reading whose range and scale it has.
_FAST: Mapping[str, tuple[Quantity, Row]] = {
    "utilization": (
        _quantity(
            "utilization_sampled",
            "ratio",
            "Share of each of the driver's sample periods in which at least one kernel ran.",
            f"{_SAMPLED}NVML_GPU_UTILIZATION_SAMPLES / 100",
            0.5,
        ),
        _ROWS["utilization_ratio"],
    ),
    "power": (
        _quantity(
            "power_sampled",
            "watts",
            "Power draw, ten times a second.",
            f"{_SAMPLED}NVML_TOTAL_POWER_SAMPLES / 1000",
            400.0,
            "power",
        ),
        _ROWS["power_watts"],
    ),
    "clock": (
        _quantity(
            "clock_sampled",
            "hertz",
            "Clock of the multiprocessors, ten times a second.",
            f"{_SAMPLED}NVML_PROCESSOR_CLK_SAMPLES x 1e6",
            1.5e9,
        ),
        _ROWS["clock_hertz"],
    ),
    "memory": (
        _quantity(
            "memory_used_sampled",
            "bytes",
            "Device memory allocated by contexts, ten times a second.",
            "nvmlDeviceGetMemoryInfo(handle, version=nvmlMemory_v2).used",
            float(40 << 30),
        ),
        _ROWS["memory_used_bytes"],
    ),
}


@register
class GpuCollector(GpuReadings):
    """State of each GPU; also serves the fast sampler, from what the worker has sampled meanwhile."""

    name: ClassVar[str] = "gpu"
    help: ClassVar[str] = "NVIDIA GPUs: use, memory, clocks, throttling, temperature, power, PCIe"
    rows: ClassVar[Mapping[str, Row]] = _ROWS
    groups: ClassVar[Collection[str]] = (
        "utilization", "memory", "clock", "throttle", "temperature", "power", "energy", "pcie", "gpm", "samples",
    )  # fmt: skip
    metrics: ClassVar[tuple[Metric, ...]] = (UP, SKIPPED, *metrics_of(_ROWS))
    quantities: ClassVar[tuple[Quantity, ...]] = tuple(quantity for quantity, _ in _FAST.values())
    period: ClassVar[float | None] = 1.0
    enabled: ClassVar[bool] = True

    def samples(self, answer: Answer) -> list[Sample]:
        """Give the samples of an answer, and which GPUs do not answer."""
        samples: list[Sample] = []
        for device in answer.devices:
            # Of a GPU that was out of reach from the start only the kernel can tell who it is.
            uuid = device.uuid or self._uuid(int(device.index), answer.gpus)
            if device.up is not None:
                samples.append(Sample(UP, (device.index, uuid), int(device.up)))
            samples += [Sample(SKIPPED, (device.index, uuid, group), 1) for group in device.skipped]
        return samples + super().samples(answer)

    def _uuid(self, number: int, count: int | None) -> str:
        """UUID of a GPU by its number, as the kernel module tells; empty if it does not count the same GPUs."""
        known = read_gpus(self.host)
        return known[number][0].uuid if len(known) == count and number < len(known) else ""

    def observe(self) -> Sequence[tuple[Quantity, tuple[str, ...], float]]:
        """Give one sample of each quantity that has one; never waits for the driver."""
        client = self.host.nvml
        observations = []
        for label, uuid, name, raw in client.take_fast() if client is not None else ():
            if name not in _FAST:
                continue  # the worker is believed nothing that it need not say
            quantity, row = _FAST[name]
            value = row.value(raw)
            if value is not None:
                observations.append((quantity, (label, uuid), value))
        return observations
