"""NVIDIA's driver: versions, how many GPUs it sees of those that there are, and how the process fares that asks it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import ClassVar

from hwsonde_exporter import parsing
from hwsonde_exporter.collectors._gpu_collector import client_of, nvidia_gpus
from hwsonde_exporter.collectors._nvidia_procfs import has_driver, read_module
from hwsonde_exporter.errors import Reason, Unavailable
from hwsonde_exporter.histogram import CumulativeMoments, deviation_metric
from hwsonde_exporter.host import Host
from hwsonde_exporter.metric import Kind, Metric, Sample
from hwsonde_exporter.nvml.answer import Answer, WorkerState
from hwsonde_exporter.nvml.client import Client
from hwsonde_exporter.registry import register

_gauge = partial(Metric, kind=Kind.GAUGE, subsystem="gpu")
_counter = partial(Metric, kind=Kind.COUNTER, subsystem="gpu")
# The driver has no GPU for anybody.
_NO_GPU = frozenset({WorkerState.NO_DRIVER, WorkerState.MISMATCH})
# The library is of no use here. A host without GPUs may well be so; one that has some is watched by nobody.
_NO_ANSWER = frozenset({WorkerState.NO_LIBRARY, WorkerState.NO_BINDING, WorkerState.NO_PERMISSION, WorkerState.ERROR})
# Groups of calls, and errors: more than there are were not made by us.
_MOST_GROUPS = 64

PCI_DEVICES = _gauge(
    name="hwsonde_gpu_pci_devices",
    help="NVIDIA GPUs present on the PCI bus; more than gpu_devices means that the driver lost one, or that its library is of no use here.",
    source="count of /sys/bus/pci/devices/*/{vendor=0x10de,class=0x0302xx or 0x0300xx}",
)
DEVICES = _gauge(
    name="hwsonde_gpu_devices",
    help="GPUs the driver library reports; 0 where there are some and it cannot be used.",
    source="nvmlDeviceGetCount",
)
DRIVER_INFO = _gauge(
    name="hwsonde_gpu_driver_info",
    help="Constant 1 labelled with the driver stack versions.",
    labels=("driver_version", "nvml_version", "cuda_version", "kernel_module_version"),
    source="nvmlSystemGetDriverVersion, nvmlSystemGetNVMLVersion, nvmlSystemGetCudaDriverVersion_v2, /proc/driver/nvidia/version",
)
MISMATCH = _gauge(
    name="hwsonde_gpu_driver_mismatch",
    help="Whether the loaded kernel module and the driver library disagree (1) or not (0).",
    source="1 when nvmlInit fails with NVML_ERROR_LIB_RM_VERSION_MISMATCH or /proc/driver/nvidia/version differs from "
    "nvmlSystemGetDriverVersion",
)
STATE = _gauge(
    name="hwsonde_gpu_nvml_state",
    help="What the process that asks the driver does, 1 for the present state: running, starting, hung (killed, another one follows), stuck "
    "(killed and held by the driver), crashed, or why the library does not work.",
    labels=("state",),
    source="hwsonde_exporter.nvml.supervisor",
)
RESTARTS = _counter(
    name="hwsonde_gpu_nvml_restarts_total",
    help="Processes that asked the driver and were lost since the exporter started, by reason.",
    labels=("reason",),
    source="hwsonde_exporter.nvml.supervisor",
)
CALL_SECONDS = Metric(
    "hwsonde_gpu_nvml_call_seconds",
    Kind.HISTOGRAM,
    "How long groups of NVML calls take; grows before a driver hangs.",
    ("call",),
    "seconds",
    "gpu",
    "time around each NVML call group in the worker",
    (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0),
)
_REFERENCE = 0.001
CALL_DEVIATION = deviation_metric(CALL_SECONDS, _REFERENCE)
ERRORS = _counter(
    name="hwsonde_gpu_nvml_errors_total",
    help="NVML calls that failed, by group of calls and error.",
    labels=("call", "error"),
    source="NVMLError value by NVML_ERROR_ name, those left out that say that a card or library does not have it",
)
REJECTED = _counter(
    name="hwsonde_gpu_nvml_rejected_readings_total",
    help="Readings of the driver that were left out since they lie outside of what is possible, by name.",
    labels=("reading",),
    source="ranges of the tables of readings",
)


@register
class GpuDriverCollector:
    """Driver and library as a whole. Works without them, too: GPUs that no driver knows are news."""

    name: ClassVar[str] = "gpu_driver"
    help: ClassVar[str] = "NVIDIA's driver: versions, GPUs that it lost, time and errors of its calls"
    metrics: ClassVar[tuple[Metric, ...]] = (
        PCI_DEVICES, DEVICES, DRIVER_INFO, MISMATCH, STATE, RESTARTS, CALL_SECONDS, CALL_DEVIATION, ERRORS, REJECTED,
    )  # fmt: skip
    period: ClassVar[float | None] = 5.0
    enabled: ClassVar[bool] = True

    def __init__(self, host: Host) -> None:
        self.host = host
        self._calls: dict[str, CumulativeMoments] = {}

    def probe(self) -> None:
        """Raise `Unavailable` where there is neither a GPU nor a driver."""
        if self.host.nvml is not None:
            client_of(self.host)
        elif not has_driver(self.host) and not nvidia_gpus(self.host):
            raise Unavailable(Reason.NO_HARDWARE, "no GPU of NVIDIA's on the PCI bus and no driver of theirs loaded")

    def collect(self) -> Iterable[Sample]:
        """Count GPUs, and tell what the worker tells of itself."""
        present = nvidia_gpus(self.host)
        samples = [Sample(PCI_DEVICES, (), present)]
        client = self.host.nvml
        answer = client.collect(()) if client is not None else None
        samples += self._versions(answer, present)
        if client is not None and answer is not None:
            samples += self._worker(client, answer)
        return samples

    def _versions(self, answer: Answer | None, present: int) -> list[Sample]:
        module = read_module(self.host)
        loaded = module.version if module is not None else ""
        driver = answer.driver if answer is not None else {}
        names = [parsing.text(driver.get(name, "").encode()) for name in DRIVER_INFO.labels[:3]]
        samples = []
        if loaded or any(names):
            samples.append(Sample(DRIVER_INFO, (*names, loaded), 1))
        if answer is None:
            return samples
        if answer.state is WorkerState.MISMATCH:
            samples.append(Sample(MISMATCH, (), 1))
        elif names[0]:
            samples.append(Sample(MISMATCH, (), int(loaded not in {"", names[0]})))
        if answer.gpus is not None:
            samples.append(Sample(DEVICES, (), answer.gpus))
        elif answer.state in _NO_GPU or (present and answer.state in _NO_ANSWER):
            samples.append(Sample(DEVICES, (), 0))
        return samples

    def _worker(self, client: Client, answer: Answer) -> list[Sample]:
        samples = [Sample(STATE, (state.value,), int(state is answer.state)) for state in WorkerState]
        samples += [Sample(RESTARTS, (reason,), count) for reason, count in sorted(client.restarts().items())]
        for group, seconds in client.take_calls():
            moments = self._calls.get(group)
            if moments is None:
                if len(self._calls) >= _MOST_GROUPS:
                    continue
                moments = self._calls[group] = CumulativeMoments(CALL_SECONDS, CALL_DEVIATION, _REFERENCE, (group,))
            moments.observe(max(0.0, seconds))
        for _, moments in sorted(self._calls.items()):
            samples += moments.samples()
        samples += [Sample(ERRORS, key, count) for key, count in sorted(client.errors().items())]
        samples += [Sample(REJECTED, (name,), count) for name, count in sorted(client.rejected().items())]
        return samples
