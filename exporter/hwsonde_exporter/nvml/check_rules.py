"""When a GPU is not fit for a job: rules from samples to findings, for ``hwsonde-exporter check``. Nothing here reads or waits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from hwsonde_exporter.nvml.answer import WorkerState
from hwsonde_exporter.nvml.xid import Severity, explain

Labels = Mapping[str, str]

_IDLE = 0.05  # a GPU that is used less waits for a job
# What slows a GPU down for a fault of its surroundings, at any load.
_FAULTS = {
    "hw_thermal_slowdown": "heat; check fans, inlet and heat sink",
    "hw_power_brake_slowdown": "the power brake; check the supply and its cables",
    "hw_slowdown": "heat or its power supply; check both",
}
# What a busy GPU may well have, and an idle one never.
_IDLE_FAULTS = {
    "sw_thermal_slowdown": "heat although it is idle; check fans, inlet and heat sink",
    "sw_power_cap": "its power limit although it is idle; check the limit",
}
_RECOVERIES = {
    1: "reset it",
    2: "reboot the host",
    3: "end all peer-to-peer traffic to it, then reset it",
    4: "drain the host, then reset it",
    5: "recover its IMEX domain",
    6: "reset its bus",
    7: "reboot the host",
}
_NOT_STARTED, _IN_PROGRESS = 1, 2
_MOST_LINKS_NAMED = 4
# In these the driver has spoken: of the GPUs that it uses, or that it uses none.
_ASKED = frozenset({WorkerState.RUNNING, WorkerState.NO_DRIVER, WorkerState.MISMATCH})
_STUCK = "see the kernel's log, and reboot the host"
_AGAIN = "try again"
_UNASKED: Mapping[str, str] = {
    WorkerState.NO_LIBRARY: "install the driver's libraries, or give the container those of the host",
    WorkerState.NO_BINDING: "install nvidia-ml-py beside hwsonde",
    WorkerState.NO_PERMISSION: "run as root",
    WorkerState.ERROR: "see the kernel's log and what nvidia-smi says",
    WorkerState.STARTING: "keep them awake by nvidia-persistenced, or try a longer --timeout",
    WorkerState.HUNG: _STUCK,
    WorkerState.STUCK: _STUCK,
    WorkerState.CRASHED: _AGAIN,
    WorkerState.STOPPED: _AGAIN,
}
UNASKED = "gpu_unasked"


class Rows(Protocol):
    """Samples, found by the names of their metrics."""

    def rows(self, name: str) -> Sequence[tuple[Labels, float]]:
        """Labels and value of each series of a metric."""


# Subject and text of each thing that is wrong. The subject is ``gpu`` and the label of the GPU, empty for the host.
Judged = Iterator[tuple[str, str]]


class GpuRule(NamedTuple):
    """One rule: its name, what it finds, the collectors whose samples it wants, and how it judges.

    ``unknown`` says that what it finds is not that something is wrong, but that nobody knows.
    """

    name: str
    help: str
    collectors: tuple[str, ...]
    judge: Callable[[Rows], Judged]
    unknown: bool = False


def _named(labels: Labels) -> str:
    return f"gpu{labels['gpu']}"


def _lost(reading: Rows) -> Judged:
    for labels, value in reading.rows("hwsonde_gpu_up"):
        if not value:
            yield _named(labels), f"({labels['uuid']}) does not answer; see its XIDs, reset it or reboot the host"
    # Whom the library does not answer knows of no GPU that is lost.
    counted = [value for _, value in reading.rows("hwsonde_gpu_devices") if not _unasked_state(reading)]
    for _, present in reading.rows("hwsonde_gpu_pci_devices"):
        if counted and present > counted[0]:
            yield "", f"the driver uses {counted[0]:.0f} of the {present:.0f} GPUs on the bus; see the kernel's log"


def _unasked_state(reading: Rows) -> str:
    """What is in the way of asking the driver; empty where it was asked."""
    states = (labels["state"] for labels, value in reading.rows("hwsonde_gpu_nvml_state") if value)
    return next((state for state in states if state not in _ASKED), "")


def _unasked(reading: Rows) -> Judged:
    for _, present in reading.rows("hwsonde_gpu_pci_devices"):
        if present and (state := _unasked_state(reading)):
            yield "", f"the {present:.0f} GPUs on the bus could not be asked ({state}); {_UNASKED.get(state, _AGAIN)}"


def _driver(reading: Rows) -> Judged:
    for _, value in reading.rows("hwsonde_gpu_driver_mismatch"):
        if value:
            yield "", "the driver's library and its kernel module are of different versions; reboot after the update"


def _memory_failed(reading: Rows) -> Judged:
    for name, text in (
        ("hwsonde_gpu_row_remap_failed", "has no spare memory rows left; replace it"),
        ("hwsonde_gpu_sram_ecc_threshold_exceeded", "had too many errors in its caches; replace it"),
    ):
        for labels, value in reading.rows(name):
            if value:
                yield _named(labels), text


def _reset_needed(reading: Rows) -> Judged:
    told = set()
    for labels, value in reading.rows("hwsonde_gpu_recovery_action"):
        if value:
            told.add(labels["gpu"])
            yield (
                _named(labels),
                f"needs a repair, says the driver; {_RECOVERIES.get(int(value), 'see its documentation')}",
            )
    for name in ("hwsonde_gpu_row_remap_pending", "hwsonde_gpu_retired_pages_pending"):
        for labels, value in reading.rows(name):
            if value and labels["gpu"] not in told:
                told.add(labels["gpu"])
                yield _named(labels), "has a memory repair that waits; reset it"


def _memory_errors(reading: Rows) -> Judged:
    for labels, value in reading.rows("hwsonde_gpu_ecc_errors_total"):
        if labels["type"] == "uncorrected" and value > 0:
            yield _named(labels), f"had {value:.0f} uncorrected memory errors since the driver was loaded; reset it"


def _xid(reading: Rows) -> Judged:
    for labels, value in reading.rows("hwsonde_gpu_xid_logged_errors"):
        row = explain(int(labels["xid"]))
        if row.severity is Severity.CRITICAL:
            times = f", {value:.0f} times" if value > 1 else ""
            yield _named(labels), f"had XID {row.code}{times} ({row.name}); {row.advice}"


def _nvlink(reading: Rows) -> Judged:
    """GPUs with fewer links that are up than others of this host with as many links."""
    up: dict[str, int] = defaultdict(int)
    down: dict[str, list[str]] = defaultdict(list)
    for labels, value in reading.rows("hwsonde_gpu_nvlink_up"):
        up[labels["gpu"]] += value > 0
        if not value:
            down[labels["gpu"]].append(labels["link"])
    links = {gpu: up[gpu] + len(down[gpu]) for gpu in up}
    for gpu, count in up.items():
        most = max(up[other] for other in up if links[other] == links[gpu])
        if count < most:
            shown = ", ".join(sorted(down[gpu], key=lambda link: (len(link), link))[:_MOST_LINKS_NAMED])
            more = " and others" if len(down[gpu]) > _MOST_LINKS_NAMED else ""
            yield f"gpu{gpu}", f"has {count} of its {links[gpu]} NVLinks up, others {most}; look at {shown}{more}"


def _fabric(reading: Rows) -> Judged:
    for labels, value in reading.rows("hwsonde_gpu_fabric_state"):
        if value in {_NOT_STARTED, _IN_PROGRESS}:
            yield _named(labels), "is not registered with its NVLink fabric; see the fabric manager"
    for labels, value in reading.rows("hwsonde_gpu_fabric_degraded"):
        if value:
            yield (
                _named(labels),
                f"has an NVLink fabric with {labels['aspect'].replace('_', ' ')}; see the fabric manager",
            )


def _pcie(reading: Rows) -> Judged:
    """GPUs on a slower generation than others that could do the same and are in the same performance state.

    Idle GPUs lower the generation, all alike. Lanes are compared by the rule for PCIe devices of all kinds.
    """
    greatest = {labels["gpu"]: value for labels, value in reading.rows("hwsonde_gpu_pcie_link_max_generation")}
    states = {labels["gpu"]: value for labels, value in reading.rows("hwsonde_gpu_performance_state")}
    present = {labels["gpu"]: value for labels, value in reading.rows("hwsonde_gpu_pcie_link_generation")}
    for gpu, value in present.items():
        alike = [
            present[other]
            for other in present
            if greatest.get(other) == greatest.get(gpu) and states.get(other) == states.get(gpu)
        ]
        if value < max(alike):
            yield f"gpu{gpu}", f"runs at PCIe generation {value:.0f} and others like it at {max(alike):.0f}; reseat it"


def _throttled(reading: Rows) -> Judged:
    busy = {labels["gpu"]: value for labels, value in reading.rows("hwsonde_gpu_utilization_ratio")}
    slowed: dict[str, set[str]] = defaultdict(set)
    for labels, value in reading.rows("hwsonde_gpu_clocks_event_active"):
        if value:
            slowed[labels["gpu"]].add(labels["reason"])
    for gpu, reasons in slowed.items():
        texts = [_FAULTS[reason] for reason in _FAULTS if reason in reasons]
        if not texts and busy.get(gpu, 1.0) < _IDLE:
            texts = [_IDLE_FAULTS[reason] for reason in _IDLE_FAULTS if reason in reasons]
        # The general reason accompanies each of the two special ones; the first says it best.
        if texts:
            yield f"gpu{gpu}", f"is slowed down by {texts[0]}"


GPU_RULES = (
    GpuRule("gpu_lost", "a GPU does not answer, or the driver has lost one", ("gpu", "gpu_driver"), _lost),
    GpuRule(UNASKED, "the host has GPUs that could not be asked", ("gpu_driver",), _unasked, unknown=True),
    GpuRule("gpu_driver", "library and kernel module of the GPUs' driver do not fit", ("gpu_driver",), _driver),
    GpuRule("gpu_memory_failed", "a GPU's memory cannot be repaired any more", ("gpu_health",), _memory_failed),
    GpuRule("gpu_reset_needed", "a GPU waits for a reset", ("gpu_health",), _reset_needed),
    GpuRule("gpu_memory_errors", "uncorrected memory errors of a GPU", ("gpu_health",), _memory_errors),
    GpuRule("gpu_xid", "critical XID errors since the driver was loaded", ("gpu_xid",), _xid),
    GpuRule("gpu_nvlink", "a GPU has fewer NVLinks up than its peers", ("gpu_nvlink_health",), _nvlink),
    GpuRule("gpu_fabric", "a GPU is not part of its NVLink fabric, or that is degraded", ("gpu_health",), _fabric),
    GpuRule("gpu_pcie", "a GPU is slower on PCIe than its peers", ("gpu", "gpu_identity"), _pcie),
    GpuRule("gpu_throttled", "a GPU is slowed down by heat or power, or is though idle", ("gpu",), _throttled),
)
# Collectors that know only what the driver answers; XIDs come from the kernel's log, too.
ASKING = frozenset(name for rule in GPU_RULES for name in rule.collectors) - {"gpu_xid"}
